// Structure-aware mutator for JSON. It replaces values with other values from the same document or from an earlier
// input, and renames, repeats and removes members. It also sets numbers and strings to unusual values, and inserts the
// fuzz target's templates. Incomplete JSON is accepted as input, too.
#pragma once

#include <algorithm>
#include <cctype>
#include <span>
#include <utility>

#include "fuzz/mutate.h"

namespace monolith::fuzzing {

class JsonMutator {
 public:
  // Templates in `members` are inserted into objects, and templates in `wraps` are placed around values. Each % in a
  // template is replaced with a value.
  JsonMutator(std::span<const std::string_view> members, std::span<const std::string_view> wraps)
      : members_(members), wraps_(wraps) {}

  std::string operator()(std::string_view given, Chance& chance) {
    std::string text(given);
    donors_.keep(text, chance);
    for (size_t n = 1 + chance.below(chance.one_in(4) ? 8 : 3); n > 0; --n) text = once(text, chance);
    return text;
  }

 private:
  struct Span {
    size_t begin, end;  // The span of a string includes its quotes.
    bool is_key;
  };

  // Returns spans ordered by start position, so that a key is followed by the span of its value.
  static std::vector<Span> spans_of(std::string_view text) {
    std::vector<Span> spans;
    std::vector<size_t> open;
    for (size_t i = 0; i < text.size();) {
      const char c = text[i];
      const size_t begin = i++;
      if (c == '"') {
        while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
        i = std::min(i + 1, text.size());
        size_t next = i;
        while (next < text.size() && std::isspace(static_cast<unsigned char>(text[next]))) ++next;
        spans.push_back({begin, i, next < text.size() && text[next] == ':'});
      } else if (c == '{' || c == '[') {
        open.push_back(spans.size());
        spans.push_back({begin, 0, false});
      } else if ((c == '}' || c == ']') && !open.empty()) {
        spans[open.back()].end = i;
        open.pop_back();
      } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-') {
        while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '.' ||
                                   text[i] == '+' || text[i] == '-'))
          ++i;
        spans.push_back({begin, i, false});
      }
    }
    std::erase_if(spans, [](const Span& span) { return span.end == 0; });
    return spans;
  }

  static std::string value_of(std::string_view text, const std::vector<Span>& spans, Chance& chance) {
    for (int tries = 0; tries < 8 && !spans.empty(); ++tries)
      if (const Span& span = chance.of(spans); !span.is_key && span.end - span.begin < 2'000)
        return std::string(text.substr(span.begin, span.end - span.begin));
    return chance.one_in(2) ? "{}" : "null";
  }
  std::string any_value(std::string_view text, const std::vector<Span>& spans, Chance& chance) const {
    if (!chance.one_in(3)) return value_of(text, spans, chance);
    const std::string& donor = donors_.any(chance);
    return value_of(donor, spans_of(donor), chance);
  }
  std::string filled(std::string_view pattern, std::string_view first, std::string_view text,
                     const std::vector<Span>& spans, Chance& chance) const {
    std::string out;
    for (const char c : pattern) {
      if (c != '%')
        out += c;
      else if (!first.empty())
        out += std::exchange(first, {});
      else
        out += any_value(text, spans, chance);
    }
    return out;
  }

  std::string member(std::string_view text, const std::vector<Span>& spans, Chance& chance) const {
    if (members_.empty() || has_word(chance, 4))
      return '"' + chance.of(source_words()) + "\": " + any_value(text, spans, chance);
    return filled(chance.of(members_), {}, text, spans, chance);
  }

  // Removes a range and the comma after or before it.
  static std::string without(std::string_view text, size_t begin, size_t end) {
    const auto is_space = [&](size_t at) { return std::isspace(static_cast<unsigned char>(text[at])) != 0; };
    size_t next = end;
    while (next < text.size() && is_space(next)) ++next;
    if (next < text.size() && text[next] == ',') {
      end = next + 1;
    } else {
      size_t before = begin;
      while (before > 0 && is_space(before - 1)) --before;
      if (before > 0 && text[before - 1] == ',') begin = before - 1;
    }
    return std::string(text.substr(0, begin)).append(text.substr(end));
  }

  std::string once(const std::string& text, Chance& chance) const {
    const std::vector<Span> spans = spans_of(text);
    if (spans.empty()) return text + "{}";
    const size_t index = chance.below(spans.size());
    const Span span = spans[index];
    const std::string was = text.substr(span.begin, span.end - span.begin);
    const auto replaced = [&](std::string_view by) {
      return text.substr(0, span.begin).append(by).append(text, span.end);
    };
    const bool has_value = span.is_key && index + 1 < spans.size();
    const size_t end = has_value ? spans[index + 1].end : span.end;  // End of the whole member or array element.
    switch (chance.below(9)) {
      case 0: return without(text, span.begin, end);
      case 1: {  // Repeats a member, under the same key or a different one.
        std::string copy = text.substr(span.begin, end - span.begin);
        if (span.is_key && !chance.one_in(3)) copy = key_of(text, chance) + copy.substr(was.size());
        return text.substr(0, end).append(", ").append(copy).append(text, end);
      }
      case 2: {  // Swaps two values.
        const Span other = chance.of(spans);
        const Span first = span.begin < other.begin ? span : other, second = span.begin < other.begin ? other : span;
        if (first.end > second.begin || first.is_key != second.is_key) return replaced(any_value(text, spans, chance));
        return text.substr(0, first.begin)
            .append(text, second.begin, second.end - second.begin)
            .append(text, first.end, second.begin - first.end)
            .append(text, first.begin, first.end - first.begin)
            .append(text, second.end);
      }
      case 3:
        if (text[span.begin] != '{' || (members_.empty() && source_words().empty())) break;
        return text.substr(0, span.begin + 1)
            .append(member(text, spans, chance))
            .append(was.find_first_not_of(" \n", 1) == was.size() - 1 ? "" : ", ")
            .append(text, span.begin + 1);
      case 4: {
        if (span.is_key || wraps_.empty()) break;
        std::string out = was;
        const std::string_view wrap = chance.of(wraps_);
        for (size_t n = chance.one_in(20) ? chance.below(80) : 1; n > 0 && out.size() < 4'000; --n)
          out = filled(wrap, out, text, spans, chance);
        return replaced(out);
      }
      default: break;
    }
    if (span.is_key) return replaced(key_of(text, chance));
    if (was[0] == '"' && has_word(chance, 3)) return replaced('"' + chance.of(source_words()) + '"');
    if (was[0] == '"' && chance.one_in(2)) return replaced(odd_string(was, chance));
    if ((std::isdigit(static_cast<unsigned char>(was[0])) || was[0] == '-') && !chance.one_in(4))
      return replaced(odd_number(was, chance));
    return replaced(any_value(text, spans, chance));
  }

  std::string key_of(std::string_view text, Chance& chance) const {
    if (has_word(chance, 3)) return '"' + chance.of(source_words()) + '"';
    const std::string donor = chance.one_in(2) ? donors_.any(chance) : std::string(text);
    const std::vector<Span> all = spans_of(donor);
    for (int tries = 0; tries < 8 && !all.empty(); ++tries)
      if (const Span& span = chance.of(all); span.is_key) return donor.substr(span.begin, span.end - span.begin);
    return "\"a\"";
  }

  static std::string odd_number(const std::string& was, Chance& chance) {
    static constexpr std::string_view kOdd[] = {"-0",
                                                "0.1",
                                                "1e3",
                                                "1E-3",
                                                "-1.5",
                                                "1e400",
                                                "0.0",
                                                "9007199254740993",
                                                "18446744073709551616",
                                                "1e-400",
                                                "3.0",
                                                "123456789012345678901234567890"};
    if (chance.one_in(3)) return std::string(chance.of(kOdd));
    return std::to_string(odd_integer(chance, std::strtoll(was.c_str(), nullptr, 10)));
  }

  static std::string odd_string(const std::string& was, Chance& chance) {
    static constexpr std::string_view kPieces[] = {"\\u0000",
                                                   "\\ud83d\\ude00",
                                                   "\\ud83d",
                                                   "é",
                                                   "\\n",
                                                   "\\\"",
                                                   "\\\\",
                                                   "/",
                                                   "~1",
                                                   "~0",
                                                   "%41",
                                                   "#",
                                                   "a",
                                                   " ",
                                                   "^",
                                                   "$",
                                                   ".*",
                                                   "(a|b)",
                                                   "[^a]",
                                                   "{2,3}",
                                                   "\\\\d",
                                                   "\\\\p{L}",
                                                   "\xF0\x9F\x98\x80",
                                                   "\xFF",
                                                   "\t"};
    if (was.size() < 2 || chance.one_in(8)) return "\"\"";
    std::string out = was;
    const size_t at = 1 + chance.below(was.size() - 1);
    switch (chance.below(4)) {
      case 0: out.erase(at, std::min<size_t>(1 + chance.below(3), out.size() - 1 - at)); break;
      case 1: out.insert(at, std::string(was, 1, was.size() - 2)); break;  // Inserts a copy of the string into itself.
      default: out.insert(at, chance.of(kPieces)); break;
    }
    return out;
  }

  std::span<const std::string_view> members_, wraps_;
  Donors<std::string> donors_;
};

}  // namespace monolith::fuzzing
