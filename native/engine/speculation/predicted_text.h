// Tracks the position of a sequence's output in the text that the client predicted, and proposes the tokens after that
// position. One per sequence; engine thread only. Memory is allocated only at construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"

namespace monolith {

class PredictedText {
 public:
  // After the output has diverged from the text, this number of its last tokens is searched for in the text.
  static constexpr size_t kGram = 3;
  // Maximum number of tokens to search in each direction from the position where the output diverged.
  static constexpr size_t kMaxSearch = size_t{1} << 13;

  // `text` must outlive this object.
  explicit PredictedText(std::span<const TokenId> text);

  // Must be called after each generated token. `output`: all generated tokens.
  void follow(std::span<const TokenId> output);
  // The text after the current position. Empty while the output does not follow the text.
  std::span<const TokenId> next() const { return follows_ ? text_.subspan(at_) : std::span<const TokenId>(); }
  // Number of tokens of the text that the output has repeated, each counted once.
  int n_matched() const { return n_matched_; }

 private:
  size_t bucket_of(std::span<const TokenId> gram) const;
  bool find(std::span<const TokenId> gram, size_t from, size_t to);
  void mark(size_t position);

  std::span<const TokenId> text_;
  std::vector<uint64_t> matched_;  // One bit per token of the text.
  // The positions in the text at which each sequence of kGram tokens ends. Bucket i of the hash table is
  // ends_[first_[i] .. first_[i + 1]), ascending.
  std::vector<uint32_t> first_, ends_;
  size_t at_ = 0;        // Index of the next token of the text, or of the token where the output diverged.
  bool follows_ = true;  // The output is expected to start with the text.
  int n_matched_ = 0;
};

}  // namespace monolith
