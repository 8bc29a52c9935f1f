// From a sequence's tokens to the records of its text. Where steps overlap, the text of a token that cannot change what
// comes next waits until the next step is on its way; between two calls of StepLoop::step() none does. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/loop/event_writer.h"
#include "engine/loop/request_lifecycle.h"

namespace monolith {

class TextOutput {
 public:
  // At most `most_later` texts of one step wait.
  TextOutput(const Tokenizer& tokenizer, RequestLifecycle& requests, size_t most_later);

  // The text of the sequence's newest token; the index of the stop string that ends with it, or -1.
  int write(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs, EventWriter& writer) const;
  // The same when it is its turn; a stop string ends the sequence then.
  void write_later(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs);
  // What waits, in the order of its step: of one request's choices, or of all.
  void write_waiting_of(const Request& request);
  void write_waiting();
  // A step has failed before it came to that.
  void drop_waiting();

 private:
  struct Waiting {
    Sequence* sequence;
    TokenId token;
    int32_t logprobs;  // in logprobs_; -1: none wanted
  };
  void write(const Waiting& waiting);

  const Tokenizer& tokenizer_;
  RequestLifecycle& requests_;
  std::vector<Waiting> waiting_;
  std::vector<TokenLogprobs> logprobs_;
};

}  // namespace monolith
