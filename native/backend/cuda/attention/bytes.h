// Expansion of 8-bit KV pages for tensor cores (attention/walk.h), device code. A warp that does not share its tiles
// expands the codes in registers. If the warps of a block share tiles, the codes are expanded once, in shared memory.
// Both produce binary16 values, multiplied by their scale and rounded (exact for fp8), at the same positions of the
// matrix products, so the results have the same bits.
//
// Order of dimensions: within each group of 16 dimensions, the even bytes of the four words come first, followed by the
// odd bytes. Queries are stored in the same order (load_queries()). In the results, columns 2t and 2t + 1 of an even
// tile are dimensions 4t and 4t + 2; those of the odd tile after it are dimensions 4t + 1 and 4t + 3.
#pragma once

#include "backend/cuda/attention/kv_bytes.h"

namespace monolith::cuda {

// A tile of 8-bit keys or values in shared memory. `Shape` is a WalkShape.
template <typename Shape>
struct BytePiece {
  alignas(16) unsigned char codes[Shape::piece][Shape::byte_stride];
  alignas(16) uint16_t scales[Shape::piece / kPageTokens][Shape::blocks][kPageTokens];
};
// The values of a tile as binary16, the form that the matrix products read.
template <typename Shape>
struct HalfPiece {
  alignas(16) uint16_t at[Shape::piece][Shape::stride];
};

// Returns a word that holds the same binary16 value in both halves.
MONOLITH_DEVICE uint32_t both_halves(uint16_t half) { return choose_bytes(half, 0, 0x1010); }

// Expands the codes of a tile to binary16 values, using all warps of a block.
template <typename Shape>
MONOLITH_DEVICE void expand_piece(const BytePiece<Shape>& from, HalfPiece<Shape>& to, int thread) {
  constexpr int kWords = Shape::dim / 16, kAll = Shape::piece * kWords, kThreads = Shape::sharers * kWarp;
  MONOLITH_UNROLL
  for (int k = 0; k < (kAll + kThreads - 1) / kThreads; ++k) {
    const int i = thread + k * kThreads;
    if (kAll % kThreads != 0 && i >= kAll) break;
    const int row = i / kWords, word = i % kWords;
    const int block = Shape::blocks == 1 ? 0 : word / 2;
    const uint32_t scale = both_halves(from.scales[row / kPageTokens][block][row % kPageTokens]);
    const Words4 codes = *reinterpret_cast<const Words4*>(&from.codes[row][16 * word]);
    Words4 even, odd;
    expand_codes<Shape::type>(codes.x, even.x, odd.x);
    expand_codes<Shape::type>(codes.y, even.y, odd.y);
    expand_codes<Shape::type>(codes.z, even.z, odd.z);
    expand_codes<Shape::type>(codes.w, even.w, odd.w);
    auto* const at = reinterpret_cast<Words4*>(&to.at[row][16 * word]);
    at[0] = {multiply_halves(even.x, scale), multiply_halves(even.y, scale), multiply_halves(even.z, scale),
             multiply_halves(even.w, scale)};
    at[1] = {multiply_halves(odd.x, scale), multiply_halves(odd.y, scale), multiply_halves(odd.z, scale),
             multiply_halves(odd.w, scale)};
  }
}

// The variant of add_scores() (attention/walk.h) that reads the 8-bit codes of one page.
template <typename Shape>
MONOLITH_DEVICE void add_scores(const Words2 (*queries)[Shape::stride / 4], const BytePiece<Shape>* keys,
                                float (*s)[4]) {
  static_assert(Shape::piece == kPageTokens);
  const int lane = lane_id(), g = lane / 4;
  uint32_t scales[2] = {};  // Scales of positions g and g + 8.
  MONOLITH_UNROLL
  for (int d = 0; d < Shape::dim; d += 32) {
    const bool two = d + 16 < Shape::dim;  // Whether 16 more dimensions follow.
    uint32_t a[2][4] = {}, codes[4];
    load_matrices(a[0], &queries[lane % 16][(d + lane / 16 * 8) / 4]);
    if (two) load_matrices(a[1], &queries[lane % 16][(d + 16 + lane / 16 * 8) / 4]);
    load_matrices(codes, &keys->codes[lane / 16 * 8 + lane % 8][d + (two ? lane / 8 % 2 * 16 : 0)]);
    if (Shape::blocks > 1 || d == 0) {
      scales[0] = both_halves(keys->scales[0][Shape::blocks > 1 ? d / 32 : 0][g]);
      scales[1] = both_halves(keys->scales[0][Shape::blocks > 1 ? d / 32 : 0][g + 8]);
    }
    MONOLITH_UNROLL
    for (int half = 0; half < 2; ++half) MONOLITH_UNROLL
    for (int i = 0; i < 2; ++i) {
      if (i == 1 && !two) break;
      uint32_t b[2];
      expand_codes<Shape::type>(codes[2 * half + i], b[0], b[1]);
      b[0] = multiply_halves(b[0], scales[half]);
      b[1] = multiply_halves(b[1], scales[half]);
      mma_f16(s[half], a[i], b);
    }
  }
}

// The variant of add_values() (attention/walk.h) that reads the 8-bit codes of one page.
template <typename Shape>
MONOLITH_DEVICE void add_values(const uint32_t (*weights)[4], const BytePiece<Shape>* values, float (*o)[4]) {
  static_assert(Shape::piece == kPageTokens);
  const int lane = lane_id(), t = lane % 4;
  uint32_t scales[2] = {};  // Scales of positions 2t and 2t + 1, and of positions 2t + 8 and 2t + 9.
  MONOLITH_UNROLL
  for (int d = 0; d < Shape::dim; d += 32) {
    const bool two = d + 16 < Shape::dim;
    uint32_t codes[4];
    load_matrices_transposed(codes, &values->codes[lane % 16][d + (two ? lane / 16 * 16 : 0)]);
    if (Shape::blocks > 1 || d == 0) {
      const auto* const pairs = reinterpret_cast<const uint32_t*>(values->scales[0][Shape::blocks > 1 ? d / 32 : 0]);
      scales[0] = pairs[t];
      scales[1] = pairs[t + 4];
    }
    MONOLITH_UNROLL
    for (int i = 0; i < 2; ++i) {
      if (i == 1 && !two) break;
      uint32_t even[2], odd[2];
      MONOLITH_UNROLL
      for (int half = 0; half < 2; ++half) {
        expand_codes<Shape::type>(codes[2 * i + half], even[half], odd[half]);
        even[half] = multiply_halves(even[half], scales[half]);
        odd[half] = multiply_halves(odd[half], scales[half]);
      }
      mma_f16(o[d / 8 + 2 * i], weights[0], even);
      mma_f16(o[d / 8 + 2 * i + 1], weights[0], odd);
    }
  }
}

}  // namespace monolith::cuda
