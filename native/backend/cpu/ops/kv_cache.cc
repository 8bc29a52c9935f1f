
#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <string>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "base/checked.h"

namespace monolith {
namespace {

bool keeps_whole_numbers(const LayerState& layer, KvType type) {
  return type == KvType::kF16 && (layer.kind == StateKind::kLatents || wide_heads(layer.key_dim, layer.value_dim));
}

// Number of bytes that the keys and the values of one head occupy in a page.
struct HeadPage {
  size_t keys = 0, values = 0;
  bool operator==(const HeadPage&) const = default;
};
HeadPage head_page(const LayerState& layer, KvType type) {
  if (layer.kind == StateKind::kLatents)
    return {0, static_cast<size_t>(latents_page_bytes(layer.key_dim, type, layer.page_rows))};
  const auto key_dim = static_cast<size_t>(layer.key_dim),
             padded_dim = static_cast<size_t>(round_up_to_lanes(layer.value_dim));
  const auto lines = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  HeadPage page;
  if (keeps_whole_numbers(layer, type)) {
    page = {static_cast<size_t>(latents_page_bytes(layer.key_dim, type)),
            static_cast<size_t>(latents_page_bytes(layer.value_dim, type))};
  } else if (type == KvType::kQ8_0) {
    // Dimensions are stored in whole groups of four, followed by the scales. Pages start on a cache line boundary.
    const auto scales = [](int dim) { return static_cast<size_t>(q8_blocks(dim)) * sizeof(uint16_t); };
    page = {lines((static_cast<size_t>(q8_quads(layer.key_dim)) * 4 + scales(layer.key_dim)) * kPageTokens),
            lines((padded_dim + scales(layer.value_dim)) * kPageTokens)};
  } else if (is_packed(type)) {
    const auto scales = [](int dim) { return static_cast<size_t>(q8_blocks(dim)) * kPageTokens * sizeof(uint16_t); };
    page = {lines(static_cast<size_t>(packed_keys_bytes(layer.key_dim, type)) + scales(layer.key_dim)),
            lines(static_cast<size_t>(packed_rows_bytes(packed_stride(layer.value_dim), kPageTokens, type)) +
                  scales(layer.value_dim))};
  } else {
    const size_t width = type == KvType::kF16 ? 2 : 4;
    page = {key_dim * kPageTokens * width, padded_dim * kPageTokens * width};
  }
  return page;
}

// Layout of one slot across all pages.
struct Slot {
  int n_kv_heads = 0;
  HeadPage of_head = {};  // Bytes per head, if all layers of the slot have the same shape.
  bool alike = true;
  HeadPage page = {};                 // Bytes of all heads.
  size_t keys_at = 0, values_at = 0;  // Offsets from the start of the keys and of the values.
};

struct Layout {
  std::vector<Slot> slots;
  size_t all_keys = 0, all_values = 0;
  // Bytes of the buffers after the values (see CpuKvCache::Chosen).
  size_t chosen_pages = 0, chosen_scores = 0;
  size_t bytes() const { return all_keys + all_values + chosen_pages + 2 * chosen_scores; }
};

// Fails if the shape is not supported or its size overflows.
Result<Layout> layout_of(const KvShape& shape) {
  if (Status status = check_shape(shape, CpuKvCache::kKeeps); !status) return status.error();
  const Error refused{
      ErrorCode::kInvalidArgument,
      "KV cache of " + std::to_string(shape.layers.size()) + " layers, " + std::to_string(shape.n_pages) +
          " pages: the element type is supported only on GPUs, or the cache is too large to be addressed"};
  if (shape.type == KvType::kFp8) return refused;
  Layout layout;
  layout.slots.resize(static_cast<size_t>(shape.n_slots()));
  for (const LayerState& layer : shape.layers) {
    if (layer.kind == StateKind::kNothing) continue;
    Slot& slot = layout.slots[static_cast<size_t>(layer.slot)];
    const HeadPage page = head_page(layer, shape.type);
    slot.alike = slot.alike && layer.place == 0 &&
                 (slot.n_kv_heads == 0 || (slot.n_kv_heads == layer.n_kv_heads && slot.of_head == page));
    slot.n_kv_heads = layer.n_kv_heads;
    slot.of_head = page;
    // Number of heads of this layer and of the layers before it in the slot.
    const size_t heads = static_cast<size_t>(layer.n_kv_heads) * static_cast<size_t>(layer.place + 1);
    const auto keys = checked_mul(page.keys, heads);
    const auto values = checked_mul(page.values, heads);
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
  if (shape.most_chosen > 0) {
    size_t page = 0;
    for (const LayerState& layer : shape.layers)
      if (layer.kind == StateKind::kLatents && layer.page_rows == kPageTokens)
        page = std::max(page, head_page(layer, shape.type).values);
    layout.chosen_pages = page * static_cast<size_t>((int64_t{shape.most_chosen} + kPageTokens - 1) / kPageTokens);
    layout.chosen_scores = static_cast<size_t>(shape.n_pages) * kPageTokens * sizeof(float);
  }
  return layout;
}

// Returns where a layer's keys or values are in its slot.
CpuKvCache::Pages pages_of(std::byte* data, size_t head_bytes, size_t slot_bytes, const LayerState& layer,
                           const Slot& slot, int64_t n_pages) {
  if (slot.alike) return {data, head_bytes, head_bytes, head_bytes * static_cast<size_t>(n_pages)};
  return {data + head_bytes * static_cast<size_t>(layer.place * layer.n_kv_heads), head_bytes, slot_bytes, head_bytes};
}

}  // namespace

CpuKvCache::Layer CpuKvCache::Chosen::gathered(const Layer& layer) const {
  Layer own = layer;
  assert(layer.page_rows == kPageTokens);
  own.values = {pages, layer.values.bytes, layer.values.bytes, 0};
  return own;
}

size_t CpuKvCache::bytes_for(const KvShape& shape) {
  const Result<Layout> layout = layout_of(shape);
  return layout ? layout->bytes() : SIZE_MAX;
}

Result<std::unique_ptr<CpuKvCache>> CpuKvCache::create(const KvShape& shape) {
  const Result<Layout> layout = layout_of(shape);
  if (!layout) return layout.error();
  Result<Mapping> memory = Mapping::create(layout->bytes());
  if (!memory) return memory.error();

  std::unique_ptr<CpuKvCache> cache(new CpuKvCache());
  cache->shape = shape;
  cache->bytes = layout->bytes();
  cache->memory_ = std::move(*memory);
  std::byte* const keys = cache->memory_.data();
  std::byte* const values = keys + layout->all_keys;
  for (const LayerState& layer : shape.layers) {
    if (layer.kind == StateKind::kNothing) {
      cache->layers_.push_back({});
      continue;
    }
    const Slot& slot = layout->slots[static_cast<size_t>(layer.slot)];
    const HeadPage page = head_page(layer, shape.type);
    const bool latents = layer.kind == StateKind::kLatents, whole_numbers = keeps_whole_numbers(layer, shape.type);
    cache->layers_.push_back(
        {.n_kv_heads = layer.n_kv_heads,
         .key_dim = layer.key_dim,
         .value_dim = layer.value_dim,
         .latents = latents,
         .whole_numbers = whole_numbers,
         .key_stride = whole_numbers ? latents_stride(layer.key_dim, shape.type) : 0,
         .value_stride = latents                 ? latents_stride(layer.key_dim, shape.type)
                         : whole_numbers         ? latents_stride(layer.value_dim, shape.type)
                         : is_packed(shape.type) ? packed_stride(layer.value_dim)
                                                 : round_up_to_lanes(layer.value_dim),
         .page_rows = layer.page_rows,
         .keys = pages_of(keys + slot.keys_at, page.keys, slot.page.keys, layer, slot, shape.n_pages),
         .values = pages_of(values + slot.values_at, page.values, slot.page.values, layer, slot, shape.n_pages)});
  }
  for (const Slot& slot : layout->slots) {
    const int n_pieces = slot.alike ? slot.n_kv_heads : 1;
    for (int i = 0; i < n_pieces; ++i) {
      const auto add_piece = [&](std::byte* data, size_t bytes) {
        const size_t own = bytes / static_cast<size_t>(n_pieces);
        if (own > 0)
          cache->pieces_.push_back(
              {data + static_cast<size_t>(i) * own * static_cast<size_t>(shape.n_pages), own, own, 0});
      };
      add_piece(keys + slot.keys_at, slot.page.keys);
      add_piece(values + slot.values_at, slot.page.values);
    }
  }
  if (shape.most_chosen > 0) {
    Chosen& chosen = cache->chosen_;
    chosen.pages = values + layout->all_values;
    chosen.scores = reinterpret_cast<float*>(chosen.pages + layout->chosen_pages);
    chosen.order = reinterpret_cast<int32_t*>(chosen.pages + layout->chosen_pages + layout->chosen_scores);
    chosen.in_order.resize(static_cast<size_t>((shape.most_chosen + kPageTokens - 1) / kPageTokens));
    std::iota(chosen.in_order.begin(), chosen.in_order.end(), 0);
  }
  std::ranges::sort(cache->pieces_, {}, &Pages::data);
  for (const Pages& piece : cache->pieces_) cache->page_bytes += piece.bytes;
  return cache;
}

// The parts of neighboring layers and heads may share an operating-system page at their boundary. That page is counted
// once.
size_t CpuKvCache::bytes_of_first(int64_t n_pages) const {
  if (n_pages <= 0) return 0;
  const size_t unit = memory_.page_bytes();
  size_t taken = 0, end_before = 0;
  for (const Pages& piece : pieces_) {
    const auto at = static_cast<size_t>(piece.data - memory_.data());
    const size_t end =
        (at + static_cast<size_t>(n_pages - 1) * piece.page_stride + piece.bytes + unit - 1) / unit * unit;
    taken += end - std::min(end, std::max(at / unit * unit, end_before));
    end_before = std::max(end_before, end);
  }
  return std::min(taken, bytes);
}

void CpuBackend::copy_page(KvCache& kv_cache, int32_t from, int32_t to) {
  auto& cache = static_cast<CpuKvCache&>(kv_cache);
  const std::span<const CpuKvCache::Pages> pieces = cache.pieces();
  pool_.parallel_for(static_cast<int64_t>(pieces.size()), 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const CpuKvCache::Pages& piece = pieces[static_cast<size_t>(i)];
      std::memcpy(piece.data + static_cast<size_t>(to) * piece.page_stride,
                  piece.data + static_cast<size_t>(from) * piece.page_stride, piece.bytes);
    }
  });
}

// Pages are copied part by part, in the order of the parts' addresses. This order does not depend on the number of
// pages.
void CpuBackend::read_page(const KvCache& kv_cache, int32_t page, std::byte* host_to) {
  for (const CpuKvCache::Pages& piece : static_cast<const CpuKvCache&>(kv_cache).pieces()) {
    std::memcpy(host_to, piece.data + static_cast<size_t>(page) * piece.page_stride, piece.bytes);
    host_to += piece.bytes;
  }
}

void CpuBackend::write_page(KvCache& kv_cache, int32_t page, const std::byte* host_from) {
  for (const CpuKvCache::Pages& piece : static_cast<CpuKvCache&>(kv_cache).pieces()) {
    std::memcpy(piece.data + static_cast<size_t>(page) * piece.page_stride, host_from, piece.bytes);
    host_from += piece.bytes;
  }
}

}  // namespace monolith
