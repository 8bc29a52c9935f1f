// The part of Scheduler that says which slots recurrent state goes through, and where snapshots of it stay.
#include <algorithm>
#include <cassert>

#include "engine/schedule/scheduler.h"

namespace monolith {

// The next position behind `after` at which a prompt leaves a snapshot: a multiple of the distance, or the last at which
// another prompt that begins with the whole of it could go on.
int Scheduler::next_snapshot(const Sequence& sequence, int after) const {
  const int of_distance = (after / snapshot_distance_ + 1) * snapshot_distance_;
  const int last = (sequence.length() - 1) / kPageTokens * kPageTokens;
  return last > after ? std::min(of_distance, last) : of_distance;
}

// The slots on the item's way. False: there is none to write to now.
bool Scheduler::plan_pieces(Sequence& sequence, StepPlan::Item& item) {
  StateSlots& slots = cache_.slots();
  const auto is_own = [&] { return sequence.slot != kNoSlot && slots.references(sequence.slot) == 1; };
  SlotId own = is_own() ? sequence.slot : slots.allocate();
  if (own == kNoSlot && sequence.slot != kNoSlot && slots.node_of(sequence.slot) != kNoPage) {
    // Rather its snapshot than its turn.
    slots.drop(slots.node_of(sequence.slot));
    if (is_own()) own = sequence.slot;
  }
  if (own == kNoSlot) return false;
  item.first_piece = static_cast<int>(plan_.pieces.size());
  const int end = sequence.n_computed + item.n_tokens;
  int at = sequence.n_computed;
  SlotId from = sequence.slot;
  if (uses_cache(sequence) && !sequence.decoding()) {
    for (int next; (next = next_snapshot(sequence, at)) < end;) {
      const SlotId kept = slots.allocate();
      if (kept == kNoSlot) break;
      plan_.pieces.push_back({next - at, from, kept});
      from = kept;
      at = next;
    }
  }
  plan_.pieces.push_back({end - at, from, own});
  item.n_pieces = static_cast<int>(plan_.pieces.size()) - item.first_piece;
  return true;
}

// The item is computed, and its full pages are indexed.
void Scheduler::settle_pieces(const StepPlan::Item& item) {
  if (item.n_pieces == 0) return;
  Sequence& sequence = *item.sequence;
  StateSlots& slots = cache_.slots();
  const std::span<const StepPlan::Piece> pieces = plan_.pieces_of(item);
  int at = sequence.n_computed - item.n_tokens;
  for (const StepPlan::Piece& piece : pieces.first(pieces.size() - 1)) {
    at += piece.n_tokens;
    keep_snapshot(sequence, at, piece.to);
    slots.release(piece.to);
  }
  if (const SlotId to = pieces.back().to; to != sequence.slot) {
    if (sequence.slot != kNoSlot) slots.release(sequence.slot);
    sequence.slot = to;
  }
  if (!uses_cache(sequence) || sequence.n_computed % kPageTokens != 0) return;
  if (sequence.n_computed > sequence.n_prompt) {
    keep_answer_snapshot(sequence);
  } else if (next_snapshot(sequence, sequence.n_computed - 1) == sequence.n_computed) {
    keep_snapshot(sequence, sequence.n_computed, sequence.slot);
  }
}

// `slot` holds the state behind the sequence's page that ends at `position`.
void Scheduler::keep_snapshot(Sequence& sequence, int position, SlotId slot) {
  const PageId node = sequence.pages[static_cast<size_t>(position / kPageTokens) - 1];
  if (cache_.slots().snapshot_of(node) == kNoSlot) cache_.slots().keep(node, slot);
}

// An answer is often the beginning of the next request's prompt, but only its end is: the snapshot before goes. Nobody
// else's goes for it.
void Scheduler::keep_answer_snapshot(Sequence& sequence) {
  StateSlots& slots = cache_.slots();
  if (sequence.answer_snapshot != kNoPage) {
    const SlotId before = slots.snapshot_of(sequence.answer_snapshot);
    if (before != kNoSlot && slots.references(before) == 1) slots.drop(sequence.answer_snapshot);
  }
  sequence.answer_snapshot = kNoPage;
  if (slots.free() == 0) return;
  const PageId node = sequence.pages[static_cast<size_t>(sequence.n_computed / kPageTokens) - 1];
  if (slots.snapshot_of(node) != kNoSlot) return;
  slots.keep(node, sequence.slot);
  sequence.answer_snapshot = node;
}

// What became of the last step's guesses is known: where not all were right, the state behind them is nobody's.
void Scheduler::drop_guess_slots() {
  if (!has_slots()) return;
  for (Sequence* sequence : running_) {
    if (sequence->guess_slot != kNoSlot) cache_.slots().release(sequence->guess_slot);
    sequence->guess_slot = kNoSlot;
    sequence->n_guessed = 0;
  }
}

void Scheduler::release_slots(Sequence& sequence) {
  for (SlotId* slot : {&sequence.slot, &sequence.guess_slot}) {
    if (*slot != kNoSlot) cache_.slots().release(*slot);
    *slot = kNoSlot;
  }
  sequence.answer_snapshot = kNoPage;
}

}  // namespace monolith
