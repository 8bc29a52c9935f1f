// Scheduler: recurrent-state slots of each step, and snapshots for the prefix cache.
#include <algorithm>
#include <cassert>

#include "engine/schedule/scheduler.h"

namespace monolith {

// The next position after `after` at which a prompt stores a snapshot: a multiple of the snapshot distance, or the last
// page boundary from which a longer prompt with this prefix could continue.
int Scheduler::next_snapshot(const Sequence& sequence, int after) const {
  const int of_distance = (after / snapshot_distance_ + 1) * snapshot_distance_;
  const int last = (sequence.length() - 1) / kPageTokens * kPageTokens;
  return last > after ? std::min(of_distance, last) : of_distance;
}

// Plans the state slots that the item reads and writes. Returns false if no slot is available for writing.
bool Scheduler::plan_chunks(Sequence& sequence, StepPlan::Item& item) {
  StateSlots& slots = cache_.slots();
  const auto is_own = [&] { return sequence.kv.slot != kNoSlot && slots.ref_count(sequence.kv.slot) == 1; };
  SlotId own = is_own() ? sequence.kv.slot : slots.allocate();
  if (own == kNoSlot && sequence.kv.slot != kNoSlot && slots.node_of(sequence.kv.slot) != kNoNode) {
    // If no slot is free, the sequence releases its own snapshot instead of skipping the step.
    slots.drop(slots.node_of(sequence.kv.slot));
    if (is_own()) own = sequence.kv.slot;
  }
  if (own == kNoSlot) return false;
  item.first_chunk = static_cast<int>(plan_.chunks.size());
  const int end = sequence.kv.n_computed + item.n_tokens;
  int at = sequence.kv.n_computed;
  SlotId from = sequence.kv.slot;
  if (uses_cache(sequence) && !sequence.decoding()) {
    for (int next; (next = next_snapshot(sequence, at)) < end;) {
      const SlotId kept = slots.allocate();
      if (kept == kNoSlot) break;
      plan_.chunks.push_back({next - at, from, kept});
      from = kept;
      at = next;
    }
  }
  plan_.chunks.push_back({end - at, from, own});
  item.n_chunks = static_cast<int>(plan_.chunks.size()) - item.first_chunk;
  return true;
}

// Called after the item was computed and its full pages were indexed: stores the snapshots and updates the sequence's
// slot.
void Scheduler::settle_chunks(const StepPlan::Item& item) {
  if (item.n_chunks == 0) return;
  Sequence& sequence = *item.sequence;
  StateSlots& slots = cache_.slots();
  const std::span<const StepPlan::Chunk> chunks = plan_.chunks_of(item);
  int at = sequence.kv.n_computed - item.n_tokens;
  for (const StepPlan::Chunk& chunk : chunks.first(chunks.size() - 1)) {
    at += chunk.n_tokens;
    keep_snapshot(sequence, at, chunk.to);
    slots.release(chunk.to);
  }
  if (const SlotId to = chunks.back().to; to != sequence.kv.slot) {
    if (sequence.kv.slot != kNoSlot) slots.release(sequence.kv.slot);
    sequence.kv.slot = to;
  }
  if (!uses_cache(sequence) || sequence.kv.n_computed % kPageTokens != 0) return;
  if (sequence.kv.n_computed > sequence.n_prompt) {
    keep_answer_snapshot(sequence);
  } else if (next_snapshot(sequence, sequence.kv.n_computed - 1) == sequence.kv.n_computed) {
    keep_snapshot(sequence, sequence.kv.n_computed, sequence.kv.slot);
  }
}

// Stores `slot` as the snapshot of the sequence's page that ends at `position`, if that page has none.
void Scheduler::keep_snapshot(Sequence& sequence, int position, SlotId slot) {
  const auto n_nodes = static_cast<size_t>(position / kPageTokens);
  if (n_nodes > sequence.kv.nodes.size()) return;  // No node was free for the page.
  const NodeId node = sequence.kv.nodes[n_nodes - 1];
  if (cache_.slots().snapshot_of(node) != kNoSlot) return;
  cache_.slots().keep(node, slot);
  ++cache_changes(sequence);
}

// Stores a snapshot at the end of the output and drops the sequence's previous one. The next prompt of a conversation
// often begins with the whole output, seldom with a part of it. Snapshots of other sequences are not dropped for this.
void Scheduler::keep_answer_snapshot(Sequence& sequence) {
  StateSlots& slots = cache_.slots();
  if (sequence.kv.answer_snapshot != kNoNode) {
    const SlotId before = slots.snapshot_of(sequence.kv.answer_snapshot);
    if (before != kNoSlot && slots.ref_count(before) == 1) slots.drop(sequence.kv.answer_snapshot);
  }
  sequence.kv.answer_snapshot = kNoNode;
  if (slots.free() == 0 || sequence.kv.n_indexed() * kPageTokens < sequence.kv.n_computed) return;
  const NodeId node = sequence.kv.last_node();
  if (slots.snapshot_of(node) != kNoSlot) return;
  slots.keep(node, sequence.kv.slot);
  ++cache_changes(sequence);
  sequence.kv.answer_snapshot = node;
}

// Runs when acceptance of the last step's draft tokens is known. If not all were accepted, the state after them is
// discarded.
void Scheduler::drop_draft_slots() {
  if (!has_slots()) return;
  for (Sequence* sequence : running_) {
    if (sequence->kv.draft_slot != kNoSlot) cache_.slots().release(sequence->kv.draft_slot);
    sequence->kv.draft_slot = kNoSlot;
    sequence->kv.n_drafted = 0;
  }
}

void Scheduler::release_slots(Sequence& sequence) {
  for (SlotId* slot : {&sequence.kv.slot, &sequence.kv.draft_slot}) {
    if (*slot != kNoSlot) cache_.slots().release(*slot);
    *slot = kNoSlot;
  }
  sequence.kv.answer_snapshot = kNoNode;
}

}  // namespace monolith
