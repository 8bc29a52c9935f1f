// What a request would be answered if it had the network to itself: no pages, no cache, no steps, no guesses. The text
// that has come so far is read in; next() says what comes behind it.
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
  // The next token of the text.
  void read(TokenId token);
  // What follows, for choice `choice`; valid until the next call. The logits are of the last token that was read.
  const SampleResult& next(int choice);
  // Of the prompt's tokens from the second on.
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
  std::vector<std::vector<uint64_t>> kept_;  // by table and position
  Seen seen_;
  uint64_t row_ = 0;
  TokenId last_ = 0;
  int length_ = 0;
  std::vector<Scored> scores_;
  SampleResult next_;
};

// Of a request as the engine is handed it.
SamplingParams sampling_of(const Ask& ask);

}  // namespace monolith::simulation
