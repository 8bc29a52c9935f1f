#include "text/grammar/rule_text.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/ascii.h"
#include "text/grammar/expression.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {
namespace {

using Kind = RuleTree::Kind;

bool is_name(char c) { return is_digit(c) || is_lower(c) || is_upper(c) || c == '-' || c == '_'; }

class RuleParser {
 public:
  RuleParser(std::string_view text, RuleTree& out, std::string& problem) : text_(text), out_(out), problem_(problem) {}

  bool run() {
    if (text_.size() > RuleTree::kMaxBytes) {
      problem_ = "it is longer than 64 KiB";
      return false;
    }
    for (skip(); !failed_ && at_ < text_.size(); skip()) rule();
    if (failed_) return false;
    for (const RuleTree::Rule& rule : out_.rules)
      if (!rule.defined) return refuse(rule.at, "undefined rule \"" + rule.name + "\"");
    const auto root = rules_.find("root");
    if (root == rules_.end()) return refuse(text_.size(), "the rule \"root\" is missing");
    out_.root = root->second;
    return true;
  }

 private:
  bool refuse(size_t at, const std::string& what) {
    if (!failed_) problem_ = place_of(text_, at) + ": " + what;
    failed_ = true;
    return false;
  }

  bool at_end() const { return at_ >= text_.size(); }
  bool take_if(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  // Skips whitespace and comments. Line breaks are not significant: a rule extends to the start of the next rule.
  size_t behind_space(size_t at) const {
    while (at < text_.size()) {
      const char c = text_[at];
      if (c == '#')
        at = std::min(text_.find('\n', at), text_.size());
      else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        ++at;
      else
        break;
    }
    return at;
  }
  void skip() { at_ = behind_space(at_); }
  std::string_view name_at(size_t at) const {
    size_t end = at;
    while (end < text_.size() && is_name(text_[end])) ++end;
    return text_.substr(at, end - at);
  }
  // Returns the whole character at the current position, quoted for messages.
  std::string here() const {
    if (at_end()) return "the end of the text";
    return "\"" + std::string(text_.substr(at_, decode_utf8(text_.substr(at_)).size)) + "\"";
  }

  uint32_t named(std::string_view name, size_t at) {
    const auto [found, is_new] = rules_.try_emplace(std::string(name), static_cast<uint32_t>(out_.rules.size()));
    if (is_new) {
      out_.rules.emplace_back();
      out_.rules.back().name = name;
      out_.rules.back().at = at;
      if (name.size() > RuleTree::kLongestName) refuse(at, "a rule name is longer than 200 characters");
    }
    return found->second;
  }

  void rule() {
    const size_t begin = at_;
    const std::string_view name = name_at(at_);
    if (name.empty()) {
      refuse(at_, "expected a rule name, found " + here());
      return;
    }
    at_ += name.size();
    skip();
    if (!take_if("::=")) {
      refuse(at_, "expected \"::=\" after the rule name, found " + here());
      return;
    }
    const uint32_t index = named(name, begin);
    if (out_.rules[index].defined) {
      refuse(begin, "the rule \"" + std::string(name) + "\" is defined twice");
      return;
    }
    out_.rules[index].defined = true;
    const uint32_t first = static_cast<uint32_t>(out_.nodes.size());
    const uint32_t root = either(0);
    if (failed_) return;
    if (!at_end() && text_[at_] == ')') {
      refuse(at_, "unmatched )");
      return;
    }
    out_.rules[index].first = first;
    out_.rules[index].root = root;
  }

  uint32_t either(int depth) {
    if (depth > RuleTree::kDeepest) {
      refuse(at_, "groups are nested more than 128 deep");
      return 0;
    }
    std::vector<uint32_t> ways;
    do ways.push_back(sequence(depth));
    while (!failed_ && take_if("|"));
    return out_.add_list(Kind::kEither, ways);
  }

  // A sequence ends where no further element of it follows: at the end of the text, at "|", at ")", or at the next
  // rule.
  uint32_t sequence(int depth) {
    std::vector<uint32_t> parts;
    for (skip(); !failed_ && !at_end(); skip()) {
      const char c = text_[at_];
      if (c == '|' || c == ')') break;
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (parts.empty())
          refuse(at_, "there is nothing before " + here() + " to repeat");
        else
          parts.back() = repetition(parts.back());
        continue;
      }
      if (is_name(c)) {
        const std::string_view name = name_at(at_);
        if (text_.substr(behind_space(at_ + name.size())).starts_with("::=")) break;
        parts.push_back(out_.add({Kind::kRule, named(name, at_)}));
        at_ += name.size();
        continue;
      }
      parts.push_back(symbol(depth));
    }
    return failed_ ? 0 : out_.add_list(Kind::kConcat, parts);
  }

  uint32_t symbol(int depth) {
    const size_t begin = at_;
    switch (text_[at_]) {
      case '"': return literal();
      case '[': return bracket();
      case '.': {
        ++at_;
        return out_.add_set(CodePointSet::all());
      }
      case '(': {
        ++at_;
        const uint32_t group = either(depth + 1);
        if (!failed_ && !take_if(")")) refuse(begin, "a ( is not closed");
        return group;
      }
      case '<':
      case '!': refuse(at_, "token references are not supported"); return 0;
      case ':': refuse(at_, "there is no rule name before \":\""); return 0;
      default: refuse(at_, here() + " is unexpected: literals must be in double quotes"); return 0;
    }
  }

  uint32_t repetition(uint32_t repeated) {
    if (take_if("*")) return out_.add({Kind::kRepeat, repeated, 0, kUnbounded});
    if (take_if("+")) return out_.add({Kind::kRepeat, repeated, 1, kUnbounded});
    if (take_if("?")) return out_.add({Kind::kRepeat, repeated, 0, 1});
    const size_t begin = at_++;  // Skips the opening "{".
    const auto least = count(begin);
    if (!least) return 0;
    std::optional<uint32_t> most = least;
    skip();
    if (take_if(",")) {
      skip();
      most = kUnbounded;
      if (!at_end() && is_digit(text_[at_]) && !(most = count(begin))) return 0;
      skip();
    }
    if (!take_if("}")) {
      refuse(at_, "a repetition is {m}, {m,} or {m,n}: expected \"}\", found " + here());
      return 0;
    }
    if (*most < *least) {
      refuse(begin, "the bounds of a repetition are out of order");
      return 0;
    }
    return out_.add({Kind::kRepeat, repeated, *least, *most});
  }

  std::optional<uint32_t> count(size_t begin) {
    skip();
    if (at_end() || !is_digit(text_[at_])) {
      refuse(at_, "a repetition is {m}, {m,} or {m,n}: expected a number, found " + here());
      return std::nullopt;
    }
    uint32_t value = 0;
    for (; !at_end() && is_digit(text_[at_]); ++at_) {
      value = value * 10 + static_cast<uint32_t>(text_[at_] - '0');
      if (value <= RuleTree::kMaxRepeats) continue;
      refuse(begin, "a repetition count is above 65,535");
      return std::nullopt;
    }
    return value;
  }

  uint32_t literal() {
    const size_t begin = at_++;
    std::string text;
    while (!failed_ && !take_if("\"")) {
      if (at_end())
        refuse(begin, "a literal is not closed");
      else
        append_utf8(character(), text);
    }
    if (failed_) return 0;
    return out_.add_literal(std::move(text));
  }

  uint32_t bracket() {
    const size_t begin = at_++;
    const bool inverted = take_if("^");
    std::vector<CodePointSet::Range> ranges;
    while (!failed_ && !take_if("]")) {
      if (at_end()) {
        refuse(begin, "a [ is not closed");
        return 0;
      }
      const size_t from = at_;
      const uint32_t first = character();
      uint32_t last = first;
      if (!at_end() && text_[at_] == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = character();
      }
      if (last < first) refuse(from, "a range of characters is out of order");
      ranges.push_back({first, last});
    }
    if (ranges.empty()) refuse(begin, "a character class is empty");
    if (failed_) return 0;
    // The ranges are sorted, so that each range is appended at the end of the set.
    std::ranges::sort(ranges, {}, &CodePointSet::Range::first);
    CodePointSet set;
    for (const auto& range : ranges) set.add(range.first, range.last);
    return out_.add_set(inverted ? set.complement() : set);
  }

  // Reads one character of a literal or a class. The caller has checked that the text has not ended.
  uint32_t character() {
    const size_t begin = at_;
    const Utf8Char c = decode_utf8(text_.substr(at_));
    at_ += c.size;
    if (c.code_point == kInvalidByte) {
      refuse(begin, "invalid UTF-8");
      return 0;
    }
    if (c.code_point != '\\') return c.code_point;
    if (at_end()) {
      refuse(begin, "the text ends with a backslash");
      return 0;
    }
    const char kind = text_[at_++];
    switch (kind) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '^':
      case '-': return static_cast<uint32_t>(kind);
      case 'x': return hex(begin, 2);
      case 'U': return scalar(begin, hex(begin, 8));
      case 'u': {
        const uint32_t first = hex(begin, 4);
        if (failed_ || first < 0xD800 || first > 0xDBFF || !take_if("\\u")) return scalar(begin, first);
        const uint32_t second = hex(begin, 4);
        if (second < 0xDC00 || second > 0xDFFF) return scalar(begin, first);
        return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
      }
      default:
        --at_;
        refuse(begin,
               "unknown escape \\" +
                   (at_end() ? std::string() : std::string(text_.substr(at_, decode_utf8(text_.substr(at_)).size))));
        return 0;
    }
  }

  uint32_t hex(size_t begin, int n) {
    uint32_t value = 0;
    for (int i = 0; i < n; ++i) {
      const int digit = at_end() ? -1 : hex_digit(text_[at_]);
      if (digit < 0) {
        refuse(begin, "an escape must have " + std::to_string(n) + " hexadecimal digits");
        return 0;
      }
      ++at_;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  uint32_t scalar(size_t begin, uint32_t value) {
    if (value <= kLastCodePoint && (value < 0xD800 || value > 0xDFFF)) return value;
    refuse(begin, value > kLastCodePoint ? "an escape is not a code point" : "an escape is an unpaired surrogate");
    return 0;
  }

  const std::string_view text_;
  RuleTree& out_;
  std::string& problem_;
  std::unordered_map<std::string, uint32_t> rules_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

bool RuleTree::parse_gbnf(std::string_view text, RuleTree& out, std::string& problem) {
  out = RuleTree();
  return RuleParser(text, out, problem).run();
}

uint32_t RuleTree::add(Node node) {
  nodes.push_back(node);
  return static_cast<uint32_t>(nodes.size() - 1);
}

uint32_t RuleTree::add_list(Kind kind, const std::vector<uint32_t>& parts) {
  if (parts.empty()) return add({Kind::kEmpty});
  if (parts.size() == 1) return parts.front();
  const uint32_t first = static_cast<uint32_t>(children.size());
  children.insert(children.end(), parts.begin(), parts.end());
  return add({kind, first, static_cast<uint32_t>(children.size())});
}

uint32_t RuleTree::add_literal(std::string text) {
  literals.push_back(std::move(text));
  return add({Kind::kLiteral, static_cast<uint32_t>(literals.size() - 1)});
}

uint32_t RuleTree::add_set(CodePointSet set) {
  sets.push_back(std::move(set));
  return add({Kind::kSet, static_cast<uint32_t>(sets.size() - 1)});
}

std::string place_of(std::string_view text, size_t at) {
  size_t line = 1, column = 1;
  for (const char c : text.substr(0, at)) {
    if (c == '\n')
      ++line, column = 1;
    else
      column += (c & 0xC0) != 0x80;
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

void RuleTree::separate(CharPartition& partition) const {
  for (const std::string& literal : literals) {
    for (std::string_view left = literal; !left.empty();) {
      const Utf8Char c = decode_utf8(left);
      partition.separate(c.code_point);
      left.remove_prefix(c.size);
    }
  }
  for (const Regex& regex : regexes) regex.separate(partition);
  for (const CodePointSet& set : sets) {
    const auto ranges = set.ranges();
    if (ranges.size() == 1 && ranges[0].first == ranges[0].last)
      partition.separate(ranges[0].first);
    else
      partition.separate(set);
  }
}

}  // namespace monolith::grammar
