// A set of code points, written in the syntax of a bracket expression. Immutable; may be used from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer/unicode.h"

namespace monolith {

// Parses single code points and inclusive ranges, such as "A-Za-z_".
class CodePoints {
 public:
  explicit CodePoints(std::string_view text) {
    while (!text.empty()) {
      const Utf8Char first = decode_utf8(text);
      text.remove_prefix(first.size);
      uint32_t last = first.code_point;
      if (text.size() > 1 && text[0] == '-') {
        const Utf8Char end = decode_utf8(text.substr(1));
        last = end.code_point;
        text.remove_prefix(1 + end.size);
      }
      ranges_.push_back({first.code_point, last});
    }
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  }
  bool has(uint32_t code_point) const {
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), code_point,
                                        [](uint32_t c, const Range& range) { return c < range.first; });
    return after != ranges_.begin() && code_point <= (after - 1)->last;
  }

 private:
  struct Range {
    uint32_t first, last;  // Both are inclusive.
  };
  std::vector<Range> ranges_;
};

}  // namespace monolith
