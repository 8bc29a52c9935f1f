// Rotary position embedding (Su et al. 2021, RoFormer), and writing keys and values to their pages.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/latents.h"

namespace monolith {
namespace {

template <typename T>
void scatter_key(const T* from, int head_dim, T* page_slot) {
  for (int d = 0; d < head_dim; ++d) page_slot[static_cast<int64_t>(d) * kPageTokens] = from[d];
}

// Writes a key to a slot in a page of a packed type.
void store_packed_key(const OpKernels& kernels, KvType type, const float* key, int key_dim, int slot, std::byte* page) {
  constexpr int kLine = 4 * kPageTokens;
  const int n_pairs = packed_pairs(key_dim), zero = packed_zero(type);
  std::byte* const tops = page + int64_t{n_pairs} * kLine + slot * 4;
  auto* const scales = reinterpret_cast<uint16_t*>(page + packed_keys_bytes(key_dim, type));
  for (int block = 0; block < q8_blocks(key_dim); ++block) {
    const int first = block * kQ8Block;
    int8_t numbers[kQ8Block];
    kernels.quantize_packed(key + first, std::min(kQ8Block, key_dim - first), zero, numbers,
                            scales + block * kPageTokens + slot);
    uint8_t top[4] = {};
    for (int d = 0; d < kQ8Block; ++d) {
      numbers[d] = static_cast<int8_t>(numbers[d] + zero);
      top[d % 4] |= static_cast<uint8_t>(numbers[d] >> 4 << key_top_bit(d / 4));
    }
    for (int d = 0; d < kQ8Block && first + d < key_dim; d += 8) {
      uint8_t pair[4];
      for (int i = 0; i < 4; ++i) pair[i] = static_cast<uint8_t>((numbers[d + i] & 15) | numbers[d + 4 + i] << 4);
      std::memcpy(page + int64_t{first + d} / 8 * kLine + slot * 4, pair, 4);
    }
    if (type == KvType::kQ5_0) std::memcpy(tops + int64_t{block} * kLine, top, 4);
  }
}

// Writes the key and value of one row and head to a slot in its page.
void store_position(const OpKernels& kernels, const CpuKvCache::Layer& layer, KvType type, int kv_head, int32_t page,
                    int slot, const float* key, const float* value) {
  const int key_dim = layer.key_dim, value_dim = layer.value_dim;
  std::byte* keys = layer.keys.of_head(kv_head) + static_cast<size_t>(page) * layer.keys.page_stride;
  std::byte* values = layer.values.of_head(kv_head) + static_cast<size_t>(page) * layer.values.page_stride;
  const int64_t value_at = slot * layer.value_stride;
  if (layer.whole_numbers) {
    store_whole_numbers(kernels, key, key_dim, layer.key_stride, kPageTokens, slot, keys);
    store_whole_numbers(kernels, value, value_dim, layer.value_stride, kPageTokens, slot, values);
    return;
  }
  if (is_packed(type)) {
    float rotated[kMaxHeadDim];
    std::memcpy(rotated, key, key_dim * sizeof(float));
    kernels.rotate_hadamard(rotated, key_dim);
    store_packed_key(kernels, type, rotated, key_dim, slot, keys);
    std::memcpy(rotated, value, value_dim * sizeof(float));
    kernels.rotate_hadamard(rotated, value_dim);
    store_packed_row(kernels, type, rotated, value_dim, layer.value_stride, kPageTokens, slot, values);
    return;
  }
  if (type == KvType::kQ8_0) {
    const int n_quads = q8_quads(key_dim);
    auto* key_scales = reinterpret_cast<uint16_t*>(keys + n_quads * 4 * kPageTokens);
    auto* value_scales = reinterpret_cast<uint16_t*>(values + layer.value_stride * kPageTokens);
    int8_t numbers[kQ8Block];
    for (int block = 0; block < q8_blocks(key_dim); ++block) {
      const int first = block * kQ8Block, n = std::min(kQ8Block, key_dim - first);
      kernels.quantize_q8(key + first, n, numbers, key_scales + block * kPageTokens + slot);
      for (int d = 0; d < n; d += 4) {
        uint32_t quad;
        std::memcpy(&quad, numbers + d, 4);
        quad ^= 0x80808080u;  // Adds 128 to each byte.
        std::memcpy(keys + (int64_t{first + d} * kPageTokens + slot * 4), &quad, 4);
      }
    }
    for (int block = 0; block < q8_blocks(value_dim); ++block) {
      const int first = block * kQ8Block, n = std::min(kQ8Block, value_dim - first);
      kernels.quantize_q8(value + first, n, numbers, value_scales + block * kPageTokens + slot);
      std::memcpy(values + value_at + first, numbers, static_cast<size_t>(n));
    }
    return;
  }
  if (type == KvType::kF32) {
    scatter_key(key, key_dim, reinterpret_cast<float*>(keys) + slot);
    std::memcpy(reinterpret_cast<float*>(values) + value_at, value, value_dim * sizeof(float));
    return;
  }
  auto* half_keys = reinterpret_cast<uint16_t*>(keys) + slot;
  for (int d = 0; d < key_dim; d += 64) {
    uint16_t halves[64];
    const int n = std::min(64, key_dim - d);
    kernels.to_half(key + d, halves, n);
    scatter_key(halves, n, half_keys + static_cast<int64_t>(d) * kPageTokens);
  }
  kernels.to_half(value, reinterpret_cast<uint16_t*>(values) + value_at, value_dim);
}

}  // namespace

bool RopeTable::is_for(const RopeParams& rope) const {
  const int half = rope.n_dims / 2;
  return n_dims == rope.n_dims && style == rope.style && magnitude == rope.magnitude &&
         has_axes == (rope.axes != nullptr) && (!has_axes || std::equal(rope.axes, rope.axes + half, axes.begin())) &&
         std::equal(frequency.begin(), frequency.begin() + half, rope.inverse_frequency);
}

// All layers of a step rotate by the same angles, so only the first layer that uses these parameters computes the
// factors.
const RopeTable& OpsScratch::prepare_rope(const RopeParams& rope, std::span<const Segment> segments, ThreadPool& pool) {
  auto* const known = std::ranges::find_if(rope_, [&](const RopeTable& table) { return table.is_for(rope); });
  RopeTable& table = known == std::end(rope_) ? rope_[next_rope_] : *known;
  if (known == std::end(rope_)) {
    next_rope_ = (next_rope_ + 1) % kRopeTables;
    table.n_dims = rope.n_dims;
    table.style = rope.style;
    table.magnitude = rope.magnitude;
    std::copy_n(rope.inverse_frequency, rope.n_dims / 2, table.frequency.begin());
    table.has_axes = rope.axes != nullptr;
    if (table.has_axes) std::copy_n(rope.axes, rope.n_dims / 2, table.axes.begin());
    std::ranges::fill(table.positions, RopeTable::kNotComputed);
  }
  for (const Segment& segment : segments) {
    RopePosition* positions = table.positions.data() + segment.first_row;
    pool.parallel_for(segment.n_tokens, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const RopePosition position = segment.rope_position(static_cast<int>(i));
        if (positions[i] == position) continue;
        float* factors = table.row(segment.first_row + i);
        rope_factors(rope, position, factors, factors + rope.n_dims);
        positions[i] = position;
      }
    });
  }
  return table;
}

void CpuBackend::rotate(const RopeParams& rope, std::span<const Segment> segments, float* x, int64_t row_stride,
                        int n_heads, int head_dim) {
  assert(rope.n_dims % 2 == 0 && rope.n_dims <= head_dim && head_dim <= ops_scratch_.max_head_dim_);
  if (rope.n_dims == 0) return;
  const RopeTable& table = ops_scratch_.prepare_rope(rope, segments, pool_);
  for (const Segment& segment : segments) {
    pool_.parallel_for(segment.n_tokens, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = segment.first_row + begin; row < segment.first_row + end; ++row) {
        const float* const own = table.row(row);
        for (int head = 0; head < n_heads; ++head)
          ops_.rotate(x + row * row_stride + int64_t{head} * head_dim, own, own + rope.n_dims, rope.n_dims, rope.style);
      }
    });
  }
}

void CpuBackend::rope_and_store(const RopeCall& call) {
  const auto& cache = static_cast<const CpuKvCache&>(call.cache);
  const RopeParams& rope = call.rope;
  const CpuKvCache::Layer& own = cache.layer(call.layer);
  const int key_dim = own.key_dim, n_kv_heads = own.n_kv_heads;
  assert(!own.latents && rope.n_dims % 2 == 0 && rope.n_dims <= key_dim && key_dim <= ops_scratch_.max_head_dim_);
  const RopeTable* const table = rope.n_dims > 0 ? &ops_scratch_.prepare_rope(rope, call.segments, pool_) : nullptr;
  for (const Segment& segment : call.segments) {
    assert(segment.first_row + segment.n_tokens <= ops_scratch_.max_rows_);
    pool_.parallel_for(segment.n_tokens, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = segment.first_row + i;
        const int64_t position = segment.first_position + i;
        const auto rotate = [&](float* x) {
          if (table == nullptr) return;
          const float* own = table->row(row);
          ops_.rotate(x, own, own + rope.n_dims, rope.n_dims, rope.style);
        };
        for (int head = 0; head < call.n_heads; ++head) rotate(call.q + row * call.q_stride + int64_t{head} * key_dim);
        if (call.k == nullptr) continue;
        const int32_t page = segment.pages[position / kPageTokens];
        for (int head = 0; head < n_kv_heads; ++head) {
          float* key = call.k + row * call.k_stride + int64_t{head} * key_dim;
          rotate(key);
          store_position(ops_, own, cache.shape.type, head, page, static_cast<int>(position % kPageTokens), key,
                         call.v + row * call.v_stride + int64_t{head} * own.value_dim);
        }
      }
    });
  }
}

void CpuBackend::rope_and_store_latents(const LatentsCall& call) {
  const auto& cache = static_cast<const CpuKvCache&>(call.cache);
  const RopeParams& rope = call.rope;
  const LatentQueries& queries = call.queries;
  const CpuKvCache::Layer& own = cache.layer(call.layer);
  const int shared = own.key_dim - own.value_dim;  // Dimensions after the value.
  assert(own.latents && rope.n_dims % 2 == 0 && rope.n_dims <= shared && own.key_dim <= ops_scratch_.max_head_dim_);
  const RopeTable* const table = rope.n_dims > 0 ? &ops_scratch_.prepare_rope(rope, call.segments, pool_) : nullptr;
  for (const Segment& segment : call.segments) {
    assert(segment.first_row + segment.n_tokens <= ops_scratch_.max_rows_);
    pool_.parallel_for(segment.n_tokens, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = segment.first_row + i, position = segment.first_position + i;
        const auto rotate = [&](float* x) {
          if (table == nullptr) return;
          const float* factors = table->row(row);
          ops_.rotate(x, factors, factors + rope.n_dims, rope.n_dims, rope.style);
        };
        for (int64_t head = 0; head < queries.n_heads; ++head) {
          float* const to = queries.to + row * queries.to_stride + head * own.key_dim + own.value_dim;
          std::copy_n(queries.from + row * queries.from_stride + (head + 1) * queries.from_dim - shared, shared, to);
          rotate(to);
        }
        float* const latents = call.rows + row * call.row_stride;
        rotate(latents + own.value_dim);
        store_latents(ops_, own, cache.shape.type, segment.pages[position / kPageTokens],
                      static_cast<int>(position % kPageTokens), latents);
      }
    });
  }
}

}  // namespace monolith
