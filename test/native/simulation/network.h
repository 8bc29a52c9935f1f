// The network of a simulated model. Its forward pass is a hash of everything to which a token attends. If a page
// belongs to another request, is stale or is lost, if a state is wrong, or if tokens are in the wrong order, the logits
// change, and nearly always the sampled token as well. Pure functions.
//
// The network has one layer of each kind: page tables for full attention, page tables for sliding-window attention, and
// recurrent state.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "model/kv_layout.h"
#include "simulation/random.h"

namespace monolith::simulation {

inline constexpr int kVocabulary = 32;
// Tokens 29 and 30 are punctuation.
inline constexpr int32_t kLetters = 26, kOpen = 26, kClose = 27, kSpace = 28, kEnd = 31;
inline constexpr int kMaxTables = 8;

inline uint64_t fold(uint64_t before, uint64_t value) {
  const uint64_t x = (before ^ value) * 0x9E3779B97F4A7C15u;
  return (x ^ x >> 29) + 0x632BE59BD9B4E019u;
}

struct Shape {
  KvLayout layout;
  bool has_state = false;
};

// Running hash of the earlier positions to which every later token attends.
struct Seen {
  std::array<uint64_t, kMaxTables> full{};  // One hash per full-attention page table.
  uint64_t state = 0;
};

inline uint64_t token_input(int32_t token) { return static_cast<uint64_t>(token) + 1; }
inline uint64_t embedded_input(float number) {
  return 0xE3B0000000000000u + static_cast<uint64_t>(static_cast<int64_t>(number));
}

// at(table, position) returns a reference (uint64_t&) to the value that page table `table` stores for the position.
template <typename At>
uint64_t within_window(const Shape& shape, int table, int position, int end, At&& at) {
  uint64_t sum = 0;
  for (int p = std::max(0, position - shape.layout.window + 1); p < end; ++p) sum = fold(sum, at(table, p));
  return sum;
}

// Reads the first `n` positions of a sequence, except for the recurrent state.
template <typename At>
Seen read_before(const Shape& shape, int n, At&& at) {
  Seen seen;
  for (int table = 0; table < shape.layout.full; ++table)
    for (int p = 0; p < n; ++p)
      seen.full[static_cast<size_t>(table)] = fold(seen.full[static_cast<size_t>(table)], at(table, p));
  return seen;
}

// Computes one position whose keys and values have already been written. Returns the hash that determines its logits.
template <typename At>
uint64_t pass_row(const Shape& shape, Seen& seen, uint64_t input, int position, At&& at) {
  const KvLayout& layout = shape.layout;
  uint64_t row = fold(input, static_cast<uint64_t>(position));
  if (shape.has_state) row = fold(row, seen.state = fold(seen.state, input));
  for (int table = 0; table < layout.full; ++table) row = fold(row, seen.full[static_cast<size_t>(table)]);
  for (int table = layout.full; table < layout.tables(); ++table)
    row = fold(row, within_window(shape, table, position, position, at));
  for (int table = 0; table < layout.tables(); ++table) {
    const uint64_t kept = fold(row, static_cast<uint64_t>(table));
    at(table, position) = kept;
    if (table < layout.full) seen.full[static_cast<size_t>(table)] = fold(seen.full[static_cast<size_t>(table)], kept);
  }
  return row;
}

// Computes the tokens in a span with bidirectional attention. No logits are computed for them.
template <typename At>
void pass_span(const Shape& shape, Seen& seen, std::span<const uint64_t> inputs, int first, At&& at) {
  const KvLayout& layout = shape.layout;
  uint64_t all = static_cast<uint64_t>(first);
  for (const uint64_t input : inputs) all = fold(all, input);
  for (int table = 0; table < layout.full; ++table) all = fold(all, seen.full[static_cast<size_t>(table)]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int position = first + static_cast<int>(i);
    if (shape.has_state) seen.state = fold(seen.state, inputs[i]);
    for (int table = 0; table < layout.tables(); ++table) {
      uint64_t kept = fold(fold(all, inputs[i]), static_cast<uint64_t>(table));
      if (table >= layout.full) kept = fold(kept, within_window(shape, table, position, first, at));
      at(table, position) = kept;
      if (table < layout.full)
        seen.full[static_cast<size_t>(table)] = fold(seen.full[static_cast<size_t>(table)], kept);
    }
  }
}

// Writes the logits after token `last`. A few tokens are much more likely than all others, so that texts repeat
// themselves and draft tokens are sometimes accepted. Occasionally, the end-of-generation token is likely.
inline void write_logits(uint64_t row, int32_t last, float* logits) {
  uint64_t bits = scramble(row);
  for (int token = 0; token < kVocabulary; ++token) {
    if (token % 4 == 0) bits = scramble(bits);
    logits[token] = static_cast<float>(bits >> (token % 4 * 16) & 0xFFFF) / 65536.0f;
  }
  const uint64_t choice = scramble(~row);
  logits[choice >> 50 & 1 ? static_cast<uint64_t>(last + 1) % 5 : choice % 5] += 6.0f;
  if (choice >> 32 & 1) logits[5 + (choice >> 8) % 27] += 2.0f;
  if ((choice >> 40) % 64 == 0) logits[kEnd] += 12.0f;
}

}  // namespace monolith::simulation
