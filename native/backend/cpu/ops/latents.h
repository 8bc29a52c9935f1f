// Functions for latent rows in pages (StateKind::kLatents): storing rows, copying rows, and computing the RoPE factors
// of a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/ops.h"

namespace monolith {

// Number of latent rows that one thread copies in about the time it takes to start a parallel section.
inline constexpr int64_t kGatheredAlone = 64;

// Returns the index, in the sequence's page table, of the page that stores a block's row: the page of the block's last
// position.
inline int64_t page_of_block(int64_t index, int block) { return ((index + 1) * block - 1) / kPageTokens; }

// Computes angles in double precision: at position 100000, the error of a float product is up to 0.004 radians.
inline void rope_factors(const RopeParams& rope, const RopePosition& position, float* own, float* partner) {
  const int half = rope.n_dims / 2;
  const int32_t by_axis[] = {position.time, position.height, position.width};
  for (int i = 0; i < half; ++i) {
    const double angle = static_cast<double>(by_axis[rope.axes == nullptr ? 0 : rope.axes[i]]) *
                         static_cast<double>(rope.inverse_frequency[i]);
    const auto cosine = static_cast<float>(std::cos(angle) * rope.magnitude);
    const auto sine = static_cast<float>(std::sin(angle) * rope.magnitude);
    const int first = rope.style == RopeStyle::kAdjacentPairs ? 2 * i : i;
    const int second = rope.style == RopeStyle::kAdjacentPairs ? 2 * i + 1 : i + half;
    own[first] = own[second] = cosine;
    partner[first] = -sine;
    partner[second] = sine;
  }
}

// Writes a row, as integers with zero padding, and its steps to a slot in a page.
inline void store_whole_numbers(const OpKernels& kernels, const float* row, int64_t dim, int64_t stride, int page_rows,
                                int slot, std::byte* page) {
  auto* const numbers = reinterpret_cast<int16_t*>(page);
  auto* const steps = reinterpret_cast<float*>(numbers + stride * page_rows);
  for (int block = 0; block < latent_blocks(dim); ++block) {
    const int64_t first = int64_t{block} * kLatentBlock, count = std::min<int64_t>(kLatentBlock, dim - first);
    steps[block * page_rows + slot] =
        kernels.pack_latents(row + first, static_cast<int>(count), kMaxLatent, numbers + slot * stride + first);
  }
}

// Writes a row of values or a latent row to a slot in a page of a packed type, with zero padding.
inline void store_packed_row(const OpKernels& kernels, KvType type, const float* row, int64_t dim, int64_t stride,
                             int page_rows, int slot, std::byte* page) {
  auto* const bytes = reinterpret_cast<uint8_t*>(page);
  auto* const scales = reinterpret_cast<uint16_t*>(page + packed_rows_bytes(stride, page_rows, type));
  for (int64_t first = 0; first < dim; first += kQ8Block) {
    int8_t numbers[kQ8Block];
    kernels.quantize_packed(row + first, static_cast<int>(std::min<int64_t>(kQ8Block, dim - first)), packed_zero(type),
                            numbers, scales + first / kQ8Block * page_rows + slot);
    const int64_t at = slot * stride + first;
    const int offset = type == KvType::kQ4_0 ? packed_zero(type) : 0;
    for (int i = 0; i < kLanes; ++i)
      bytes[at / 2 + i] = static_cast<uint8_t>(((numbers[i] + offset) & 15) | (numbers[kLanes + i] + offset) << 4);
    if (type == KvType::kQ4_0) continue;
    uint32_t signs = 0;
    for (int i = 0; i < kQ8Block; ++i) signs |= static_cast<uint32_t>(numbers[i] < 0) << i;
    std::memcpy(bytes + (stride * page_rows / 2 + at / 8), &signs, 4);
  }
}

// Writes a latent row to a slot in a page, with zero padding.
inline void store_latents(const OpKernels& kernels, const CpuKvCache::Layer& layer, KvType type, int32_t page, int slot,
                          const float* row) {
  std::byte* const rows = layer.values.of_head(0) + static_cast<size_t>(page) * layer.values.page_stride;
  const int64_t dim = layer.key_dim, stride = layer.value_stride, at = slot * stride;
  if (type == KvType::kQ8_0) {
    auto* scales = reinterpret_cast<uint16_t*>(rows + stride * layer.page_rows);
    for (int block = 0; block < q8_blocks(layer.key_dim); ++block) {
      const int64_t first = int64_t{block} * kQ8Block;
      int8_t numbers[kQ8Block];  // Zero beyond the end of the row.
      kernels.quantize_q8(row + first, static_cast<int>(std::min<int64_t>(kQ8Block, dim - first)), numbers,
                          scales + block * layer.page_rows + slot);
      std::memcpy(rows + at + first, numbers, static_cast<size_t>(std::min<int64_t>(kQ8Block, stride - first)));
    }
  } else if (is_packed(type)) {
    store_packed_row(kernels, type, row, dim, stride, layer.page_rows, slot, rows);
  } else if (type == KvType::kF32) {
    auto* to = reinterpret_cast<float*>(rows) + at;
    std::copy_n(row, dim, to);
    std::fill(to + dim, to + stride, 0.0f);
  } else {
    store_whole_numbers(kernels, row, dim, stride, layer.page_rows, slot, rows);
  }
}

// Copies a latent row from a page of `from` to row `at` of the pages of `to`.
inline void copy_latents(const CpuKvCache::Layer& from, KvType type, int32_t page, int slot,
                         const CpuKvCache::Layer& to, int64_t at) {
  const std::byte* const source = from.values.data + static_cast<size_t>(page) * from.values.page_stride;
  std::byte* const target = to.values.data + static_cast<size_t>(at / to.page_rows) * to.values.page_stride;
  const int64_t into = at % to.page_rows, stride = from.value_stride;
  // Bytes per row, not counting the steps or scales, which follow the rows. Packed types have two parts: the lower
  // bits, and the sign bits.
  const int64_t first_bytes = type == KvType::kF32   ? stride * 4
                              : type == KvType::kF16 ? stride * 2
                              : is_packed(type)      ? stride / 2
                                                     : stride;
  const int64_t sign_bytes = type == KvType::kQ5_0 ? stride / 8 : 0, row_bytes = first_bytes + sign_bytes;
  const auto copy_part = [&](int64_t before, int64_t bytes) {
    std::memcpy(target + before * to.page_rows + into * bytes, source + before * from.page_rows + slot * bytes,
                static_cast<size_t>(bytes));
  };
  copy_part(0, first_bytes);
  if (sign_bytes > 0) copy_part(first_bytes, sign_bytes);
  const auto copy_each = [&]<typename T>(T, int n_blocks) {
    const auto* own = reinterpret_cast<const T*>(source + row_bytes * from.page_rows);
    auto* own_to = reinterpret_cast<T*>(target + row_bytes * to.page_rows);
    for (int block = 0; block < n_blocks; ++block)
      own_to[block * to.page_rows + into] = own[block * from.page_rows + slot];
  };
  if (type == KvType::kF16) copy_each(float{}, latent_blocks(from.key_dim));
  if (type == KvType::kQ8_0 || is_packed(type)) copy_each(uint16_t{}, q8_blocks(from.key_dim));
}

}  // namespace monolith
