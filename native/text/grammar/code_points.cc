#include "text/grammar/code_points.h"

#include <algorithm>
#include <map>

#include "text/grammar/mix.h"

namespace monolith::grammar {

CodePointSet CodePointSet::all() {
  CodePointSet set;
  set.ranges_ = {{0, kFirstSurrogate - 1}, {kLastSurrogate + 1, kLastCodePoint}};
  return set;
}

CodePointSet CodePointSet::of(uint32_t first, uint32_t last) {
  CodePointSet set;
  set.add(first, last);
  return set;
}

void CodePointSet::add(uint32_t first, uint32_t last) {
  last = std::min(last, kLastCodePoint);
  if (first > last) return;
  if (first <= kLastSurrogate && last >= kFirstSurrogate) {
    if (first < kFirstSurrogate) add(first, kFirstSurrogate - 1);
    if (last > kLastSurrogate) add(kLastSurrogate + 1, last);
    return;
  }
  // Finds the first range that overlaps, touches or follows [first, last].
  auto at = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                             [](const Range& range, uint32_t value) { return range.last + 1 < value; });
  auto end = at;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  at = ranges_.erase(at, end);
  ranges_.insert(at, {first, last});
}

void CodePointSet::add(const CodePointSet& other) {
  for (const Range& range : other.ranges_) add(range.first, range.last);
}

CodePointSet CodePointSet::complement() const { return all().minus(*this); }

CodePointSet CodePointSet::minus(const CodePointSet& other) const {
  CodePointSet left;
  auto cut = other.ranges_.begin();
  for (Range range : ranges_) {
    while (cut != other.ranges_.end() && cut->last < range.first) ++cut;
    auto at = cut;
    while (at != other.ranges_.end() && at->first <= range.last) {
      if (at->first > range.first) left.ranges_.push_back({range.first, at->first - 1});
      range.first = at->last + 1;
      if (range.first > range.last) break;
      ++at;
    }
    if (range.first <= range.last) left.ranges_.push_back(range);
  }
  return left;
}

bool CodePointSet::contains(uint32_t code_point) const {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), code_point,
                                   [](const Range& range, uint32_t value) { return range.last < value; });
  return at != ranges_.end() && at->first <= code_point;
}

void CharPartition::separate(const CodePointSet& set) {
  const auto ranges = set.ranges();
  sets_.emplace_back(ranges.begin(), ranges.end());
}

void CharPartition::separate(uint32_t code_point) {
  if (code_point >= 128) {
    sets_.push_back({{code_point, code_point}});
    return;
  }
  if (single_.empty()) single_.resize(128);
  single_[code_point] = true;
}

bool CharPartition::freeze() {
  for (uint32_t c = 0; c < single_.size(); ++c)
    if (single_[c]) sets_.push_back({{c, c}});
  std::sort(sets_.begin(), sets_.end(), [](const auto& a, const auto& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.first != y.first ? x.first < y.first : x.last < y.last;
    });
  });
  sets_.erase(std::unique(sets_.begin(), sets_.end()), sets_.end());

  starts_ = {0, kFirstSurrogate, kLastSurrogate + 1};
  for (const auto& ranges : sets_) {
    for (const auto& range : ranges) {
      starts_.push_back(range.first);
      if (range.last < kLastCodePoint) starts_.push_back(range.last + 1);
    }
  }
  std::sort(starts_.begin(), starts_.end());
  starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());

  // Two intervals are in the same class if they are contained in the same sets. Each set has two random numbers, and an
  // interval is identified by the two sums of these numbers over the sets that contain it. A collision of both sums is
  // practically impossible.
  struct Sum {
    uint64_t a = 0, b = 0;
    auto operator<=>(const Sum&) const = default;
  };
  std::vector<Sum> sums(starts_.size() + 1);
  for (size_t i = 0; i < sets_.size(); ++i) {
    const Sum number{mix(0x5eed, i), mix(i, 0x5eed)};
    for (const auto& range : sets_[i]) {
      Sum& from = sums[interval_of(range.first)];
      from.a += number.a, from.b += number.b;
      Sum& behind = sums[interval_of(range.last) + 1];
      behind.a -= number.a, behind.b -= number.b;
    }
  }
  for (size_t at = 1; at < sums.size(); ++at) sums[at].a += sums[at - 1].a, sums[at].b += sums[at - 1].b;
  std::map<Sum, CharClassId> dense;
  classes_.resize(starts_.size());
  for (size_t at = 0; at < starts_.size(); ++at) {
    const auto [found, is_new] = dense.emplace(sums[at], static_cast<CharClassId>(dense.size()));
    if (dense.size() > kMaxClasses) return false;
    classes_[at] = found->second;
    if (is_new) examples_.push_back(starts_[at]);
  }
  n_classes_ = dense.size();
  sizes_.resize(n_classes_);
  for_each_class(0, kLastCodePoint, [&](CharClassId id, uint32_t n) { sizes_[id] += n; });
  for (uint32_t c = 0; c < 128; ++c) ascii_[c] = classes_[interval_of(c)];
  sets_.clear();
  return true;
}

size_t CharPartition::interval_of(uint32_t code_point) const {
  return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), code_point) - starts_.begin()) - 1;
}

}  // namespace monolith::grammar
