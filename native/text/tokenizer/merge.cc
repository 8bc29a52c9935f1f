#include "text/tokenizer/merge.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace monolith {
namespace {

// Maximum length of a sequence for which a linear search is faster than the heap, as measured on English text, code and
// random letters.
constexpr size_t kShort = 48;

}  // namespace

MergeTable::MergeTable(size_t capacity)
    : seed_(hash_seed()), mask_(std::bit_ceil(capacity * 2 + 2) - 1), slots_(mask_ + 1) {}

void MergeTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.merge.rank == kNoRank) continue;
    size_t at = slot_of(slot.key);
    while (slots_[at].merge.rank != kNoRank) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
}

void MergeTable::insert(Symbol left, Symbol right, Merge merge) {
  if ((used_ + 1) * 2 > slots_.size()) grow();
  const uint64_t key = key_of(left, right);
  size_t at = slot_of(key);
  for (; slots_[at].merge.rank != kNoRank; at = (at + 1) & mask_)
    if (slots_[at].key == key) return;
  slots_[at] = {key, merge};
  ++used_;
}

void Merger::merge(const MergeTable& table, std::vector<Symbol>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShort)
    merge_short(table, symbols);
  else
    merge_long(table, symbols);
}

void Merger::merge_short(const MergeTable& table, std::vector<Symbol>& symbols) {
  Merge merges[kShort];  // merges[i] joins symbols i and i + 1.
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = table.find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == kNoRank) break;
    symbols[best] = merges[best].result;
    std::copy(symbols.begin() + best + 2, symbols.begin() + n, symbols.begin() + best + 1);
    if (best + 2 < n) std::copy(merges + best + 1, merges + n - 1, merges + best);
    --n;
    if (best > 0) merges[best - 1] = table.find(symbols[best - 1], symbols[best]);
    if (best + 1 < n) merges[best] = table.find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(n);
}

void Merger::merge_long(const MergeTable& table, std::vector<Symbol>& symbols) {
  const size_t n = symbols.size();
  links_.resize(n);
  heap_.clear();
  const auto key = [](Merge merge, int32_t left) {
    return static_cast<uint64_t>(merge.rank) << 32 | static_cast<uint32_t>(left);
  };
  for (size_t i = 0; i < n; ++i) {
    const bool last = i + 1 == n;
    const Merge merge = last ? Merge{} : table.find(symbols[i], symbols[i + 1]);
    links_[i] = {static_cast<int32_t>(i) - 1, last ? -1 : static_cast<int32_t>(i) + 1, merge};
    if (merge.rank != kNoRank) heap_.push_back(key(merge, static_cast<int32_t>(i)));
  }
  const auto lower_first = std::greater<uint64_t>();
  std::make_heap(heap_.begin(), heap_.end(), lower_first);

  const auto update = [&](int32_t left) {
    Link& link = links_[left];
    const Merge merge = link.next < 0 ? Merge{} : table.find(symbols[left], symbols[link.next]);
    link.merge = merge;
    if (merge.rank == kNoRank) return;
    heap_.push_back(key(merge, left));
    std::push_heap(heap_.begin(), heap_.end(), lower_first);
  };

  while (!heap_.empty()) {
    const uint64_t top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), lower_first);
    heap_.pop_back();
    const int32_t left = static_cast<int32_t>(top & UINT32_MAX);
    Link& link = links_[left];
    // An entry is stale if its pair has changed since the entry was pushed. If the changed pair happens to have the
    // same rank as before, this entry counts as valid, and the newer entry for the same pair becomes stale.
    if (link.merge.rank != top >> 32) continue;
    const int32_t right = link.next;
    symbols[left] = link.merge.result;
    link.next = links_[right].next;
    links_[right].merge = {};
    if (link.next >= 0) links_[link.next].previous = left;
    update(left);
    if (link.previous >= 0) update(link.previous);
  }

  size_t count = 0;
  for (int32_t i = 0; i >= 0; i = links_[i].next) symbols[count++] = symbols[i];
  symbols.resize(count);
}

}  // namespace monolith
