#include "backend/cpu/ops/ops.h"

#include <cstring>
#include <string>

#include "backend/cpu/ops/kernels.h"
#include "base/checked.h"

namespace monolith {
namespace {

struct Layout {
  size_t key_page, value_page;   // bytes of one head's page
  size_t all_keys, all_values;   // bytes of all layers
};

// Nothing if the shape is not positive or does not fit in memory's numbers.
std::optional<Layout> layout_of(const KvShape& shape) {
  if (shape.n_layers <= 0 || shape.n_kv_heads <= 0 || shape.head_dim <= 0 || shape.n_pages <= 0 ||
      shape.type == KvType::kFp8)   // a GPU's
    return std::nullopt;
  const auto head_dim = static_cast<size_t>(shape.head_dim);
  const auto padded_dim = static_cast<size_t>(round_up_to_lanes(shape.head_dim));
  Layout layout;
  if (shape.type == KvType::kQ8_0) {
    // Dimensions in whole quads, scales behind them; pages begin at a cache line.
    const size_t scales = static_cast<size_t>(q8_blocks(shape.head_dim)) * sizeof(uint16_t);
    const auto lines = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
    layout.key_page = lines((static_cast<size_t>(q8_quads(shape.head_dim)) * 4 + scales) * kPageTokens);
    layout.value_page = lines((padded_dim + scales) * kPageTokens);
  } else {
    const size_t width = shape.type == KvType::kF16 ? 2 : 4;
    layout.key_page = head_dim * kPageTokens * width;
    layout.value_page = padded_dim * kPageTokens * width;
  }
  const std::optional<size_t> heads =
      checked_mul(static_cast<size_t>(shape.n_layers), static_cast<size_t>(shape.n_kv_heads));
  if (!heads) return std::nullopt;
  const std::optional<size_t> pages = checked_mul(*heads, static_cast<size_t>(shape.n_pages));
  if (!pages) return std::nullopt;
  const std::optional<size_t> keys = checked_mul(*pages, layout.key_page);
  const std::optional<size_t> values = checked_mul(*pages, layout.value_page);
  if (!keys || !values || !checked_add(*keys, *values)) return std::nullopt;
  layout.all_keys = *keys;
  layout.all_values = *values;
  return layout;
}

}   // namespace

size_t CpuKvCache::bytes_for(const KvShape& shape) {
  const std::optional<Layout> layout = layout_of(shape);
  return layout ? layout->all_keys + layout->all_values : SIZE_MAX;
}

Result<std::unique_ptr<CpuKvCache>> CpuKvCache::create(const KvShape& shape) {
  const std::optional<Layout> layout = layout_of(shape);
  if (!layout)
    return Error{ErrorCode::kInvalidArgument,
                 "KV cache of " + std::to_string(shape.n_layers) + " layers, " +
                     std::to_string(shape.n_kv_heads) + " KV heads, head size " +
                     std::to_string(shape.head_dim) + ", " + std::to_string(shape.n_pages) +
                     " pages: every number must be positive and the product addressable"};
  Result<Mapping> memory = Mapping::create(layout->all_keys + layout->all_values);
  if (!memory) return memory.error();

  std::unique_ptr<CpuKvCache> cache(new CpuKvCache());
  cache->shape = shape;
  cache->bytes = layout->all_keys + layout->all_values;
  cache->memory_ = std::move(*memory);
  cache->values_ = cache->memory_.data() + layout->all_keys;
  cache->value_stride_ = round_up_to_lanes(shape.head_dim);
  cache->key_page_bytes_ = layout->key_page;
  cache->value_page_bytes_ = layout->value_page;
  // Touched here, so that a pool larger than the machine fails while loading and not in the middle
  // of a step.
  std::memset(cache->memory_.data(), 0, cache->bytes);
  return cache;
}

std::byte* CpuKvCache::keys(int layer, int kv_head) const {
  const size_t head = static_cast<size_t>(layer) * shape.n_kv_heads + kv_head;
  return memory_.data() + head * shape.n_pages * key_page_bytes_;
}

std::byte* CpuKvCache::values(int layer, int kv_head) const {
  const size_t head = static_cast<size_t>(layer) * shape.n_kv_heads + kv_head;
  return values_ + head * shape.n_pages * value_page_bytes_;
}

void CpuOps::copy_page(ThreadPool& pool, CpuKvCache& cache, int32_t from, int32_t to) const {
  const KvShape& shape = cache.shape;
  const size_t key_bytes = cache.key_page_bytes(), value_bytes = cache.value_page_bytes();
  const int64_t n_heads = static_cast<int64_t>(shape.n_layers) * shape.n_kv_heads;
  pool.parallel_for(n_heads, 32, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int layer = static_cast<int>(i / shape.n_kv_heads),
                head = static_cast<int>(i % shape.n_kv_heads);
      std::byte* keys = cache.keys(layer, head);
      std::byte* values = cache.values(layer, head);
      std::memcpy(keys + to * key_bytes, keys + from * key_bytes, key_bytes);
      std::memcpy(values + to * value_bytes, values + from * value_bytes, value_bytes);
    }
  });
}

}   // namespace monolith
