// How the keys and values of a model's layers are distributed over pages. All pages of a model have the same size:
// kPageTokens positions of `layers_per_page` layers. Layers without a sliding window share pages with each other.
// Layers with a sliding window also share pages with each other; these pages can be freed once the window has moved
// past them. A sequence has one page table for each set of layers that share pages. Any page can be used for either
// kind of layer, so long and short sequences share one pool.
//
// Layers may store different amounts of data per position. A slot in a page is sized for the largest layer that uses
// it, or for several smaller layers if these have the same shape. The number of slots is chosen to minimize unused
// memory.
//
//   5 windowed : 1 full, 12 layers   layers_per_page 2
//     table 0      layers 5, 11                       kept as long as the sequence runs
//     tables 1-5   layers 0, 1 | 2, 3 | 4, 6 | ...    the last `window` positions
//
// The functions are pure and are used both for loading and for planning.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/kv_cache.h"

namespace monolith {

struct HyperParams;

// The pool must be large enough for a single sequence that computes this many tokens per step, or fewer if the maximum
// per step is lower.
inline constexpr int kMinRowsAlone = 128;

struct KvLayout {
  // Number of slots per page. A slot stores one layer, or several layers of one kind if they are small compared with
  // layers of the other kind.
  int layers_per_page = 1;
  int full_in_slot = 1, windowed_in_slot = 1;
  int full = 1;      // Number of page tables for layers without a sliding window.
  int windowed = 0;  // Number of page tables for layers with a sliding window, which follow the others.
  int window = 0;    // The largest window of those layers: positions that a token attends to, including its own.

  int tables() const { return full + windowed; }
  // Number of pages that each windowed table needs for all positions that any `n_rows` consecutive tokens attend to.
  int64_t window_pages(int64_t n_rows) const;
  // Returns the maximum number of pages that a sequence of this length holds while a step computes up to `n_rows` of
  // its tokens.
  int64_t pages_at_once(int64_t positions, int64_t n_rows) const;
  // Returns the maximum length of a sequence that fits in `n_pages` pages, in positions.
  int64_t positions_in(int64_t n_pages, int64_t n_rows) const;
};

// If `by_window` is false, there is one table for all layers, and no page is freed early. `packs`: whether the backend
// has MemoryFeature::kSharedPageSlots.
KvLayout kv_layout(const HyperParams& params, bool by_window, bool packs = false);

// Fraction of page memory that holds data; 1 = no padding.
double filled(const HyperParams& params, const KvLayout& layout);

// Indices of the additional KV cache layers that belong to layer `index`: one for the keys of its sparse-attention
// indexer, one for its compressed blocks.
int index_layer(const HyperParams& params, int index);
int block_layer(const HyperParams& params, int index);

// Where a layer's keys and values are stored: in slot `slot` of the pages in `table`, after `place` other layers. A
// table of -1 means that the layer stores nothing in pages.
struct KvPlace {
  int table = -1, slot = -1, place = 0;
};
std::vector<KvPlace> kv_places(const HyperParams& params, const KvLayout& layout);

// Describes the data that the backend stores for each layer, and where in a page. Entries for compressed blocks and
// indexer keys follow, for the layers that have them.
KvShape kv_shape(const HyperParams& params, const KvLayout& layout, int64_t n_pages, KvType type);

}  // namespace monolith
