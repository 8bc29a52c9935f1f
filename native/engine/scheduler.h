// Which tokens each step computes, and whose pages hold them. Engine thread only; knows no logits, text
// or clock.
//
// plan() in order of precedence:
//  1. Every running decode gets its token. No page left: the youngest running sequence is preempted
//     (possibly the asking one), so the oldest always goes on and a running one never fails.
//  2. Prompt pieces fill what is left of max_batch_tokens, but never less than a quarter of it: as many
//     running sequences as would leave less are not admitted. The oldest prompt gets at least half of
//     that, so it is never starved; the rest goes to the shortest remaining prompts first. While decodes
//     run, the caller's bound (StepPace) holds too.
//  3. What is then left admits: preempted sequences first, whose organization has paid for their place, then
//     those waiting in the fair order of WaitingQueue, while pages for the whole prompt are available plus one
//     for each running sequence. Admission is at the step that computes the first piece. A request of n
//     choices is given up to n places at once; choices beyond wait their organization's turn one by one.
// A prompt whose next page another sequence computes in this very step waits for it and takes the page
// from the prefix cache in the next step.
//
// Worst case for a decode: one step of max(max_batch_tokens, decodes + max_batch_tokens / 4) rows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/prefix_cache.h"
#include "engine/sequence.h"
#include "engine/step_pace.h"
#include "engine/waiting_queue.h"

namespace monolith {

struct SchedulerLimits {
  int max_rows;        // tokens of one step: allocated, never exceeded
  int max_sequences;   // running at once: allocated logit rows
  bool prefix_cache = true;
};

// One step. Segments first those of decodes, oldest first, then those of prompts.
struct StepPlan {
  struct Item {
    Sequence* sequence;
    int n_tokens;
    bool wants_logits;   // the item reaches the sequence's last token
  };
  struct PageCopy {
    PageId from, to;
  };
  std::vector<Item> items;
  std::vector<PageCopy> copies;   // to be made in this order before the step
  int n_rows = 0;
  int n_decodes = 0;   // of these, rows of running decodes
};

class Scheduler {
 public:
  Scheduler(PrefixCache& cache, const SchedulerLimits& limits);

  // Operator's limits from the next plan on, clamped to what was allocated. Running sequences above a
  // lowered limit go on; nothing is admitted until they have become fewer.
  void configure(int max_batch_tokens, int max_sequences);
  int max_batch_tokens() const { return max_batch_tokens_; }
  int max_sequences() const { return max_sequences_; }

  void add(Request& request);
  // The plan stays valid until the next call. Empty items: nothing can be computed now. Beside decodes at
  // most `prompt_tokens_beside_decodes` (>= 1) tokens of prompts are planned.
  const StepPlan& plan(int prompt_tokens_beside_decodes = StepPace::kNoBound);
  // After the step: its tokens are computed, its full pages become shareable.
  void advance();
  // `fork` shares all pages of `lead`, which has computed the whole prompt. Without a place, its own or one
  // that nobody waits for, it gets in line.
  void fork(Sequence& lead, Sequence& fork);
  // Takes a sequence out of whatever it is in; its pages are back on return.
  void remove(Sequence& sequence);

  size_t waiting() const { return waiting_.requests(); }
  const WaitingQueue& waiting_queue() const { return waiting_; }
  const std::vector<Sequence*>& running() const { return running_; }
  const std::vector<Sequence*>& preempted() const { return preempted_; }
  uint64_t preemptions() const { return preemptions_; }
  uint64_t cached_tokens() const { return cached_tokens_; }   // tokens taken from the prefix cache since start
  // Every page reference belongs to a running sequence, and pool and cache agree. O(pages).
  bool consistent() const;

 private:
  void suspend_full_channels();
  int plan_decodes();
  void plan_prompts(int budget);
  void count_kept_places();
  int free_places() const { return max_sequences_ - static_cast<int>(running_.size()) - kept_places_; }
  bool make_writable(Sequence& sequence);
  void preempt(Sequence& sequence);
  Sequence* admit_one();
  Admission try_admit(Sequence& sequence);
  int take_cached_pages(Sequence& sequence);
  bool next_page_is_being_computed(const Sequence& sequence) const;
  bool uses_cache(const Sequence& sequence) const;
  int give(Sequence& sequence, int n_tokens);

  PrefixCache& cache_;
  const SchedulerLimits limits_;
  int max_batch_tokens_, max_sequences_;
  WaitingQueue waiting_;
  std::vector<Sequence*> running_;     // oldest first
  std::vector<Sequence*> preempted_;   // oldest first
  std::vector<Sequence*> prompts_;     // scratch of plan_prompts
  StepPlan plan_;
  int kept_places_ = 0;                // sum over running requests
  bool preempted_now_ = false;         // this step: then nothing is admitted, it would thrash
  uint64_t next_arrival_ = 0;
  uint64_t preemptions_ = 0, cached_tokens_ = 0;
};

}  // namespace monolith
