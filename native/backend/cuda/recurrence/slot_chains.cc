#include "backend/cuda/recurrence/slot_chains.h"

#include <algorithm>
#include <bit>

namespace monolith::cuda {

void SlotChains::reserve(int max_rows) {
  const auto rows = static_cast<size_t>(max_rows);
  if (chain_.size() >= rows) return;
  chain_.resize(rows);
  end_.resize(rows);
  uses_.assign(std::bit_ceil(4 * rows), {});  // A segment uses at most two slots.
}

SlotChains::Use& SlotChains::take_use(int32_t slot) {
  const size_t mask = uses_.size() - 1;
  for (size_t at = static_cast<uint32_t>(slot) * 2654435761u;; ++at) {
    Use& use = uses_[at & mask];
    if (use.step == step_ && use.slot != slot) continue;
    return use;
  }
}

SlotChains::Use* SlotChains::use_of(int32_t slot) {
  Use& use = take_use(slot);
  return use.step == step_ ? &use : nullptr;
}

void SlotChains::link(std::span<const Segment> segments, std::span<DeviceSegment> to) {
  if (++step_ == 0) {
    std::ranges::fill(uses_, Use{});
    step_ = 1;
  }
  bool tangled = false;  // True if a segment belongs to two chains. All segments then become one chain.
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const auto own = static_cast<int32_t>(i);
    to[i].state_from = segment.state_from;
    to[i].state_to = segment.state_to;
    to[i].chain_next = -1;
    to[i].chain_leads = 1;
    if (segment.state_to == kNoSlot) continue;
    int32_t chain = -1;
    const auto join = [&](int32_t other) {
      const int32_t found = chain_[static_cast<size_t>(other)];
      tangled = tangled || (chain >= 0 && chain != found);
      chain = found;
    };
    if (segment.state_from != kNoSlot)
      if (const Use* const use = use_of(segment.state_from); use && use->written) join(use->last);
    if (const Use* const use = use_of(segment.state_to)) {
      join(use->last);
      tangled = tangled || use->shared;
    }
    if (tangled) break;
    if (chain < 0) {
      chain = own;
    } else {
      to[static_cast<size_t>(end_[static_cast<size_t>(chain)])].chain_next = own;
      to[i].chain_leads = 0;
    }
    chain_[i] = chain;
    end_[static_cast<size_t>(chain)] = own;
    const auto note = [&](int32_t slot, bool writes) {
      Use& use = take_use(slot);
      const bool known = use.step == step_;
      const bool other = known && chain_[static_cast<size_t>(use.last)] != chain;
      use = {step_, slot, own, writes || (known && use.written), known && (use.shared || other)};
    };
    if (segment.state_from != kNoSlot) note(segment.state_from, false);
    note(segment.state_to, true);
  }
  if (!tangled) return;
  for (size_t i = 0; i < segments.size(); ++i) {
    to[i].state_from = segments[i].state_from;
    to[i].state_to = segments[i].state_to;
    to[i].chain_leads = i == 0 ? 1 : 0;
    to[i].chain_next = i + 1 < segments.size() ? static_cast<int32_t>(i + 1) : -1;
  }
}

}  // namespace monolith::cuda
