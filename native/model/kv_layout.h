// How the keys and values of a model's layers lie in pages. All pages of a model have one size: kPageTokens
// positions of `layers_per_page` layers. Layers that see all positions share pages among themselves, and layers
// with a window do, so that pages of the latter can be given back once the window has passed them; a sequence has a
// table of pages for each such set of layers. Any page may become one of either kind: long
// and short sequences share one pool. Layers may differ in what they keep of a position: a slot of a page has room
// for the largest of those that lie in it, or for several of the small ones, if these are alike; the choice of the number
// of slots weighs what lies idle.
//
//   5 windowed : 1 full, 12 layers   layers_per_page 2
//     table 0      layers 5, 11                       kept as long as the sequence runs
//     tables 1-5   layers 0, 1 | 2, 3 | 4, 6 | ...    the last `window` positions
//
// Pure functions, for loading and for planning alike.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/kv_cache.h"

namespace monolith {

struct HyperParams;

// Pages must do for a sequence alone that computes so many rows a step, or the most there are if these are fewer.
inline constexpr int kLeastRowsAlone = 128;

struct KvLayout {
  int layers_per_page = 1;  // slots, each for one layer, or for several that are small beside those of the other kind:
  int full_in_slot = 1, windowed_in_slot = 1;
  int full = 1;      // tables of layers that see all positions
  int windowed = 0;  // tables of layers with a window, behind those
  int window = 0;    // positions that a row sees in any of the latter, its own included

  int tables() const { return full + windowed; }
  // Pages of each windowed table that hold all which `n_rows` consecutive rows see, wherever they stand.
  int64_t window_pages(int64_t n_rows) const;
  // Pages a sequence of so many positions holds at most, if a step computes up to `n_rows` of it.
  int64_t pages_at_once(int64_t positions, int64_t n_rows) const;
  // The longest sequence for which `n_pages` are enough.
  int64_t positions_in(int64_t n_pages, int64_t n_rows) const;
};

// `by_window` false: one table for all layers, and no page is given back early. `packs`: Loading::packs_layers().
KvLayout kv_layout(const HyperParams& params, bool by_window, bool packs = false);

// What of all tables' pages of one position layers keep something in: 1 where nothing lies idle.
double filled(const HyperParams& params, const KvLayout& layout);

// The layers of the cache that keep, beside layer `index`'s own rows, the keys of its index and what stands for its blocks
// of positions.
int index_layer(const HyperParams& params, int index);
int block_layer(const HyperParams& params, int index);

// Where a layer's keys and values are: in slot `slot` of the pages of `table`, behind so many others. -1: it keeps none in
// pages.
struct KvPlace {
  int table = -1, slot = -1, place = 0;
};
std::vector<KvPlace> kv_places(const HyperParams& params, const KvLayout& layout);

// What the backend keeps of each layer, and where in a page; then, layer by layer, what stands for blocks and the keys of
// an index where a layer has them.
KvShape kv_shape(const HyperParams& params, const KvLayout& layout, int64_t n_pages, KvType type);

}  // namespace monolith
