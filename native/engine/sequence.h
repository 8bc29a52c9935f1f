// A request in the engine, and its sequences, one per choice. Built on the submitting thread; owned by the engine
// thread once the engine has taken the request from its inbox. ScheduledSequence contains the part of a sequence that
// the scheduler needs.
//
// Choices 1 .. n-1 are created when choice 0 has computed the prompt. All choices take their first token from the same
// logits.
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
#include "engine/output/output_state.h"
#include "engine/sampling/logit_processors.h"
#include "engine/schedule/scheduled_sequence.h"
#include "engine/speculation/predicted_text.h"
#include "engine/speculation/speculation.h"
#include "model/kv_layout.h"
#include "model/pooling.h"

namespace monolith {

struct Sequence : ScheduledSequence {
  Sequence(Request& owner, int choice_index);

  // Whether the request's image embeddings are ready and its event channel is not full.
  bool can_start() const override;
  // Whether the grammar mask is pending or the event channel is full.
  bool is_blocked() const override;
  // Allocates the page tables, the penalty counts and room for all tokens.
  void allocate() override;

  // Index of the sequence's saved hidden states in HiddenRows. The entry may have been reassigned to another sequence
  // in the meantime.
  int hidden_slot = -1;
  OutputState output;
  PenaltyCounts counts;
  std::optional<PredictedText> prediction;  // Set by allocate() if the request has one.
  PooledText pooled;                        // OutputKind::kVector: pools the hidden states computed so far.
  std::unique_ptr<SequenceDrafts> drafts;   // Speculative-decoding state; created with the first draft tokens.
  std::optional<Clock::time_point> first_token_at;

  std::span<const TokenId> answer() const { return std::span(tokens).subspan(static_cast<size_t>(n_prompt)); }
  // Page table `number` of the model's KvLayout.
  const PageId* table(int number) const;
};

// The scheduler's plans and lists point to the base class. Every object that they refer to is a Sequence.
inline Sequence& sequence_of(ScheduledSequence& scheduled) { return static_cast<Sequence&>(scheduled); }
inline const Sequence& sequence_of(const ScheduledSequence& scheduled) {
  return static_cast<const Sequence&>(scheduled);
}

struct Request {
  // Takes over validated parameters. `max_context`: maximum length of prompt plus output. `kv_layout`: layout of the
  // model's KV cache.
  Request(RequestId request_id, std::shared_ptr<Channel> events, GenerationRequest generation, int n_vocab,
          int max_context, const KvLayout& kv_layout = {});

  RequestId id;  // Set at submission, before the engine thread sees the request.
  const std::shared_ptr<Channel> channel;
  // Immutable, except for the embedding rows of image spans, which ImageStage fills in before the request is admitted.
  GenerationRequest params;
  const OutputFormat format;
  bool inputs_ready = true;  // True if the embedding rows of all spans are available.
  // Set when an allocation for this request fails at a point where the request cannot be terminated. The step loop then
  // fails it, at the latest before the next step is planned.
  bool out_of_memory = false;
  // Used by ImageStage: bytes of the embedding rows that it has computed or will compute for this request.
  size_t image_bytes = 0;
  // Used by ImageStage: time spent computing the request's embedding rows. Rows from the cache add no time.
  Clock::duration encoder_time{};
  const int max_length;  // Maximum length of prompt plus output: min(prompt + max_tokens, max_context).
  const int n_vocab;
  const KvLayout layout;
  const Clock::time_point submitted_at;
  // Start of the queue wait: the time of submission, or the time when the vision encoder finished the last image.
  Clock::time_point waits_since;
  std::optional<Clock::time_point> started_at;  // Start of the first step that computes part of the request.
  int live_choices;                             // Number of unfinished choices, including those not yet forked.
  std::bitset<kMaxChoices> finishing;           // Choices that end instead of taking their first token.
  // choices[0] exists from the start; the others are added at the fork.
  std::vector<std::unique_ptr<Sequence>> choices;
  std::unique_ptr<Request> next;  // Link of RequestList.

  bool started() const { return started_at.has_value(); }
  bool wants_logprobs() const { return params.sampling.top_logprobs >= 0; }
};

}  // namespace monolith
