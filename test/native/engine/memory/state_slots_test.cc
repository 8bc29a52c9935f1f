// Slots of recurrent state: which snapshot makes room, what nobody else is given, and what an idle engine finds wrong.
#include "engine/memory/state_slots.h"

#include <utility>
#include <vector>

#include "check.h"

namespace monolith {
namespace {

// A slot that is the snapshot of the node and nobody's else.
SlotId snapshot(StateSlots& slots, PageId node) {
  const SlotId slot = slots.allocate();
  slots.keep(node, slot);
  slots.release(slot);
  return slot;
}

}  // namespace

TEST(the_snapshot_that_was_used_longest_ago_makes_room) {
  StateSlots slots(3, 8);
  const SlotId first = snapshot(slots, 1), second = snapshot(slots, 5), third = snapshot(slots, 2);
  CHECK_EQ(slots.free(), 0);
  CHECK_EQ(slots.snapshots(), 3);
  CHECK_EQ(slots.available(), 3);
  slots.share(first);  // somebody goes on from it
  CHECK_EQ(slots.available(), 2);
  slots.release(first);
  CHECK_EQ(slots.available(), 3);
  for (const auto& [slot, node] : {std::pair{second, PageId{5}}, {third, PageId{2}}, {first, PageId{1}}}) {
    CHECK_EQ(slots.snapshot_of(node), slot);
    CHECK_EQ(slots.allocate(), slot);
    CHECK_EQ(slots.snapshot_of(node), kNoSlot);
    CHECK_EQ(slots.node_of(slot), kNoPage);
  }
  CHECK_EQ(slots.available(), 0);
  CHECK_EQ(slots.snapshots(), 0);
  CHECK_EQ(slots.allocate(), kNoSlot);
  CHECK(slots.consistent({1, 1, 1}));
}

TEST(a_slot_that_somebody_goes_on_from_is_nobody_elses) {
  StateSlots slots(2, 4);
  const SlotId kept = snapshot(slots, 3);
  slots.share(kept);
  slots.share(kept);  // a fork
  const SlotId own = slots.allocate();
  CHECK(own != kept && own != kNoSlot);
  CHECK_EQ(slots.allocate(), kNoSlot);
  slots.drop(3);  // its page has left the cache
  slots.drop(3);
  CHECK_EQ(slots.snapshot_of(3), kNoSlot);
  CHECK_EQ(slots.references(kept), 2);
  CHECK_EQ(slots.allocate(), kNoSlot);
  slots.release(kept);
  CHECK_EQ(slots.allocate(), kNoSlot);
  slots.release(kept);
  CHECK_EQ(slots.allocate(), kept);
  // One that is no snapshot any more may become another's.
  slots.keep(0, kept);
  slots.release(kept);
  CHECK_EQ(slots.snapshot_of(0), kept);
  slots.drop(0);
  CHECK_EQ(slots.free(), 1);
  CHECK(slots.consistent(own == 0 ? std::vector<int32_t>{1, 0} : std::vector<int32_t>{0, 1}));
}

TEST(a_slot_that_is_held_by_nobody_or_once_too_often_is_found) {
  StateSlots slots(3, 4);
  const SlotId one = slots.allocate();
  snapshot(slots, 2);
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
  CHECK_EQ(slots.snapshot_of(50), kNoSlot);
  CHECK(slots.consistent({}));
}

}  // namespace monolith
