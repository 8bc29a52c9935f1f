// Turns the logits of a step into the sequences' next tokens and applies their effects: text, end of the choice, forced
// tokens. Sequences are processed in plan order. Engine thread only.
//
// With overlapping steps, the text of a token that cannot affect the next step is deferred (text_output.h). A stop
// string may therefore be found while the sequence's next token is already being computed. The result of that
// computation is discarded, as are the results of requests that have meanwhile been cancelled or timed out. Their pages
// may be reused immediately, because the device executes steps in order. If the token with the discarded result has
// added pages to the prefix cache, these pages are valid, because they contain only tokens of the sequence.
#pragma once

#include <cstdint>
#include <span>

#include "engine/loop/text_output.h"
#include "engine/sampling/sample_requests.h"

namespace monolith {

// The objects that handle accepted tokens; all must outlive the TokenAcceptor.
struct AcceptorParts {
  const Tokenizer& tokenizer;
  Scheduler& scheduler;
  GrammarRunner& grammars;
  SampleRequests& samples;
  SpeculativeDecoder& drafts;
  RequestLifecycle& requests;
  TextOutput& texts;
  EngineCounters& counters;
};

class TokenAcceptor {
 public:
  // `row_width`: distance between consecutive logit rows, in floats. `writes_later`: whether text may be deferred.
  // `pooling`: null if the model does not compute vectors.
  TokenAcceptor(const AcceptorParts& parts, int max_context, int row_width, bool writes_later,
                const PoolingHead* pooling)
      : parts_(parts),
        max_context_(max_context),
        row_width_(row_width),
        may_write_later_(writes_later),
        pooling_(pooling) {}

  // Accepts the tokens that follow from an item's logits: for one sequence or, at the end of a prompt, for every choice
  // of the request. `tasks`: sampling tasks of the item's logit rows.
  void take(const StepPlan::Item& item, const float* logits, std::span<const int32_t> tasks);
  // Emits the log-probabilities of the prompt tokens that an item has computed. `tasks`: sampling tasks of these
  // tokens.
  void take_scores(const StepPlan::Item& item, std::span<const int32_t> tasks);
  // Pools the hidden states of an item's tokens into the vector of its sequence. Emits the vector once all prompt
  // tokens have been added. `states` has the shape [tokens of the item][n_embd].
  void take_states(const StepPlan::Item& item, const float* states);

 private:
  // The logit rows from which a sequence's tokens are sampled: the row of its newest token, then one row per draft
  // token.
  struct Rows {
    const float* logits;  // Logits of the newest token; null if not computed yet.
    std::span<const int32_t> tasks;
    std::span<const TokenId> drafts;  // Draft tokens that were not compared with the sampled tokens yet.
    int n_accepted = 0;               // Number of accepted draft tokens.
    bool next_rejected = false;
    bool writes_later = false;
  };

  void take_first_tokens(Request& request, const float* logits);
  void take_tokens(Sequence& sequence, Rows rows);
  bool take_all(Sequence& sequence, Rows& rows, EventWriter& writer);
  void stop_by_grammar(Sequence& sequence, OutputState::Next::Kind kind);
  const SampleResult* sample(Sequence& sequence, const Rows& rows, bool is_open, EventWriter& writer);
  bool accept(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs, Rows& rows, EventWriter& writer);
  bool writes_later(const Sequence& sequence, int32_t task) const;

  const AcceptorParts parts_;
  std::vector<const TokenLogprobs*> scores_;  // Scratch of take_scores().
  const int max_context_, row_width_;
  const bool may_write_later_;
  const PoolingHead* const pooling_;
};

}  // namespace monolith
