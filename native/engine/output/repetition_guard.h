// Detects output loops: the last generated tokens are the same run of up to kLongest tokens, repeated `repeats` times
// and at least kMin tokens long in total. Short repetitions such as "ha ha ha" or a row of dashes are therefore allowed
// up to a certain length. One per sequence; engine thread only; never allocates. The result depends only on the
// generated tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/token_id.h"

namespace monolith {

class RepetitionGuard {
 public:
  static constexpr int kLongest = 64, kMin = 16;

  // `repeats`: number of repetitions that counts as a loop; below 2, the guard is off.
  explicit RepetitionGuard(int repeats) : repeats_(repeats) {}

  bool active() const { return repeats_ >= 2; }

  // Whether `token`, appended to `generated`, would complete a loop.
  bool completes(std::span<const TokenId> generated, TokenId token) const {
    if (!active()) return false;
    const int longest = std::min<int>(kLongest, static_cast<int>(generated.size()));
    for (int length = 1; length <= longest; ++length)
      if (at(generated, length) == token && agreeing_[index(length)] + 1 >= wanted(length)) return true;
    return false;
  }

  // Records that `token` was generated after `generated`.
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
  // Returns how many of the newest tokens must each equal the token `length` positions earlier for a run of `length`
  // tokens to count as a loop. The first occurrence of a run does not count, because its tokens do not repeat anything.
  int wanted(int length) const { return std::max((repeats_ - 1) * length, kMin - length); }

  int repeats_;
  // Indexed by run length: the number of newest tokens that each equal the token that many positions earlier.
  std::array<int32_t, kLongest> agreeing_{};
};

}  // namespace monolith
