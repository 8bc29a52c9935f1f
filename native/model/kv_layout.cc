#include "model/kv_layout.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "backend/steps.h"
#include "model/model.h"

namespace monolith {
namespace {

// And lists of the rows with logits: one, or one of each of two kinds of layers that read what others keep.
constexpr int64_t kMostTables = kMostSegmentLists - 2;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t pages_of(int64_t positions) { return ceil_div(positions, kPageTokens); }

}  // namespace

int64_t KvLayout::window_pages(int64_t n_rows) const {
  const int64_t seen = window - 1 + n_rows;
  return ceil_div(seen - 1, kPageTokens) + 1;  // the first may be the last position of its page
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

// Numbers that a layer keeps of a position: pages are weighed by them, whatever a number takes.
int64_t kept(const LayerParams& layer) {
  if (!layer.keeps_pages()) return 0;
  return int64_t{layer.n_kv_heads} * (layer.key_dim + (layer.latent() ? 0 : layer.value_dim));
}

// What all tables' pages of one position weigh with so many layers in a page: each slot of a page has room for the
// largest layer that lies in it.
int64_t weight_of(const std::vector<int64_t>& full, const std::vector<int64_t>& windowed, int64_t layers, int64_t tables) {
  std::vector<int64_t> slots(static_cast<size_t>(layers));
  for (const std::vector<int64_t>* kind : {&full, &windowed}) {
    for (size_t i = 0; i < kind->size(); ++i) {
      int64_t& slot = slots[i % slots.size()];
      slot = std::max(slot, (*kind)[i]);
    }
  }
  return tables * std::accumulate(slots.begin(), slots.end(), int64_t{0});
}

}  // namespace

KvLayout kv_layout(const HyperParams& params, bool by_window) {
  KvLayout layout;
  std::vector<int64_t> full, windowed;   // of each layer that keeps pages
  for (const LayerParams& layer : params.layers) {
    if (!layer.keeps_pages()) continue;
    const bool has_window = by_window && layer.window > 0;
    (has_window ? windowed : full).push_back(kept(layer));
    if (has_window) layout.window = std::max(layout.window, layer.window);
  }
  const auto n_full = static_cast<int64_t>(full.size()), n_windowed = static_cast<int64_t>(windowed.size());
  layout.layers_per_page = static_cast<int>(std::max<int64_t>(n_full, 1));
  if (n_windowed == 0) return layout;
  // Layers that fill no whole page waste memory, and pages of few layers make many tables: one table more
  // weighs as much as a hundredth of the memory.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t layers = std::max(n_full, n_windowed); layers >= 1; --layers) {
    const int64_t n_full_tables = ceil_div(n_full, layers), n_windowed_tables = ceil_div(n_windowed, layers);
    const int64_t tables = n_full_tables + n_windowed_tables;
    if (tables > kMostTables) continue;
    const int64_t cost = weight_of(full, windowed, layers, tables) * (100 + tables);
    if (cost >= least) continue;
    least = cost;
    layout.layers_per_page = static_cast<int>(layers);
    layout.full = static_cast<int>(n_full_tables);
    layout.windowed = static_cast<int>(n_windowed_tables);
  }
  return layout;
}

std::vector<KvPlace> kv_places(const HyperParams& params, const KvLayout& layout) {
  std::vector<KvPlace> places;
  int n_full = 0, n_windowed = 0;
  for (const LayerParams& layer : params.layers) {
    if (!layer.keeps_pages()) {
      places.push_back({});
      continue;
    }
    const bool windowed = layout.windowed > 0 && layer.window > 0;
    const int index = windowed ? n_windowed++ : n_full++;
    places.push_back({(windowed ? layout.full : 0) + index / layout.layers_per_page,
                      index % layout.layers_per_page});
  }
  return places;
}

int index_layer(const HyperParams& params, int index) {
  return static_cast<int>(params.layers.size()) +
         static_cast<int>(std::ranges::count_if(params.layers.begin(), params.layers.begin() + index, &LayerParams::chooses));
}

KvShape kv_shape(const HyperParams& params, const KvLayout& layout, int64_t n_pages, KvType type) {
  KvShape shape{{}, n_pages, type};
  const std::vector<KvPlace> places = kv_places(params, layout);
  for (size_t i = 0; i < places.size(); ++i) {
    const LayerParams& layer = params.layers[i];
    if (layer.keeps_pages()) {
      const StateKind kind = layer.latent() ? StateKind::kLatents : StateKind::kKeysAndValues;
      shape.layers.push_back({kind, layer.n_kv_heads, layer.key_dim, layer.value_dim, places[i].slot});
    } else {
      shape.layers.push_back({.kind = StateKind::kNothing});
    }
  }
  // Behind the slots of the layers: networks with an index have one page table for all.
  const IndexParams& index = params.latents.index;
  int slot = layout.layers_per_page;
  for (const LayerParams& layer : params.layers)
    if (layer.chooses) shape.layers.push_back({StateKind::kLatents, 1, index.key_dim, index.key_dim, slot++});
  shape.most_chosen = index.most;
  return shape;
}

}  // namespace monolith
