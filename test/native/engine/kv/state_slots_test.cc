// Tests the recurrent-state slots: which snapshot is evicted, which slots are never shared, and what the consistency
// check of an idle engine detects.
#include "engine/kv/state_slots.h"

#include <utility>
#include <vector>

#include "check.h"

namespace monolith {
namespace {

// Allocates a slot that is referenced only as the snapshot of a node.
SlotId snapshot(StateSlots& slots, NodeId node) {
  const SlotId slot = slots.allocate();
  slots.keep(node, slot);
  slots.release(slot);
  return slot;
}

}  // namespace

TEST(the_least_recently_used_snapshot_is_evicted) {
  StateSlots slots(3, 8);
  const SlotId first = snapshot(slots, NodeId{1}), second = snapshot(slots, NodeId{5}),
               third = snapshot(slots, NodeId{2});
  CHECK_EQ(slots.free(), 0);
  CHECK_EQ(slots.snapshots(), 3);
  CHECK_EQ(slots.available(), 3);
  slots.share(first);  // A sequence resumes from this snapshot.
  CHECK_EQ(slots.available(), 2);
  slots.release(first);
  CHECK_EQ(slots.available(), 3);
  for (const auto& [slot, node] : {std::pair{second, NodeId{5}}, {third, NodeId{2}}, {first, NodeId{1}}}) {
    CHECK_EQ(slots.snapshot_of(node), slot);
    CHECK_EQ(slots.allocate(), slot);
    CHECK_EQ(slots.snapshot_of(node), kNoSlot);
    CHECK(slots.node_of(slot) == kNoNode);
  }
  CHECK_EQ(slots.available(), 0);
  CHECK_EQ(slots.snapshots(), 0);
  CHECK_EQ(slots.allocate(), kNoSlot);
  CHECK(slots.consistent({1, 1, 1}));
}

TEST(a_slot_that_a_sequence_resumes_from_is_not_reallocated) {
  StateSlots slots(2, 4);
  const SlotId kept = snapshot(slots, NodeId{3});
  slots.share(kept);
  slots.share(kept);  // A fork.
  const SlotId own = slots.allocate();
  CHECK(own != kept && own != kNoSlot);
  CHECK_EQ(slots.allocate(), kNoSlot);
  slots.drop(NodeId{3});  // The node has been evicted.
  slots.drop(NodeId{3});
  CHECK_EQ(slots.snapshot_of(NodeId{3}), kNoSlot);
  CHECK_EQ(slots.ref_count(kept), 2);
  CHECK_EQ(slots.allocate(), kNoSlot);
  slots.release(kept);
  CHECK_EQ(slots.allocate(), kNoSlot);
  slots.release(kept);
  CHECK_EQ(slots.allocate(), kept);
  // A slot that is no longer a snapshot may be allocated to another sequence.
  slots.keep(NodeId{0}, kept);
  slots.release(kept);
  CHECK_EQ(slots.snapshot_of(NodeId{0}), kept);
  slots.drop(NodeId{0});
  CHECK_EQ(slots.free(), 1);
  CHECK(slots.consistent(own == 0 ? std::vector<int32_t>{1, 0} : std::vector<int32_t>{0, 1}));
}

TEST(the_consistency_check_finds_leaked_and_overcounted_slots) {
  StateSlots slots(3, 4);
  const SlotId one = slots.allocate();
  snapshot(slots, NodeId{2});
  std::vector<int32_t> held(3, 0);
  CHECK(!slots.consistent(held));
  held[static_cast<size_t>(one)] = 1;
  CHECK(slots.consistent(held));
  held[static_cast<size_t>(one)] = 2;
  CHECK(!slots.consistent(held));
}

TEST(a_model_without_recurrent_state_has_no_snapshots) {
  const StateSlots slots(0, 100);
  CHECK(!slots.any());
  CHECK_EQ(slots.snapshot_of(NodeId{50}), kNoSlot);
  CHECK(slots.consistent({}));
}

}  // namespace monolith
