#include "model/kv_layout.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "backend/steps.h"
#include "model/model.h"

namespace monolith {
namespace {

// Two of the segment lists are reserved for the tokens with logits: one for each of the two kinds of layers (with and
// without a sliding window) that read another layer's keys and values.
constexpr int64_t kMaxTables = kMaxSegmentLists - 2;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t pages_of(int64_t positions) { return ceil_div(positions, kPageTokens); }

}  // namespace

int64_t KvLayout::window_pages(int64_t n_rows) const {
  const int64_t seen = window - 1 + n_rows;
  return ceil_div(seen - 1, kPageTokens) + 1;  // The range may start at the last position of a page.
}

int64_t KvLayout::pages_at_once(int64_t positions, int64_t n_rows) const {
  const int64_t all = pages_of(positions);
  return full * all + (windowed > 0 ? windowed * std::min(all, window_pages(n_rows)) : 0);
}

int64_t KvLayout::positions_in(int64_t n_pages, int64_t n_rows) const {
  const int64_t of_each = n_pages / tables();
  if (windowed == 0 || of_each < window_pages(n_rows)) return of_each * kPageTokens;
  if (full == 0) return std::numeric_limits<int64_t>::max();
  return (n_pages - windowed * window_pages(n_rows)) / full * kPageTokens;
}

namespace {

// The number of values per position that a layer stores as keys and as values. Layers are compared by these counts; the
// number of bytes per value does not matter.
struct Kept {
  int64_t keys = 0, values = 0;
  int64_t sum() const { return keys + values; }
  bool operator==(const Kept&) const = default;
};
Kept kept(const LayerParams& layer) {
  if (!layer.keeps_pages()) return {};
  const int64_t heads = layer.n_kv_heads;
  return layer.keeps_latents() ? Kept{0, heads * layer.key_dim} : Kept{heads * layer.key_dim, heads * layer.value_dim};
}

// Returns where the layer that has the number `index` among the layers of its kind is stored. Layers fill the tables
// slot by slot, with `in_slot` layers per slot.
KvPlace place_of(int64_t index, int64_t in_slot, int64_t slots) {
  const int64_t slot = index / in_slot;
  return {static_cast<int>(slot / slots), static_cast<int>(slot % slots), static_cast<int>(index % in_slot)};
}

// Returns the number of values per position in a page. Each slot is sized for the largest content that any table stores
// in it.
int64_t weight_of(const std::vector<Kept>& full, int64_t full_in_slot, const std::vector<Kept>& windowed,
                  int64_t windowed_in_slot, int64_t slots) {
  std::vector<Kept> room(static_cast<size_t>(slots));
  const auto add = [&](const std::vector<Kept>& kind, int64_t in_slot) {
    for (size_t i = 0; i < kind.size(); ++i) {
      const KvPlace place = place_of(static_cast<int64_t>(i), in_slot, slots);
      Kept& slot = room[static_cast<size_t>(place.slot)];
      slot.keys = std::max(slot.keys, kind[i].keys * (place.place + 1));
      slot.values = std::max(slot.values, kind[i].values * (place.place + 1));
    }
  };
  add(full, full_in_slot);
  add(windowed, windowed_in_slot);
  return std::accumulate(room.begin(), room.end(), int64_t{0},
                         [](int64_t sum, const Kept& slot) { return sum + slot.sum(); });
}

// Returns how many layers of one kind fit in a slot made for one layer of the other kind. Returns 1 unless all layers
// of each kind have the same shape.
int64_t most_in_slot(const std::vector<Kept>& kind, const std::vector<Kept>& other) {
  const auto alike = [](const std::vector<Kept>& layers) {
    return std::ranges::all_of(layers, [&](const Kept& layer) { return layer == layers.front(); });
  };
  if (kind.empty() || other.empty() || !alike(kind) || !alike(other)) return 1;
  const auto fit = [](int64_t room, int64_t own) { return own > 0 ? room / own : std::numeric_limits<int64_t>::max(); };
  return std::max<int64_t>(
      1, std::min(fit(other.front().keys, kind.front().keys), fit(other.front().values, kind.front().values)));
}

struct Kinds {
  std::vector<Kept> full, windowed;  // One entry per layer that stores data in pages.
  int window = 0;
};
Kinds kinds_of(const HyperParams& params, bool by_window) {
  Kinds kinds;
  for (const LayerParams& layer : params.layers) {
    if (!layer.keeps_pages()) continue;
    const bool has_window = by_window && layer.window > 0;
    (has_window ? kinds.windowed : kinds.full).push_back(kept(layer));
    if (has_window) kinds.window = std::max(kinds.window, layer.window);
  }
  return kinds;
}

}  // namespace

KvLayout kv_layout(const HyperParams& params, bool by_window, bool packs) {
  // Sliding windows are not paged separately here, because compressed blocks are stored in the same pages as the
  // window's vectors.
  if (params.blocks.n_groups > 0) by_window = false;
  const auto [full, windowed, window] = kinds_of(params, by_window);
  const auto n_full = static_cast<int64_t>(full.size()), n_windowed = static_cast<int64_t>(windowed.size());
  KvLayout layout{.layers_per_page = static_cast<int>(std::max<int64_t>(n_full, 1)), .window = window};
  if (n_windowed == 0) return layout;
  layout.full_in_slot = static_cast<int>(packs ? most_in_slot(full, windowed) : 1);
  layout.windowed_in_slot = static_cast<int>(packs ? most_in_slot(windowed, full) : 1);
  const int64_t of_full = ceil_div(n_full, layout.full_in_slot),
                of_windowed = ceil_div(n_windowed, layout.windowed_in_slot);
  // Partly filled tables waste memory, whereas small pages require many page tables. As a compromise, each additional
  // page table is considered as costly as 1% of the memory.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t slots = std::max(of_full, of_windowed); slots >= 1; --slots) {
    const int64_t n_full_tables = ceil_div(of_full, slots), n_windowed_tables = ceil_div(of_windowed, slots);
    const int64_t tables = n_full_tables + n_windowed_tables;
    if (tables > kMaxTables) continue;
    const int64_t cost =
        tables * weight_of(full, layout.full_in_slot, windowed, layout.windowed_in_slot, slots) * (100 + tables);
    if (cost >= least) continue;
    least = cost;
    layout.layers_per_page = static_cast<int>(slots);
    layout.full = static_cast<int>(n_full_tables);
    layout.windowed = static_cast<int>(n_windowed_tables);
  }
  return layout;
}

double filled(const HyperParams& params, const KvLayout& layout) {
  const Kinds kinds = kinds_of(params, layout.windowed > 0);
  int64_t used = 0;
  for (const std::vector<Kept>* kind : {&kinds.full, &kinds.windowed})
    for (const Kept& layer : *kind) used += layer.sum();
  const int64_t room = layout.tables() * weight_of(kinds.full, layout.full_in_slot, kinds.windowed,
                                                   layout.windowed_in_slot, layout.layers_per_page);
  return room > 0 ? static_cast<double>(used) / static_cast<double>(room) : 1.0;
}

std::vector<KvPlace> kv_places(const HyperParams& params, const KvLayout& layout) {
  std::vector<KvPlace> places;
  int64_t n_full = 0, n_windowed = 0;
  for (const LayerParams& layer : params.layers) {
    if (!layer.keeps_pages()) {
      places.push_back({});
      continue;
    }
    const bool windowed = layout.windowed > 0 && layer.window > 0;
    KvPlace place = windowed ? place_of(n_windowed++, layout.windowed_in_slot, layout.layers_per_page)
                             : place_of(n_full++, layout.full_in_slot, layout.layers_per_page);
    if (windowed) place.table += layout.full;
    places.push_back(place);
  }
  return places;
}

int index_layer(const HyperParams& params, int index) {
  const auto own = params.layers.begin() + index;
  int at = block_layer(params, index);
  if (own->block > 0) ++at;
  return at;
}

int block_layer(const HyperParams& params, int index) {
  auto at = static_cast<int>(params.layers.size());
  for (int i = 0; i < index; ++i) {
    const LayerParams& layer = params.layers[static_cast<size_t>(i)];
    at += (layer.block > 0 ? 1 : 0) + (layer.chooses ? 1 : 0);
  }
  return at;
}

KvShape kv_shape(const HyperParams& params, const KvLayout& layout, int64_t n_pages, KvType type) {
  KvShape shape{{}, n_pages, type};
  const std::vector<KvPlace> places = kv_places(params, layout);
  for (size_t i = 0; i < places.size(); ++i) {
    const LayerParams& layer = params.layers[i];
    if (layer.keeps_pages()) {
      const StateKind kind = layer.keeps_latents() ? StateKind::kLatents : StateKind::kKeysAndValues;
      shape.layers.push_back({kind, layer.n_kv_heads, layer.key_dim, layer.value_dim, places[i].slot, places[i].place});
    } else {
      shape.layers.push_back({.kind = StateKind::kNothing});
    }
  }
  // The entries for indexers and compressed blocks follow the layers' slots. Models that have either use a single page
  // table.
  const IndexParams& index = params.latents.index;
  int slot = layout.layers_per_page;
  shape.most_chosen = index.most;
  for (const LayerParams& layer : params.layers) {
    const int page_rows = layer.block > 0 ? std::max(1, kPageTokens / layer.block) : kPageTokens;
    if (layer.block > 0) {
      shape.layers.push_back({StateKind::kLatents, 1, layer.key_dim, layer.value_dim, slot++, 0, page_rows});
      const int64_t most = layer.chooses ? index.most : n_pages * kPageTokens / layer.block;
      shape.most_chosen =
          static_cast<int>(std::min<int64_t>(std::max<int64_t>(shape.most_chosen, layer.window + most), INT32_MAX));
    }
    if (layer.chooses)
      shape.layers.push_back({StateKind::kLatents, 1, index.key_dim, index.key_dim, slot++, 0, page_rows});
  }
  return shape;
}

}  // namespace monolith
