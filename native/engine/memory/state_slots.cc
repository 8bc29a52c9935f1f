#include "engine/memory/state_slots.h"

#include <cassert>

namespace monolith {

StateSlots::StateSlots(int n_slots, int64_t n_nodes)
    : slots_(static_cast<size_t>(n_slots)),
      of_nodes_(n_slots > 0 ? static_cast<size_t>(n_nodes) : 0, kNoSlot),
      unused_(n_slots) {
  free_.reserve(slots_.size());
  for (SlotId slot = n_slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

SlotId StateSlots::allocate() {
  if (free_.empty()) {
    if (unused_.oldest() == kNoPage) return kNoSlot;
    drop(at(unused_.oldest()).node);
  }
  const SlotId slot = free_.back();
  free_.pop_back();
  assert(references(slot) == 0 && at(slot).node == kNoPage);
  at(slot).references = 1;
  return slot;
}

void StateSlots::share(SlotId slot) {
  Slot& shared = at(slot);
  assert(shared.references > 0);
  if (shared.references++ == 1 && shared.node != kNoPage) {
    unused_.remove(slot);
    --n_unused_;
  }
}

void StateSlots::release(SlotId slot) {
  Slot& released = at(slot);
  assert(released.references > 0);
  if (--released.references == 0) {
    // A snapshot's node keeps a reference until drop(), so a slot without references has no node.
    assert(released.node == kNoPage);
    free_.push_back(slot);
  } else if (released.references == 1 && released.node != kNoPage) {
    unused_.append(slot, ++now_);
    ++n_unused_;
  }
}

void StateSlots::keep(PageId node, SlotId slot) {
  assert(snapshot_of(node) == kNoSlot && at(slot).node == kNoPage && references(slot) > 0);
  at(slot).node = node;
  ++at(slot).references;
  of_nodes_[static_cast<size_t>(node)] = slot;
  ++n_snapshots_;
}

void StateSlots::drop(PageId node) {
  const SlotId slot = snapshot_of(node);
  if (slot == kNoSlot) return;
  if (references(slot) == 1) {
    unused_.remove(slot);
    --n_unused_;
  }
  of_nodes_[static_cast<size_t>(node)] = kNoSlot;
  at(slot).node = kNoPage;
  --n_snapshots_;
  release(slot);
}

bool StateSlots::consistent(const std::vector<int32_t>& held) const {
  int n_free = 0, n_snapshots = 0, n_unused = 0;
  for (SlotId slot = 0; slot < size(); ++slot) {
    const PageId node = node_of(slot);
    if (references(slot) != held[static_cast<size_t>(slot)] + (node != kNoPage)) return false;
    n_free += references(slot) == 0;
    n_snapshots += node != kNoPage;
    n_unused += node != kNoPage && references(slot) == 1;
    if (node != kNoPage && snapshot_of(node) != slot) return false;
  }
  for (const SlotId slot : free_)
    if (references(slot) != 0) return false;
  int n_of_nodes = 0;
  for (const SlotId slot : of_nodes_) n_of_nodes += slot != kNoSlot;
  return n_free == free() && n_snapshots == n_snapshots_ && n_of_nodes == n_snapshots && n_unused == n_unused_ &&
         unused_.consistent(n_unused, [&](SlotId slot) { return node_of(slot) != kNoPage && references(slot) == 1; });
}

}  // namespace monolith
