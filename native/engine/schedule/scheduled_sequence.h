// The scheduler's view of a sequence: its tokens, its KV state and its place in the queue. Everything else, such as
// sampling and output, is in Sequence (engine/sequence.h), which derives from this.
//
//   kWaiting ──admit──► kRunning ──finish──► kEnded
//   kForked ───admit──►  │    ▲                ▲
//                 preempt▼    │admit           │
//                        kPreempted ───────────┘ (time limit, cancellation; kForked too)
//
// Invariants:
// 1. Only a kRunning sequence holds pages. They cover at least positions 0 .. n_computed - 1. `window_pages`, for
//    sliding-window layers, covers only positions that later tokens attend to: its first n_out_of_window entries are
//    kNoPage.
// 2. `tokens` is the prompt followed by the generated tokens. n_computed <= tokens.size(); the tokens in between remain
//    to be computed. The forward pass of the last token produces the logits for the next one. A decode therefore
//    computes one token per step, or several if the engine has appended several forced tokens.
// 3. The first n_indexed() pages are full and belong to nodes of the prefix cache, as do their window pages.
// 4. A kPreempted sequence keeps tokens, text and counts; it loses only state that can be recomputed. A kForked
//    sequence is in the same condition but has not had a sequence slot yet. For models with recurrent state, a running
//    sequence with n_computed > 0 also holds one state slot, which may be shared. Memory for the maximum length is
//    allocated when a sequence is admitted or forked, so waiting requests take memory for their prompts only.
// 5. Draft tokens are not part of `tokens`. The results computed for them are used if the sampler chooses the same
//    tokens; otherwise the next step overwrites these results. Recurrent state cannot be overwritten partially, so the
//    state after draft tokens is written to a separate slot. That slot is used only if all draft tokens are accepted;
//    otherwise the accepted tokens are computed again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"
#include "engine/inputs.h"
#include "engine/kv/kv_state.h"

namespace monolith {

struct Request;

enum class SequenceState : uint8_t { kWaiting, kForked, kRunning, kPreempted, kEnded };

struct ScheduledSequence {
  static constexpr int kOrderStride = 128;  // Distance between two requests in order(): at least one per choice.

  ScheduledSequence(Request& owner, int choice_index, bool& is_out_of_memory)
      : request(owner), choice(choice_index), out_of_memory(is_out_of_memory) {}
  virtual ~ScheduledSequence() = default;
  ScheduledSequence(const ScheduledSequence&) = delete;
  ScheduledSequence& operator=(const ScheduledSequence&) = delete;

  virtual bool can_start() const = 0;   // True if a waiting sequence can start now.
  virtual bool is_blocked() const = 0;  // True if a running or preempted sequence cannot advance now.
  // Allocates the memory that the sequence needs to run, unless it is already allocated. If that throws std::bad_alloc,
  // nothing has changed.
  virtual void allocate() = 0;

  Request& request;  // Used by the sequence's owner, not by the scheduler.
  const int choice;
  uint64_t organization = 0;
  int n_choices = 1;                 // Number of the request's choices.
  bool generates = true;             // True if tokens are generated after the prompt.
  bool uses_cache = true;            // True if the sequence takes pages from the prefix cache and adds its own.
  bool background = false;           // True for a background sequence, which yields to all others (scheduler.h).
  std::span<const InputSpan> spans;  // The prompt's embedding spans.
  ContentHash adapter_hash;          // Hash of the request's LoRA adapter; 0: no adapter.
  bool& out_of_memory;               // Shared by the request's choices. If true, none of them is admitted.
  SequenceState state = SequenceState::kWaiting;
  std::vector<TokenId> tokens;
  int n_prompt = 0;
  // Number of leading prompt tokens whose logits need not be computed for prompt log-probabilities: the tokens already
  // scored, or all prompt tokens if the request has no prompt log-probabilities.
  int n_scored = 0;
  // For a decoding sequence: the number of forced tokens that were appended together with the last token and precede
  // it.
  int n_ahead = 0;
  KvState kv;

  // Set by the scheduler.
  uint64_t arrival = 0;    // Arrival number of the request.
  int reserved_slots = 0;  // Choice 0 only: slots reserved at admission for choices that are not yet forked.
  int preempted_at = -1;   // generated() when the sequence was last preempted for another organization; -1: never.
  // Set if the last attempt to admit the sequence found too few pages. `room_needed`: number of pages that must be
  // available, in addition to the pages reserved for running sequences; 0 = no such attempt. `room_needed_at`: the
  // value of the cache-change counter at that time.
  int64_t room_needed = 0;
  uint64_t room_needed_at = 0;

  int length() const { return static_cast<int>(tokens.size()); }
  int generated() const { return length() - n_prompt; }
  int remaining() const { return length() - kv.n_computed; }
  // True while prompt tokens remain whose logits are needed for prompt log-probabilities.
  bool scores() const { return n_scored < n_prompt - 1; }
  bool decoding() const { return generated() > 0 && remaining() <= 1 + n_ahead; }
  // Minimum number of tokens of a prompt's next chunk: the whole bidirectional span, or 1.
  int min_chunk() const {
    const InputSpan* span = span_across(spans, kv.n_computed + 1);
    return span ? span->n_rows : 1;
  }
  // Unique sort key. Background sequences come after all others. Within each group, older sequences have smaller keys.
  uint64_t order() const {
    return (background ? uint64_t{1} << 63 : 0) | (arrival * kOrderStride + static_cast<uint64_t>(choice));
  }
};

}  // namespace monolith
