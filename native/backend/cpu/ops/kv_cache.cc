#include "backend/cpu/ops/ops.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/cpu/ops/kernels.h"
#include "base/checked.h"

namespace monolith {
namespace {

// Bytes of one head's page.
struct HeadPage {
  size_t keys, values;
};
HeadPage head_page(int dim, KvType type) {
  const auto head_dim = static_cast<size_t>(dim), padded_dim = static_cast<size_t>(round_up_to_lanes(dim));
  if (type == KvType::kQ8_0) {
    // Dimensions in whole quads, scales behind them; pages begin at a cache line.
    const size_t scales = static_cast<size_t>(q8_blocks(dim)) * sizeof(uint16_t);
    const auto lines = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
    return {lines((static_cast<size_t>(q8_quads(dim)) * 4 + scales) * kPageTokens),
            lines((padded_dim + scales) * kPageTokens)};
  }
  const size_t width = type == KvType::kF16 ? 2 : 4;
  return {head_dim * kPageTokens * width, padded_dim * kPageTokens * width};
}

// One slot of all pages.
struct Slot {
  int n_kv_heads = 0, head_dim = 0;   // of its layers, if these are alike
  bool alike = true;
  HeadPage page = {};                 // of all heads
  size_t keys_at = 0, values_at = 0;  // from the beginning of the keys, and of the values
};

struct Layout {
  std::vector<Slot> slots;
  size_t all_keys = 0, all_values = 0;
};

// Fails if the shape cannot be or does not fit in memory's numbers.
Result<Layout> layout_of(const KvShape& shape) {
  if (Status status = check_shape(shape); !status) return status.error();
  const Error refused{ErrorCode::kInvalidArgument,
                      "KV cache of " + std::to_string(shape.layers.size()) + " layers, " + std::to_string(shape.n_pages) +
                          " pages: its type is a GPU's, or it is too large to be addressed"};
  if (shape.type == KvType::kFp8) return refused;
  Layout layout;
  layout.slots.resize(static_cast<size_t>(shape.n_slots()));
  for (const LayerState& layer : shape.layers) {
    Slot& slot = layout.slots[static_cast<size_t>(layer.slot)];
    slot.alike = slot.alike && (slot.n_kv_heads == 0 || (slot.n_kv_heads == layer.n_kv_heads && slot.head_dim == layer.key_dim));
    slot.n_kv_heads = layer.n_kv_heads;
    slot.head_dim = layer.key_dim;
    const HeadPage page = head_page(layer.key_dim, shape.type);
    const auto keys = checked_mul(page.keys, static_cast<size_t>(layer.n_kv_heads));
    const auto values = checked_mul(page.values, static_cast<size_t>(layer.n_kv_heads));
    if (!keys || !values) return refused;
    slot.page = {std::max(slot.page.keys, *keys), std::max(slot.page.values, *values)};
  }
  for (Slot& slot : layout.slots) {
    slot.keys_at = layout.all_keys;
    slot.values_at = layout.all_values;
    const auto keys = checked_mul(slot.page.keys, static_cast<size_t>(shape.n_pages));
    const auto values = checked_mul(slot.page.values, static_cast<size_t>(shape.n_pages));
    const auto all_keys = keys ? checked_add(layout.all_keys, *keys) : std::nullopt;
    const auto all_values = values ? checked_add(layout.all_values, *values) : std::nullopt;
    if (!all_keys || !all_values) return refused;
    layout.all_keys = *all_keys;
    layout.all_values = *all_values;
  }
  if (!checked_add(layout.all_keys, layout.all_values)) return refused;
  return layout;
}

// Keys, or values, of a layer in its slot.
CpuKvCache::Pages pages_of(std::byte* data, size_t head_bytes, size_t slot_bytes, const Slot& slot, int64_t n_pages) {
  if (slot.alike) return {data, head_bytes, head_bytes, head_bytes * static_cast<size_t>(n_pages)};
  return {data, head_bytes, slot_bytes, head_bytes};
}

}   // namespace

size_t CpuKvCache::bytes_for(const KvShape& shape) {
  const Result<Layout> layout = layout_of(shape);
  return layout ? layout->all_keys + layout->all_values : SIZE_MAX;
}

Result<std::unique_ptr<CpuKvCache>> CpuKvCache::create(const KvShape& shape) {
  const Result<Layout> layout = layout_of(shape);
  if (!layout) return layout.error();
  Result<Mapping> memory = Mapping::create(layout->all_keys + layout->all_values);
  if (!memory) return memory.error();

  std::unique_ptr<CpuKvCache> cache(new CpuKvCache());
  cache->shape = shape;
  cache->bytes = layout->all_keys + layout->all_values;
  cache->memory_ = std::move(*memory);
  std::byte* const keys = cache->memory_.data();
  std::byte* const values = keys + layout->all_keys;
  for (const LayerState& layer : shape.layers) {
    const Slot& slot = layout->slots[static_cast<size_t>(layer.slot)];
    const HeadPage page = head_page(layer.key_dim, shape.type);
    cache->layers_.push_back({.n_kv_heads = layer.n_kv_heads,
                              .head_dim = layer.key_dim,
                              .value_stride = round_up_to_lanes(layer.key_dim),
                              .keys = pages_of(keys + slot.keys_at, page.keys, slot.page.keys, slot, shape.n_pages),
                              .values = pages_of(values + slot.values_at, page.values, slot.page.values, slot, shape.n_pages)});
  }
  for (const Slot& slot : layout->slots) {
    const int n_pieces = slot.alike ? slot.n_kv_heads : 1;
    for (int i = 0; i < n_pieces; ++i) {
      const auto piece = [&](std::byte* data, size_t bytes) -> Pages {
        const size_t own = bytes / static_cast<size_t>(n_pieces);
        return {data + static_cast<size_t>(i) * own * static_cast<size_t>(shape.n_pages), own, own, 0};
      };
      cache->pieces_.push_back(piece(keys + slot.keys_at, slot.page.keys));
      cache->pieces_.push_back(piece(values + slot.values_at, slot.page.values));
    }
  }
  // Touched here, so that a pool larger than the machine fails while loading and not in the middle
  // of a step.
  std::memset(cache->memory_.data(), 0, cache->bytes);
  return cache;
}

void CpuOps::copy_page(ThreadPool& pool, CpuKvCache& cache, int32_t from, int32_t to) const {
  const std::span<const CpuKvCache::Pages> pieces = cache.pieces();
  pool.parallel_for(static_cast<int64_t>(pieces.size()), 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const CpuKvCache::Pages& piece = pieces[static_cast<size_t>(i)];
      std::memcpy(piece.data + static_cast<size_t>(to) * piece.page_stride,
                  piece.data + static_cast<size_t>(from) * piece.page_stride, piece.bytes);
    }
  });
}

}   // namespace monolith
