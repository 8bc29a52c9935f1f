#include "text/tokenizer/string_table.h"

#include <bit>
#include <random>

#include "text/tokenizer/hashing.h"

namespace monolith {

uint64_t hash_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }();
  return seed;
}

StringTable::StringTable(const StringArena& arena, size_t capacity)
    : arena_(&arena), seed_(hash_seed()), mask_(std::bit_ceil(capacity * 2 + 2) - 1), slots_(mask_ + 1) {}

int32_t StringTable::insert(int32_t index) {
  const std::string_view text = (*arena_)[static_cast<size_t>(index)];
  const uint64_t hash = hashing::of_bytes(text, seed_);
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask_;
  for (; slots_[at].index != kAbsent; at = (at + 1) & mask_)
    if (slots_[at].tag == tag && (*arena_)[static_cast<size_t>(slots_[at].index)] == text) return slots_[at].index;
  slots_[at] = {tag, index};
  return kAbsent;
}

int32_t StringTable::find(std::string_view text) const {
  const uint64_t hash = hashing::of_bytes(text, seed_);
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & mask_; slots_[at].index != kAbsent; at = (at + 1) & mask_)
    if (slots_[at].tag == tag && (*arena_)[static_cast<size_t>(slots_[at].index)] == text) return slots_[at].index;
  return kAbsent;
}

}  // namespace monolith
