// Slots of recurrent state: who refers to each, and which are snapshots. Owned by the engine thread.
//
// A slot holds the state of a sequence behind one position (backend/recurrence.h). Sequences refer to the slot they go
// on from, and a node of the prefix cache to the one that holds the state behind its page: its snapshot. A slot with
// several references is read only: whoever goes on from it writes to another. So forks, a hit and a snapshot share a
// slot and copy nothing.
//
//   free ──allocate()──► referenced by sequences ──release()──► free
//                              │ keep()     ▲ share()
//                              ▼            │
//                        snapshot, used ──release()──► snapshot, unused ──allocate(), drop()──► free
//
// Snapshots that no sequence refers to are dropped when slots are wanted, least recently used first. Every operation is
// O(1); nothing allocates after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/release_order.h"

namespace monolith {

using SlotId = int32_t;

class StateSlots {
 public:
  // `n_nodes`: of the prefix cache. Without slots nothing here may be called but the first two.
  StateSlots(int n_slots, int64_t n_nodes);

  bool any() const { return size() > 0; }
  int size() const { return static_cast<int>(slots_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int snapshots() const { return n_snapshots_; }
  // What allocate() can still hand out.
  int available() const { return free() + n_unused_; }
  int32_t references(SlotId slot) const { return at(slot).references; }

  // A slot with one reference; kNoSlot if there is none.
  SlotId allocate();
  void share(SlotId slot);
  void release(SlotId slot);

  // That of the node; kNoSlot: it has none.
  SlotId snapshot_of(PageId node) const { return any() ? of_nodes_[static_cast<size_t>(node)] : kNoSlot; }
  PageId node_of(SlotId slot) const { return at(slot).node; }  // kNoPage: it is no snapshot
  // The referenced slot becomes the snapshot of the node, which has none.
  void keep(PageId node, SlotId slot);
  // The node has none any more, if it had one.
  void drop(PageId node);

  // True if every count and list agrees, `held` being the references of sequences to each slot. O(slots + nodes).
  bool consistent(const std::vector<int32_t>& held) const;

 private:
  struct Slot {
    int32_t references = 0;  // the node's included
    PageId node = kNoPage;
  };
  Slot& at(SlotId slot) { return slots_[static_cast<size_t>(slot)]; }
  const Slot& at(SlotId slot) const { return slots_[static_cast<size_t>(slot)]; }

  std::vector<Slot> slots_;
  std::vector<SlotId> free_;
  std::vector<SlotId> of_nodes_;
  ReleaseOrder unused_;  // snapshots
  int n_unused_ = 0, n_snapshots_ = 0;
  uint64_t now_ = 0;
};

}  // namespace monolith
