#include "engine/speculation/predicted_text.h"

#include <algorithm>

namespace monolith {

PredictedText::PredictedText(std::span<const TokenId> text) : text_(text), matched_((text.size() + 63) / 64) {}

void PredictedText::follow(std::span<const TokenId> output) {
  if (follows_ && at_ < text_.size() && text_[at_] == output.back()) {
    mark(at_++);
    return;
  }
  follows_ = false;
  if (output.size() < kGram || text_.size() < kGram) return;
  const std::span<const TokenId> gram = output.last(kGram);
  // Edits move the output forward more often than backward.
  if (!find(gram, at_, std::min(text_.size(), at_ + kMaxSearch)))
    find(gram, at_ > kMaxSearch ? at_ - kMaxSearch : 0, at_);
}

// Looks for the last token of `gram` in [from, to), with the others directly before it.
bool PredictedText::find(std::span<const TokenId> gram, size_t from, size_t to) {
  for (size_t i = std::max(from, kGram - 1); i < to; ++i) {
    if (text_[i] != gram.back() || !std::ranges::equal(gram, text_.subspan(i + 1 - kGram, kGram))) continue;
    for (size_t position = i + 1 - kGram; position <= i; ++position) mark(position);
    at_ = i + 1;
    follows_ = true;
    return true;
  }
  return false;
}

void PredictedText::mark(size_t position) {
  uint64_t& word = matched_[position / 64];
  const uint64_t bit = uint64_t{1} << position % 64;
  n_matched_ += (word & bit) == 0;
  word |= bit;
}

}  // namespace monolith
