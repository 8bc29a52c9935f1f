#include "simulation/shrink.h"

#include <algorithm>

namespace monolith::simulation {

// Plain delta debugging (Zeller and Hildebrandt 2002): leaves out runs of consecutive actions, shorter ones in each
// round.
std::vector<bool> shrink(size_t n_actions, const std::function<bool(const std::vector<bool>&)>& fails, int most_runs) {
  std::vector<size_t> kept(n_actions);
  for (size_t i = 0; i < n_actions; ++i) kept[i] = i;
  const auto mask = [&](const std::vector<size_t>& of) {
    std::vector<bool> mask(n_actions, false);
    for (const size_t i : of) mask[i] = true;
    return mask;
  };
  int runs = 0;
  for (size_t length = std::max<size_t>(1, kept.size() / 2); runs < most_runs;) {
    bool shorter = false;
    // Starts from the end, because late actions depend on earlier ones.
    for (size_t end = kept.size(); end > 0 && runs < most_runs;) {
      const size_t begin = end > length ? end - length : 0;
      std::vector<size_t> without(kept.begin(), kept.begin() + static_cast<ptrdiff_t>(begin));
      without.insert(without.end(), kept.begin() + static_cast<ptrdiff_t>(end), kept.end());
      ++runs;
      if (fails(mask(without))) {
        kept = std::move(without);
        shorter = true;
      }
      end = begin;
    }
    if (length > 1)
      length = std::max<size_t>(1, length / 2);
    else if (!shorter)
      break;
  }
  return mask(kept);
}

}  // namespace monolith::simulation
