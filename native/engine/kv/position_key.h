// The keys that the prefix cache compares: 64-bit values that are equal only if the content is equal. A token's key is
// its id. The key of an embedding-span row mixes the content hash, the row number and a seed unknown to clients. Its
// highest bit is set, so a row's key never equals a token's. If the request uses a LoRA adapter, the key of position 0
// also includes the adapter's hash. Requests with different adapters, or with and without one, therefore never share
// pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/kv_cache.h"
#include "engine/inputs.h"
#include "base/token_id.h"

namespace monolith {

using PositionKey = uint64_t;
using PageKeys = std::array<PositionKey, kPageTokens>;

inline PositionKey token_key(TokenId token) { return static_cast<uint32_t>(token); }

// Mixes a 64-bit value with two rounds of xor-shift and multiply, so that every input bit affects every output bit.
inline uint64_t mix_key(uint64_t state) {
  state = (state ^ state >> 32) * 0x9E3779B97F4A7C15u;
  state = (state ^ state >> 29) * 0xD6E8FEB86659FD93u;
  return state ^ state >> 32;
}

// Hashes three 64-bit words (two of the content hash, and `word`) with a seed. The highest bit of the result is set.
inline PositionKey mixed_key(const ContentHash& hash, uint64_t word, uint64_t seed) {
  return mix_key(mix_key(mix_key(seed ^ hash.high) ^ hash.low) ^ word) | uint64_t{1} << 63;
}

inline PositionKey row_key(const InputSpan& span, int row, uint64_t seed) {
  // With bidirectional attention, the keys and values of a row depend on the number of rows in the span.
  const uint64_t place =
      static_cast<uint32_t>(row) | (span.bidirectional ? uint64_t{static_cast<uint32_t>(span.n_rows)} << 32 : 0);
  return mixed_key(span.hash, place, seed);
}

// Keys of the page that starts at position `first`. All kPageTokens positions must exist.
inline PageKeys page_keys(std::span<const TokenId> tokens, std::span<const InputSpan> spans, int first, uint64_t seed,
                          const ContentHash& adapter = {}) {
  PageKeys keys;
  for (int i = 0; i < kPageTokens; ++i)
    keys[static_cast<size_t>(i)] = token_key(tokens[static_cast<size_t>(first + i)]);
  for (const InputSpan* span = span_from(spans, first); span && span != spans.data() + spans.size(); ++span) {
    if (span->first >= first + kPageTokens) break;
    for (int p = std::max(first, span->first); p < std::min(first + kPageTokens, span->end()); ++p)
      keys[static_cast<size_t>(p - first)] = row_key(*span, p - span->first, seed);
  }
  if (first == 0 && adapter != ContentHash{}) keys[0] = mixed_key(adapter, keys[0], ~seed);
  return keys;
}

}  // namespace monolith
