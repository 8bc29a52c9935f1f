#include "text/grammar/object_members.h"

#include <algorithm>
#include <span>

namespace monolith::grammar {
namespace {

// A set of numbers from 0 to `most`.
class Numbers {
 public:
  explicit Numbers(size_t most) : words_(most / 64 + 1) {}
  void add(size_t number) { words_[number / 64] |= uint64_t{1} << (number % 64); }
  bool has(size_t number) const { return words_[number / 64] >> (number % 64) & 1; }
  // For each number in `others`, inserts its sum with `more`. Sums above `most` are dropped.
  void add(const Numbers& others, size_t more) {
    const size_t bits = more % 64;
    for (size_t to = words_.size(), from = to - more / 64; from-- > 0;) {
      words_[--to] |= others.words_[from] << bits;
      if (bits != 0 && from > 0) words_[to] |= others.words_[from - 1] >> (64 - bits);
    }
  }

 private:
  std::vector<uint64_t> words_;
};

// The optional members of an object, and the requirements between them.
class OpenMembers {
 public:
  OpenMembers(const ObjectShape& object, const std::vector<bool>& must, const std::vector<bool>& may) {
    std::vector<uint32_t> place(may.size());
    uint32_t n = 0;
    for (size_t i = 0; i < may.size(); ++i)
      if (may[i] && !must[i]) place[i] = n++;
    needs_.resize(n);
    needed_by_.resize(n);
    for (const auto& [property, others] : object.needs) {
      if (!may[property] || must[property]) continue;
      for (const uint32_t other : others) {
        if (must[other] || other == property) continue;
        needs_[place[property]].push_back(place[other]);
        needed_by_[place[other]].push_back(place[property]);
        ++n_needs_;
      }
    }
    find_groups();
  }

  // Returns whether the number of present members can lie between `least` and `most`. The trivial cases in which no
  // member or every member is present are not considered.
  std::optional<bool> some_number_within(uint64_t least, uint64_t most, Fuel& fuel) const {
    // Groups can be added one at a time, each after the groups that it requires. Each step raises the count by at most
    // the size of the largest group, so the count cannot skip a range that is at least this wide.
    if (*std::ranges::max_element(group_sizes_) <= most - least + 1) return true;
    const size_t n = needs_.size();
    std::vector<bool> placed(n);
    Numbers sums(n);
    sums.add(0);
    size_t n_loose = 0;  // Number of members in components that allow any count.
    for (uint32_t i = 0; i < n; ++i) {
      if (placed[i]) continue;
      const std::vector<uint32_t> part = part_of(i, placed);
      if (std::ranges::none_of(part, [&](uint32_t one) { return is_grouped(one); })) {
        n_loose += part.size();
        continue;
      }
      Numbers sizes(part.size());
      if (!add_sizes(part, sizes, fuel)) return std::nullopt;
      Numbers with(n);
      for (size_t size = 0; size <= part.size(); ++size)
        if (sizes.has(size)) with.add(sums, size);
      sums = std::move(with);
      if (!fuel.spend(n / 64 * part.size())) return std::nullopt;
    }
    for (size_t sum = 0; sum <= n && sum <= most; ++sum)
      if (sums.has(sum) && sum + n_loose >= least) return true;
    return false;
  }

 private:
  enum class Choice : uint8_t { kOpen, kIn, kOut };

  bool is_grouped(uint32_t member) const { return group_sizes_[group_of_[member]] > 1; }

  // Finds the groups of members that require one another, directly or indirectly: the strongly connected components
  // (Tarjan 1972), without recursion.
  void find_groups() {
    constexpr uint32_t kNew = UINT32_MAX;
    struct Visit {
      uint32_t member;
      size_t next;
    };
    const size_t n = needs_.size();
    std::vector<uint32_t> order(n, kNew), lowest(n), stack;
    std::vector<Visit> visits;
    group_of_.assign(n, kNew);
    uint32_t n_seen = 0;
    for (uint32_t root = 0; root < n; ++root) {
      if (order[root] != kNew) continue;
      visits.push_back({root, 0});
      while (!visits.empty()) {
        auto& [member, next] = visits.back();
        if (next == 0 && order[member] == kNew) {
          order[member] = lowest[member] = n_seen++;
          stack.push_back(member);
        }
        if (next < needs_[member].size()) {
          const uint32_t other = needs_[member][next++];
          if (order[other] == kNew)
            visits.push_back({other, 0});
          else if (group_of_[other] == kNew)
            lowest[member] = std::min(lowest[member], order[other]);
          continue;
        }
        const uint32_t done = member;
        visits.pop_back();
        if (!visits.empty()) lowest[visits.back().member] = std::min(lowest[visits.back().member], lowest[done]);
        if (lowest[done] != order[done]) continue;
        const auto group = static_cast<uint32_t>(group_sizes_.size());
        group_sizes_.push_back(0);
        for (uint32_t one = kNew; one != done;) {
          one = stack.back();
          stack.pop_back();
          group_of_[one] = group;
          ++group_sizes_[group];
        }
      }
    }
  }

  // Returns the connected component of `member`. Requirements are followed in both directions.
  std::vector<uint32_t> part_of(uint32_t member, std::vector<bool>& placed) const {
    std::vector<uint32_t> part{member};
    placed[member] = true;
    for (size_t at = 0; at < part.size(); ++at)
      for (const auto* ties : {&needs_[part[at]], &needed_by_[part[at]]})
        for (const uint32_t other : *ties)
          if (!placed[other]) placed[other] = true, part.push_back(other);
    return part;
  }

  // Adds the possible member counts of one component. Each group is tried both with and without its members; the
  // remaining members can then be added one by one. Returns false if the fuel runs out.
  bool add_sizes(std::span<const uint32_t> part, Numbers& sizes, Fuel& fuel) const {
    if (group_sizes_[group_of_[part.front()]] == part.size()) {
      sizes.add(0);
      sizes.add(part.size());
      return true;
    }
    std::vector<std::vector<Choice>> ways;
    ways.emplace_back(needs_.size(), Choice::kOpen);
    while (!ways.empty()) {
      if (!fuel.spend(1 + (needs_.size() + n_needs_) / 4)) return false;
      std::vector<Choice> way = std::move(ways.back());
      ways.pop_back();
      const auto group =
          std::ranges::find_if(part, [&](uint32_t one) { return way[one] == Choice::kOpen && is_grouped(one); });
      if (group == part.end()) {
        const auto n_in =
            static_cast<size_t>(std::ranges::count_if(part, [&](uint32_t one) { return way[one] == Choice::kIn; }));
        const auto n_out =
            static_cast<size_t>(std::ranges::count_if(part, [&](uint32_t one) { return way[one] == Choice::kOut; }));
        for (size_t size = n_in; size <= part.size() - n_out; ++size) sizes.add(size);
        continue;
      }
      std::vector<Choice> without = way;
      choose(*group, Choice::kIn, needs_, way);
      choose(*group, Choice::kOut, needed_by_, without);
      ways.push_back(std::move(way));
      ways.push_back(std::move(without));
    }
    return true;
  }

  static void choose(uint32_t member, Choice choice, const std::vector<std::vector<uint32_t>>& ties,
                     std::vector<Choice>& way) {
    std::vector<uint32_t> open{member};
    way[member] = choice;
    while (!open.empty()) {
      const uint32_t one = open.back();
      open.pop_back();
      for (const uint32_t other : ties[one])
        if (way[other] == Choice::kOpen) way[other] = choice, open.push_back(other);
    }
  }

  std::vector<std::vector<uint32_t>> needs_, needed_by_;
  size_t n_needs_ = 0;
  std::vector<uint32_t> group_of_, group_sizes_;
};

// The number of fuel steps that one pass over all requirements costs.
size_t steps_of(const ObjectShape& object) {
  size_t steps = object.needs.size();
  for (const auto& [property, others] : object.needs) steps += others.size();
  return steps;
}

}  // namespace

bool counts_names(const ObjectShape& object) {
  if (object.marks_values) return true;
  const auto n_required =
      std::ranges::count_if(object.properties, [](const auto& property) { return property.required; });
  return object.least > static_cast<uint64_t>(n_required) + 1;
}

std::optional<uint32_t> members_for_marks(uint32_t missing, uint32_t offered, bool together) {
  if (missing == 0) return 0;
  if ((missing & ~offered) != 0) return std::nullopt;
  return (missing & (missing - 1)) == 0 || together ? 1 : 2;
}

void add_needed(const ObjectShape& object, std::vector<bool>& there) {
  const auto& needs = object.needs;
  if (needs.empty()) return;
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < there.size(); ++i)
    if (there[i]) open.push_back(i);
  while (!open.empty()) {
    const uint32_t property = open.back();
    open.pop_back();
    for (auto at = std::ranges::lower_bound(needs, property, {}, [](const auto& one) { return one.first; });
         at != needs.end() && at->first == property; ++at)
      for (const uint32_t other : at->second) {
        if (there[other]) continue;
        there[other] = true;
        open.push_back(other);
      }
  }
}

bool drop_unmet(const ObjectShape& object, std::vector<bool>& may, Fuel& fuel) {
  bool changed = false;
  const auto look = [&](const auto& need) {
    if (!may[need.first] || std::ranges::all_of(need.second, [&](uint32_t other) { return may[other]; })) return;
    may[need.first] = false;
    changed = true;
  };
  // Passes alternate in direction, so a chain of requirements takes at most two passes regardless of its direction.
  const size_t steps = steps_of(object) / 8;
  do {
    if (!fuel.spend(steps)) return false;
    changed = false;
    std::for_each(object.needs.rbegin(), object.needs.rend(), look);
    if (changed) std::for_each(object.needs.begin(), object.needs.end(), look);
  } while (changed);
  return true;
}

std::optional<bool> can_have(const ObjectShape& object, std::vector<bool> must, std::vector<bool> may, uint64_t least,
                             uint64_t most, Fuel& fuel) {
  if (!drop_unmet(object, may, fuel)) return std::nullopt;
  add_needed(object, must);
  uint64_t n_must = 0, n_may = 0;
  for (size_t i = 0; i < must.size(); ++i) {
    if (must[i] && !may[i]) return false;
    n_must += must[i];
    n_may += may[i];
  }
  if (least > most || n_must > most || n_may < least) return false;
  if (n_must >= least || n_may <= most || object.needs.empty()) return true;
  if (!fuel.spend(n_may + steps_of(object))) return std::nullopt;
  return OpenMembers(object, must, may).some_number_within(least - n_must, most - n_must, fuel);
}

}  // namespace monolith::grammar
