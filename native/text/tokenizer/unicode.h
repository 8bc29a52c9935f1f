// The Unicode properties that the pre-tokenizers need, in one immutable table that any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/utf8.h"

namespace monolith {

// General categories L, N and P, and the White_Space property. All other characters are kOther: marks, symbols,
// controls, unassigned code points and invalid UTF-8 bytes. kEnd marks the position after the last character.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kPunctuation, kSpace, kEnd };

struct CharClassRange {
  uint32_t first, last;  // Both are inclusive.
  CharClass char_class;
};

// In ascending order, without overlaps. Code points outside all ranges are kOther.
std::span<const CharClassRange> char_class_ranges();

// Finer general categories than CharClass: upper and title case (Lu, Lt), lower case (Ll), marks (M) and symbols (S).
// Caseless letters (Lm, Lo) and all other characters are kNone.
enum class CharDetail : uint8_t { kNone, kUpper, kLower, kMark, kSymbol };

struct CharDetailRange {
  uint32_t first, last, step;  // Every step-th code point of the inclusive range.
  CharDetail detail;
};
std::span<const CharDetailRange> char_detail_ranges();

// A code point's class and detail.
struct CharProperties {
  CharClass char_class;
  CharDetail detail;
};

// Constant-time property lookup in a two-level table that shares equal blocks.
class CharClasses {
 public:
  static const CharClasses& instance();

  CharProperties of(uint32_t code_point) const {
    if (code_point > 0x10FFFF) return {CharClass::kOther, CharDetail::kNone};
    return blocks_[static_cast<size_t>(block_of_[code_point >> kShift]) << kShift | (code_point & kMask)];
  }
  CharProperties of_ascii(unsigned char c) const { return blocks_[c]; }  // Requires c < 128.

 private:
  static constexpr uint32_t kShift = 7, kMask = (1u << kShift) - 1;
  CharClasses();
  uint16_t block_of_[0x110000 >> kShift];
  std::vector<CharProperties> blocks_;
};

}  // namespace monolith
