// Expressions that split a text into words. Each expression matches every character of any text. Included only by
// pretokenizer.cc. Pure functions that take linear time and do not allocate. Each calls emit(word) for all words, in
// order.
#pragma once

#include <cstring>
#include <string_view>

#include "text/tokenizer/char_reader.h"
#include "text/tokenizer/code_points.h"

namespace monolith::pretokenizing {

inline bool is_number(const Char& c) { return c.is(CharClass::kNumber); }
inline bool is_letter(const Char& c) { return c.is(CharClass::kLetter); }
inline bool is_newline(const Char& c) { return c.is_newline(); }

// Matches [\p{P}$+<=>^~|] and, with kBackticks, also `.
template <bool kBackticks>
bool is_mark(const Char& c) {
  if (c.is(CharClass::kPunctuation)) return true;
  if (c.code_point == 0 || c.code_point >= 0x80) return false;
  return std::strchr("$+<=>^~|", static_cast<int>(c.code_point)) != nullptr || (kBackticks && c.code_point == '`');
}

// The code points of the Han script (\p{Han}, Unicode 16.0: see generate_unicode_tables.mjs), in bracket expression
// syntax.
#define MONOLITH_HAN                                                                                          \
  "\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf"                \
  "\u4e00-\u9fff\uf900-\ufa6d\ufa70-\ufad9\U00016fe2-\U00016fe3\U00016ff0-\U00016ff1"                         \
  "\U00020000-\U0002a6df\U0002a700-\U0002b739\U0002b740-\U0002b81d\U0002b820-\U0002cea1\U0002ceb0-\U0002ebe0" \
  "\U0002ebf0-\U0002ee5d\U0002f800-\U0002fa1d\U00030000-\U0003134a\U00031350-\U000323af"

// Matches \p{Han}.
inline bool is_han(const Char& c) {
  static const CodePoints han(MONOLITH_HAN);
  return c.code_point >= 0x2E80 && han.has(c.code_point);
}

// GPT-2's expression:
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
template <typename Emit>
void split_gpt2(std::string_view text, Emit emit) {
  const CharReader reader(text);
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    if (const size_t length = reader.contraction<false>(begin)) {
      end = begin + length;
    } else {
      const size_t body = begin + (text[begin] == ' ');
      const Char c = reader.at(body);
      if (c.is(CharClass::kLetter) || c.is(CharClass::kNumber))
        end = reader.skip_class(body + c.size, c.properties.char_class);
      else if (c.is_sign())
        end = reader.skip(body + c.size, [](const Char& s) { return s.is_sign(); });
      else
        end = reader.spaces(begin);
    }
    emit(reader.between(begin, end));
  }
}

// The properties in which the expressions that are based on OpenAI's cl100k differ.
struct WordRules {
  // \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} instead of \s+(?!\S)|\s+
  bool halved_spaces = false;
  int max_digits = 1;               // n in \p{N}{1,n}; 0: \p{N}+
  bool marks_are_letters = false;   // [\p{L}\p{M}] instead of \p{L}
  bool signs_take_newlines = true;  // ...[^\s\p{L}\p{N}]+[\r\n]* if true, otherwise ...[^\s\p{L}\p{N}\r\n]+
  bool phrases = false;  // (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ instead of \p{L}+, and [\r\n/]? instead of [\r\n]*
};

// Returns the end of \p{N}{1,max_digits} at `begin`, where a number starts.
inline size_t skip_digits(const CharReader& reader, size_t begin, int max_digits) {
  size_t end = begin;
  for (int digits = 0; max_digits == 0 || digits < max_digits; ++digits) {
    const Char c = reader.at(end);
    if (!c.is(CharClass::kNumber)) break;
    end += c.size;
  }
  return end;
}

// Matches \s*[\r\n]+|\s+(?!\S)|\s+ at `begin`, where whitespace starts. If the run contains a line break, returns the
// end of its last line break.
inline size_t skip_spaces(const CharReader& reader, size_t begin) {
  size_t after_newline = begin;
  for (size_t i = begin;;) {
    const Char c = reader.at(i);
    if (!c.is(CharClass::kSpace)) break;
    i += c.size;
    if (c.is_newline()) after_newline = i;
  }
  return after_newline > begin ? after_newline : reader.spaces(begin);
}

// Like skip_spaces(), but applies WordRules::halved_spaces after the line breaks. `plain_end` caches the end of the
// part without line breaks across calls, so a long run is scanned only once.
inline size_t skip_halved_spaces(const CharReader& reader, size_t begin, size_t& plain_end) {
  const auto is_space = [](const Char& c) { return c.is(CharClass::kSpace); };
  if (begin >= plain_end) {
    size_t after_newline = begin;
    for (size_t i = begin;;) {
      const Char c = reader.at(i);
      plain_end = i;
      if (!is_space(c)) break;
      i += c.size;
      if (c.is_newline()) after_newline = i;
    }
    if (after_newline > begin) return after_newline;
  }
  constexpr size_t kMax = 512;
  // If other text follows the run of whitespace, the run's last character belongs to that text.
  size_t most = 0;
  for (size_t i = begin; i < plain_end && most <= kMax; ++most) i += reader.at(i).size;
  if (most <= kMax && !reader.at(plain_end).is(CharClass::kEnd)) --most;
  size_t length = kMax;
  while (length > 1 && length > most) length /= 2;
  size_t end = begin;
  for (; length > 0; --length) end += reader.at(end).size;
  return end;
}

// The cl100k expression with the variations in WordRules:
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max_digits}|
//  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <WordRules kRules, typename Emit>
void split_words(std::string_view text, Emit emit) {
  const CharReader reader(text);
  [[maybe_unused]] size_t plain_end = 0;
  const auto is_letter_here = [](const Char& c) {
    return kRules.marks_are_letters ? c.is_letter_or_mark() : is_letter(c);
  };
  const auto is_sign = [](const Char& c) {
    return c.is_sign() && !(kRules.marks_are_letters && c.is(CharDetail::kMark));
  };
  // Returns the end of a run of letters, given the end `i` of its first letter.
  const auto skip_letters = [&](size_t i) {
    if constexpr (!kRules.phrases) return reader.skip(i, is_letter_here);
    for (;;) {
      i = reader.skip(i, [](const Char& c) { return c.is(CharDetail::kMark); });
      Char c = reader.at(i);
      const size_t letter = i + (c.code_point == ' ' ? c.size : 0);
      if (letter > i) c = reader.at(letter);
      if (!is_letter(c)) return i;
      i = letter + c.size;
    }
  };
  const auto match = [&](size_t begin) -> size_t {
    if (const size_t length = reader.contraction<true>(begin)) return begin + length;
    const Char first = reader.at(begin);
    if (is_letter_here(first)) return skip_letters(begin + first.size);
    if (is_number(first)) return skip_digits(reader, begin, kRules.max_digits);
    const Char second = reader.at(begin + first.size);
    if (!first.is_newline() && is_letter_here(second)) return skip_letters(begin + first.size + second.size);
    if (is_sign(first) || (first.code_point == ' ' && is_sign(second))) {
      const size_t signs = reader.skip(begin + first.size, is_sign);
      if constexpr (kRules.phrases) {
        const Char next = reader.at(signs);
        return next.is_newline() ? signs + next.size : signs;  // A slash counts as a sign.
      }
      return kRules.signs_take_newlines ? reader.skip(signs, is_newline) : signs;
    }
    if constexpr (kRules.halved_spaces) return skip_halved_spaces(reader, begin, plain_end);
    return skip_spaces(reader, begin);  // Only whitespace is left.
  };
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = match(begin);
    emit(reader.between(begin, end));
  }
}

// Splits words by letter case. The expression uses U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], l = [\p{Ll}\p{Lm}\p{Lo}\p{M}]
// and S = (?i:'s|'t|'re|'ve|'m|'ll|'d):
// [^\r\n\p{L}\p{N}]?U*l+S?|[^\r\n\p{L}\p{N}]?U+l*S?|\p{N}{1,kMaxDigits}|
//  ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// S is used only with kContractions. With kHanApart, \p{Han}+ is tried first, U and l exclude \p{Han}, and no slash may
// follow signs and line breaks.
template <int kMaxDigits, bool kContractions, bool kHanApart, typename Emit>
void split_by_case(std::string_view text, Emit emit) {
  const CharReader reader(text);
  const auto is_apart = [](const Char& c) { return kHanApart && is_han(c); };
  const auto is_upper = [&](const Char& c) {
    return c.is_letter_or_mark() && !c.is(CharDetail::kLower) && !is_apart(c);
  };
  const auto is_lower = [&](const Char& c) {
    return c.is_letter_or_mark() && !c.is(CharDetail::kUpper) && !is_apart(c);
  };
  // Matches U*l+ at `begin`; returns `begin` if there is no match. If no lowercase letter follows the run of U, the
  // match ends after the last character of the run that is also in l. Only the part of the run after that character is
  // scanned again, which keeps the time linear.
  const auto mixed = [&](size_t begin) {
    size_t i = begin, after_shared = begin;
    for (Char c = reader.at(i); is_upper(c); c = reader.at(i)) {
      i += c.size;
      if (is_lower(c)) after_shared = i;
    }
    const size_t end = reader.skip(i, is_lower);
    return end > i ? end : after_shared;
  };
  const auto word = [&](size_t begin, const Char& first) -> size_t {  // Returns `begin` if there is no word.
    const bool has_prefix = !first.is(CharClass::kEnd) && !first.is_newline() && !is_letter(first) && !is_number(first);
    if (has_prefix) {
      const size_t body = begin + first.size;
      if (const size_t end = mixed(body); end > body) return end;
    }
    if (const size_t end = mixed(begin); end > begin) return end;  // A mark can be both a prefix and a letter.
    const size_t body = has_prefix ? begin + first.size : begin;
    const size_t end = reader.skip(body, is_upper);
    return end > body ? end : begin;
  };
  const auto match = [&](size_t begin) -> size_t {
    const Char first = reader.at(begin);
    if (is_apart(first)) return reader.skip(begin + first.size, is_apart);
    if (is_number(first)) return skip_digits(reader, begin, kMaxDigits);
    if (const size_t end = word(begin, first); end > begin) {
      if (!kContractions || end == text.size()) return end;
      return end + reader.contraction<true>(end);
    }
    const Char second = reader.at(begin + first.size);
    if (first.is_sign() || (first.code_point == ' ' && second.is_sign())) {
      const size_t signs = reader.skip(begin + first.size, [](const Char& c) { return c.is_sign(); });
      return reader.skip(signs, [](const Char& c) { return c.is_newline() || (!kHanApart && c.code_point == '/'); });
    }
    return skip_spaces(reader, begin);
  };
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = match(begin);
    emit(reader.between(begin, end));
  }
}

// The main expression of DeepSeek V3:
// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <typename Emit>
void split_deepseek3(std::string_view text, Emit emit) {
  const CharReader reader(text);
  const auto is_ascii_letter = [](const Char& c) { return c.code_point < 0x80 && is_letter(c); };
  const auto is_letter_or_mark = [](const Char& c) { return c.is_letter_or_mark(); };
  const auto is_sign = [](const Char& c) { return c.is(CharClass::kPunctuation) || c.is(CharDetail::kSymbol); };
  const auto match = [&](size_t begin) -> size_t {  // Returns `begin` if nothing matches.
    const Char first = reader.at(begin);
    if (is_letter_or_mark(first)) return reader.skip(begin + first.size, is_letter_or_mark);
    const size_t next = begin + first.size;
    const Char second = reader.at(next);
    if (is_sign(first)) {
      if (first.code_point < 0x80 && is_ascii_letter(second)) return reader.skip(next + second.size, is_ascii_letter);
    } else if (!first.is_newline() && is_letter_or_mark(second)) {
      return reader.skip(next + second.size, is_letter_or_mark);
    }
    if (is_sign(first) || (first.code_point == ' ' && is_sign(second)))
      return reader.skip(reader.skip(next, is_sign), is_newline);
    return first.is(CharClass::kSpace) ? skip_spaces(reader, begin) : begin;
  };
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = match(i);
    if (end == i) {
      i += reader.at(i).size;
      continue;
    }
    if (i > done) emit(reader.between(done, i));
    emit(reader.between(i, end));
    i = done = end;
  }
  if (done < text.size()) emit(reader.between(done, text.size()));
}

}  // namespace monolith::pretokenizing
