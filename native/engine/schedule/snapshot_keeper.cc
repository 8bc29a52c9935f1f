#include "engine/schedule/snapshot_keeper.h"

#include <algorithm>
#include <utility>

namespace monolith {

SnapshotKeeper::SnapshotKeeper(PrefixCache& cache, CacheChanges& changes, int snapshot_tokens)
    : slots_(cache.slots()), changes_(changes), distance_(pages_for(std::max(1, snapshot_tokens)) * kPageTokens) {}

// Returns the next position after `after` at which a snapshot of the prompt is stored: the next multiple of the
// snapshot distance or the last page boundary from which a longer prompt with this prefix could continue, whichever
// comes first.
int SnapshotKeeper::next_snapshot(const ScheduledSequence& sequence, int after) const {
  const int of_distance = (after / distance_ + 1) * distance_;
  const int last = (sequence.length() - 1) / kPageTokens * kPageTokens;
  return last > after ? std::min(of_distance, last) : of_distance;
}

bool SnapshotKeeper::plan_chunks(StepPlan& plan, StepPlan::Item& item) {
  if (!any()) return true;
  const ScheduledSequence& sequence = *item.sequence;
  const KvState& kv = sequence.kv;
  const auto is_own = [&] { return kv.slot != kNoSlot && slots_.ref_count(kv.slot) == 1; };
  SlotId own = is_own() ? kv.slot : slots_.allocate();
  if (own == kNoSlot && kv.slot != kNoSlot && slots_.node_of(kv.slot) != kNoNode) {
    // If no slot is free, the sequence releases its own snapshot instead of skipping the step.
    slots_.drop(slots_.node_of(kv.slot));
    if (is_own()) own = kv.slot;
  }
  if (own == kNoSlot) return false;
  item.first_chunk = static_cast<int>(plan.chunks.size());
  const int end = kv.n_computed + item.n_tokens;
  int at = kv.n_computed;
  SlotId from = kv.slot;
  if (sequence.uses_cache && !sequence.decoding()) {
    for (int next; (next = next_snapshot(sequence, at)) < end;) {
      const SlotId kept = slots_.allocate();
      if (kept == kNoSlot) break;
      plan.chunks.push_back({next - at, from, kept});
      from = kept;
      at = next;
    }
  }
  plan.chunks.push_back({end - at, from, own});
  item.n_chunks = static_cast<int>(plan.chunks.size()) - item.first_chunk;
  return true;
}

void SnapshotKeeper::settle_chunks(const StepPlan& plan, const StepPlan::Item& item) {
  if (item.n_chunks == 0) return;
  ScheduledSequence& sequence = *item.sequence;
  KvState& kv = sequence.kv;
  const std::span<const StepPlan::Chunk> chunks = plan.chunks_of(item);
  int at = kv.n_computed - item.n_tokens;
  for (const StepPlan::Chunk& chunk : chunks.first(chunks.size() - 1)) {
    at += chunk.n_tokens;
    keep_snapshot(sequence, at, chunk.to);
    slots_.release(chunk.to);
  }
  if (const SlotId to = chunks.back().to; to != kv.slot) {
    if (kv.slot != kNoSlot) slots_.release(kv.slot);
    kv.slot = to;
  }
  if (!sequence.uses_cache || kv.n_computed % kPageTokens != 0) return;
  if (kv.n_computed > sequence.n_prompt) {
    keep_answer_snapshot(sequence);
  } else if (next_snapshot(sequence, kv.n_computed - 1) == kv.n_computed) {
    keep_snapshot(sequence, kv.n_computed, kv.slot);
  }
}

// Stores `slot` as the snapshot of the sequence's node that ends at `position`, if that node has none.
void SnapshotKeeper::keep_snapshot(ScheduledSequence& sequence, int position, SlotId slot) {
  const auto n_nodes = static_cast<size_t>(position / kPageTokens);
  if (n_nodes > sequence.kv.nodes.size()) return;  // No node was free for the page.
  const NodeId node = sequence.kv.nodes[n_nodes - 1];
  if (slots_.snapshot_of(node) != kNoSlot) return;
  slots_.keep(node, slot);
  changes_.add(sequence.organization);
}

// Stores a snapshot at the end of the output and drops the sequence's previous one. The next prompt of a conversation
// often begins with the whole output, and rarely with only part of it. No other sequence's snapshot is dropped for
// this.
void SnapshotKeeper::keep_answer_snapshot(ScheduledSequence& sequence) {
  KvState& kv = sequence.kv;
  if (kv.answer_snapshot != kNoNode) {
    const SlotId before = slots_.snapshot_of(kv.answer_snapshot);
    if (before != kNoSlot && slots_.ref_count(before) == 1) slots_.drop(kv.answer_snapshot);
  }
  kv.answer_snapshot = kNoNode;
  if (slots_.free() == 0 || kv.n_indexed() * kPageTokens < kv.n_computed) return;
  const NodeId node = kv.last_node();
  if (slots_.snapshot_of(node) != kNoSlot) return;
  slots_.keep(node, kv.slot);
  changes_.add(sequence.organization);
  kv.answer_snapshot = node;
}

void SnapshotKeeper::resume(KvState& kv) {
  if (!any()) return;
  if (kv.slot != kNoSlot) slots_.release(kv.slot);
  kv.slot = slots_.snapshot_of(kv.last_node());
  slots_.share(kv.slot);
}

void SnapshotKeeper::share(const KvState& lead, KvState& fork) {
  fork.slot = lead.slot;
  if (fork.slot != kNoSlot) slots_.share(fork.slot);
}

void SnapshotKeeper::release(KvState& kv) {
  for (SlotId* slot : {&kv.slot, &kv.draft_slot}) {
    if (*slot != kNoSlot) slots_.release(*slot);
    *slot = kNoSlot;
  }
  kv.answer_snapshot = kNoNode;
}

void SnapshotKeeper::allocate_draft_slot(KvState& kv, int n_drafts) {
  kv.draft_slot = slots_.allocate();
  kv.n_drafted = n_drafts;
}

bool SnapshotKeeper::accept_draft(KvState& kv) {
  if (--kv.n_drafted > 0) return false;
  slots_.release(kv.slot);
  kv.slot = std::exchange(kv.draft_slot, kNoSlot);
  return true;
}

void SnapshotKeeper::drop_draft_slots(std::span<ScheduledSequence* const> sequences) {
  if (!any()) return;
  for (ScheduledSequence* sequence : sequences) {
    if (sequence->kv.draft_slot != kNoSlot) slots_.release(sequence->kv.draft_slot);
    sequence->kv.draft_slot = kNoSlot;
    sequence->kv.n_drafted = 0;
  }
}

}  // namespace monolith
