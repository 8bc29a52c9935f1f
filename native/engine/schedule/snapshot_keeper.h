// The recurrent-state slots that sequences read and write in each step, and the snapshots kept for the prefix cache.
// Does nothing for models without recurrent state. Engine thread only.
//
// A sequence reads and writes the same slot, unless the slot has other references; then it writes to another slot.
// There is one more slot than the maximum number of running sequences, so at least one sequence can always proceed.
// Prefill stores snapshots at multiples of the snapshot distance and at the last page boundary before the prompt's end.
// Decoding keeps one snapshot, at the last page boundary at which a step ended.
#pragma once

#include <span>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/cache_changes.h"
#include "engine/schedule/scheduled_sequence.h"
#include "engine/schedule/step_plan.h"

namespace monolith {

class SnapshotKeeper {
 public:
  SnapshotKeeper(PrefixCache& cache, CacheChanges& changes, int snapshot_tokens);

  bool any() const { return slots_.any(); }  // True if the model has recurrent state.

  // Plans the slots that the item reads and writes. Returns false if no slot is available for writing; the sequence
  // then skips the step.
  bool plan_chunks(StepPlan& plan, StepPlan::Item& item);
  // Called after the item has been computed and its full pages have been added to the prefix cache: stores the
  // snapshots and updates the sequence's slot.
  void settle_chunks(const StepPlan& plan, const StepPlan::Item& item);

  // Lets the sequence continue from the snapshot of its last node, which must have one.
  void resume(KvState& kv);
  void share(const KvState& lead, KvState& fork);  // The fork continues from the slot of `lead`.
  void release(KvState& kv);                       // Releases the sequence's slots.

  // True if a slot is available for the state after draft tokens.
  bool has_draft_slot() const { return slots_.available() > 0; }
  void allocate_draft_slot(KvState& kv, int n_drafts);
  // Records that one draft token was accepted. The state in the draft slot includes all draft tokens, so the slot can
  // be used only once all are accepted. Returns true if the sequence has switched to the draft slot.
  bool accept_draft(KvState& kv);
  // Called when it is known which of the last step's draft tokens were accepted. Releases the draft slots, which are
  // unused if some tokens were rejected.
  void drop_draft_slots(std::span<ScheduledSequence* const> sequences);

 private:
  int next_snapshot(const ScheduledSequence& sequence, int after) const;
  void keep_snapshot(ScheduledSequence& sequence, int position, SlotId slot);
  void keep_answer_snapshot(ScheduledSequence& sequence);

  StateSlots& slots_;
  CacheChanges& changes_;
  const int distance_;  // Distance between snapshots in tokens, a multiple of the page size.
};

}  // namespace monolith
