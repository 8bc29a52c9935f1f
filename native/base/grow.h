// Reserves capacity in a vector ahead of insertions that must not fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace monolith {

// Gives `items` capacity for at least `n` items. Grows geometrically, so a sequence of calls with increasing `n` takes
// amortized constant time per item. If it throws std::bad_alloc, nothing has changed.
template <typename T>
void grow(std::vector<T>& items, size_t n) {
  if (items.capacity() < n) items.reserve(std::max(n, 2 * items.capacity()));
}

}  // namespace monolith
