#include "engine/speculation/predicted_text.h"

#include <algorithm>
#include <bit>

namespace monolith {

PredictedText::PredictedText(std::span<const TokenId> text) : text_(text), matched_((text.size() + 63) / 64) {
  if (text.size() < kGram) return;
  const size_t n = text.size() - kGram + 1;
  first_.resize(std::bit_ceil(n) + 1);
  ends_.resize(n);
  const auto bucket = [&](size_t i) { return bucket_of(text.subspan(i, kGram)); };
  for (size_t i = 0; i < n; ++i) ++first_[bucket(i) + 1];
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  // Fills each bucket from its end: every insertion moves the bucket's end position down by one, until it is the
  // beginning of the bucket.
  for (size_t i = n; i-- > 0;) ends_[--first_[bucket(i) + 1]] = static_cast<uint32_t>(i + kGram - 1);
  std::rotate(first_.begin(), first_.begin() + 1, first_.end());
  first_.back() = static_cast<uint32_t>(n);
}

size_t PredictedText::bucket_of(std::span<const TokenId> gram) const {
  uint64_t hash = 0;
  for (const TokenId id : gram) hash = (hash ^ static_cast<uint32_t>(id)) * 0x9e3779b97f4a7c15u;
  return (hash >> 32) & (first_.size() - 2);
}

void PredictedText::follow(std::span<const TokenId> output) {
  if (follows_ && at_ < text_.size() && text_[at_] == output.back()) {
    mark(at_++);
    return;
  }
  follows_ = false;
  if (output.size() < kGram || text_.size() < kGram) return;
  const std::span<const TokenId> gram = output.last(kGram);
  // Searches forward first, because after an edit, the output more often continues later in the text than earlier.
  if (!find(gram, at_, std::min(text_.size(), at_ + kMaxSearch)))
    find(gram, at_ > kMaxSearch ? at_ - kMaxSearch : 0, at_);
}

// Looks in the text for an occurrence of `gram` whose last token is in [from, to).
bool PredictedText::find(std::span<const TokenId> gram, size_t from, size_t to) {
  const size_t bucket = bucket_of(gram);
  const auto end = ends_.begin() + first_[bucket + 1];
  for (auto at = std::lower_bound(ends_.begin() + first_[bucket], end, from); at != end && *at < to; ++at) {
    const size_t start = *at + 1 - kGram;
    if (!std::ranges::equal(gram, text_.subspan(start, kGram))) continue;
    for (size_t position = start; position <= *at; ++position) mark(position);
    at_ = *at + 1;
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
