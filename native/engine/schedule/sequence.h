// A request in the engine, and its sequences, one per choice. Built on the submitting thread; owned by the engine
// thread once the engine has taken the request from its inbox.
//
//   kWaiting ──admit──► kRunning ──finish──► kEnded
//   kForked ───admit──►  │    ▲                ▲
//                 preempt▼    │admit           │
//                        kPreempted ───────────┘ (time limit, cancellation; kForked too)
//
// Invariants:
// 1. Only a kRunning sequence holds pages. They cover at least positions 0 .. n_computed - 1. `window_pages`, for
//    sliding-window layers, covers only positions that later tokens attend to: its first n_out_of_window entries are kNoPage.
// 2. `tokens` is the prompt followed by the generated tokens. n_computed <= tokens.size(); the tokens in between remain
//    to be computed. The forward pass of the last token gives the logits for the next one. So a decode computes one
//    token per step, or several if the engine has appended several forced tokens.
// 3. The first n_indexed pages are full and are in the prefix cache, as are their window pages.
// 4. A kPreempted sequence keeps tokens, text and counts; it loses only what can be recomputed. A kForked sequence is
//    in the same condition but has not had a sequence slot yet. For models with recurrent state, a running sequence
//    with n_computed > 0 also holds one state slot, which may be shared. Memory for the maximum length is allocated when
//    a sequence is admitted or forked, so waiting requests take memory for their prompts only.
// 5. Draft tokens are not part of `tokens`. What has been computed for them is used if the sampler chooses the same
//    tokens; otherwise the next step overwrites it. Recurrent state cannot be overwritten partially, so draft tokens
//    write theirs to a separate slot. That slot is used only if all draft tokens are accepted; otherwise the accepted
//    tokens are computed again.
// 6. Choices 1 .. n-1 are created when choice 0 has computed the prompt. All choices take their first token from the
//    same logits.
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
#include "engine/kv/kv_state.h"
#include "engine/output/output_state.h"
#include "engine/sampling/logit_processors.h"
#include "engine/speculation/speculation.h"
#include "model/kv_layout.h"

namespace monolith {

struct Request;

enum class SequenceState : uint8_t { kWaiting, kForked, kRunning, kPreempted, kEnded };

struct Sequence {
  Sequence(Request& owner, int choice_index);

  // Allocates the page tables, the penalty counts and room for all tokens, unless that was done before. Throws
  // std::bad_alloc and then changes nothing.
  void allocate();

  Request& request;
  const int choice;
  SequenceState state = SequenceState::kWaiting;
  std::vector<TokenId> tokens;
  int n_prompt = 0;
  // Number of leading prompt tokens whose logits are not needed for prompt log-probabilities, or not any more.
  int n_scored = 0;
  // Used by the scheduler: the last attempt to admit the sequence found no room. `room_needed`: number of pages that must
  // be available, besides those reserved for running sequences; 0: no such attempt. `room_needed_at`: the scheduler's
  // count of cache changes at that time.
  int64_t room_needed = 0;
  uint64_t room_needed_at = 0;
  // Index of the sequence's saved hidden states in HiddenRows. The entry may have been reassigned since.
  int hidden_slot = -1;
  // For a decoding sequence: number of forced tokens appended together with the last token, before it.
  int n_ahead = 0;
  int preempted_at = -1;  // generated() when the sequence was last preempted for another organization; -1: never.
  KvState kv;
  OutputState output;
  PenaltyCounts counts;
  std::unique_ptr<SequenceDrafts> drafts;  // Speculative-decoding state; created with the first draft tokens.
  std::optional<Clock::time_point> first_token_at;

  int length() const { return static_cast<int>(tokens.size()); }
  int generated() const { return length() - n_prompt; }
  std::span<const TokenId> answer() const { return std::span(tokens).subspan(static_cast<size_t>(n_prompt)); }
  int remaining() const { return length() - kv.n_computed; }
  // True while prompt tokens remain whose logits are needed for prompt log-probabilities.
  bool scores() const { return n_scored < n_prompt - 1; }
  bool decoding() const { return generated() > 0 && remaining() <= 1 + n_ahead; }
  uint64_t order() const;  // Unique sort key by age: older sequences have smaller values.
  // Page table `number` of the model's KvLayout.
  const PageId* table(int number) const;
};

struct Request {
  // Takes over validated parameters. `max_context`: maximum length of prompt plus output. `kv_layout`: the model's.
  Request(RequestId request_id, std::shared_ptr<Channel> events, GenerationRequest generation, int n_vocab,
          int max_context, const KvLayout& kv_layout = {});

  RequestId id;  // Set at submission, before the engine thread sees the request.
  const std::shared_ptr<Channel> channel;
  // Immutable, except for the embedding rows of image spans, which ImageStage fills in before the request is admitted.
  GenerationRequest params;
  const OutputFormat format;
  bool inputs_ready = true;  // True if the embedding rows of all spans are available.
  // Set when an allocation for this request fails at a point where the request cannot be ended. The step loop then fails
  // it, at the latest before the next step is planned.
  bool out_of_memory = false;
  // Used by ImageStage: bytes of the embedding rows that it has computed or will compute for this request.
  size_t image_bytes = 0;
  // Used by ImageStage: time spent computing the request's embedding rows. Cached rows count as 0.
  Clock::duration encoder_time{};
  const int max_length;  // Maximum length of prompt plus output: min(prompt + max_tokens, max_context).
  const int n_vocab;
  const KvLayout layout;
  uint64_t arrival = 0;    // Arrival number, set by the scheduler.
  int reserved_slots = 0;  // Used by the scheduler: slots reserved at admission for choices that are not yet forked.
  const Clock::time_point submitted_at;
  // Start of the queue wait: submission, or when the vision encoder finished the last image.
  Clock::time_point waits_since;
  std::optional<Clock::time_point> started_at;  // Start of the first step that computes part of the request.
  int live_choices;                    // Number of choices that have not ended, including those not yet forked.
  std::bitset<kMaxChoices> finishing;  // Choices that end instead of taking their first token.
  // choices[0] exists from the start; the others are added at the fork.
  std::vector<std::unique_ptr<Sequence>> choices;
  std::unique_ptr<Request> next;  // Link of RequestList.

  bool started() const { return started_at.has_value(); }
  bool wants_logprobs() const { return params.sampling.top_logprobs >= 0; }
};

}  // namespace monolith
