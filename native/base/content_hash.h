// A content hash, which serves as an image's key in the prefix cache and in the embedding cache.
#pragma once

#include <cstdint>

namespace monolith {

// Collision-resistant hash of the data from which an embedding span was computed.
struct ContentHash {
  uint64_t high = 0, low = 0;
  bool operator==(const ContentHash&) const = default;
};

}  // namespace monolith
