// The tile kernels (tiles.h), templates over the tile unit: AmxUnit, or a model of it in tests. Include only in files
// that are compiled for AVX-512 with VNNI and BF16.
#pragma once

#include <limits>

#include "backend/cpu/matmul/quants_avx512-inl.h"
#include "backend/cpu/matmul/tiles.h"

namespace monolith {
namespace {

// --- expanding ----------------------------------------------------------------------------------------

template <TensorType T, int g>
[[gnu::always_inline]] inline void expand_groups(const std::byte* low, const std::byte* high, int8_t* to) {
  if constexpr (g < 8) {
    constexpr int bias = bias_of(panel_form(T));
    __m512i q = weights<T, g>(low, high);
    if constexpr (bias != 0) q = _mm512_sub_epi8(q, _mm512_set1_epi8(static_cast<char>(bias)));
    _mm512_store_si512(to + 64 * g, q);
    expand_groups<T, g + 1>(low, high, to);
  }
}

// A block of 32 k of a panel: pointers to its codes, and to the data of its first step and floor.
struct PanelBlock {
  const std::byte *low, *high, *d, *d_min, *number, *minimum;
};

// Calls use(block) for each block of the panel, in order.
template <TensorType T, typename Use>
[[gnu::always_inline]] inline void for_blocks(const PanelTile& panel, Use&& use) {
  constexpr PanelForm form = panel_form(T);
  constexpr PanelRecord record = panel_record(form);
  constexpr int blocks = form.record / 32, d_bytes = kPanelRows * d_size(form);
  constexpr int numbers = scales_of_block(form) * kPanelRows, minima = minima_at(form);
  const std::byte* at = panel.panel;
  const std::byte *d = panel.block_scales + panel.layout->d, *d_min = panel.block_scales + panel.layout->d_min;
  for (int64_t records = panel.layout->cols / form.record; records > 0; --records) {
    PanelBlock block{at, at + record.high, d, d_min, at + record.scales, at + minima};
    for (int i = 0; i < blocks; ++i) {
      use(block);
      block.low += 64 * form.low_bits;
      block.high += 64 * form.high_bits;
      block.number += numbers;
      block.minimum += numbers;
    }
    at += record.bytes;
    d += d_bytes;
    d_min += d_bytes;
  }
}

// Expands a panel to one byte per weight. With kStepsOnly, writes only the steps; the multiplication then reads the
// weights where they are (InPlaceKernels).
template <TensorType T, bool kStepsOnly = false>
bool expand(const PanelTile& panel, const ExpandedPanel& to) {
  constexpr PanelForm form = panel_form(T);
  int8_t* weights = reinterpret_cast<int8_t*>(to.weights);
  float *step = to.steps, *floor = to.floors;
  __m512i largest = _mm512_setzero_si512();
  const auto put_step = [&](__m512 value) __attribute__((always_inline)) {
    const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(0x7fffffff));
    largest = _mm512_max_epu32(largest, magnitude);
    _mm512_store_ps(step, value);
    step += kPanelRows;
  };
  for_blocks<T>(
      panel, [&](const PanelBlock& block) __attribute__((always_inline)) {
        if constexpr (!kStepsOnly) {
          expand_groups<T, 0>(block.low, block.high, weights);
          weights += 32 * kPanelRows;
        }
        put_step(steps<T>(block.d, block.number));
        if constexpr (form.step == 16) put_step(steps<T, 1>(block.d, block.number));
        if constexpr (form.minima) {
          UNROLL for (int half = 0; half < 32 / form.step; ++half, floor += kPanelRows)
              _mm512_store_ps(floor, floors<T>(block.d_min, block.minimum + half * kPanelRows));
        }
      });
  constexpr uint32_t kLimit = (127u + 100) << 23;  // 2^100. NaN and infinity are above.
  return _mm512_reduce_max_epu32(largest) < kLimit;
}

// --- multiplying --------------------------------------------------------------------------------------

// kMagicBits + n is the bit pattern of the float kMagic + n if |n| < 2^22; sums of 32 products of signed bytes are
// below 2^20. fma(kMagic + n, step, -kMagic * step) is then n * step, rounded once: kMagic * step is exact, because a
// step has at most 20 significant bits. The integer addition avoids a conversion instruction, which would compete for
// the only port that executes floating-point instructions.
inline constexpr float kMagic = 0x1.8p23f;
inline constexpr int32_t kMagicBits = 0x4b400000;

// Blocks of 32 k per pass over the panels. The lines of these blocks stay in the L1 cache.
inline constexpr int64_t kPassBlocks = 32;

// Prefetches the next group's weights while the blocks of a panel are multiplied.
class Prefetch {
 public:
  [[gnu::always_inline]] Prefetch(const TileGroup& group, int64_t panel, int64_t block) : lines_(group.next_lines) {
    const int64_t step = panel * ((group.cols + 31) / 32) + block;
    at_ = group.next_weights + step * lines_ * static_cast<int64_t>(kLineBytes);
  }
  [[gnu::always_inline]] void step() {
    for (int i = 0; i < lines_; ++i, at_ += kLineBytes) _mm_prefetch(reinterpret_cast<const char*>(at_), _MM_HINT_T1);
  }

 private:
  const int lines_;
  const std::byte* at_;
};

// Multiplies a tile of rows by `n_blocks` blocks of one panel. kHalves: each half of a block has its own step. kCodes:
// the weights are codes of Q8_0, which are 128 too large. kRows: n_rows, rounded up to a multiple of four.
template <class Unit, bool kHalves, bool kFloors, bool kCodes, bool kSmall, int kRows>
class BlockLoop {
  static_assert(!kCodes || (!kHalves && !kFloors));

 public:
  static constexpr int kSteps = kHalves ? 2 : 1;
  static constexpr int kBlockBytes = 32 * kPanelRows;

  BlockLoop(const TileGroup& group, int64_t panel, int64_t block)
      : x_(reinterpret_cast<const ActivationBlock*>(group.lines) + block * group.n_rows),
        stride_(group.n_rows),
        panel_(panel),
        results_(reinterpret_cast<int32_t*>(group.results)),
        prefetch_(group, panel, block) {
    const int64_t at = panel * (group.cols / 32) + block;  // Blocks of earlier panels, and of this one.
    weights_ = reinterpret_cast<const int8_t*>(group.weights) + at * kBlockBytes;
    steps_ = group.steps + at * kSteps * kPanelRows;
    floors_ = group.floors + at * kSteps * kPanelRows;
  }

  [[gnu::always_inline]] void run(int64_t n_blocks, float* sums) {
    __m512 acc[kRows];
    UNROLL for (int r = 0; r < kRows; ++r) acc[r] = _mm512_load_ps(sums + r * kPanelRows);
    // Two blocks are in progress at a time, so that the tile unit works while the other block is scaled.
    start<0>(0);
    if (n_blocks > 1) start<1>(1);
    int64_t block = 0;
    for (; block + 2 <= n_blocks; block += 2) {
      store<0>();
      if (block + 2 < n_blocks) start<0>(block + 2);
      add<0>(block, acc);
      store<1>();
      if (block + 3 < n_blocks) start<1>(block + 3);
      add<1>(block + 1, acc);
    }
    if (block < n_blocks) {
      store<0>();
      add<0>(block, acc);
    }
    UNROLL for (int r = 0; r < kRows; ++r) _mm512_store_ps(sums + r * kPanelRows, acc[r]);
  }

 private:
  // Tiles 0 to 3 are sums, two for each block in progress; 4 is the rows, and 6 the weights. Using different tiles for
  // the operands of the two blocks is slower if the core's other thread is busy (measured on Emerald Rapids).
  template <int kSlot>
  [[gnu::always_inline]] void start(int64_t block) {
    const ActivationBlock* const x = x_ + block * stride_;
    const int8_t* const w = weights_ + block * kBlockBytes;
    UNROLL for (int half = 0; half < kSteps; ++half) {
      if (half == 0) {
        Unit::template load<4>(x->a, kLineBytes);
        Unit::template load_once<6>(w, kLineBytes);
        Unit::template zero<2 * kSlot>();
        Unit::template dot<2 * kSlot, 4, 6, true, !kCodes>();
      } else {
        Unit::template load<4>(x->a + 16, kLineBytes);
        Unit::template load_once<6>(w + 16 * kPanelRows, kLineBytes);
        Unit::template zero<2 * kSlot + 1>();
        Unit::template dot<2 * kSlot + 1, 4, 6>();
      }
    }
  }
  template <int kSlot>
  [[gnu::always_inline]] int32_t* result(int half) const {
    return results_ + (2 * kSlot + half) * kTileRows * kPanelRows;
  }
  template <int kSlot>
  [[gnu::always_inline]] void store() const {
    Unit::template store<2 * kSlot>(result<kSlot>(0), kLineBytes);
    if constexpr (kHalves) Unit::template store<2 * kSlot + 1>(result<kSlot>(1), kLineBytes);
  }

  // Returns float(n) * step for the integers n of a row, rounded once.
  template <int kSlot>
  [[gnu::always_inline]] __m512 scaled(const ActivationBlock* x, int row, __m512 step, __m512 minus_magic) const {
    __m512i n = _mm512_load_si512(result<kSlot>(0) + row * kPanelRows);
    if constexpr (kCodes) n = _mm512_add_epi32(n, _mm512_set1_epi32(x[row].minus_128_sum));
    if constexpr (!kSmall) return _mm512_mul_ps(_mm512_cvtepi32_ps(n), step);
    const __m512 shifted = _mm512_castsi512_ps(_mm512_add_epi32(n, _mm512_set1_epi32(kMagicBits)));
    return _mm512_fmadd_ps(shifted, step, minus_magic);
  }

  template <int kSlot>
  [[gnu::always_inline]] void add(int64_t block, __m512 (&acc)[kRows]) {
    prefetch_.step();
    const ActivationBlock* const x = x_ + block * stride_;
    // During each panel, the lines of one row are prefetched for the next pass.
    _mm_prefetch(reinterpret_cast<const char*>(x + kPassBlocks * stride_ + panel_), _MM_HINT_T1);
    const float* const numbers = steps_ + block * kSteps * kPanelRows;
    const float* const floors = floors_ + block * kSteps * kPanelRows;
    const __m512 step = _mm512_load_ps(numbers), minus_magic = _mm512_mul_ps(step, _mm512_set1_ps(-kMagic));
    if constexpr (kHalves) {
      const __m512 second = _mm512_load_ps(numbers + kPanelRows);
      UNROLL for (int r = 0; r < kRows; ++r) {
        const __m512 first = scaled<kSlot>(x, r, step, minus_magic);
        const __m512 n = _mm512_cvtepi32_ps(_mm512_load_si512(result<kSlot>(1) + r * kPanelRows));
        acc[r] = _mm512_fmadd_ps(_mm512_fmadd_ps(n, second, first), _mm512_set1_ps(x[r].scale), acc[r]);
      }
    } else {
      UNROLL for (int r = 0; r < kRows; ++r) acc[r] =
          _mm512_fmadd_ps(scaled<kSlot>(x, r, step, minus_magic), _mm512_set1_ps(x[r].scale), acc[r]);
    }
    if constexpr (kFloors) {
      UNROLL for (int half = 0; half < kSteps; ++half) {
        const __m512 floor = _mm512_load_ps(floors + half * kPanelRows);
        UNROLL for (int r = 0; r < kRows; ++r) {
          const float sum = kHalves ? x[r].minus_scaled_half_sum[half] : x[r].minus_scaled_sum;
          acc[r] = _mm512_fmadd_ps(floor, _mm512_set1_ps(sum), acc[r]);
        }
      }
    }
  }

  const ActivationBlock* const x_;
  const int64_t stride_, panel_;
  int32_t* const results_;
  Prefetch prefetch_;
  const int8_t* weights_;
  const float* steps_;
  const float* floors_;
};

// Writes the sums to the outputs. All outputs of a row are written before those of the next row, because rows are far
// apart in memory.
template <int kMaxRows>
void write_out(const TileGroup& group) {
  for (int row = 0; row < group.n_rows; ++row) {
    float* out = group.out + row * group.out_stride;
    const float* sums = group.sums + row * kPanelRows;
    for (int first = 0; first < group.lanes; first += kPanelRows, sums += kMaxRows * kPanelRows) {
      const __mmask16 lanes = first_lanes(group.lanes - first);
      __m512 value = _mm512_load_ps(sums);
      if (group.factors != nullptr) value = _mm512_mul_ps(value, _mm512_maskz_loadu_ps(lanes, group.factors + first));
      if (group.bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, group.bias + first));
      if (group.add_to_out) value = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out + first), value);
      _mm512_mask_storeu_ps(out + first, lanes, value);
    }
  }
}

template <class Unit, bool kHalves, bool kFloors, bool kCodes, bool kSmall, int kRows>
void multiply_rows(const TileGroup& group) {
  const int64_t blocks = group.cols / 32;
  Unit::configure(kRows, kHalves ? 16 : 32, kHalves ? 4 : 8);
  for (int64_t i = 0; i < int64_t{group.n_panels} * kTileRows * kPanelRows; i += kPanelRows)
    _mm512_store_ps(group.sums + i, _mm512_setzero_ps());
  for (int64_t first = 0; first < blocks; first += kPassBlocks) {
    const int64_t count = blocks - first < kPassBlocks ? blocks - first : kPassBlocks;
    for (int64_t panel = 0; panel < group.n_panels; ++panel) {
      BlockLoop<Unit, kHalves, kFloors, kCodes, kSmall, kRows> loop(group, panel, first);
      loop.run(count, group.sums + panel * kTileRows * kPanelRows);
    }
  }
  Unit::release();
  write_out<kTileRows>(group);
}

template <class Unit, bool kHalves, bool kFloors, bool kCodes = false>
void multiply(const TileGroup& group) {
  using Function = void (*)(const TileGroup&);
  constexpr Function by_rows[2][4] = {
      {multiply_rows<Unit, kHalves, kFloors, kCodes, false, 4>, multiply_rows<Unit, kHalves, kFloors, kCodes, false, 8>,
       multiply_rows<Unit, kHalves, kFloors, kCodes, false, 12>,
       multiply_rows<Unit, kHalves, kFloors, kCodes, false, 16>},
      {multiply_rows<Unit, kHalves, kFloors, kCodes, true, 4>, multiply_rows<Unit, kHalves, kFloors, kCodes, true, 8>,
       multiply_rows<Unit, kHalves, kFloors, kCodes, true, 12>,
       multiply_rows<Unit, kHalves, kFloors, kCodes, true, 16>}};
  by_rows[group.small_steps ? 1 : 0][(group.n_rows + 3) / 4 - 1](group);
}

// The kernel table, in the order of panel_type_index(). Types with the same panel_form() share a kernel.
template <class Unit>
constexpr TileKernels tile_kernels() {
  using enum TensorType;
  return {
      .lines = ActivationKind::kInt8,
      .max_rows = kTileRows,
      .min_rows = Unit::min_rows,
      .expand = {nullptr,          nullptr,        nullptr,         expand<kQ8_0>,    expand<kQ4_0>,  expand<kQ4_1>,
                 expand<kQ5_0>,    expand<kQ5_1>,  expand<kIQ4_NL>, expand<kMXFP4>,   expand<kQ2_K>,  expand<kQ3_K>,
                 expand<kQ4_K>,    expand<kQ5_K>,  expand<kQ6_K>,   expand<kIQ4_XS>,  expand<kIQ1_S>, expand<kIQ1_M>,
                 expand<kIQ2_XXS>, expand<kIQ2_S>, expand<kIQ2_S>,  expand<kIQ3_XXS>, expand<kIQ3_S>, expand<kTQ2_0>,
                 expand<kTQ2_0>,   expand<kNVFP4>, nullptr},
      .multiply = {multiply<Unit, false, false>, multiply<Unit, false, true>, multiply<Unit, true, false>,
                   multiply<Unit, true, true>},
      .in_place = {kQ8_0, Unit::max_in_place_tiles, expand<kQ8_0, true>, multiply<Unit, false, false, true>}};
}

// --- bfloat16 -----------------------------------------------------------------------------------------

// Rounds two vectors of floats to bfloat16, to nearest, ties away from zero, and interleaves them. A NaN must have the
// bits that canonical_nan() gives it: rounding up other bits could overflow.
[[gnu::always_inline]] inline __m512i pairs_of_bf16(__m512 even, __m512 odd) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i upper_halves = _mm512_set_epi16(63, 31, 61, 29, 59, 27, 57, 25, 55, 23, 53, 21, 51, 19, 49, 17, 47, 15,
                                                45, 13, 43, 11, 41, 9, 39, 7, 37, 5, 35, 3, 33, 1);
  return _mm512_permutex2var_epi16(_mm512_add_epi32(_mm512_castps_si512(even), half), upper_halves,
                                   _mm512_add_epi32(_mm512_castps_si512(odd), half));
}
// Replaces each NaN with the default NaN that arithmetic instructions produce.
[[gnu::always_inline]] inline __m512 canonical_nan(__m512 x) {
  const __m512i nan_only = _mm512_set1_epi32(0x33);  // Quiet and signaling NaN: indefinite. Others: unchanged.
  return _mm512_fixupimm_ps(x, x, nan_only, 0);
}

// expand_bf16_groups() represents a code n by the float kCodeBase + n.
inline constexpr float kCodeBase = 256;

// Writes the weights of group g and of the following groups with the same step: (kCodeBase + code) * step + shift.
template <TensorType T, int g>
[[gnu::always_inline]] inline void expand_bf16_groups(const std::byte* low, const std::byte* high, __m512 step,
                                                      __m512 shift, __m512i* to) {
  constexpr int kGroups = panel_form(T).step / 4;
  const __m512i codes = weights<T, g>(low, high);
  // In `moved`, the code is in the upper 8 bits of the float's fraction. The exponent of kCodeBase is added here.
  const auto value = [&](__m512i moved) __attribute__((always_inline)) {
    const __m512i bits =
        _mm512_ternarylogic_epi32(moved, _mm512_set1_epi32(0xff << 15), _mm512_set1_epi32(0x43800000), 0xea);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(bits), step, shift);
  };
  to[2 * g] = pairs_of_bf16(value(_mm512_slli_epi32(codes, 15)), value(_mm512_slli_epi32(codes, 7)));
  to[2 * g + 1] = pairs_of_bf16(value(_mm512_srli_epi32(codes, 1)), value(_mm512_srli_epi32(codes, 9)));
  if constexpr ((g + 1) % kGroups != 0) expand_bf16_groups<T, g + 1>(low, high, step, shift, to);
}

template <TensorType T>
bool expand_bf16(const PanelTile& panel, const ExpandedPanel& to) {
  constexpr PanelForm form = panel_form(T);
  __m512i* weights = reinterpret_cast<__m512i*>(to.weights);
  for_blocks<T>(
      panel, [&](const PanelBlock& block) __attribute__((always_inline)) {
        const auto expand_half = [&]<int half>() __attribute__((always_inline)) {
          __m512 floor = _mm512_setzero_ps();
          if constexpr (form.minima) floor = floors<T>(block.d_min, block.minimum + half * kPanelRows);
          const __m512 step = canonical_nan(steps<T, half>(block.d, block.number));
          // The product of the step and the constant is exact, except if the step has too many significant bits. The
          // error is then negligible compared with the rounding to bfloat16.
          const __m512 shift = _mm512_fnmsub_ps(step, _mm512_set1_ps(kCodeBase + bias_of(form)), canonical_nan(floor));
          expand_bf16_groups<T, 4 * half>(block.low, block.high, step, shift, weights);
        };
        expand_half.template operator()<0>();
        if constexpr (form.step == 16) expand_half.template operator()<1>();
        weights += 16;
      });
  return true;
}

// BF16 weights are stored in the order of a tile and have no steps.
inline bool expand_nothing(const PanelTile&, const ExpandedPanel&) { return true; }

// Blocks of 32 k per pass over the panels. The lines of these blocks, of up to 32 rows, stay in the L1 cache.
inline constexpr int64_t kFastPassBlocks = 16;

// The tile registers that hold the operands and sums of a product of up to 16 rows (kTall: up to 32) and one panel
// (kWide: two panels). Tiles 0 to 3 are the sums, 4 and 5 the rows, and 6 and 7 the weights.
template <class Unit, bool kTall, bool kWide>
struct Bf16Tiles {
  static constexpr int kMaxRows = 2 * kTileRows;
  static constexpr int kBelow = kTileRows * kPanelRows, kBeside = kMaxRows * kPanelRows;  // Offsets of the other sums.

  [[gnu::always_inline]] static void zero_sums() {
    Unit::template zero<0>();
    if constexpr (kWide) Unit::template zero<1>();
    if constexpr (kTall) Unit::template zero<2>();
    if constexpr (kTall && kWide) Unit::template zero<3>();
  }
  [[gnu::always_inline]] static void load_sums(const float* sums) {
    Unit::template load<0>(sums, kLineBytes);
    if constexpr (kWide) Unit::template load<1>(sums + kBeside, kLineBytes);
    if constexpr (kTall) Unit::template load<2>(sums + kBelow, kLineBytes);
    if constexpr (kTall && kWide) Unit::template load<3>(sums + kBeside + kBelow, kLineBytes);
  }
  [[gnu::always_inline]] static void store_sums(float* sums) {
    Unit::template store<0>(sums, kLineBytes);
    if constexpr (kWide) Unit::template store<1>(sums + kBeside, kLineBytes);
    if constexpr (kTall) Unit::template store<2>(sums + kBelow, kLineBytes);
    if constexpr (kTall && kWide) Unit::template store<3>(sums + kBeside + kBelow, kLineBytes);
  }
  [[gnu::always_inline]] static void load(const std::byte* x, const std::byte* w, int64_t to_other_panel) {
    Unit::template load<4>(x, kLineBytes);
    Unit::template load_once<6>(w, kLineBytes);
    if constexpr (kWide) Unit::template load_once<7>(w + to_other_panel, kLineBytes);
    if constexpr (kTall) Unit::template load<5>(x + kTileRows * kLineBytes, kLineBytes);
  }
  [[gnu::always_inline]] static void multiply() {
    Unit::template dot_bf16<0, 4, 6>();
    if constexpr (kWide) Unit::template dot_bf16<1, 4, 7>();
    if constexpr (kTall) Unit::template dot_bf16<2, 5, 6>();
    if constexpr (kTall && kWide) Unit::template dot_bf16<3, 5, 7>();
  }
  // Multiplies, and loads the next operands. Each tile is loaded right after its last use.
  [[gnu::always_inline]] static void multiply_and_load(const std::byte* x, const std::byte* w, int64_t to_other_panel) {
    Unit::template dot_bf16<0, 4, 6>();
    if constexpr (kWide) Unit::template dot_bf16<1, 4, 7>();
    Unit::template load<4>(x, kLineBytes);
    if constexpr (kTall) Unit::template dot_bf16<2, 5, 6>();
    Unit::template load_once<6>(w, kLineBytes);
    if constexpr (kTall && kWide) Unit::template dot_bf16<3, 5, 7>();
    if constexpr (kWide) Unit::template load_once<7>(w + to_other_panel, kLineBytes);
    if constexpr (kTall) Unit::template load<5>(x + kTileRows * kLineBytes, kLineBytes);
  }
};

// Multiplies the rows by `panel` and, if kWide is set, by the panel after it, over a range of blocks. Adds the products
// to the sums or, if `first` is 0, stores them as the sums.
template <class Unit, bool kTall, bool kWide>
void multiply_bf16_blocks(const TileGroup& group, int64_t panel, int64_t first, int64_t count) {
  using Tiles = Bf16Tiles<Unit, kTall, kWide>;
  constexpr int64_t kBlockBytes = 32 * kPanelRows * 2;
  // Number of cache lines of rows that a pair of panels prefetches for each block of the next pass.
  constexpr int64_t kLinesAhead = 4;
  const int64_t blocks = (group.cols + 31) / 32;
  const int64_t line_bytes = group.n_rows * static_cast<int64_t>(kLineBytes);
  const std::byte* x = group.lines + first * line_bytes;
  const std::byte* w = group.weights + (panel * blocks + first) * kBlockBytes;
  const int64_t other = blocks * kBlockBytes;
  const int64_t first_ahead = panel / 2 * kLinesAhead;
  const int64_t lines_ahead = first_ahead < group.n_rows ? kLinesAhead : 0;
  const std::byte* ahead = x + kFastPassBlocks * line_bytes + first_ahead * static_cast<int64_t>(kLineBytes);
  float* const sums = group.sums + panel * Tiles::kMaxRows * kPanelRows;
  Prefetch prefetch(group, panel, (kWide ? 2 : 1) * first);
  const auto prefetch_all = [&]() __attribute__((always_inline)) {
    prefetch.step();
    if constexpr (kWide) prefetch.step();
    for (int64_t i = 0; i < lines_ahead; ++i)
      _mm_prefetch(reinterpret_cast<const char*>(ahead) + i * static_cast<int64_t>(kLineBytes), _MM_HINT_T1);
    ahead += line_bytes;
  };
  Tiles::load(x, w, other);
  if (first == 0)
    Tiles::zero_sums();
  else
    Tiles::load_sums(sums);
  for (int64_t block = 1; block < count; ++block) {
    x += line_bytes;
    w += kBlockBytes;
    prefetch_all();
    Tiles::multiply_and_load(x, w, other);
  }
  prefetch_all();
  Tiles::multiply();
  Tiles::store_sums(sums);
}

template <class Unit, bool kTall>
void multiply_bf16_rows(const TileGroup& group) {
  const int64_t blocks = (group.cols + 31) / 32;
  Unit::configure_pairs(kTall ? kTileRows : group.n_rows, kTall ? group.n_rows - kTileRows : 1);
  for (int64_t first = 0; first < blocks; first += kFastPassBlocks) {
    const int64_t count = blocks - first < kFastPassBlocks ? blocks - first : kFastPassBlocks;
    int64_t panel = 0;
    for (; panel + 2 <= group.n_panels; panel += 2) multiply_bf16_blocks<Unit, kTall, true>(group, panel, first, count);
    if (panel < group.n_panels) multiply_bf16_blocks<Unit, kTall, false>(group, panel, first, count);
  }
  Unit::release();
  write_out<2 * kTileRows>(group);
}

template <class Unit>
void multiply_bf16(const TileGroup& group) {
  if (group.n_rows > kTileRows)
    multiply_bf16_rows<Unit, true>(group);
  else
    multiply_bf16_rows<Unit, false>(group);
}

template <class Unit>
constexpr TileKernels fast_tile_kernels() {
  using enum TensorType;
  return {.lines = ActivationKind::kBf16,
          .max_rows = 2 * kTileRows,
          .min_rows = Unit::min_rows,
          .expand = {nullptr,
                     nullptr,
                     expand_nothing,
                     expand_bf16<kQ8_0>,
                     expand_bf16<kQ4_0>,
                     expand_bf16<kQ4_1>,
                     expand_bf16<kQ5_0>,
                     expand_bf16<kQ5_1>,
                     expand_bf16<kIQ4_NL>,
                     expand_bf16<kMXFP4>,
                     expand_bf16<kQ2_K>,
                     expand_bf16<kQ3_K>,
                     expand_bf16<kQ4_K>,
                     expand_bf16<kQ5_K>,
                     expand_bf16<kQ6_K>,
                     expand_bf16<kIQ4_XS>,
                     expand_bf16<kIQ1_S>,
                     expand_bf16<kIQ1_M>,
                     expand_bf16<kIQ2_XXS>,
                     expand_bf16<kIQ2_S>,
                     expand_bf16<kIQ2_S>,
                     expand_bf16<kIQ3_XXS>,
                     expand_bf16<kIQ3_S>,
                     expand_bf16<kTQ2_0>,
                     expand_bf16<kTQ2_0>,
                     expand_bf16<kNVFP4>,
                     nullptr},
          .multiply = {multiply_bf16<Unit>, multiply_bf16<Unit>, multiply_bf16<Unit>, multiply_bf16<Unit>},
          .in_place = {kBF16, std::numeric_limits<int>::max(), expand_nothing, multiply_bf16<Unit>}};
}

}  // namespace
}  // namespace monolith
