// Counts the changes that can make more pages of the prefix cache available to a waiting sequence: nodes or snapshots
// added to the cache, and cached pages taken by other sequences. Engine thread only.
#pragma once

#include <array>
#include <cstdint>

namespace monolith {

class CacheChanges {
 public:
  uint64_t count(uint64_t organization) const { return counts_[organization % counts_.size()]; }
  void add(uint64_t organization) { ++counts_[organization % counts_.size()]; }
  void add_to_all() {
    for (uint64_t& count : counts_) ++count;
  }

 private:
  std::array<uint64_t, 64> counts_{};  // Organizations share entries, which only causes extra look-ups.
};

}  // namespace monolith
