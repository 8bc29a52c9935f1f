#include "engine/speculation/prompt_lookup.h"

#include <algorithm>
#include <bit>

namespace monolith {

PromptLookup::PromptLookup(int max_tokens)
    : next_(std::min(std::bit_ceil(static_cast<size_t>(std::max(max_tokens, 1))), kMaxSlots)), n_read_(kGram) {}

size_t PromptLookup::slot(const TokenId* end) const {
  uint64_t hash = 0;
  for (const TokenId* at = end - kGram; at < end; ++at)
    hash = (hash ^ static_cast<uint32_t>(*at)) * 0x9E3779B97F4A7C15u;
  return hash >> 32 & (next_.size() - 1);
}

PromptLookup::Match PromptLookup::find(std::span<const TokenId> tokens) {
  // An n-gram is indexed only once another token follows it.
  for (; n_read_ < tokens.size(); ++n_read_) next_[slot(&tokens[n_read_])] = static_cast<int32_t>(n_read_);
  if (tokens.size() < kGram) return {};
  const auto size = static_cast<int>(tokens.size());
  const int next = next_[slot(tokens.data() + size)];
  int length = 0;
  while (length < std::min(next, kLongestMatch) &&
         tokens[static_cast<size_t>(next - 1 - length)] == tokens[static_cast<size_t>(size - 1 - length)])
    ++length;
  return length < kGram ? Match{} : Match{length, next};
}

void PromptLookup::copy(std::span<const TokenId> tokens, const Match& match, std::span<TokenId> out) {
  const std::span<const TokenId> rest = tokens.subspan(static_cast<size_t>(match.next));
  for (size_t i = 0; i < out.size(); ++i) out[i] = i < rest.size() ? rest[i] : out[i - rest.size()];
}

}  // namespace monolith
