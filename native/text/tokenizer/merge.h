// Byte-pair merging, shared by byte-level BPE and SentencePiece. Neighboring symbols are merged in the order of their
// pair's rank (leftmost first if ranks are equal) until no remaining pair has a rank. For SentencePiece files, the
// ranks are derived from the scores of the merged pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer/hashing.h"

namespace monolith {

// A non-negative symbol is an entry of the merge table's alphabet: a token, or a character that occurs only within
// tokens. A negative symbol never merges; the caller defines its meaning.
using Symbol = int32_t;

inline constexpr uint32_t kNoRank = UINT32_MAX;

// Result of merging a pair of symbols.
struct Merge {
  uint32_t rank = kNoRank;  // kNoRank = the pair does not merge.
  Symbol result = -1;
};

// Maps a pair of symbols to its merge. Once the table is built, any thread may read it.
class MergeTable {
 public:
  explicit MergeTable(size_t capacity);
  // Inserts a merge. If the pair is already present, the existing entry is kept. `left` and `right` must not be
  // negative.
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

// Scratch memory for merging. Each encode call has its own scratch memory and reuses it for every word.
class Merger {
 public:
  // Replaces `symbols` with the symbols that remain after all merges. In a short sequence, the best pair is searched
  // for again after every merge. In a long sequence, the pairs are kept in a heap, which takes O(n log n) time in
  // total.
  void merge(const MergeTable& table, std::vector<Symbol>& symbols);

 private:
  struct Link {
    int32_t previous, next;  // -1 at the ends.
    Merge merge;             // Merge with the next symbol.
  };
  void merge_short(const MergeTable& table, std::vector<Symbol>& symbols);
  void merge_long(const MergeTable& table, std::vector<Symbol>& symbols);

  std::vector<Link> links_;
  std::vector<uint64_t> heap_;  // rank << 32 | position of the left symbol.
};

}  // namespace monolith
