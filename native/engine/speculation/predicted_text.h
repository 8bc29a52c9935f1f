// Follows a sequence's output in a text that the client has predicted, and proposes the tokens that come next there.
// One per sequence; engine thread only. Memory is allocated only at construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"

namespace monolith {

class PredictedText {
 public:
  // After the output has left the predicted text, this many equal tokens are needed to find it there again.
  static constexpr size_t kGram = 3;
  // Number of tokens searched in each direction from where the output left the text.
  static constexpr size_t kMaxSearch = size_t{1} << 13;

  // `text` must outlive this object.
  explicit PredictedText(std::span<const TokenId> text);

  // Must be called after each generated token. `output`: all generated tokens.
  void follow(std::span<const TokenId> output);
  // The tokens that follow in the text; empty while the output is elsewhere.
  std::span<const TokenId> next() const { return follows_ ? text_.subspan(at_) : std::span<const TokenId>(); }
  // Number of tokens of the text that the output has repeated, each counted once.
  int n_matched() const { return n_matched_; }

 private:
  bool find(std::span<const TokenId> gram, size_t from, size_t to);
  void mark(size_t position);

  std::span<const TokenId> text_;
  std::vector<uint64_t> matched_;  // One bit per token of the text.
  size_t at_ = 0;                  // The next token of the text, or the token at which the output left it.
  bool follows_ = true;            // The output is expected to start with the text.
  int n_matched_ = 0;
};

}  // namespace monolith
