// Sets of Unicode code points as sorted ranges, and their partition into classes that a set of sets cannot
// tell apart. Pure values; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace monolith::grammar {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;
inline constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// Inclusive, ascending, neither overlapping nor touching. Surrogates are never part of one.
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

// Code points that every given set either has or lacks together. Class ids are dense from 0.
class CharPartition {
 public:
  static constexpr size_t kMostClasses = 4096;

  // Adds a set whose members must be told apart from others. Before freeze().
  void separate(const CodePointSet& set);
  void separate(uint32_t code_point);
  // False if there are more than kMostClasses.
  bool freeze();

  size_t n_classes() const { return n_classes_; }
  CharClassId class_of(uint32_t code_point) const {
    if (code_point < 128) return ascii_[code_point];
    return wide_class_of(code_point);
  }
  // Calls `visit(class, n)` for every class that has code points in [first, last], each once per range: `n` of them are
  // characters, none where they are surrogates.
  template <typename Visit>
  void for_each_class(uint32_t first, uint32_t last, Visit&& visit) const {
    for (size_t at = interval_of(first); at < starts_.size() && starts_[at] <= last; ++at) {
      const uint32_t end = at + 1 < starts_.size() ? starts_[at + 1] - 1 : kLastCodePoint;
      const bool is_surrogate = starts_[at] >= kFirstSurrogate && starts_[at] <= kLastSurrogate;
      visit(classes_[at], is_surrogate ? 0 : std::min(end, last) - std::max(starts_[at], first) + 1);
    }
  }
  // Code points of a class, for messages and forced text: one of them.
  uint32_t example(CharClassId id) const { return examples_[id]; }
  // How many characters a class has.
  uint32_t size(CharClassId id) const { return sizes_[id]; }

 private:
  size_t interval_of(uint32_t code_point) const;
  CharClassId wide_class_of(uint32_t code_point) const { return classes_[interval_of(code_point)]; }

  std::vector<std::vector<CodePointSet::Range>> sets_;
  std::vector<uint32_t> starts_;      // of intervals whose code points are alike
  std::vector<CharClassId> classes_;  // of each interval
  std::vector<uint32_t> examples_, sizes_;
  std::vector<uint32_t> points_;  // boundaries gathered
  std::vector<bool> single_;      // ASCII code points asked for alone
  CharClassId ascii_[128] = {};
  size_t n_classes_ = 0;
};

}  // namespace monolith::grammar
