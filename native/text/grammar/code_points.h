// Sets of Unicode code points, stored as sorted ranges, and the coarsest partition of all code points that
// distinguishes a given list of sets. These are plain values without shared state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace monolith::grammar {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;
inline constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// A set of code points, stored as inclusive ranges in ascending order that neither overlap nor touch. Never contains
// surrogates.
class CodePointSet {
 public:
  struct Range {
    uint32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CodePointSet() = default;
  static CodePointSet all();
  static CodePointSet of(uint32_t code_point) { return of(code_point, code_point); }
  static CodePointSet of(uint32_t first, uint32_t last);

  void add(uint32_t first, uint32_t last);
  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet minus(const CodePointSet& other) const;
  bool contains(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  std::span<const Range> ranges() const { return ranges_; }
  bool operator==(const CodePointSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

using CharClassId = uint16_t;

// Partition into equivalence classes: two code points are in the same class if each of the given sets contains either
// both or neither. Class IDs are dense, starting at 0.
class CharPartition {
 public:
  static constexpr size_t kMaxClasses = 4096;

  // Adds a set whose members must be distinguished from all other code points. Must not be called after freeze().
  void separate(const CodePointSet& set);
  void separate(uint32_t code_point);
  // Builds the classes. Returns false if there would be more than kMaxClasses.
  bool freeze();

  size_t n_classes() const { return n_classes_; }
  CharClassId class_of(uint32_t code_point) const {
    if (code_point < 128) return ascii_[code_point];
    return wide_class_of(code_point);
  }
  // Calls `visit(class, n)` for intervals that together cover [first, last]; the code points of each interval are in
  // the same class. `n` is the number of characters in the interval, or 0 for surrogates. A class may be visited
  // several times.
  template <typename Visit>
  void for_each_class(uint32_t first, uint32_t last, Visit&& visit) const {
    for (size_t at = interval_of(first); at < starts_.size() && starts_[at] <= last; ++at) {
      const uint32_t end = at + 1 < starts_.size() ? starts_[at + 1] - 1 : kLastCodePoint;
      const bool is_surrogate = starts_[at] >= kFirstSurrogate && starts_[at] <= kLastSurrogate;
      visit(classes_[at], is_surrogate ? 0 : std::min(end, last) - std::max(starts_[at], first) + 1);
    }
  }
  // Returns an arbitrary code point of the class, for messages and forced text.
  uint32_t example(CharClassId id) const { return examples_[id]; }
  // Number of characters in the class.
  uint32_t size(CharClassId id) const { return sizes_[id]; }

 private:
  size_t interval_of(uint32_t code_point) const;
  CharClassId wide_class_of(uint32_t code_point) const { return classes_[interval_of(code_point)]; }

  std::vector<std::vector<CodePointSet::Range>> sets_;
  std::vector<uint32_t> starts_;      // First code point of each interval; an interval lies within one class.
  std::vector<CharClassId> classes_;  // Class of each interval.
  std::vector<uint32_t> examples_, sizes_;
  std::vector<uint32_t> points_;  // Boundaries collected before freeze().
  std::vector<bool> single_;      // ASCII code points that were added individually.
  CharClassId ascii_[128] = {};
  size_t n_classes_ = 0;
};

}  // namespace monolith::grammar
