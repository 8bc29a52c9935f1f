// Computes the response that a request would get if it were the only request: without pages, prefix cache, steps or
// draft tokens. The caller passes in the text so far with read(); next() returns the token that follows it.
#pragma once

#include <span>
#include <vector>

#include "engine/sampling/sampler.h"
#include "simulation/scenario.h"

namespace monolith::simulation {

class Alone {
 public:
  Alone(const Setup& setup, const Ask& ask);

  int length() const { return length_; }
  // Appends one token to the text that has been read so far.
  void read(TokenId token);
  // Samples the next token for choice `choice`, from the logits of the last token that was read. The result is valid
  // until the next call to next().
  const SampleResult& next(int choice);
  // Log probabilities of the prompt's tokens, beginning with the second token.
  struct Scored {
    TokenId token;
    float logprob;
  };
  const std::vector<Scored>& scores() const { return scores_; }

 private:
  void pass(uint64_t input);
  SampleResult sample(const SampleTask& task);

  const Shape shape_;
  SamplingParams sampling_;
  const int min_tokens_, n_prompt_;
  std::vector<std::vector<uint64_t>> kept_;  // Keys and values, by page table and position.
  Seen seen_;
  uint64_t row_ = 0;
  TokenId last_ = 0;
  int length_ = 0;
  std::vector<Scored> scores_;
  SampleResult next_;
};

// Returns a request's sampling parameters in the form in which the engine receives them.
SamplingParams sampling_of(const Ask& ask);

}  // namespace monolith::simulation
