// Tells when an answer has fallen into a loop: the last tokens it generated are one run of up to kLongest tokens, so many
// times in a row and kLeast tokens in all at least, so that short things may stand often ("ha ha ha", a row of dashes, zeros).
// One per sequence, engine thread only; never allocates. A pure function of the generated tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "text/tokenizer/token.h"

namespace monolith {

class RepetitionGuard {
 public:
  static constexpr int kLongest = 64, kLeast = 16;

  // `repeats`: how often is a loop; below 2 nothing is.
  explicit RepetitionGuard(int repeats) : repeats_(repeats) {}

  bool active() const { return repeats_ >= 2; }

  // Whether `token` behind these would complete a loop.
  bool completes(std::span<const TokenId> generated, TokenId token) const {
    if (!active()) return false;
    const int longest = std::min<int>(kLongest, static_cast<int>(generated.size()));
    for (int length = 1; length <= longest; ++length)
      if (at(generated, length) == token && agreeing_[index(length)] + 1 >= wanted(length)) return true;
    return false;
  }

  // `token` was generated behind these.
  void add(std::span<const TokenId> generated, TokenId token) {
    if (!active()) return;
    const int longest = std::min<int>(kLongest, static_cast<int>(generated.size()));
    for (int length = 1; length <= longest; ++length) {
      int32_t& agreeing = agreeing_[index(length)];
      agreeing = at(generated, length) == token ? agreeing + 1 : 0;
    }
  }

 private:
  static size_t index(int length) { return static_cast<size_t>(length) - 1; }
  static TokenId at(std::span<const TokenId> generated, int back) {
    return generated[generated.size() - static_cast<size_t>(back)];
  }
  // The first time a run stands there none of its tokens agrees with one before it.
  int wanted(int length) const { return std::max((repeats_ - 1) * length, kLeast - length); }

  int repeats_;
  std::array<int32_t, kLongest> agreeing_{};  // by length: newest tokens that are each what stood so far before it
};

}  // namespace monolith
