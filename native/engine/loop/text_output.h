// Deferred text: with overlapping steps, the text of a token that cannot affect the next step is written only when that
// step has been submitted. All deferred text is written before StepLoop::step() returns. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/loop/event_writer.h"
#include "engine/loop/request_lifecycle.h"

namespace monolith {

class TextOutput {
 public:
  // `most_later`: maximum number of deferred tokens per step.
  TextOutput(const Tokenizer& tokenizer, RequestLifecycle& requests, size_t most_later);

  // Defers the text of the newest token. If the text contains a stop string, the sequence ends only when the text is
  // written.
  void write_later(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs);
  // Writes the deferred text of one request's choices, or of all requests, in step order.
  void write_waiting_of(const Request& request);
  void write_waiting();
  // Discards the deferred text after a step has failed.
  void drop_waiting();

 private:
  struct Waiting {
    Sequence* sequence;
    TokenId token;
    int32_t logprobs;  // Index of the token's logprobs in logprobs_; -1 = no logprobs requested.
  };
  void write(const Waiting& waiting);

  const Tokenizer& tokenizer_;
  RequestLifecycle& requests_;
  std::vector<Waiting> waiting_;
  std::vector<TokenLogprobs> logprobs_;
};

}  // namespace monolith
