#include "text/tokenizer/pretokenizer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "text/tokenizer/char_reader.h"
#include "text/tokenizer/deepseek_letters.h"
#include "text/tokenizer/han.h"

namespace monolith {
namespace {

// A set of code points, written as between the brackets of a regular expression: "A-Za-z".
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
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range& a, const Range& b) { return a.first < b.first; });
  }
  bool has(uint32_t code_point) const {
    const auto after = std::upper_bound(
        ranges_.begin(), ranges_.end(), code_point,
        [](uint32_t c, const Range& range) { return c < range.first; });
    return after != ranges_.begin() && code_point <= (after - 1)->last;
  }

 private:
  struct Range {
    uint32_t first, last;   // inclusive
  };
  std::vector<Range> ranges_;
};

bool is_number(const Char& c) { return c.is(CharClass::kNumber); }
bool is_letter(const Char& c) { return c.is(CharClass::kLetter); }
bool is_newline(const Char& c) { return c.is_newline(); }

// [\p{P}$+<=>^~|], and with kBackticks also `.
template <bool kBackticks>
bool is_mark(const Char& c) {
  if (c.is(CharClass::kPunctuation)) return true;
  if (c.code_point == 0 || c.code_point >= 0x80) return false;
  return std::strchr("$+<=>^~|", static_cast<int>(c.code_point)) != nullptr ||
         (kBackticks && c.code_point == '`');
}

// \p{Han}
bool is_han(const Char& c) {
  static const CodePoints han(MONOLITH_HAN);
  return c.code_point >= 0x2E80 && han.has(c.code_point);
}

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

// What the expressions that follow OpenAI's cl100k differ in.
struct WordRules {
  bool halved_spaces = false;      // \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} for \s+(?!\S)|\s+
  int max_digits = 1;              // of \p{N}{1,n}; 0: \p{N}+
  bool marks_are_letters = false;  // [\p{L}\p{M}] for \p{L}
  bool signs_take_newlines = true; // ...[^\s\p{L}\p{N}]+[\r\n]*; else ...[^\s\p{L}\p{N}\r\n]+
  bool phrases = false;            // (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ for \p{L}+, and [\r\n/]? for [\r\n]*
};

// The end of \p{N}{1,max_digits} where a number stands at `begin`.
size_t skip_digits(const CharReader& reader, size_t begin, int max_digits) {
  size_t end = begin;
  for (int digits = 0; max_digits == 0 || digits < max_digits; ++digits) {
    const Char c = reader.at(end);
    if (!c.is(CharClass::kNumber)) break;
    end += c.size;
  }
  return end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ where white space stands at `begin`: up to the run's last line break, if
// there is one.
size_t skip_spaces(const CharReader& reader, size_t begin) {
  size_t after_newline = begin;
  for (size_t i = begin;;) {
    const Char c = reader.at(i);
    if (!c.is(CharClass::kSpace)) break;
    i += c.size;
    if (c.is_newline()) after_newline = i;
  }
  return after_newline > begin ? after_newline : reader.spaces(begin);
}

// The same with WordRules::halved_spaces for what follows the line breaks. `plain_end`: up to where there is none, known from
// the call before; so that a long run is looked at once.
size_t skip_halved_spaces(const CharReader& reader, size_t begin, size_t& plain_end) {
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
  constexpr size_t kMost = 512;
  // The last of the run is left to what follows it, if anything does.
  size_t most = 0;
  for (size_t i = begin; i < plain_end && most <= kMost; ++most) i += reader.at(i).size;
  if (most <= kMost && !reader.at(plain_end).is(CharClass::kEnd)) --most;
  size_t length = kMost;
  while (length > 1 && length > most) length /= 2;
  size_t end = begin;
  for (; length > 0; --length) end += reader.at(end).size;
  return end;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max_digits}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
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
  // The end of the letters, of which one ends at `i`.
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
    if (!first.is_newline() && is_letter_here(second))
      return skip_letters(begin + first.size + second.size);
    if (is_sign(first) || (first.code_point == ' ' && is_sign(second))) {
      const size_t signs = reader.skip(begin + first.size, is_sign);
      if constexpr (kRules.phrases) {
        const Char next = reader.at(signs);
        return next.is_newline() ? signs + next.size : signs;   // a slash is a sign
      }
      return kRules.signs_take_newlines ? reader.skip(signs, is_newline) : signs;
    }
    if constexpr (kRules.halved_spaces) return skip_halved_spaces(reader, begin, plain_end);
    return skip_spaces(reader, begin);   // only white space is left
  };
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = match(begin);
    emit(reader.between(begin, end));
  }
}

// With U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], l = [\p{Ll}\p{Lm}\p{Lo}\p{M}], S = (?i:'s|'t|'re|'ve|'m|'ll|'d):
// [^\r\n\p{L}\p{N}]?U*l+S?|[^\r\n\p{L}\p{N}]?U+l*S?|\p{N}{1,kMaxDigits}|
// ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// S only with kContractions. With kHanApart \p{Han}+ comes first, neither U nor l has \p{Han}, and no slash
// follows signs and line breaks.
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
  // U*l+ at `begin`, or `begin`. Where no lower case follows U's run, the run's last character that
  // is in l as well ends the match. A run is walked again only behind that one: linear.
  const auto mixed = [&](size_t begin) {
    size_t i = begin, after_shared = begin;
    for (Char c = reader.at(i); is_upper(c); c = reader.at(i)) {
      i += c.size;
      if (is_lower(c)) after_shared = i;
    }
    const size_t end = reader.skip(i, is_lower);
    return end > i ? end : after_shared;
  };
  const auto word = [&](size_t begin, const Char& first) -> size_t {   // `begin` if there is none
    const bool has_prefix = !first.is(CharClass::kEnd) && !first.is_newline() &&
                            !is_letter(first) && !is_number(first);
    if (has_prefix) {
      const size_t body = begin + first.size;
      if (const size_t end = mixed(body); end > body) return end;
    }
    if (const size_t end = mixed(begin); end > begin) return end;   // a mark is prefix and letter
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
      const size_t signs =
          reader.skip(begin + first.size, [](const Char& c) { return c.is_sign(); });
      return reader.skip(
          signs, [](const Char& c) { return c.is_newline() || (!kHanApart && c.code_point == '/'); });
    }
    return skip_spaces(reader, begin);
  };
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = match(begin);
    emit(reader.between(begin, end));
  }
}

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <typename Emit>
void split_deepseek3(std::string_view text, Emit emit) {
  const CharReader reader(text);
  const auto is_ascii_letter = [](const Char& c) { return c.code_point < 0x80 && is_letter(c); };
  const auto is_letter_or_mark = [](const Char& c) { return c.is_letter_or_mark(); };
  const auto is_sign = [](const Char& c) {
    return c.is(CharClass::kPunctuation) || c.is(CharDetail::kSymbol);
  };
  const auto match = [&](size_t begin) -> size_t {   // `begin` if nothing matches
    const Char first = reader.at(begin);
    if (is_letter_or_mark(first)) return reader.skip(begin + first.size, is_letter_or_mark);
    const size_t next = begin + first.size;
    const Char second = reader.at(next);
    if (is_sign(first)) {
      if (first.code_point < 0x80 && is_ascii_letter(second))
        return reader.skip(next + second.size, is_ascii_letter);
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

// X, each character alone.
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

enum class Before { kNothing, kSpace, kWhiteSpace };

// X+, ` ?X+` or `\s?X+`.
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

// \p{N}{1,3}
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

// Runs of digits in groups of three, counted from the run's end. (?=(\d{3})+(?!\d)), or with kWholeNumbers
// \d{1,3}(?=(?:\d{3})*\b): then a run that a letter, a mark or another number follows stays as it is.
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

// [0-9][0-9][0-9]
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

// Runs of numbers in groups of three, counted from the run's end. As llama.cpp cuts them: what stands before a run stays with
// its first group, for the expressions behind this one to cut.
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

// What `match` finds, wherever it begins: the length at the text's beginning, or 0.
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

// `before`, at least one and at most `most` characters from `first` to `last`, `after`.
size_t framed(std::string_view text, std::string_view before, char first, char last, size_t most, char after) {
  if (!text.starts_with(before)) return 0;
  size_t at = before.size();
  while (at < text.size() && at - before.size() < most && text[at] >= first && text[at] <= last) ++at;
  return at > before.size() && at < text.size() && text[at] == after ? at + 1 : 0;
}

// [\t\n]|    |  (four spaces, or two)
size_t even_spaces(std::string_view text) {
  if (text[0] == '\t' || text[0] == '\n') return 1;
  return text.starts_with("    ") ? 4 : text.starts_with("  ") ? 2 : 0;
}

// [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
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

// \s+$
template <typename Emit>
void isolate_trailing_space(std::string_view text, Emit emit) {
  const CharReader reader(text);
  size_t begin = 0;   // of the run of white space that may be the last
  for (size_t i = 0; i < text.size();) {
    const Char c = reader.at(i);
    i += c.size;
    if (!c.is(CharClass::kSpace)) begin = i;
  }
  if (begin > 0) emit(text.substr(0, begin));
  if (begin < text.size()) emit(text.substr(begin));
}

// [^\n]+|[\n]+
template <typename Emit>
void split_lines(std::string_view text, Emit emit) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text[begin] == '\n' ? text.find_first_not_of('\n', begin)
                                                    : text.find('\n', begin),
                                text.size());
    emit(text.substr(begin, end - begin));
    begin = end;
  }
}

const CodePoints& deepseek_letters() {
  static const CodePoints letters(MONOLITH_DEEPSEEK_LETTERS);
  return letters;
}

template <typename Emit>
void split_stage(SplitStage stage, std::string_view text, Emit emit) {
  switch (stage) {
    case SplitStage::kGpt2: return split_gpt2(text, emit);
    case SplitStage::kLlama3: return split_words<WordRules{.max_digits = 3}>(text, emit);
    case SplitStage::kJais2:
      return split_words<WordRules{.halved_spaces = true, .max_digits = 3}>(text, emit);
    case SplitStage::kQwen2: return split_words<WordRules{}>(text, emit);
    case SplitStage::kNumberRunWords: return split_words<WordRules{.max_digits = 0}>(text, emit);
    case SplitStage::kSeedCoder:
      return split_words<WordRules{.signs_take_newlines = false}>(text, emit);
    case SplitStage::kQwen35: return split_words<WordRules{.marks_are_letters = true}>(text, emit);
    case SplitStage::kPhrases: return split_words<WordRules{.phrases = true}>(text, emit);
    case SplitStage::kTekken: return split_by_case<1, false, false>(text, emit);
    case SplitStage::kGpt4o: return split_by_case<3, true, false>(text, emit);
    case SplitStage::kKimi: return split_by_case<3, true, true>(text, emit);
    case SplitStage::kYoutu: return split_by_case<1, true, false>(text, emit);
    case SplitStage::kDeepseek3: return split_deepseek3(text, emit);
    case SplitStage::kBloom: {   // ?[^(\s|.,!?…。，、।۔،)]+
      static const CodePoints ends("(|.,!?…。，、।۔،)");
      return isolate_runs<Before::kSpace>(
          text, [](const Char& c) { return !c.is(CharClass::kSpace) && !ends.has(c.code_point); },
          emit);
    }
    case SplitStage::kEachNumber: return isolate_each(text, is_number, emit);
    case SplitStage::kNumberRuns: return isolate_runs<Before::kNothing>(text, is_number, emit);
    case SplitStage::kNumberTriples: return isolate_number_triples(text, emit);
    case SplitStage::kThreeDigits: return isolate_three_digits(text, emit);
    case SplitStage::kDigitGroups: return group_digits<false>(text, emit);
    case SplitStage::kWholeNumberGroups: return group_digits<true>(text, emit);
    case SplitStage::kYoutuScripts: return isolate_scripts(text, emit);
    case SplitStage::kEachNewline: return isolate_each(text, is_newline, emit);
    case SplitStage::kLines: return split_lines(text, emit);
    case SplitStage::kSpacedLetters:   // \s?\p{L}+
      return isolate_runs<Before::kWhiteSpace>(text, is_letter, emit);
    case SplitStage::kSpacedPunctuation:   // \s?\p{P}+
      return isolate_runs<Before::kWhiteSpace>(
          text, [](const Char& c) { return c.is(CharClass::kPunctuation); }, emit);
    case SplitStage::kDeepseekLetters:   // \s?[A-Za-zµÀ-Ö...]+
      return isolate_runs<Before::kWhiteSpace>(
          text, [](const Char& c) { return deepseek_letters().has(c.code_point); }, emit);
    case SplitStage::kDeepseekMarks: {   // \s?[!-/:-~！-／：-～‘-‟　-。]+
      static const CodePoints marks("!-/:-~！-／：-～‘-‟　-。");
      return isolate_runs<Before::kWhiteSpace>(
          text, [](const Char& c) { return marks.has(c.code_point); }, emit);
    }
    case SplitStage::kTrailingSpace: return isolate_trailing_space(text, emit);
    case SplitStage::kDeepseekAsian:   // [一-龥ࠀ-一가-퟿]+
      return isolate_runs<Before::kNothing>(
          text,
          [](const Char& c) {
            return (c.code_point >= 0x0800 && c.code_point <= 0x9FA5) ||
                   (c.code_point >= 0xAC00 && c.code_point <= 0xD7FF);
          },
          emit);
    case SplitStage::kAsian:   // [一-龥぀-ゟ゠-ヿ]+
      return isolate_runs<Before::kNothing>(
          text,
          [](const Char& c) {
            return (c.code_point >= 0x4E00 && c.code_point <= 0x9FA5) ||
                   (c.code_point >= 0x3040 && c.code_point <= 0x30FF);
          },
          emit);
    case SplitStage::kAfmoeDigits: return group_numbers(text, emit);
    case SplitStage::kAfmoeScripts: {   // [一-鿿㐀-䶿...]+, the scripts that are written without spaces
      static const CodePoints scripts("一-鿿㐀-䶿豈-\uFAFF぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-\u0E7F\u0E80-\u0EFFក-\u17FFက-႟ꩠ-ꩿ\uA9E0-\uA9FF가-\uD7AFᄀ-ᇿ");
      return isolate_runs<Before::kNothing>(text, [](const Char& c) { return c.code_point >= 0x0E00 && scripts.has(c.code_point); }, emit);
    }
    case SplitStage::kSentinels:   // <sentinel:[0-9]+>
      return isolate_matches(text, [](std::string_view at) { return framed(at, "<sentinel:", '0', '9', SIZE_MAX, '>'); }, emit);
    case SplitStage::kImageCodes:   // IMGIMG[A-I]{1,4}Z
      return isolate_matches(text, [](std::string_view at) { return framed(at, "IMGIMG", 'A', 'I', 4, 'Z'); }, emit);
    case SplitStage::kEvenSpaces: return isolate_matches(text, even_spaces, emit);
    case SplitStage::kEachMark: return isolate_each(text, is_mark<true>, emit);   // [\p{P}!-/:-@\[-`{-~]
    case SplitStage::kMarks: return isolate_runs<Before::kNothing>(text, is_mark<false>, emit);
    case SplitStage::kMarksAndBackticks:
      return isolate_runs<Before::kNothing>(text, is_mark<true>, emit);
  }
}

// As deep as there are stages: at most kMaxStages.
void split_from(const PreTokenizer& splitter, size_t stage, std::string_view text, EmitWord emit,
                void* context) {
  if (stage + 1 >= splitter.size()) {
    if (splitter.size() == 0) return text.empty() ? void() : emit(context, text);
    return split_stage(splitter[stage], text,
                       [=](std::string_view word) { emit(context, word); });
  }
  split_stage(splitter[stage], text, [&splitter, stage, emit, context](std::string_view piece) {
    split_from(splitter, stage + 1, piece, emit, context);
  });
}

}  // namespace

void pretokenize(const PreTokenizer& splitter, std::string_view text, EmitWord emit, void* context) {
  split_from(splitter, 0, text, emit, context);
}

}  // namespace monolith
