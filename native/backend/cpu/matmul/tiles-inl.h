// The tile kernels (tiles.h), templates over the tile unit: AmxUnit, or a model of it in tests. Include only in files
// that are compiled for AVX-512 with VNNI and BF16.
#pragma once

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

// A block of 32 k of a panel: its codes, and where its first step and floor are stored.
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

template <TensorType T>
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
        expand_groups<T, 0>(block.low, block.high, weights);
        weights += 32 * kPanelRows;
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

// Prefetches the next weights while the blocks of a panel are multiplied.
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

// Multiplies a tile of rows by `n_blocks` blocks of one panel. kHalves: each half of a block has its own step. kRows:
// n_rows, rounded up to a multiple of four.
template <class Unit, bool kHalves, bool kFloors, bool kSmall, int kRows>
class BlockLoop {
 public:
  static constexpr int kSteps = kHalves ? 2 : 1;
  static constexpr int kBlockBytes = 32 * kPanelRows;

  BlockLoop(const TileGroup& group, int64_t panel_index, int64_t block, const ExpandedPanel& panel)
      : x_(reinterpret_cast<const ActivationBlock*>(group.lines) + block * group.n_rows),
        stride_(group.n_rows),
        weights_(reinterpret_cast<const int8_t*>(panel.weights) + block * kBlockBytes),
        steps_(panel.steps + block * kSteps * kPanelRows),
        floors_(panel.floors + block * kSteps * kPanelRows),
        results_(reinterpret_cast<int32_t*>(group.results)),
        prefetch_(group, panel_index, block) {}

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
  // Tiles 0 to 3 are sums, two for each block in progress; 4 and 5 are rows; 6 and 7 are weights.
  template <int kSlot>
  [[gnu::always_inline]] void start(int64_t block) {
    const ActivationBlock* const x = x_ + block * stride_;
    const int8_t* const w = weights_ + block * kBlockBytes;
    UNROLL for (int half = 0; half < kSteps; ++half) {
      if (half == 0) {
        Unit::template load<4 + kSlot>(x->a, kLineBytes);
        Unit::template load_once<6 + kSlot>(w, kLineBytes);
        Unit::template zero<2 * kSlot>();
        Unit::template dot<2 * kSlot, 4 + kSlot, 6 + kSlot>();
      } else {
        Unit::template load<4 + kSlot>(x->a + 16, kLineBytes);
        Unit::template load_once<6 + kSlot>(w + 16 * kPanelRows, kLineBytes);
        Unit::template zero<2 * kSlot + 1>();
        Unit::template dot<2 * kSlot + 1, 4 + kSlot, 6 + kSlot>();
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

  // Returns float(n) * step for the integers at `at`, rounded once.
  [[gnu::always_inline]] static __m512 scaled(const int32_t* at, __m512 step, __m512 minus_magic) {
    const __m512i n = _mm512_load_si512(at);
    if constexpr (!kSmall) return _mm512_mul_ps(_mm512_cvtepi32_ps(n), step);
    const __m512 shifted = _mm512_castsi512_ps(_mm512_add_epi32(n, _mm512_set1_epi32(kMagicBits)));
    return _mm512_fmadd_ps(shifted, step, minus_magic);
  }

  template <int kSlot>
  [[gnu::always_inline]] void add(int64_t block, __m512 (&acc)[kRows]) {
    prefetch_.step();
    const ActivationBlock* const x = x_ + block * stride_;
    const float* const numbers = steps_ + block * kSteps * kPanelRows;
    const float* const floors = floors_ + block * kSteps * kPanelRows;
    const __m512 step = _mm512_load_ps(numbers), minus_magic = _mm512_mul_ps(step, _mm512_set1_ps(-kMagic));
    if constexpr (kHalves) {
      const __m512 second = _mm512_load_ps(numbers + kPanelRows);
      UNROLL for (int r = 0; r < kRows; ++r) {
        const __m512 first = scaled(result<kSlot>(0) + r * kPanelRows, step, minus_magic);
        const __m512 n = _mm512_cvtepi32_ps(_mm512_load_si512(result<kSlot>(1) + r * kPanelRows));
        acc[r] = _mm512_fmadd_ps(_mm512_fmadd_ps(n, second, first), _mm512_set1_ps(x[r].scale), acc[r]);
      }
    } else {
      UNROLL for (int r = 0; r < kRows; ++r) acc[r] = _mm512_fmadd_ps(
          scaled(result<kSlot>(0) + r * kPanelRows, step, minus_magic), _mm512_set1_ps(x[r].scale), acc[r]);
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
  const int64_t stride_;
  const int8_t* const weights_;
  const float* const steps_;
  const float* const floors_;
  int32_t* const results_;
  Prefetch prefetch_;
};

// Writes the sums to the outputs. Each row is written in one go, because rows are far apart in memory.
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

template <class Unit, bool kHalves, bool kFloors, bool kSmall, int kRows>
void multiply_rows(const TileGroup& group) {
  constexpr int64_t kSteps = kHalves ? 2 : 1;
  const int64_t blocks = group.cols / 32;
  Unit::configure(kRows, kHalves ? 16 : 32, kHalves ? 4 : 8);
  for (int64_t i = 0; i < int64_t{group.n_panels} * kTileRows * kPanelRows; i += kPanelRows)
    _mm512_store_ps(group.sums + i, _mm512_setzero_ps());
  for (int64_t first = 0; first < blocks; first += kPassBlocks) {
    const int64_t count = blocks - first < kPassBlocks ? blocks - first : kPassBlocks;
    for (int64_t panel = 0; panel < group.n_panels; ++panel) {
      const ExpandedPanel expanded{group.panels.weights + panel * group.cols * kPanelRows,
                                   group.panels.steps + panel * blocks * kSteps * kPanelRows,
                                   group.panels.floors + panel * blocks * kSteps * kPanelRows};
      BlockLoop<Unit, kHalves, kFloors, kSmall, kRows> loop(group, panel, first, expanded);
      loop.run(count, group.sums + panel * kTileRows * kPanelRows);
    }
  }
  Unit::release();
  write_out<kTileRows>(group);
}

template <class Unit, bool kHalves, bool kFloors>
void multiply(const TileGroup& group) {
  using Function = void (*)(const TileGroup&);
  constexpr Function by_rows[2][4] = {
      {multiply_rows<Unit, kHalves, kFloors, false, 4>, multiply_rows<Unit, kHalves, kFloors, false, 8>,
       multiply_rows<Unit, kHalves, kFloors, false, 12>, multiply_rows<Unit, kHalves, kFloors, false, 16>},
      {multiply_rows<Unit, kHalves, kFloors, true, 4>, multiply_rows<Unit, kHalves, kFloors, true, 8>,
       multiply_rows<Unit, kHalves, kFloors, true, 12>, multiply_rows<Unit, kHalves, kFloors, true, 16>}};
  by_rows[group.small_steps ? 1 : 0][(group.n_rows + 3) / 4 - 1](group);
}

// The table of kernels. The order is that of panel_type_index(); types with the same panel_form() share a kernel.
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
                   multiply<Unit, true, true>}};
}

// --- bfloat16 -----------------------------------------------------------------------------------------

// Rounds two vectors of floats to bfloat16 and interleaves them.
[[gnu::always_inline]] inline __m512i pairs_of_bf16(__m512 even, __m512 odd) {
  const __m512i all = (__m512i)_mm512_cvtne2ps_pbh(odd, even);  // NOLINT: GCC 12 has no other conversion.
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, all);
}

// Writes the weights of group g and of the following groups with the same step.
template <TensorType T, int g>
[[gnu::always_inline]] inline void expand_bf16_groups(const std::byte* low, const std::byte* high, __m512 step,
                                                      __m512 floor, __m512i* to) {
  constexpr PanelForm form = panel_form(T);
  constexpr int kGroups = form.step / 4;
  constexpr float kZero = 0x1p23f + bias_of(form);
  const __m512i codes = weights<T, g>(low, high);
  const auto value = [&](__m512i shifted) __attribute__((always_inline)) {
    // The float whose lowest bits are the byte n is 2^23 + n. The subtraction is exact.
    const __m512i bits =
        _mm512_ternarylogic_epi32(shifted, _mm512_set1_epi32(0xff), _mm512_set1_epi32(0x4b000000), 0xea);
    const __m512 q = _mm512_sub_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(kZero));
    return form.minima ? _mm512_fmsub_ps(q, step, floor) : _mm512_mul_ps(q, step);
  };
  to[2 * g] = pairs_of_bf16(value(codes), value(_mm512_srli_epi32(codes, 8)));
  to[2 * g + 1] = pairs_of_bf16(value(_mm512_srli_epi32(codes, 16)), value(_mm512_srli_epi32(codes, 24)));
  if constexpr ((g + 1) % kGroups != 0) expand_bf16_groups<T, g + 1>(low, high, step, floor, to);
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
          expand_bf16_groups<T, 4 * half>(block.low, block.high, steps<T, half>(block.d, block.number), floor, weights);
        };
        expand_half.template operator()<0>();
        if constexpr (form.step == 16) expand_half.template operator()<1>();
        weights += 16;
      });
  return true;
}

// BF16 weights are already in the order of a tile.
inline bool copy_bf16(const PanelTile& panel, const ExpandedPanel& to) {
  const int64_t bytes = (panel.layout->cols + 31) / 32 * 32 * kPanelRows * 2;
  for (int64_t i = 0; i < bytes; i += 64) _mm512_store_si512(to.weights + i, load_bytes(panel.panel + i));
  return true;
}

// Blocks of 32 k per pass over the panels. The lines of these blocks, of up to 32 rows, stay in the L1 cache.
inline constexpr int64_t kFastPassBlocks = 16;

// Multiplies up to 16 rows (kTall: up to 32) by two panels (kWide; otherwise one) over a range of blocks, and adds the
// products to the sums, or stores them if `first`.
template <class Unit, bool kTall, bool kWide>
void multiply_bf16_blocks(const TileGroup& group, int64_t panel, int64_t first, int64_t count) {
  constexpr int64_t kBlockBytes = 32 * kPanelRows * 2;
  constexpr int kMaxRows = 2 * kTileRows;
  const int64_t blocks = (group.cols + 31) / 32;
  const int64_t line_bytes = group.n_rows * static_cast<int64_t>(kLineBytes);
  const std::byte* x = group.lines + first * line_bytes;
  const std::byte* w = group.panels.weights + (panel * blocks + first) * kBlockBytes;
  const int64_t other = blocks * kBlockBytes;
  float* const sums = group.sums + panel * kMaxRows * kPanelRows;
  Prefetch prefetch(group, panel, (kWide ? 2 : 1) * first);
  constexpr int kBelow = kTileRows * kPanelRows, kBeside = kMaxRows * kPanelRows;  // Offsets of the other sums.
  if (first == 0) {
    Unit::template zero<0>();
    if constexpr (kWide) Unit::template zero<1>();
    if constexpr (kTall) Unit::template zero<2>();
    if constexpr (kTall && kWide) Unit::template zero<3>();
  } else {
    Unit::template load<0>(sums, kLineBytes);
    if constexpr (kWide) Unit::template load<1>(sums + kBeside, kLineBytes);
    if constexpr (kTall) Unit::template load<2>(sums + kBelow, kLineBytes);
    if constexpr (kTall && kWide) Unit::template load<3>(sums + kBeside + kBelow, kLineBytes);
  }
  for (int64_t block = 0; block < count; ++block, x += line_bytes, w += kBlockBytes) {
    prefetch.step();
    if constexpr (kWide) prefetch.step();

    Unit::template load<4>(x, kLineBytes);
    Unit::template load_once<6>(w, kLineBytes);
    Unit::template dot_bf16<0, 4, 6>();
    if constexpr (kWide) {
      Unit::template load_once<7>(w + other, kLineBytes);
      Unit::template dot_bf16<1, 4, 7>();
    }
    if constexpr (kTall) {
      Unit::template load<5>(x + kTileRows * kLineBytes, kLineBytes);
      Unit::template dot_bf16<2, 5, 6>();
      if constexpr (kWide) Unit::template dot_bf16<3, 5, 7>();
    }
  }
  Unit::template store<0>(sums, kLineBytes);
  if constexpr (kWide) Unit::template store<1>(sums + kBeside, kLineBytes);
  if constexpr (kTall) Unit::template store<2>(sums + kBelow, kLineBytes);
  if constexpr (kTall && kWide) Unit::template store<3>(sums + kBeside + kBelow, kLineBytes);
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
                     copy_bf16,
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
          .multiply = {multiply_bf16<Unit>, multiply_bf16<Unit>, multiply_bf16<Unit>, multiply_bf16<Unit>}};
}

}  // namespace
}  // namespace monolith
