// What the prefix cache knows a position by: 64 bits that are equal only for equal content. A token's key is its id. A
// span's row has a mix of the content's hash and the row's number, under a seed that clients do not know; its highest
// bit is set, so that no row is a token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/kv_cache.h"
#include "engine/inputs.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

using PositionKey = uint64_t;
using PageKeys = std::array<PositionKey, kPageTokens>;

inline PositionKey token_key(TokenId token) { return static_cast<uint32_t>(token); }

inline PositionKey row_key(const InputSpan& span, int row, uint64_t seed) {
  // Multiply and xor-shift, twice a word: every bit that goes in reaches every bit that comes out.
  const auto mix = [](uint64_t state) {
    state = (state ^ state >> 32) * 0x9E3779B97F4A7C15u;
    state = (state ^ state >> 29) * 0xD6E8FEB86659FD93u;
    return state ^ state >> 32;
  };
  // Where rows see one another, a row depends on how many there are.
  const uint64_t place =
      static_cast<uint32_t>(row) | (span.bidirectional ? uint64_t{static_cast<uint32_t>(span.n_rows)} << 32 : 0);
  return mix(mix(mix(seed ^ span.hash.high) ^ span.hash.low) ^ place) | uint64_t{1} << 63;
}

// Of the page that begins at `first`: all its positions have tokens.
inline PageKeys page_keys(std::span<const TokenId> tokens, std::span<const InputSpan> spans, int first, uint64_t seed) {
  PageKeys keys;
  for (int i = 0; i < kPageTokens; ++i)
    keys[static_cast<size_t>(i)] = token_key(tokens[static_cast<size_t>(first + i)]);
  for (const InputSpan* span = span_from(spans, first); span && span != spans.data() + spans.size(); ++span) {
    if (span->first >= first + kPageTokens) break;
    for (int p = std::max(first, span->first); p < std::min(first + kPageTokens, span->end()); ++p)
      keys[static_cast<size_t>(p - first)] = row_key(*span, p - span->first, seed);
  }
  return keys;
}

}  // namespace monolith
