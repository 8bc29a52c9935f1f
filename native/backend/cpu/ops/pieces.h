// The amount of work that one thread does in about the time it takes to start a parallel section (2 us). With less
// work, waking another thread costs more than it saves.
#pragma once

#include <algorithm>
#include <cstdint>

namespace monolith {

inline constexpr int64_t kProductsAlone = 64 * 1024;  // Multiplications.
inline constexpr int64_t kElementsPerPiece = 16384;   // Elements moved or added.

inline int64_t rows_per_piece(int64_t dim) {
  return std::max<int64_t>(1, kElementsPerPiece / std::max<int64_t>(1, dim));
}

}  // namespace monolith
