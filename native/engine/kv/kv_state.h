// A sequence's share of the KV cache: its pages, prefix-cache nodes and state slots. The scheduler fills it in and
// clears it when the sequence is preempted.
#pragma once

#include <utility>
#include <vector>

#include "engine/kv/node_id.h"
#include "engine/kv/page_table.h"
#include "engine/kv/state_slots.h"
#include "model/kv_layout.h"

namespace monolith {

struct KvState {
  // Prefix-cache nodes of the sequence's leading pages, each with one reference. The pages themselves belong to the
  // nodes; `pages` only repeats their ids. The sequence has its own reference to each page after them.
  std::vector<NodeId> nodes;
  PageTable pages;          // The page of position p is pages[p / kPageTokens]. Empty if all layers have a window.
  PageTable window_pages;   // Page table of sliding-window layers; empty if these have no separate pages.
  int n_computed = 0;       // Tokens whose keys and values are stored in `pages`.
  int n_out_of_window = 0;  // Number of leading window pages that were released because no later token attends to them.
  int n_planned = 0;        // Tokens that the step being planned computes.
  int n_drafted = 0;        // Draft tokens of the step in flight that are not yet accepted.
  // Recurrent-state slots: the state after n_computed tokens, and the state after the draft tokens of the step in
  // flight. kNoSlot = none.
  SlotId slot = kNoSlot, draft_slot = kNoSlot;
  NodeId answer_snapshot = kNoNode;  // Last output node with a snapshot stored by this sequence; kNoNode = none.

  // Allocates memory for up to `n_pages` pages per table, so that later changes to the tables allocate nothing. If it
  // throws std::bad_alloc, nothing has changed.
  void allocate(size_t n_pages, const KvLayout& layout) {
    PageTable table(n_pages, static_cast<size_t>(layout.full));
    PageTable window_table(n_pages, static_cast<size_t>(layout.windowed));
    nodes.reserve(n_pages);
    pages = std::move(table);
    window_pages = std::move(window_table);
  }
  bool is_allocated() const { return pages.capacity() > 0; }

  int n_indexed() const { return static_cast<int>(nodes.size()); }  // Leading pages that are in the prefix cache.
  NodeId last_node() const { return nodes.empty() ? kNoNode : nodes.back(); }
  // Page table `number` of the model's layout.
  const PageId* table(int number, const KvLayout& layout) const {
    return number < layout.full ? pages.row(static_cast<size_t>(number))
                                : window_pages.row(static_cast<size_t>(number - layout.full));
  }
};

}  // namespace monolith
