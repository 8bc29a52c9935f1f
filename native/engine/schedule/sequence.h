// A request while the engine holds it, and its sequences: one per choice. Built on the submitting
// thread, owned by the engine thread from the next intake on.
//
//   kWaiting ──admit──► kRunning ──finish──► kEnded
//   kForked ───admit──►  │    ▲                ▲
//                 preempt▼    │admit           │
//                        kPreempted ───────────┘ (time limit, cancellation; kForked too)
//
//  1. Only a kRunning sequence holds pages; they cover at least positions 0 .. n_computed-1. window_pages, for
//     layers with a window, cover only positions that later rows see: the first n_unseen are kNoPage.
//  2. tokens = prompt + generated. n_computed <= tokens.size(); the tokens between are the work left. The
//     last token's forward pass gives the logits of the next, so a decode computes one token, or several where
//     the engine has written more than one at once.
//  3. The first n_indexed pages are full and stand in the prefix cache as they stand in `pages`, and their window
//     pages with them.
//  4. A kPreempted sequence keeps tokens, text and counts, and forgets only what can be recomputed. A kForked
//     one is the same, but has had no place yet.
//     It holds one slot besides, where the model has recurrent state and n_computed > 0; slots may be shared.
//  5. Guesses are in no list of tokens. What a step computed for them counts once the sampler has chosen the same;
//     else the next step computes over it. Recurrent state cannot be computed over: behind guesses it is another slot's,
//     which counts only if all are right; else the tokens that were guessed right are computed once more.
//  6. Choices 1 .. n-1 come into being when choice 0 has computed the prompt; all take their first token
//     from that one row of logits.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/loop/channel.h"
#include "engine/engine.h"
#include "engine/sampling/logit_processors.h"
#include "engine/memory/page_table.h"
#include "engine/memory/state_slots.h"
#include "engine/guess/speculation.h"
#include "engine/text/repetition_guard.h"
#include "engine/text/text_stage.h"
#include "engine/text/token_script.h"
#include "model/kv_layout.h"
#include "text/grammar/grammar.h"

namespace monolith {

struct Request;

// Where a sequence is in a grammar that holds for it now.
struct Rule {
  const GrammarRef* grammar = nullptr;  // null: none holds
  grammar::Grammar::Position position;
  size_t first = 0;  // index of the first token it has read
  bool active() const { return grammar != nullptr; }
};

// Grammars of a request's calls, in the order of the scripts' alternatives; empty: none.
struct CallRules {
  std::vector<GrammarRef> prefixes, required, starts, next;
  size_t end = SIZE_MAX;  // which of `next` ends the section
  // which of prefixes and starts are no call but the content's header
  size_t prefix_answer = SIZE_MAX, start_answer = SIZE_MAX;
  // Of a format with a header: what the content may begin with, calls and that; which of them it is, and what follows each.
  std::vector<std::vector<TokenId>> heads;
  size_t format_head = SIZE_MAX;
  std::vector<GrammarRef> headed;
};

enum class SequenceState : uint8_t { kWaiting, kForked, kRunning, kPreempted, kEnded };

struct Sequence {
  Sequence(Request& owner, int choice_index);

  Request& request;
  const int choice;
  SequenceState state = SequenceState::kWaiting;
  std::vector<TokenId> tokens;
  int n_prompt = 0;
  int n_computed = 0;  // tokens whose keys and values lie in `pages`
  int n_indexed = 0;   // leading pages known to the prefix cache
  int n_unseen = 0;    // window pages before this one are given back: no row sees them any more
  int n_planned = 0;   // tokens the step being planned computes
  int n_scored = 0;    // rows of its prompt before this one want no logits for what follows them
  // Where the model has recurrent state: the slot of it behind n_computed tokens, and behind the guesses of the step under
  // way. kNoSlot: there is none.
  SlotId slot = kNoSlot, guess_slot = kNoSlot;
  int n_guessed = 0;                 // guesses of that step that are not yet known to be right
  PageId answer_snapshot = kNoPage;  // of its pages the one behind which it last left a snapshot in its answer
  int hidden_place = -1;             // where HiddenRows keeps its hidden rows, if the place is still its own
  int n_ahead = 0;                   // of a running decode: tokens written at once with the last one, before it
  int open_at = -1;        // generated() at which it was last found that only the sampler can tell what comes next
  int displaced_at = -1;   // generated() when it last gave its place to another organization; -1: never
  PageTable pages;         // page of position p is pages[p / kPageTokens]
  PageTable window_pages;  // the same for layers with a window; empty where they have no pages of their own
  PenaltyCounts counts;
  std::unique_ptr<Guesses> guesses;  // from the first step on that has any to make
  TextStage text;
  RepetitionGuard repetition;
  TokenScript script;  // what the engine is writing: the end of the reasoning, or the beginning of a call
  const std::vector<GrammarRef>* script_rules = nullptr;  // what follows the script's alternatives; null: anything
  Rule rule;
  bool rule_due = false;         // what its rule allows next is still being found: it is not computed before
  TokenId due_token = kNoToken;  // if set, the rule's state behind this token is being found, not what is allowed
  bool call_due;                 // the content must begin with a call, and has not begun
  bool format_due;               // the content must begin with the format, or with a call, and has not begun
  bool named_content = false;    // a header of the content has been written that begins as calls do
  bool marker_due = false;       // it has just held one: the next token tells a header from text
  // the grammar of a call that has ended: the turn ends or another call follows
  const GrammarRef* after_call = nullptr;
  int spaces_after_call = 0;  // tokens of white space since
  std::optional<Clock::time_point> first_token_at;

  int length() const { return static_cast<int>(tokens.size()); }
  int generated() const { return length() - n_prompt; }
  std::span<const TokenId> answer() const { return std::span(tokens).subspan(static_cast<size_t>(n_prompt)); }
  int remaining() const { return length() - n_computed; }
  // Rows of its prompt whose logits say what the next token's probability is, as long as somebody wants to know.
  bool scores() const { return n_scored < n_prompt - 1; }
  bool decoding() const { return generated() > 0 && remaining() <= 1 + n_ahead; }
  uint64_t order() const;  // older first; unique
  // Of the model's KvLayout.
  const PageId* table(int number) const;
};

// What `rule` has read of the sequence.
inline std::span<const TokenId> read_by(const Rule& rule, const Sequence& sequence) {
  return {sequence.tokens.data() + rule.first, sequence.tokens.size() - rule.first};
}

struct Request {
  // Takes over validated parameters. `max_context` bounds prompt plus output; `kv_layout` is the model's.
  Request(RequestId request_id, std::shared_ptr<Channel> events, GenerationRequest generation, int n_vocab,
          int max_context, const KvLayout& kv_layout = {});

  RequestId id;  // set at submission, before the engine sees it
  const std::shared_ptr<Channel> channel;
  CallRules call_rules;
  // Immutable but for the rows of spans, which ImageStage fills in before the request is admitted.
  GenerationRequest params;
  bool inputs_ready = true;      // all rows are there
  size_t image_bytes = 0;        // ImageStage's: of rows that it has computed or will
  Clock::duration tower_time{};  // ... and how long it has computed them; rows that were known took none
  const int max_length;          // prompt plus output: min(prompt + max_tokens, max_context)
  const int n_vocab;
  const KvLayout layout;
  uint64_t arrival = 0;  // set by the scheduler
  int kept_places = 0;   // the scheduler's: places given at admission to choices not yet forked
  const Clock::time_point submitted_at;
  Clock::time_point waits_since;                   // submitted, or when the last piece of its images was seen
  std::optional<Clock::time_point> started_at;     // first step
  int live_choices;                                // not yet ended, unforked ones included
  std::bitset<kMaxChoices> finishing;              // choices to be ended instead of taking their first token
  std::vector<std::unique_ptr<Sequence>> choices;  // [0] from the start, the others from the fork on

  bool started() const { return started_at.has_value(); }
  bool wants_logprobs() const { return params.sampling.top_logprobs >= 0; }
};

}  // namespace monolith
