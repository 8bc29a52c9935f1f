// Matmul of 16-bit integers on a tile unit, a template over the unit: AmxUnit, or a model of it in tests. Include only
// in files that are compiled for AVX-512.
//
// The unit multiplies bytes. Each integer is split into 256 * upper + lower, with a signed upper and an unsigned lower
// byte, and a product of two integers into four products of bytes. Their sums are combined modulo 2^32. The result is
// exact, because the whole sum fits into 32 bits, so it equals the sum of the AVX-512 kernels.
#pragma once

#include <cstddef>

#include "backend/cpu/avx512-inl.h"
#include "backend/cpu/fixed16/kernels.h"

namespace monolith {
namespace {

constexpr int kUnitRows = 16;   // Rows, or groups of 4 columns of 16 lanes, in a tile register.
constexpr int kUnitBytes = 64;  // Bytes per row of a tile register: the columns of one instruction.
constexpr int kUnitLanes = 16;
// Expanded weights: the upper bytes of lanes 0 to 15, their lower bytes, and the same for lanes 16 to 31. Each part has
// the shape [column / 4][lane][4].
constexpr int64_t kPartBytes = int64_t{kFixed16Block} * kUnitLanes;
static_assert(kPartBytes * 4 == kFixed16PanelBytes);

// Rounds the number of columns up to a multiple of the columns that one instruction multiplies.
constexpr int padded_columns(int count) { return (count + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }

void split(int16_t* row, int count) {
  alignas(64) uint8_t upper[kFixed16Block], lower[kFixed16Block];
  for (int at = 0; at < padded_columns(count); at += 32) {
    const int left = count - at;
    const __mmask32 some = left >= 32 ? 0xffffffffu : left <= 0 ? 0u : (1u << left) - 1;
    const __m512i x = _mm512_maskz_loadu_epi16(some, row + at);
    _mm256_store_si256(reinterpret_cast<__m256i*>(upper + at), _mm512_cvtepi16_epi8(_mm512_srai_epi16(x, 8)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(lower + at), _mm512_cvtepi16_epi8(x));
  }
  __builtin_memcpy(row, upper, static_cast<size_t>(padded_columns(count)));
  __builtin_memcpy(reinterpret_cast<std::byte*>(row) + kFixed16Block, lower,
                   static_cast<size_t>(padded_columns(count)));
}

void expand(const int16_t* weights, int pairs, std::byte* to) {
  // Shuffle indices that group the bytes of two adjacent integers: both lower bytes, then both upper bytes.
  const __m512i sorted = _mm512_set4_epi32(0x0f0d0e0c, 0x0b090a08, 0x07050604, 0x03010200);
  const __m512i low_half = _mm512_set1_epi32(0xffff);
  const auto lanes = [&](int pair, int half) __attribute__((always_inline)) {
    if (pair >= pairs) return _mm512_setzero_si512();
    return _mm512_shuffle_epi8(_mm512_loadu_si512(weights + (pair * 2 + half) * 2 * kUnitLanes), sorted);
  };
  const int groups = padded_columns(2 * pairs) / 4;
  for (int half = 0; half < 2; ++half) {
    std::byte* upper = to + 2 * half * kPartBytes;
    for (int group = 0; group < groups; ++group, upper += kUnitBytes) {
      const __m512i first = lanes(2 * group, half), second = lanes(2 * group + 1, half);
      // For each bit, selects the second operand where low_half is set, and the third elsewhere.
      const __m512i uppers = _mm512_ternarylogic_epi32(low_half, _mm512_srli_epi32(first, 16), second, 0xca);
      const __m512i lowers = _mm512_ternarylogic_epi32(low_half, first, _mm512_slli_epi32(second, 16), 0xca);
      _mm512_storeu_si512(upper, uppers);
      _mm512_storeu_si512(upper + kPartBytes, lowers);
    }
  }
}

// Multiplies n_rows rows, starting with row `first`, by 16 of the 32 lanes: the first 16 if `half` is 0, the last 16 if
// it is 1.
template <class Unit>
void multiply_tile(const Fixed16Tile& tile, int first, int n_rows, int half) {
  alignas(64) int32_t sums[4][kUnitRows * kUnitLanes];
  const auto* x = reinterpret_cast<const std::byte*>(tile.x + int64_t{first} * kFixed16Block);
  const std::byte* w = tile.expanded + 2 * half * kPartBytes;
  constexpr size_t kRowBytes = kFixed16Block * sizeof(int16_t);
  const auto load_x = [&]<int kTile>(int part) __attribute__((always_inline)) {
    Unit::template load<kTile>(x + part * kFixed16Block, kRowBytes);
  };
  const auto load_w = [&]<int kTile>(int part) __attribute__((always_inline)) {
    Unit::template load<kTile>(w + part * kPartBytes, kUnitBytes);
  };
  // Tiles 0 to 3 hold the sums, tiles 4 and 5 the upper and lower bytes of the rows, and tiles 6 and 7 the upper and
  // lower bytes of the weights. Each operand is loaded right after its last use.
  load_x.template operator()<4>(0);
  load_w.template operator()<6>(0);
  load_w.template operator()<7>(1);
  load_x.template operator()<5>(1);
  Unit::template zero<0>();
  Unit::template zero<1>();
  Unit::template zero<2>();
  Unit::template zero<3>();
  for (int steps = padded_columns(2 * tile.pairs) / kUnitBytes; steps > 0; --steps) {
    const bool last = steps == 1;
    x += kUnitBytes;
    w += kUnitBytes * (kUnitBytes / 4);
    Unit::template dot<0, 4, 6>();
    Unit::template dot<1, 4, 7, true, false>();
    if (!last) load_x.template operator()<4>(0);
    Unit::template dot<2, 5, 6, false, true>();
    if (!last) load_w.template operator()<6>(0);
    Unit::template dot<3, 5, 7, false, false>();
    if (!last) {
      load_w.template operator()<7>(1);
      load_x.template operator()<5>(1);
    }
  }
  Unit::template store<0>(sums[0], kUnitBytes);
  Unit::template store<1>(sums[1], kUnitBytes);
  Unit::template store<2>(sums[2], kUnitBytes);
  Unit::template store<3>(sums[3], kUnitBytes);

  const int first_lane = kUnitLanes * half;
  const __mmask16 mask = first_lanes(tile.n_lanes - first_lane);
  const __m512 steps = _mm512_loadu_ps(tile.weight_steps + first_lane);
  const __m512 bias =
      tile.first && tile.bias != nullptr ? _mm512_maskz_loadu_ps(mask, tile.bias + first_lane) : _mm512_setzero_ps();
  float* out = tile.out + first * tile.out_stride + first_lane;
  const bool adds = !tile.first || tile.add_to_out;
  for (int r = 0; r < n_rows; ++r, out += tile.out_stride) {
    const auto sum = [&](int i) __attribute__((always_inline)) { return _mm512_load_si512(sums[i] + r * kUnitLanes); };
    const __m512i mixed = _mm512_slli_epi32(_mm512_add_epi32(sum(1), sum(2)), 8);
    const __m512i all = _mm512_add_epi32(_mm512_add_epi32(_mm512_slli_epi32(sum(0), 16), mixed), sum(3));
    const __m512 before = adds ? _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), bias) : bias;
    const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(all), steps);
    _mm512_mask_storeu_ps(out, mask, _mm512_fmadd_ps(product, _mm512_set1_ps(tile.x_steps[first + r]), before));
  }
}

template <class Unit>
void multiply_tiles(const Fixed16Tile& tile) {
  const int halves = tile.n_lanes > kUnitLanes ? 2 : 1;
  for (int first = 0; first < tile.n_rows; first += kUnitRows) {
    const int n_rows = tile.n_rows - first < kUnitRows ? tile.n_rows - first : kUnitRows;
    if (first == 0 || n_rows < kUnitRows) Unit::configure(n_rows, kUnitBytes, kUnitBytes / 4);
    for (int half = 0; half < halves; ++half) multiply_tile<Unit>(tile, first, n_rows, half);
  }
  Unit::release();
}

template <class Unit>
constexpr Fixed16TileKernels fixed16_tile_kernels() {
  return {.split = split, .expand = expand, .multiply = multiply_tiles<Unit>};
}

}  // namespace
}  // namespace monolith
