// Many short strings in one allocation, and a flat hash table from string to index. Once built, they may be read from
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace monolith {

// Strings numbered 0, 1, 2, ... in the order of push() calls.
class StringArena {
 public:
  void reserve(size_t count, size_t bytes) {
    offsets_.reserve(count + 1);
    bytes_.reserve(bytes);
  }
  void push(std::string_view text) {
    bytes_.append(text);
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  size_t size() const { return offsets_.size() - 1; }
  size_t bytes() const { return bytes_.size(); }
  std::string_view operator[](size_t i) const { return {bytes_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]}; }

 private:
  std::string bytes_;
  std::vector<uint32_t> offsets_{0};
};

// Maps each string in `arena` to its index. The hash table uses open addressing and is at most half full. The arena
// must outlive the table.
class StringTable {
 public:
  static constexpr int32_t kAbsent = -1;

  StringTable(const StringArena& arena, size_t capacity);
  // Returns the index that is already stored for the same string. If no index is stored, stores `index` and returns
  // kAbsent.
  int32_t insert(int32_t index);
  int32_t find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t tag = 0;  // Upper half of the hash.
    int32_t index = kAbsent;
  };
  const StringArena* arena_;
  uint64_t seed_;
  size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace monolith
