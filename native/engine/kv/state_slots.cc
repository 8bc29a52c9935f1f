#include "engine/kv/state_slots.h"

#include <cassert>

namespace monolith {

StateSlots::StateSlots(int n_slots, int64_t n_nodes)
    : slots_(static_cast<size_t>(n_slots)),
      of_nodes_(n_slots > 0 ? static_cast<size_t>(n_nodes) : 0, kNoSlot),
      lru_(n_slots) {
  free_.reserve(slots_.size());
  for (SlotId slot = n_slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

SlotId StateSlots::allocate() {
  if (free_.empty()) {
    if (lru_.oldest() == kNoSlot) return kNoSlot;
    drop(at(lru_.oldest()).node);
  }
  const SlotId slot = free_.back();
  free_.pop_back();
  assert(ref_count(slot) == 0 && at(slot).node == kNoNode);
  at(slot).ref_count = 1;
  return slot;
}

void StateSlots::share(SlotId slot) {
  Slot& shared = at(slot);
  assert(shared.ref_count > 0);
  if (shared.ref_count++ == 1 && shared.node != kNoNode) {
    lru_.remove(slot);
    --n_unused_;
  }
}

void StateSlots::release(SlotId slot) {
  Slot& released = at(slot);
  assert(released.ref_count > 0);
  if (--released.ref_count == 0) {
    // A snapshot's node keeps a reference until drop(), so a slot without references has no node.
    assert(released.node == kNoNode);
    free_.push_back(slot);
  } else if (released.ref_count == 1 && released.node != kNoNode) {
    lru_.append(slot, ++now_);
    ++n_unused_;
  }
}

void StateSlots::keep(NodeId node, SlotId slot) {
  assert(snapshot_of(node) == kNoSlot && at(slot).node == kNoNode && ref_count(slot) > 0);
  at(slot).node = node;
  ++at(slot).ref_count;
  of_nodes_[static_cast<size_t>(node)] = slot;
  ++n_snapshots_;
}

void StateSlots::drop(NodeId node) {
  const SlotId slot = snapshot_of(node);
  if (slot == kNoSlot) return;
  if (ref_count(slot) == 1) {
    lru_.remove(slot);
    --n_unused_;
  }
  of_nodes_[static_cast<size_t>(node)] = kNoSlot;
  at(slot).node = kNoNode;
  --n_snapshots_;
  release(slot);
}

bool StateSlots::consistent(const std::vector<int32_t>& held) const {
  int n_free = 0, n_snapshots = 0, n_unused = 0;
  for (SlotId slot = 0; slot < size(); ++slot) {
    const NodeId node = node_of(slot);
    if (ref_count(slot) != held[static_cast<size_t>(slot)] + (node != kNoNode)) return false;
    n_free += ref_count(slot) == 0;
    n_snapshots += node != kNoNode;
    n_unused += node != kNoNode && ref_count(slot) == 1;
    if (node != kNoNode && snapshot_of(node) != slot) return false;
  }
  for (const SlotId slot : free_)
    if (ref_count(slot) != 0) return false;
  int n_of_nodes = 0;
  for (const SlotId slot : of_nodes_) n_of_nodes += slot != kNoSlot;
  return n_free == free() && n_snapshots == n_snapshots_ && n_of_nodes == n_snapshots && n_unused == n_unused_ &&
         lru_.consistent(n_unused, [&](SlotId slot) { return node_of(slot) != kNoNode && ref_count(slot) == 1; });
}

}  // namespace monolith
