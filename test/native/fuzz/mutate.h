// Common parts of the structure-aware mutators: a random generator and a collection of earlier inputs. A mutator
// changes an input in such a way that the parser still accepts most results. The code after the parser is therefore
// reached more often than with byte mutations. libFuzzer's own mutations are used as well (fuzzer.cc). Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace monolith::fuzzing {

// splitmix64 (Steele, Lea and Flood, 2014). The same seed produces the same mutation.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(bits() % n); }
  bool one_in(size_t n) { return below(n) == 0; }
  template <typename Range>
  const auto& of(const Range& range) {
    return range[below(std::size(range))];
  }

 private:
  uint64_t state_;
};

// The recent inputs of a mutator. It reuses parts of them in new inputs.
template <typename T>
class Donors {
 public:
  void keep(T one, Chance& chance) {
    constexpr size_t kMax = 64;
    if (all_.size() < kMax)
      all_.push_back(std::move(one));
    else if (chance.one_in(4))
      all_[chance.below(kMax)] = std::move(one);
  }
  // Returns a random earlier input. keep() must have been called before.
  const T& any(Chance& chance) const { return all_[chance.below(all_.size())]; }

 private:
  std::vector<T> all_;
};

// The strings with which the source code of the module under test compares its input. scripts/fuzz.mjs writes them to a
// file that is also libFuzzer's dictionary. Empty in tests.
inline const std::vector<std::string>& source_words() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;
    const char* path = std::getenv("MONOLITH_FUZZ_WORDS");
    std::ifstream in(path == nullptr ? "" : path);
    for (std::string line; std::getline(in, line);)
      if (line.size() > 2) all.push_back(line.substr(1, line.size() - 2));
    return all;
  }();
  return words;
}
inline bool has_word(Chance& chance, size_t one_in) { return !source_words().empty() && chance.one_in(one_in); }

// Returns an integer for which arithmetic is likely to fail, such as a type's limit.
inline int64_t odd_integer(Chance& chance, int64_t was) {
  static constexpr int64_t kOdd[] = {0,          1,
                                     2,          3,
                                     4,          5,
                                     7,          8,
                                     9,          15,
                                     16,         17,
                                     31,         32,
                                     33,         63,
                                     64,         65,
                                     127,        128,
                                     255,        256,
                                     257,        511,
                                     512,        1000,
                                     1024,       4095,
                                     4096,       65'535,
                                     65'536,     1 << 20,
                                     INT32_MAX,  int64_t{1} << 31,
                                     UINT32_MAX, int64_t{1} << 32,
                                     INT64_MAX,  INT64_MIN,
                                     -1,         -2,
                                     -128};
  switch (chance.below(6)) {
    case 0: return static_cast<int64_t>(static_cast<uint64_t>(was) + 1);
    case 1: return static_cast<int64_t>(static_cast<uint64_t>(was) - 1);
    case 2: return static_cast<int64_t>(static_cast<uint64_t>(was) * 2);
    case 3: return was / 2;
    default: return chance.of(kOdd);
  }
}

// Changes, inserts or removes one byte. For inputs without structure.
inline void mutate_bytes(std::string& bytes, Chance& chance) {
  const size_t at = chance.below(bytes.size() + 1);
  const auto byte = static_cast<char>(chance.bits());
  if (at == bytes.size() || chance.one_in(3))
    bytes.insert(at, 1, byte);
  else if (chance.one_in(2))
    bytes[at] = byte;
  else
    bytes.erase(at, 1 + chance.below(4));
}

// For inputs with two parts (see halves() in target.h): mutates the first part with `first`, and occasionally bytes of
// the second part.
template <typename First>
std::optional<std::string> mutate_halves(std::string_view input, First& first, Chance& chance) {
  constexpr std::string_view kMark("\xFF\x00\xFF", 3);
  const size_t at = input.rfind(kMark);
  std::string second(at == std::string_view::npos ? std::string_view() : input.substr(at + kMark.size()));
  std::optional<std::string> out(input.substr(0, at));
  if (!chance.one_in(6))
    out = first(*out, chance);
  else
    for (size_t n = 1 + chance.below(4); n > 0; --n) mutate_bytes(second, chance);
  if (out) out->append(kMark).append(second);
  return out;
}

}  // namespace monolith::fuzzing
