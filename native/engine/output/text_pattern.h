// Incremental search for a string in text that arrives in deltas (Knuth, Morris, Pratt 1977). The state is the length
// of the longest prefix of the pattern that is a suffix of the text so far. It is also the number of bytes that must be
// held back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace monolith {

class TextPattern {
 public:
  TextPattern() = default;
  // `text`: at most 65,535 bytes. An empty pattern never matches.
  explicit TextPattern(std::string_view text) : text_(text), failure_(text.size(), 0) {
    size_t matched = 0;
    for (size_t i = 1; i < text_.size(); ++i) {
      while (matched > 0 && text_[i] != text_[matched]) matched = failure_[matched - 1];
      if (text_[i] == text_[matched]) ++matched;
      failure_[i] = static_cast<uint16_t>(matched);
    }
  }

  // Reads one byte. Returns true if the pattern ends here. After a match, call reset() before reading more.
  bool advance(char byte) {
    if (text_.empty()) return false;
    matched_ = after(matched_, byte);
    return matched_ == text_.size();
  }
  // Returns the matched length after reading one more byte, given the length `matched` before that byte. `matched` must
  // be less than size().
  size_t after(size_t matched, char byte) const {
    while (matched > 0 && byte != text_[matched]) matched = failure_[matched - 1];
    return byte == text_[matched] ? matched + 1 : matched;
  }

  void reset() { matched_ = 0; }
  size_t matched() const { return matched_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
  std::vector<uint16_t> failure_;  // Length of the longest proper border of each prefix.
  size_t matched_ = 0;
};

}  // namespace monolith
