// Reference counts of the slots that store recurrent state, and which slots are prefix-cache snapshots. Owned by the
// engine thread.
//
// A slot stores the recurrent state of a sequence after one position (backend/recurrence.h). A running sequence
// references the slot from which it continues. A prefix-cache node may reference the slot with the state after the
// node's page: its snapshot. A slot with several references is read-only: a sequence that continues from it writes to
// another slot. Forks, cache hits and snapshots therefore share slots without a copy.
//
//   free ──allocate()──► referenced by sequences ──release()──► free
//                              │ keep()     ▲ share()
//                              ▼            │
//                        snapshot, used ──release()──► snapshot, unused ──allocate(), drop()──► free
//
// When slots are needed, snapshots that no sequence references are dropped, least recently used first. Every operation
// is O(1), and nothing allocates after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/kv_cache.h"
#include "engine/kv/lru_list.h"
#include "engine/kv/node_id.h"

namespace monolith {

using SlotId = int32_t;

class StateSlots {
 public:
  // `n_nodes`: number of prefix-cache nodes. With `n_slots` = 0 only any() and size() may be called.
  StateSlots(int n_slots, int64_t n_nodes);

  bool any() const { return size() > 0; }
  int size() const { return static_cast<int>(slots_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int snapshots() const { return n_snapshots_; }
  // Number of slots that allocate() can still return: free slots and unused snapshots.
  int available() const { return free() + n_unused_; }
  int32_t ref_count(SlotId slot) const { return at(slot).ref_count; }

  // Returns a slot with one reference, dropping the least recently used unused snapshot if no slot is free. Returns
  // kNoSlot if all slots are in use.
  SlotId allocate();
  void share(SlotId slot);
  void release(SlotId slot);

  // Snapshot of the node; kNoSlot if it has none.
  SlotId snapshot_of(NodeId node) const { return any() ? of_nodes_[static_cast<size_t>(node)] : kNoSlot; }
  // Prefix-cache node of a snapshot; kNoNode if the slot is not a snapshot.
  NodeId node_of(SlotId slot) const { return at(slot).node; }
  // Makes the referenced slot the snapshot of the node, which must not have one. The node adds its own reference.
  void keep(NodeId node, SlotId slot);
  // Removes the node's snapshot, if it has one.
  void drop(NodeId node);

  // True if all counts and lists are consistent; `held` is the number of sequence references per slot. Takes O(slots +
  // nodes) time.
  bool consistent(const std::vector<int32_t>& held) const;

 private:
  struct Slot {
    int32_t ref_count = 0;  // Reference count; includes the reference of the prefix-cache node.
    NodeId node = kNoNode;
  };
  Slot& at(SlotId slot) { return slots_[static_cast<size_t>(slot)]; }
  const Slot& at(SlotId slot) const { return slots_[static_cast<size_t>(slot)]; }

  std::vector<Slot> slots_;
  std::vector<SlotId> free_;
  std::vector<SlotId> of_nodes_;
  LruList<SlotId> lru_;  // LRU list of snapshots that no sequence references.
  int n_unused_ = 0, n_snapshots_ = 0;
  uint64_t now_ = 0;
};

}  // namespace monolith
