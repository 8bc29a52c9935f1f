#include "text/grammar/regex.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/ascii.h"
#include "text/grammar/general_categories.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {
namespace {

CodePointSet digits() { return CodePointSet::of('0', '9'); }

CodePointSet word_characters() {
  CodePointSet set = digits();
  set.add('A', 'Z');
  set.add('a', 'z');
  set.add('_', '_');
  return set;
}

// WhiteSpace and LineTerminator in ECMA-262.
CodePointSet white_space() {
  CodePointSet set = CodePointSet::of(0x09, 0x0D);
  for (const uint32_t c : {0x20u, 0xA0u, 0x1680u, 0x2028u, 0x2029u, 0x202Fu, 0x205Fu, 0x3000u, 0xFEFFu}) set.add(c, c);
  set.add(0x2000, 0x200A);
  return set;
}

constexpr size_t kMaxRanges = 1 << 20;  // Total over all classes of a pattern. \w alone has hundreds.

CodePointSet categories(std::initializer_list<std::string_view> names) {
  CodePointSet set;
  for (const std::string_view name : names)
    if (const auto category = general_category(name)) set.add(*category);
  return set;
}

// The character classes \d, \w and \s of Python and Rust, which cover all of Unicode (UTS #18, annex C; \w without
// Other_Alphabetic).
const CodePointSet& unicode_digits() {
  static const CodePointSet set = categories({"Nd"});
  return set;
}
const CodePointSet& unicode_word_characters() {
  static const CodePointSet set = [] {
    CodePointSet words = categories({"L", "M", "Nd", "Nl", "Pc"});
    words.add(0x200C, 0x200D);
    return words;
  }();
  return set;
}
const CodePointSet& cased_letters() {
  static const CodePointSet set = categories({"Lu", "Ll", "Lt"});
  return set;
}
CodePointSet unicode_white_space() {
  CodePointSet set = CodePointSet::of(0x09, 0x0D);
  for (const uint32_t c : {0x20u, 0x85u, 0xA0u, 0x1680u, 0x2028u, 0x2029u, 0x202Fu, 0x205Fu, 0x3000u}) set.add(c, c);
  set.add(0x2000, 0x200A);
  return set;
}

CodePointSet line_terminators() {
  CodePointSet set = CodePointSet::of(0x2028, 0x2029);
  set.add('\n', '\n');
  set.add('\r', '\r');
  return set;
}

constexpr uint32_t kEnd = UINT32_MAX;

}  // namespace

class RegexParser {
 public:
  RegexParser(std::string_view pattern, RegexDialect dialect, RegexFlags flags, Regex& out, Regex::Problem& problem)
      : text_(pattern), is_python_(dialect == RegexDialect::kPython), flags_(flags), out_(out), problem_(problem) {}

  bool run() {
    if (text_.size() > Regex::kMaxBytes) return refuse("it is longer than 16 KiB");
    const uint32_t root = either(0);
    if (failed_) return false;
    if (at_ < text_.size()) return refuse("unmatched )");
    out_.root_ = root;
    return true;
  }

 private:
  using Kind = Regex::Kind;

  bool fail(std::string what, bool unsupported) {
    if (!failed_) problem_ = {std::move(what) + " (at byte " + std::to_string(at_) + ")", unsupported};
    failed_ = true;
    return false;
  }
  bool refuse(std::string what) { return fail(std::move(what), false); }
  bool unsupported(std::string what) { return fail(std::move(what), true); }

  uint32_t peek() const {
    if (at_ >= text_.size()) return kEnd;
    return decode_utf8(text_.substr(at_)).code_point;
  }
  uint32_t take() {
    if (at_ >= text_.size()) return kEnd;
    const Utf8Char c = decode_utf8(text_.substr(at_));
    at_ += c.size;
    if (c.code_point == kInvalidByte) refuse("invalid UTF-8");
    return c.code_point;
  }
  bool take_if(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }

  uint32_t add(Regex::Node node) {
    out_.nodes_.push_back(node);
    return static_cast<uint32_t>(out_.nodes_.size() - 1);
  }
  uint32_t add_list(Kind kind, const std::vector<uint32_t>& children) {
    if (children.empty()) return add({Kind::kEmpty});
    if (children.size() == 1) return children.front();
    const uint32_t first = static_cast<uint32_t>(out_.children_.size());
    bool asserts = false;
    for (const uint32_t child : children) {
      out_.children_.push_back(child);
      asserts = asserts || out_.nodes_[child].asserts;
    }
    return add({kind, asserts, first, static_cast<uint32_t>(out_.children_.size())});
  }
  uint32_t add_set(CodePointSet set) {
    n_ranges_ += set.ranges().size();
    if (n_ranges_ > kMaxRanges) {
      unsupported("too many classes of characters");
      return 0;
    }
    out_.sets_.push_back(std::move(set));
    return add({Kind::kSet, false, static_cast<uint32_t>(out_.sets_.size() - 1)});
  }
  uint32_t add_anchor(Kind kind) {
    if (flags_.multi_line) unsupported("an anchor together with the flag m");
    return add({kind, true});
  }

  // If matching is case-insensitive, adds the other case of each ASCII letter in the set.
  CodePointSet cased(CodePointSet set) {
    if (!flags_.ignore_case) return set;
    CodePointSet all = set;
    for (uint32_t letter = 'a'; letter <= 'z'; ++letter) {
      if (set.contains(letter)) all.add(letter - 32, letter - 32);
      if (set.contains(letter - 32)) all.add(letter, letter);
    }
    return all;
  }

  uint32_t either(int depth) {
    const RegexFlags outer = flags_;  // Inline flags apply until the end of the enclosing group.
    const uint32_t node = either_within(depth);
    flags_ = outer;
    return node;
  }

  uint32_t either_within(int depth) {
    std::vector<uint32_t> ways;
    if (depth > Regex::kDeepest) {
      refuse("groups are nested too deeply");
      return 0;
    }
    do ways.push_back(concat(depth));
    while (!failed_ && take_if("|"));
    return add_list(Kind::kEither, ways);
  }

  uint32_t concat(int depth) {
    std::vector<uint32_t> parts;
    while (!failed_ && at_ < text_.size() && peek() != '|' && peek() != ')') {
      uint32_t part = atom(depth);
      if (failed_) break;
      part = quantified(part);
      parts.push_back(part);
    }
    return add_list(Kind::kConcat, parts);
  }

  uint32_t quantified(uint32_t part) {
    uint32_t least, most;
    if (take_if("*"))
      least = 0, most = kUnbounded;
    else if (take_if("+"))
      least = 1, most = kUnbounded;
    else if (take_if("?"))
      least = 0, most = 1;
    else if (peek() != '{' || !counts(least, most))
      return part;
    if (failed_) return part;
    take_if("?");  // A lazy quantifier matches the same strings.
    if (peek() == '*' || peek() == '+' || peek() == '?') {
      refuse("a quantifier follows another quantifier");
      return part;
    }
    const Kind kind = out_.nodes_[part].kind;
    if (kind == Kind::kStart || kind == Kind::kEnd || kind == Kind::kAhead || kind == Kind::kNotAhead) {
      refuse("an assertion is quantified");
      return part;
    }
    if (out_.nodes_[part].asserts && most != 1) {
      unsupported("an assertion within a repetition");
      return part;
    }
    return add({Kind::kRepeat, out_.nodes_[part].asserts, part, least, most});
  }

  // Parses {2}, {2,} or {2,5}, and in Python's dialect {,5}. Any other brace is a literal.
  bool counts(uint32_t& least, uint32_t& most) {
    size_t at = at_ + 1;
    const auto number = [&](uint32_t& value) {
      const size_t begin = at;
      uint64_t sum = 0;
      while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9')
        sum = std::min<uint64_t>(sum * 10 + static_cast<uint64_t>(text_[at++] - '0'), 1u << 30);
      value = static_cast<uint32_t>(sum);
      return at > begin;
    };
    if (!number(least)) {
      if (!is_python_ || at >= text_.size() || text_[at] != ',') return false;
      least = 0;
    }
    most = least;
    if (at < text_.size() && text_[at] == ',') {
      const bool has_least = at > at_ + 1;
      ++at;
      if (!number(most)) {
        if (!has_least) return false;
        most = kUnbounded;
      }
    }
    if (at >= text_.size() || text_[at] != '}') return false;
    at_ = at + 1;
    if (most < least)
      refuse("the bounds of a repetition are out of order");
    else if (least > Regex::kMaxRepeats || (most != kUnbounded && most > Regex::kMaxRepeats))
      unsupported("a repetition count above 65535");
    return true;
  }

  uint32_t atom(int depth) {
    const uint32_t c = take();
    switch (c) {
      case '^': return add_anchor(Kind::kStart);
      case '$': return add_anchor(Kind::kEnd);
      case '.':
        if (flags_.dot_all) return add_set(CodePointSet::all());
        return add_set((is_python_ ? CodePointSet::of('\n') : line_terminators()).complement());
      case '[': return bracket();
      case '(': return group(depth);
      case '\\': return escape();
      case '*':
      case '+':
      case '?': refuse("a quantifier has nothing to repeat"); return 0;
      default: return letter(c);
    }
  }

  uint32_t letter(uint32_t c) {
    if (!check_case(c, c)) return 0;
    return add_set(cased(CodePointSet::of(c)));
  }

  bool check_case(uint32_t first, uint32_t last) {
    if (!flags_.ignore_case || last < 128) return true;
    for (const auto& range : cased_letters().ranges())
      if (range.last > 127 && range.first <= last && range.last >= first)
        return unsupported("a case-insensitive non-ASCII letter");
    return true;
  }

  // Parses the flags of (?i) or (?i:...) after the question mark. Returns false on failure.
  bool flags() {
    bool on = true;
    for (;;) {
      const uint32_t c = take();
      switch (c) {
        case '-': on = false; break;
        case 'i': flags_.ignore_case = on; break;
        case 's': flags_.dot_all = on; break;
        case 'm': flags_.multi_line = on; break;
        case 'u': break;  // Classes cover Unicode anyway.
        case ':':
        case ')': --at_; return true;
        default:
          if (failed_) return false;
          return c == kEnd ? refuse("a group is not closed") : unsupported("a group with an unsupported flag");
      }
    }
  }

  uint32_t group(int depth) {
    Kind kind = Kind::kConcat;  // A plain group.
    const RegexFlags outer = flags_;
    if (take_if("?:")) {
    } else if (take_if("?=")) {
      kind = Kind::kAhead;
    } else if (take_if("?!")) {
      kind = Kind::kNotAhead;
    } else if (take_if("?<=") || take_if("?<!")) {
      unsupported("lookbehind");
      return 0;
    } else if (is_python_ && take_if("?P=")) {
      unsupported("a named back reference");
      return 0;
    } else if (take_if("?<") || (is_python_ && take_if("?P<"))) {
      while (at_ < text_.size() && text_[at_] != '>') ++at_;
      if (!take_if(">")) refuse("the name of a group is not closed");
    } else if (peek() == '?') {
      if (!is_python_) {
        unsupported("a group with flags");
        return 0;
      }
      ++at_;
      if (!flags()) return 0;
      if (take_if(")")) return add({Kind::kEmpty});  // The flags apply to the rest of the enclosing group.
      ++at_;                                         // Skips the colon.
    }
    const uint32_t inner = either(depth + 1);
    flags_ = outer;
    if (failed_) return 0;
    if (!take_if(")")) {
      refuse("a group is not closed");
      return 0;
    }
    if (kind == Kind::kConcat) return inner;
    return add({kind, true, inner});
  }

  uint32_t escape() {
    const uint32_t c = peek();
    if (c == 'b' || c == 'B') {
      unsupported("a word boundary");
      return 0;
    }
    if (c >= '1' && c <= '9') {
      unsupported("a back reference");
      return 0;
    }
    if (c == 'k') {
      unsupported("a named back reference");
      return 0;
    }
    if (is_python_ && (c == 'A' || c == 'z' || c == 'Z')) {
      ++at_;
      return add({c == 'A' ? Kind::kStart : Kind::kEnd, true});
    }
    const size_t begin = at_;
    if (auto set = class_escape()) {
      // The same escape may occur many times, and its class may have hundreds of ranges, so classes are cached.
      const auto [known, is_new] = classes_.try_emplace(std::string(text_.substr(begin, at_ - begin)));
      if (is_new) known->second = add_set(std::move(*set));
      return add({Kind::kSet, false, failed_ ? 0 : out_.nodes_[known->second].a});
    }
    const uint32_t character = character_escape(false);
    return failed_ ? 0 : letter(character);
  }

  // Parses \d, \D, \w, \W, \s, \S, \p{…} or \P{…} after the backslash.
  std::optional<CodePointSet> class_escape() {
    switch (peek()) {
      case 'd': ++at_; return is_python_ ? unicode_digits() : digits();
      case 'D': ++at_; return (is_python_ ? unicode_digits() : digits()).complement();
      case 'w': ++at_; return is_python_ ? unicode_word_characters() : word_characters();
      case 'W': ++at_; return (is_python_ ? unicode_word_characters() : word_characters()).complement();
      case 's': ++at_; return is_python_ ? unicode_white_space() : white_space();
      case 'S': ++at_; return (is_python_ ? unicode_white_space() : white_space()).complement();
      case 'p':
      case 'P': {
        const bool inverted = text_[at_] == 'P';
        const size_t close = text_.find('}', at_);
        if (text_.substr(at_ + 1, 1) != "{" || close == std::string_view::npos) return std::nullopt;
        std::string_view name = text_.substr(at_ + 2, close - at_ - 2);
        for (const std::string_view prefix : {"General_Category=", "gc="})
          if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
        CodePointSet set;
        if (auto category = general_category(name))
          set = std::move(*category);
        else if (auto emoji = emoji_property(name))
          set = std::move(*emoji);
        else if (name == "ASCII")
          set = CodePointSet::of(0, 0x7F);
        else if (name == "Any")
          set = CodePointSet::all();
        else {
          unsupported("the property \\p{" + std::string(name.substr(0, 40)) + "}");
          return CodePointSet{};
        }
        at_ = close + 1;
        return inverted ? set.complement() : set;
      }
      default: return std::nullopt;
    }
  }

  uint32_t character_escape(bool in_bracket) {
    const uint32_t c = take();
    switch (c) {
      case kEnd: refuse("the pattern ends with a backslash"); return 0;
      case 't': return '\t';
      case 'n': return '\n';
      case 'v': return '\v';
      case 'f': return '\f';
      case 'r': return '\r';
      case '0':
        if (is_python_ && peek() >= '0' && peek() <= '9') unsupported("an octal escape");
        return 0;
      case 'b':
        if (in_bracket) return '\b';
        break;
      case 'c': {
        const uint32_t letter = take();
        if ((letter | 32) >= 'a' && (letter | 32) <= 'z') return letter % 32;
        refuse("\\c needs a letter");
        return 0;
      }
      case 'a':
        if (is_python_) return '\a';
        break;
      case 'U':
        if (is_python_) return hex(8);
        break;
      case 'x':
        if (is_python_ && peek() == '{') return braced_hex();
        return hex(2);
      case 'u': {
        if (peek() == '{') return braced_hex();
        const uint32_t first = hex(4);
        if (first >= 0xD800 && first <= 0xDBFF && take_if("\\u")) {
          const uint32_t second = hex(4);
          if (second >= 0xDC00 && second <= 0xDFFF) return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
          refuse("unpaired surrogate");
        }
        return first;
      }
      default: break;
    }
    // Escapes of other letters and digits are rejected. Any other escaped character is a literal.
    if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')) {
      refuse(std::string("unknown escape \\") + static_cast<char>(c));
      return 0;
    }
    return c;
  }

  uint32_t braced_hex() {
    ++at_;  // Skips the opening brace.
    uint32_t value = 0;
    while (hex_digit(peek()) >= 0 && value <= kLastCodePoint)
      value = value * 16 + static_cast<uint32_t>(hex_digit(take()));
    if (!take_if("}") || value > kLastCodePoint) refuse("\\u{…} is not a code point");
    return value;
  }

  uint32_t hex(int n) {
    uint32_t value = 0;
    for (int i = 0; i < n; ++i) {
      const int digit = hex_digit(peek());
      if (digit < 0) {
        refuse("hexadecimal digits are missing");
        return 0;
      }
      ++at_;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  uint32_t bracket() {
    const bool inverted = take_if("^");
    CodePointSet set;
    bool is_first = is_python_;  // In Python's dialect, a bracket that closes nothing is a member.
    while (!failed_ && (std::exchange(is_first, false) || !take_if("]"))) {
      if (at_ >= text_.size()) {
        refuse("a [ is not closed");
        return 0;
      }
      if (is_python_ && text_.substr(at_).starts_with("[:")) {
        unsupported("a POSIX character class");
        return 0;
      }
      CodePointSet first_class;
      const std::optional<uint32_t> first = member(first_class);
      if (failed_) return 0;
      const bool is_range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (first && !is_range && !check_case(*first, *first)) return 0;
      if (!is_range) {
        if (first)
          set.add(*first, *first);
        else
          set.add(first_class);
        continue;
      }
      ++at_;
      CodePointSet last_class;
      const std::optional<uint32_t> last = member(last_class);
      if (failed_) return 0;
      if (!first || !last) {  // In [\w-.], the hyphen is a literal character.
        set.add('-', '-');
        if (first)
          set.add(*first, *first);
        else
          set.add(first_class);
        if (last)
          set.add(*last, *last);
        else
          set.add(last_class);
        continue;
      }
      if (*last < *first) {
        refuse("a range of characters is out of order");
        return 0;
      }
      if (!check_case(*first, *last)) return 0;
      set.add(*first, *last);
    }
    set = cased(std::move(set));
    return add_set(inverted ? set.complement() : set);
  }

  // If the escape is a single character, returns it; otherwise stores the class in `set` and returns nullopt.
  std::optional<uint32_t> member(CodePointSet& set) {
    if (!take_if("\\")) return take();
    if (auto found = class_escape()) {
      set = std::move(*found);
      return std::nullopt;
    }
    if (peek() == '-') return take();
    return character_escape(true);
  }

  const std::string_view text_;
  const bool is_python_;
  RegexFlags flags_;
  size_t n_ranges_ = 0;
  std::unordered_map<std::string, uint32_t> classes_;  // Set nodes by the text of their escape.
  Regex& out_;
  Regex::Problem& problem_;
  size_t at_ = 0;
  bool failed_ = false;
};

bool Regex::parse(std::string_view pattern, Regex& out, Problem& problem, RegexDialect dialect, RegexFlags flags) {
  out = Regex();
  return RegexParser(pattern, dialect, flags, out, problem).run();
}

}  // namespace monolith::grammar
