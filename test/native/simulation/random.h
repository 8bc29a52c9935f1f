// The only source of randomness in a simulation. Unlike the distributions in the standard library, it returns equal
// numbers for equal seeds on every machine and with every compiler.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace monolith::simulation {

// One round of SplitMix64 (Steele, Lea and Flood 2014): every input bit affects every output bit.
inline uint64_t scramble(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(scramble(seed)) {}
  // A random number generator for one purpose within a run. Its numbers do not depend on how many numbers other
  // generators produce.
  Random(uint64_t seed, uint64_t place) : state_(scramble(scramble(seed) ^ scramble(~place))) {}

  uint64_t next() { return scramble(state_ += 0x9E3779B97F4A7C15u); }
  // Returns a number in [0, n).
  int below(int n) { return static_cast<int>(next() >> 33) % n; }
  // Returns a number in [least, most].
  int from(int least, int most) { return least + below(most - least + 1); }
  bool one_in(int n) { return below(n) == 0; }
  template <typename T>
  T among(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }

 private:
  uint64_t state_;
};

}  // namespace monolith::simulation
