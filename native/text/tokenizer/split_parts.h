// Stages that isolate parts of a text: each match becomes a separate piece, and so does the text between two matches.
// Included only by pretokenizer.cc. Pure functions that take linear time and do not allocate. Each calls emit(piece)
// for all pieces, in order.
#pragma once

#include <algorithm>
#include <string_view>

#include "text/tokenizer/char_reader.h"
#include "text/tokenizer/code_points.h"
#include "text/tokenizer/deepseek_letters.h"
#include "text/tokenizer/split_words.h"

namespace monolith::pretokenizing {

// Isolates every character that satisfies `belongs`, one at a time.
template <typename Belongs, typename Emit>
void isolate_each(std::string_view text, Belongs belongs, Emit emit) {
  const CharReader reader(text);
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const Char c = reader.at(i);
    if (belongs(c)) {
      if (i > done) emit(reader.between(done, i));
      done = i + c.size;
      emit(reader.between(i, done));
    }
    i += c.size;
  }
  if (done < text.size()) emit(reader.between(done, text.size()));
}

// Punctuation as defined by the "Punctuation" step of a tokenizer.json: ASCII punctuation and the punctuation of an old
// Unicode version.
inline bool is_library_punctuation(const Char& c) {
  static const CodePoints newer(
      "\u061d\u09fd\u0a76\u0c77\u0c84\u1b4e-\u1b4f\u1b7d-\u1b7f\u2e43-\u2e4f\u2e52-"
      "\u2e5d\U00010d6e\U00010ead\U00010f55-\U00010f59"
      "\U00010f86-\U00010f89\U000113d4-\U000113d5\U000113d7-\U000113d8\U0001144b-\U0001144f\U0001145a-"
      "\U0001145b\U0001145d"
      "\U00011660-\U0001166c\U000116b9\U0001183b\U00011944-\U00011946\U000119e2\U00011a3f-\U00011a46\U00011a9a-"
      "\U00011a9c"
      "\U00011a9e-\U00011aa2\U00011b00-\U00011b09\U00011be1\U00011c41-\U00011c45\U00011c70-\U00011c71\U00011ef7-"
      "\U00011ef8"
      "\U00011f43-\U00011f4f\U00011fff\U00012ff1-\U00012ff2\U00016d6d-\U00016d6f\U00016e97-"
      "\U00016e9a\U00016fe2\U0001e5ff"
      "\U0001e95e-\U0001e95f");
  if (c.code_point == 0x166D || c.code_point == 0x111C9) return true;
  return is_mark<true>(c) && !(c.code_point > 0x7F && newer.has(c.code_point));
}

// Matches \p{N} or \p{N}+ in text whose bytes are written in GPT-2's alphabet. In addition to the ASCII digits, six
// characters of this alphabet are numbers, so a multi-byte character may be split.
template <bool kRuns, typename Emit>
void isolate_byte_numbers(std::string_view text, Emit emit) {
  const auto is_number = [&](size_t i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    return (byte >= '0' && byte <= '9') || byte == 0xB2 || byte == 0xB3 || byte == 0xB9 ||
           (byte >= 0xBC && byte <= 0xBE);
  };
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    const bool number = is_number(begin);
    end = begin + 1;
    while (end < text.size() && is_number(end) == number && (kRuns || !number)) ++end;
    emit(text.substr(begin, end - begin));
  }
}

enum class Before { kNothing, kSpace, kWhiteSpace };

// Isolates X+, ` ?X+` or `\s?X+`, where X is any character that satisfies `belongs`.
template <Before kBefore, typename Belongs, typename Emit>
void isolate_runs(std::string_view text, Belongs belongs, Emit emit) {
  const CharReader reader(text);
  size_t done = 0;
  bool after_space = false;
  for (size_t i = 0, previous = 0; i < text.size();) {
    const Char c = reader.at(i);
    if (!belongs(c)) {
      previous = i;
      after_space = kBefore == Before::kSpace ? c.code_point == ' ' : c.is(CharClass::kSpace);
      i += c.size;
      continue;
    }
    const size_t begin = kBefore != Before::kNothing && after_space ? previous : i;
    const size_t end = reader.skip(i + c.size, belongs);
    if (begin > done) emit(reader.between(done, begin));
    emit(reader.between(begin, end));
    i = done = end;
    after_space = false;
  }
  if (done < text.size()) emit(reader.between(done, text.size()));
}

// Isolates \p{N}{1,3}
template <typename Emit>
void isolate_number_triples(std::string_view text, Emit emit) {
  isolate_runs<Before::kNothing>(text, is_number, [&](std::string_view piece) {
    const CharReader reader(piece);
    if (!is_number(reader.at(0))) return emit(piece);
    for (size_t begin = 0, end; begin < piece.size(); begin = end) {
      end = skip_digits(reader, begin, 3);
      emit(reader.between(begin, end));
    }
  });
}

// Splits runs of digits into groups of three, counted from the end of the run: (?=(\d{3})+(?!\d)). With kWholeNumbers,
// the expression is \d{1,3}(?=(?:\d{3})*\b), which does not split a run that is followed by a letter, a mark or another
// number.
template <bool kWholeNumbers, typename Emit>
void group_digits(std::string_view text, Emit emit) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const CharReader reader(text);
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end == i) {
      ++i;
      continue;
    }
    const auto cut = [&](size_t at) {
      if (at > done) emit(text.substr(done, at - done));
      done = at;
    };
    const Char next = reader.at(end);
    if (!kWholeNumbers || !(next.is_letter_or_mark() || is_number(next) || next.code_point == '_')) {
      if (kWholeNumbers) cut(i);
      for (size_t at = i + (end - i) % 3; at < end; at += 3) cut(at);
      if (kWholeNumbers) cut(end);
    }
    i = end;
  }
  if (done < text.size()) emit(text.substr(done));
}

// Isolates [0-9][0-9][0-9]
template <typename Emit>
void isolate_three_digits(std::string_view text, Emit emit) {
  size_t done = 0, digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
    if (digits < 3) continue;
    if (i - 2 > done) emit(text.substr(done, i - 2 - done));
    emit(text.substr(i - 2, 3));
    done = i + 1;
    digits = 0;
  }
  if (done < text.size()) emit(text.substr(done));
}

// Splits runs of numbers into groups of three, counted from the end of the run. As in llama.cpp, the text before a run
// stays attached to the run's first group, and later stages split it off.
template <typename Emit>
void group_numbers(std::string_view text, Emit emit) {
  const CharReader reader(text);
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const Char first = reader.at(i);
    if (!is_number(first)) {
      i += first.size;
      continue;
    }
    const size_t end = reader.skip(i + first.size, is_number);
    size_t n = 0;
    for (size_t at = i; at < end; at += reader.at(at).size) ++n;
    for (size_t group = n % 3 == 0 ? 3 : n % 3; i < end; group = 3) {
      i = skip_digits(reader, i, static_cast<int>(group));
      emit(reader.between(done, i));
      done = i;
    }
  }
  if (done < text.size()) emit(text.substr(done));
}

// Isolates the matches of `match`, a function that returns the length of the match at the start of its argument, or 0.
template <typename Match, typename Emit>
void isolate_matches(std::string_view text, Match match, Emit emit) {
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t length = match(text.substr(i));
    if (length == 0) {
      ++i;
      continue;
    }
    if (i > done) emit(text.substr(done, i - done));
    emit(text.substr(i, length));
    i = done = i + length;
  }
  if (done < text.size()) emit(text.substr(done));
}

// Matches `before`, then 1 to `most` characters from `first` to `last`, then `after`. Returns the length of the match,
// or 0.
inline size_t framed(std::string_view text, std::string_view before, char first, char last, size_t most, char after) {
  if (!text.starts_with(before)) return 0;
  size_t at = before.size();
  while (at < text.size() && at - before.size() < most && text[at] >= first && text[at] <= last) ++at;
  return at > before.size() && at < text.size() && text[at] == after ? at + 1 : 0;
}

// Matches [\t\n], four spaces or two spaces at the start of the text. Returns the length of the match, or 0.
inline size_t even_spaces(std::string_view text) {
  if (text[0] == '\t' || text[0] == '\n') return 1;
  return text.starts_with("    ") ? 4 : text.starts_with("  ") ? 2 : 0;
}

// Splits by [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
template <typename Emit>
void isolate_scripts(std::string_view text, Emit emit) {
  static const CodePoints hangul("가-힣ㄱ-ㆎ"), marks("！…“”‘’—：；，、-〿︰-﹏"), bopomofo("ㄅ-ㄯ"),
      others("一-龥぀-ゟ゠-ヿ");
  const auto script = [](const Char& c) -> const CodePoints* {
    if (c.code_point < 0x2000) return nullptr;
    for (const CodePoints* one : {&hangul, &marks, &bopomofo, &others})
      if (one->has(c.code_point)) return one;
    return nullptr;
  };
  const CharReader reader(text);
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    const CodePoints* const own = script(reader.at(begin));
    end = reader.skip(begin, [&](const Char& c) { return script(c) == own; });
    emit(reader.between(begin, end));
  }
}

// Isolates \s+$, the trailing whitespace.
template <typename Emit>
void isolate_trailing_space(std::string_view text, Emit emit) {
  const CharReader reader(text);
  size_t begin = 0;  // Start of the current run of whitespace, which may be the last.
  for (size_t i = 0; i < text.size();) {
    const Char c = reader.at(i);
    i += c.size;
    if (!c.is(CharClass::kSpace)) begin = i;
  }
  if (begin > 0) emit(text.substr(0, begin));
  if (begin < text.size()) emit(text.substr(begin));
}

// Splits by [^\n]+|[\n]+
template <typename Emit>
void split_lines(std::string_view text, Emit emit) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end =
        std::min(text[begin] == '\n' ? text.find_first_not_of('\n', begin) : text.find('\n', begin), text.size());
    emit(text.substr(begin, end - begin));
    begin = end;
  }
}

inline const CodePoints& deepseek_letters() {
  static const CodePoints letters(MONOLITH_DEEPSEEK_LETTERS);
  return letters;
}

}  // namespace monolith::pretokenizing
