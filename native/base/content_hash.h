// The name of a content: what the prefix cache and the cache of embeddings know an image by.
#pragma once

#include <cstdint>

namespace monolith {

// Of what a span was computed from, by a function that nobody finds two contents for.
struct ContentHash {
  uint64_t high = 0, low = 0;
  bool operator==(const ContentHash&) const = default;
};

}  // namespace monolith
