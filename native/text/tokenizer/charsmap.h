// SentencePiece's precompiled normalization: which stretches of text are replaced by which others, as a file's
// precompiled_charsmap says. Format: a 32-bit length in bytes; that many bytes of a double array of 32-bit units
// (a trie over bytes); then the replacements, each ended by a zero byte. A unit: bits 0 to 7 and 31 the label,
// bit 8 whether a replacement hangs on the node, bits 10 to 30 the offset, bit 9 whether it counts 256 times;
// of a replacement's unit bits 0 to 30 are its place among the replacements.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace monolith {

// Copies what it needs: the file may go. Any thread.
class Charsmap {
 public:
  // kInvalidFile if the lengths do not fit; what lies inside is checked where it is used.
  static Result<std::unique_ptr<const Charsmap>> parse(std::span<const std::byte> bytes);

  // Appends `text` with the longest stretch that has a replacement replaced, from left to right. Bytes that are
  // not UTF-8 become U+FFFD.
  void normalize(std::string_view text, std::string& out) const;

 private:
  // How many bytes at the front of `text` are replaced, and by what; 0 if none.
  size_t longest(std::string_view text, std::string_view& replacement) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // ends with a zero byte
};

}  // namespace monolith
