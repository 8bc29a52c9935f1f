#include "model/kv_layout.h"

#include <algorithm>
#include <limits>

#include "backend/steps.h"
#include "model/model.h"

namespace monolith {
namespace {

constexpr int64_t kMostTables = kMostSegmentLists - 1;  // and a list of the rows with logits

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

KvLayout kv_layout(const HyperParams& params, bool by_window) {
  KvLayout layout;
  layout.layers_per_page = params.n_layers;
  int64_t n_windowed = 0;
  for (const LayerParams& layer : params.layers) {
    n_windowed += layer.window > 0;
    layout.window = std::max(layout.window, layer.window);
  }
  if (!by_window || n_windowed == 0) {
    layout.window = 0;
    return layout;
  }
  const int64_t n_full = params.n_layers - n_windowed;
  // Layers that fill no whole page waste memory, and pages of few layers make many tables: one table more
  // weighs as much as a hundredth of the memory.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t layers = params.n_layers; layers >= 1; --layers) {
    const int64_t full = ceil_div(n_full, layers), windowed = ceil_div(n_windowed, layers);
    const int64_t cost = layers * (full + windowed) * (100 + full + windowed);
    if (cost >= least || full + windowed > kMostTables) continue;
    least = cost;
    layout.layers_per_page = static_cast<int>(layers);
    layout.full = static_cast<int>(full);
    layout.windowed = static_cast<int>(windowed);
  }
  return layout;
}

std::vector<KvPlace> kv_places(const HyperParams& params, const KvLayout& layout) {
  std::vector<KvPlace> places;
  int n_full = 0, n_windowed = 0;
  for (const LayerParams& layer : params.layers) {
    const bool windowed = layout.windowed > 0 && layer.window > 0;
    const int index = windowed ? n_windowed++ : n_full++;
    places.push_back({(windowed ? layout.full : 0) + index / layout.layers_per_page,
                      index % layout.layers_per_page});
  }
  return places;
}

KvShape kv_shape(const HyperParams& params, const KvLayout& layout, int64_t n_pages, KvType type) {
  KvShape shape{{}, n_pages, type};
  const std::vector<KvPlace> places = kv_places(params, layout);
  for (size_t i = 0; i < places.size(); ++i) {
    const LayerParams& layer = params.layers[i];
    shape.layers.push_back({StateKind::kKeysAndValues, layer.n_kv_heads, layer.key_dim, layer.value_dim, places[i].slot});
  }
  return shape;
}

}  // namespace monolith
