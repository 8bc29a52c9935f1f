// SentencePiece's precompiled normalization: the string replacements in a file's precompiled_charsmap. The data
// consists of a 32-bit length in bytes, a double-array trie over bytes of that length, made up of 32-bit units, and
// then the replacements, each terminated by a zero byte.
//
// In a unit, bits 0 to 7 and 31 hold the label, bit 8 indicates whether the node has a replacement, bits 10 to 30 hold
// the offset, and bit 9 multiplies the offset by 256. In the unit of a replacement, bits 0 to 30 hold its byte offset
// within the replacements.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace monolith {

// Copies the data, so the file may be closed afterwards. May be used from any thread.
class Charsmap {
 public:
  // Returns kInvalidFile if the lengths are inconsistent. The contents are checked only as they are used.
  static Result<std::unique_ptr<const Charsmap>> parse(std::span<const std::byte> bytes);

  // Appends the normalized `text` to `out`. From left to right, the longest text that has a replacement is replaced.
  // Invalid UTF-8 bytes become U+FFFD.
  void normalize(std::string_view text, std::string& out) const;

 private:
  // Returns the number of bytes to replace at the start of `text`, and sets `replacement`. Returns 0 if there is no
  // match.
  size_t longest(std::string_view text, std::string_view& replacement) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // Ends with a zero byte.
};

}  // namespace monolith
