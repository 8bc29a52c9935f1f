// Byte-pair merging, shared by both families: neighbouring symbols join in the order of their
// pair's rank, the leftmost first among equals, until no pair has a rank. In SentencePiece files
// the ranks stand for the scores of the pieces that the pairs make.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer/hashing.h"

namespace monolith {

// A non-negative symbol is an entry of the merge table's alphabet (a token, or a character that
// only occurs within tokens). A negative one never merges; its meaning is the caller's.
using Symbol = int32_t;

inline constexpr uint32_t kNoRank = UINT32_MAX;

// What becomes of a pair of symbols.
struct Merge {
  uint32_t rank = kNoRank;  // kNoRank: the pair does not merge
  Symbol result = -1;
};

// From a pair of symbols to its merge. Built once, then read by any thread.
class MergeTable {
 public:
  explicit MergeTable(size_t capacity);
  // The first entry of a pair wins. `left` and `right` are not negative.
  void insert(Symbol left, Symbol right, Merge merge);
  Merge find(Symbol left, Symbol right) const {
    if ((left | right) < 0) return {};
    const uint64_t key = key_of(left, right);
    size_t at = slot_of(key);
    for (; slots_[at].merge.rank != kNoRank; at = (at + 1) & mask_)
      if (slots_[at].key == key) return slots_[at].merge;
    return {};
  }

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };
  static uint64_t key_of(Symbol left, Symbol right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return hashing::of_integer(key, seed_) & mask_; }
  void grow();

  uint64_t seed_;
  size_t used_ = 0;
  size_t mask_;
  std::vector<Slot> slots_;
};

// Working memory of merging; one per encode call, reused from word to word.
class Merger {
 public:
  // Replaces `symbols` by what is left after all merges. Short sequences are searched for the best
  // pair again and again, long ones keep the pairs in a heap: O(n log n), and no recursion.
  void merge(const MergeTable& table, std::vector<Symbol>& symbols);

 private:
  struct Link {
    int32_t previous, next;  // -1 at the ends
    Merge merge;             // with the next symbol
  };
  void merge_short(const MergeTable& table, std::vector<Symbol>& symbols);
  void merge_long(const MergeTable& table, std::vector<Symbol>& symbols);

  std::vector<Link> links_;
  std::vector<uint64_t> heap_;  // rank << 32 | position of the left symbol
};

}  // namespace monolith
