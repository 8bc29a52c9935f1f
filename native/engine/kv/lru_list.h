// LRU list of prefix-cache nodes, window pages or state slots, stored as links in an array. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace monolith {

// Entries ordered by the time at which they became unused. `Id` is an integer or an enumeration; -1 means no entry.
template <typename Id>
class LruList {
 public:
  static constexpr Id kNone{-1};

  // The memory for an entry's link is committed when the entry is first appended. No later call allocates.
  explicit LruList(int64_t n_ids) { links_.reserve(static_cast<size_t>(n_ids)); }

  Id oldest() const { return oldest_; }
  // Returns the entry that follows `id` in order from oldest to newest; kNone if `id` is the newest.
  Id newer(Id id) const { return link(id).newer; }
  uint64_t last_used(Id id) const { return link(id).last_used; }

  void append(Id id, uint64_t now) {
    reach(id);
    link(id) = {newest_, kNone, now};
    (newest_ != kNone ? link(newest_).newer : oldest_) = id;
    newest_ = id;
  }

  // Inserts `id` as the oldest entry.
  void prepend(Id id) {
    reach(id);
    link(id) = {kNone, oldest_, 0};
    (oldest_ != kNone ? link(oldest_).older : newest_) = id;
    oldest_ = id;
  }

  void remove(Id id) {
    const Link& gone = link(id);
    (gone.older != kNone ? link(gone.older).newer : oldest_) = gone.newer;
    (gone.newer != kNone ? link(gone.newer).older : newest_) = gone.older;
  }

  // True if the links are consistent, the list has `n` entries, and `belongs` returns true for each entry.
  template <typename Belongs>
  bool consistent(int64_t n, Belongs&& belongs) const {
    Id older = kNone;
    for (Id id = oldest_; id != kNone; id = link(id).newer) {
      if (link(id).older != older || --n < 0 || !belongs(id)) return false;
      older = id;
    }
    return older == newest_ && n == 0;
  }

 private:
  struct Link {
    Id older = kNone, newer = kNone;
    uint64_t last_used = 0;
  };
  void reach(Id id) {
    if (static_cast<size_t>(id) >= links_.size()) links_.resize(static_cast<size_t>(id) + 1);
  }
  Link& link(Id id) { return links_[static_cast<size_t>(id)]; }
  const Link& link(Id id) const { return links_[static_cast<size_t>(id)]; }

  std::vector<Link> links_;
  Id oldest_ = kNone, newest_ = kNone;
};

}  // namespace monolith
