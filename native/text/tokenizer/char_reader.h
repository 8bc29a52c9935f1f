// Reads text one character at a time for the pre-tokenizers. May be used from any thread; does not allocate.
#pragma once

#include <string_view>

#include "text/tokenizer/unicode.h"

namespace monolith {

// A character with its properties. At the end of the text, the class is kEnd and the size is 0.
struct Char {
  CharProperties properties;
  uint32_t code_point;
  uint32_t size;
  bool is(CharClass c) const { return properties.char_class == c; }
  bool is(CharDetail d) const { return properties.detail == d; }
  // Matches [^\s\p{L}\p{N}].
  bool is_sign() const { return is(CharClass::kOther) || is(CharClass::kPunctuation); }
  // Matches [\r\n].
  bool is_newline() const { return code_point == '\r' || code_point == '\n'; }
  // Matches [\p{L}\p{M}].
  bool is_letter_or_mark() const { return is(CharClass::kLetter) || is(CharDetail::kMark); }
};

class CharReader {
 public:
  explicit CharReader(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }
  std::string_view between(size_t begin, size_t end) const { return text_.substr(begin, end - begin); }

  Char at(size_t i) const {
    if (i >= text_.size()) return {{CharClass::kEnd, CharDetail::kNone}, 0, 0};
    const unsigned char c = static_cast<unsigned char>(text_[i]);
    if (c < 0x80) return {classes_.of_ascii(c), c, 1};
    const Utf8Char wide = decode_utf8(text_.substr(i));
    return {classes_.of(wide.code_point), wide.code_point, wide.size};
  }

  // Returns the end of the run of characters that starts at `i` and whose characters all satisfy `belongs`.
  template <typename Belongs>
  size_t skip(size_t i, Belongs belongs) const {
    for (;;) {
      const Char c = at(i);
      if (c.is(CharClass::kEnd) || !belongs(c)) return i;
      i += c.size;
    }
  }
  size_t skip_class(size_t i, CharClass char_class) const {
    return skip(i, [=](const Char& c) { return c.is(char_class); });
  }

  // Returns the length in bytes of a match of 's|'t|'re|'ve|'m|'ll|'d at `i`, or 0 if there is none.
  template <bool kAnyCase>
  size_t contraction(size_t i) const {
    if (text_[i] != '\'') return 0;
    const auto letter = [&](size_t k) -> char {
      if (k >= text_.size()) return 0;
      const char c = text_[k];
      return kAnyCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    };
    const char first = letter(i + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    const char second = letter(i + 2);
    const bool pair =
        (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return pair ? 3 : 0;
  }

  // Matches \s+(?!\S)|\s+ at `i`, where a run of whitespace starts. If the text ends with this run, returns the end of
  // the run, otherwise the start of its last character.
  size_t spaces(size_t i) const {
    size_t last = i, end = i;
    for (Char c = at(i); c.is(CharClass::kSpace); c = at(end)) {
      last = end;
      end += c.size;
    }
    return end == text_.size() || last == i ? end : last;
  }

 private:
  std::string_view text_;
  const CharClasses& classes_ = CharClasses::instance();
};

}  // namespace monolith
