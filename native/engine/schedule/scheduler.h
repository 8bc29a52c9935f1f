// Which tokens each step computes, and whose pages hold them. Engine thread only; knows no logits, text
// or clock.
//
// plan() in order of precedence:
//  1. An organization with work and nothing running gets a place at once. Is none free, or are pages lacking,
//     the youngest sequence of the organization with the most places gives its own up: never an organization's
//     last one, never one that gave it up before and has not generated kLeastRun tokens since, and for one
//     claim at most kMostDisplaced. It is preempted, and resumes like any other.
//  2. First tokens: prompts that are their organization's only sequence and fit a step as a whole are computed
//     without the decodes of others, so that they take no longer than on an idle engine once it is their step.
//     Between two such steps there are kStepsBetween others; the decodes lose no token, they come one step later.
//  3. Every running decode gets its token. Where the engine has written several at once, they are computed as one
//     piece if the budget allows: what decodes and the prompts' quarter leave, but at most half of the caller's
//     bound, and prompts get less for it. No page left: the youngest running sequence is preempted
//     (possibly the asking one), so the oldest always goes on and a running one never fails.
//  4. Prompt pieces fill what is left of max_batch_tokens, but never less than a quarter of it: as many
//     running sequences as would leave less are not admitted. Organizations share that evenly, what one does
//     not need goes to the others; one whose only sequence is still in its prompt has kFirstTokenShares shares
//     beside those that are being answered already. Within an organization the oldest prompt gets at least
//     half, the rest goes to the shortest remaining prompts first. The oldest of all is never left out. While
//     decodes run, the caller's bound (StepPace) holds too.
//  5. What is then left admits: preempted sequences first, whose organization has paid for their place, then
//     those waiting in the fair order of WaitingQueue, while pages for the whole prompt are available (in layers
//     with a window: for one window and a step) plus one for each running sequence. Admission is at the step that
//     computes the first piece. A request of n choices is given up to n places at once; choices beyond wait their
//     organization's turn one by one.
// A prompt whose tokens' probabilities are wanted gets no further in a step than there are rows of logits beyond one for
// each sequence that may run. It takes nothing from the prefix cache, which has no logits, and leaves its pages there.
// A bidirectional span is computed in one piece, even if it exceeds its prompt's share. One that does not fit beside the
// decodes gets a step of its own, as first tokens do.
// A prompt whose next page another sequence computes in this very step waits for it and takes the page
// from the prefix cache in the next step.
//
// However many requests of one organization there are, another's first token thus comes after as many steps as
// on an idle engine if its prompt fits half a step, and after at most twice as many else; as long as somebody has
// two places to lose one, no more than kMostClaims come at once, and the caller's bound is not what cuts the prompt.
//
// Pages of layers with a window go back while their sequence runs, as soon as they lie wholly before it; a sequence
// holds those of one window and a step at most, however long it is. In the prefix cache they stay until others need
// room. A prefix is taken from there as far as everything is there that its next row sees. A prompt takes its
// window pages as it goes; if there is none for its next token, the youngest running sequence is preempted.
//
// Where the model has recurrent state (StateSlots), a sequence goes on from one slot and into the same, unless somebody
// else refers to it: then into another one. There is one slot more than sequences may run, so one of them always finds
// one; who does not is left out of the step. A prompt leaves snapshots at multiples of the snapshot distance and at the
// last page boundary before its end, an answer one at a time at the last page boundary that a step has ended at. A
// prefix is taken from the cache only up to a snapshot.
//
// Worst case for a decode without such pieces: one step of max(max_batch_tokens, decodes + max_batch_tokens / 4) rows, behind one of
// first tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/memory/prefix_cache.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/step_pace.h"
#include "engine/schedule/waiting_queue.h"

namespace monolith {

struct SchedulerLimits {
  int max_rows;       // tokens of one step: allocated, never exceeded
  int max_sequences;  // running at once: allocated logit rows
  bool prefix_cache = true;
  int max_logit_rows = 0;      // of one step, guesses included; at least max_sequences are taken for granted
  int snapshot_tokens = 1024;  // of recurrent state: distance of a prompt's snapshots, rounded up to whole pages
};

// One step: segments of decodes, oldest first, then segments of prompts.
struct StepPlan {
  struct Item {
    Sequence* sequence;
    int n_tokens;
    bool is_last;                       // it reaches the sequence's last token
    bool wants_logits;                  // of that token
    int n_guesses = 0;                  // rows behind it, logits wanted of each
    int first_piece = 0, n_pieces = 0;  // of `pieces`; none where there is no recurrent state
    int n_scored = 0;  // rows of the prompt, one behind the other, whose logits are wanted for the token behind each
    int first_scored = 0;                                   // the first of these, among its tokens
    bool ends() const { return is_last && !wants_logits; }  // the sequence is complete with this step
    int logit_rows() const { return n_scored + (wants_logits ? 1 + n_guesses : 0); }
  };
  struct PageCopy {
    PageId from, to;
  };
  // Tokens of an item, and the slots that their state goes through. It stops where a snapshot is to be kept.
  struct Piece {
    int n_tokens;
    SlotId from, to;
  };
  std::vector<Item> items;
  std::vector<PageCopy> copies;  // to be made in this order before the step
  std::vector<Piece> pieces;
  int n_rows = 0;
  int n_decodes = 0;          // items of running decodes
  int n_ahead = 0;            // rows of theirs beyond one each
  int n_guesses = 0;          // rows of guesses
  bool first_tokens = false;  // all else that runs is left out

  std::span<const Piece> pieces_of(const Item& item) const {
    return std::span(pieces).subspan(static_cast<size_t>(item.first_piece), static_cast<size_t>(item.n_pieces));
  }
};

class Scheduler {
 public:
  static constexpr int kLeastRun = 64;         // tokens between two times a sequence gives its place up
  static constexpr int kMostDisplaced = 4;     // by one claim
  static constexpr int kMostClaims = 8;        // in one step
  static constexpr int kStepsBetween = 3;      // two steps for first tokens alone
  static constexpr int kFirstTokenShares = 3;  // of the prompts' part of a step

  Scheduler(PrefixCache& cache, const SchedulerLimits& limits);

  // Operator's limits from the next plan on, clamped to what was allocated. Running sequences above a
  // lowered limit go on; nothing is admitted until they have become fewer.
  void configure(int max_batch_tokens, int max_sequences);
  int max_batch_tokens() const { return max_batch_tokens_; }
  int max_sequences() const { return max_sequences_; }
  int wanted_sequences() const { return wanted_sequences_; }  // max_sequences() as far as a small batch allows
  int most_batch_tokens() const { return limits_.max_rows; }  // what configure() clamps to
  int most_sequences() const;

  void add(Request& request);
  // The plan stays valid until the next call. Empty items: nothing can be computed now. Beside decodes at
  // most `prompt_tokens_beside_decodes` (>= 1) tokens of prompts are planned.
  const StepPlan& plan(int prompt_tokens_beside_decodes = StepPace::kNoBound);
  // Pages for up to `n_guesses` rows behind a planned item that wants logits, of those that nobody else wants. Returns for
  // how many there are pages.
  int make_guess_room(const StepPlan::Item& item, int n_guesses);
  // Room for up to `n_guesses` rows behind a planned item that wants logits; nobody gives anything up for them.
  // Returns how many there may be.
  int add_guesses(const StepPlan::Item& item, int n_guesses);
  // After the step: its tokens are computed, its full pages become shareable. Guesses are not tokens.
  void advance();
  // A guess was right: the sequence's newest token is computed, too.
  void keep_guess(Sequence& sequence);
  // `fork` shares all pages of `lead`, which has computed the whole prompt. Without a place, its own or one
  // that nobody waits for, it gets in line.
  void fork(Sequence& lead, Sequence& fork);
  // Takes a sequence out of whatever it is in; its pages are back on return.
  void remove(Sequence& sequence);

  size_t waiting() const { return waiting_.requests(); }
  size_t waiting_tokens() const { return waiting_.prompt_tokens(); }  // of the prompts of these
  const WaitingQueue& waiting_queue() const { return waiting_; }
  const std::vector<Sequence*>& running() const { return running_; }
  const std::vector<Sequence*>& preempted() const { return preempted_; }
  uint64_t preemptions() const { return preemptions_; }
  uint64_t cached_tokens() const { return cached_tokens_; }  // tokens taken from the prefix cache since start
  // Every page reference belongs to a running sequence, and pool and cache agree. O(pages).
  bool consistent() const;

 private:
  // Places of one organization: its running sequences.
  struct Holder {
    uint64_t organization;
    int places;
  };
  // One organization's prompts in `prompts_`, and their part of the step.
  struct PromptGroup {
    size_t begin, end;
    uint64_t oldest;  // order()
    int64_t demand;   // tokens
    int shares;
  };

  void suspend_held_up();
  void count_places();
  int places_of(uint64_t organization) const;
  void add_places(uint64_t organization, int places);
  void serve_claims();
  bool claim_one();
  bool plan_first_tokens(int budget);
  bool is_only_one(const Sequence& sequence) const;
  Admission try_claim(Sequence& sequence);
  bool make_way(const Sequence& sequence);
  Sequence* most_dispensable() const;
  void plan_decodes(int bound);
  void plan_prompts(int budget);
  void group_prompts();
  int share_out(int budget, bool may_admit);
  void count_kept_places();
  int least_prompt_share() const { return std::max(1, max_batch_tokens_ / 4); }
  int free_places() const { return max_sequences_ - static_cast<int>(running_.size()) - kept_places_; }
  bool make_writable(Sequence& sequence, int n_tokens);
  bool make_page_writable(Sequence& sequence, size_t index, bool in_windows);
  void preempt(Sequence& sequence);
  bool may_admit() const;
  Sequence* admit_one();
  Admission try_admit(Sequence& sequence);
  int take_cached_pages(Sequence& sequence);
  PageKeys keys_of(const Sequence& sequence, int index) const;
  bool next_page_is_being_computed(const Sequence& sequence) const;
  bool uses_cache(const Sequence& sequence) const;
  bool has_windows() const { return cache_.layout().windowed > 0; }
  bool has_slots() const { return cache_.slots().any(); }
  int first_seen_page(int position) const;
  int cached_end(const Sequence& sequence) const;
  void go_on_from_cache(Sequence& sequence);
  int64_t window_end(const Sequence& sequence) const;
  void extend_window(Sequence& sequence, int64_t reserve);
  void extend_windows();
  int writable(const Sequence& sequence) const;
  void give_back_unseen_pages(Sequence& sequence);
  int give(Sequence& sequence, int n_tokens);
  bool plan_item(Sequence& sequence, int n_tokens);
  bool plan_pieces(Sequence& sequence, StepPlan::Item& item);
  int next_snapshot(const Sequence& sequence, int after) const;
  void settle_pieces(const StepPlan::Item& item);
  void keep_snapshot(Sequence& sequence, int position, SlotId slot);
  void keep_answer_snapshot(Sequence& sequence);
  void drop_guess_slots();
  void release_slots(Sequence& sequence);
  int whole_spans(const Sequence& sequence, int n_tokens, int most) const;
  int scorable(const Sequence& sequence, int n_tokens) const;
  static int scored_rows(const Sequence& sequence, int n_tokens);
  static int rows_for_scores(const Sequence& sequence, int n_tokens);
  int least_piece(const Sequence& sequence) const;
  bool plan_long_span();
  void index_pages(Sequence& sequence);

  PrefixCache& cache_;
  const SchedulerLimits limits_;
  const int snapshot_distance_;  // in tokens, whole pages
  int max_batch_tokens_, max_sequences_;
  int wanted_sequences_;  // what max_sequences_ was asked to be
  WaitingQueue waiting_;
  std::vector<Sequence*> running_;    // oldest first
  std::vector<Sequence*> preempted_;  // oldest first
  std::vector<Sequence*> prompts_;    // scratch of plan_prompts, by organization: the oldest, then the shortest
  std::vector<PromptGroup> groups_;   // scratch of plan_prompts
  std::vector<Holder> holders_;       // by organization; valid while claims are served and prompts planned
  std::vector<Sequence*> victims_;    // scratch of make_way
  StepPlan plan_;
  // that the step being planned has room for: bidirectional spans go beyond their share
  int rows_left_ = 0;
  int score_rows_left_ = 0;  // rows of logits in that step beyond one for each sequence that may run
  int kept_places_ = 0;      // sum over running requests
  int steps_since_first_tokens_ = kStepsBetween;
  bool preempted_now_ = false;  // this step: then nothing is admitted, it would thrash
  uint64_t next_arrival_ = 0;
  uint64_t preemptions_ = 0, cached_tokens_ = 0;
};

}  // namespace monolith
