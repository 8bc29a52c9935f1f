#include "text/grammar/lark_text.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ascii.h"
#include "text/grammar/expression.h"
#include "text/grammar/rule_text.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {
namespace {

using Kind = RuleTree::Kind;

constexpr size_t kMaxClassRanges = 1 << 20;  // Total over the classes of all regular expressions.

bool is_lark_name(char c) { return is_digit(c) || is_upper(c) || is_lower(c) || c == '_'; }

class LarkParser {
 public:
  LarkParser(std::string_view text, RuleTree& out, std::string& problem) : text_(text), out_(out), problem_(problem) {}

  bool run() {
    if (text_.size() > RuleTree::kMaxBytes) {
      problem_ = "it is longer than 64 KiB";
      return false;
    }
    ignore_rule_ = named("%ignore", 0);
    for (skip_lines(); !failed_ && !at_end(); skip_lines()) statement();
    if (failed_) return false;
    for (const RuleTree::Rule& rule : out_.rules)
      if (!rule.defined && &rule != &out_.rules[ignore_rule_])
        return refuse(rule.at, "undefined " + kind_of(rule.name) + " \"" + rule.name + "\"");
    const auto start = rules_.find("start");
    if (start == rules_.end()) return refuse(text_.size(), "the rule \"start\" is missing");
    if (!check_terminals()) return false;
    define_ignored();
    define_root(start->second);
    return true;
  }

 private:
  bool refuse(size_t at, const std::string& what) {
    if (!failed_) problem_ = place_of(text_, at) + ": " + what;
    failed_ = true;
    return false;
  }
  uint32_t refused(size_t at, const std::string& what) {
    refuse(at, what);
    return 0;
  }

  bool at_end() const { return at_ >= text_.size(); }
  bool take_if(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  std::string here() const {
    if (at_end()) return "the end of the text";
    if (text_[at_] == '\n' || text_[at_] == '\r') return "the end of the line";
    return "\"" + std::string(text_.substr(at_, decode_utf8(text_.substr(at_)).size)) + "\"";
  }

  // Skips spaces within a line, and a comment up to the end of the line.
  void skip_spaces() {
    while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\f')) ++at_;
    if (text_.substr(at_).starts_with("//") || (!at_end() && text_[at_] == '#'))
      at_ = std::min(text_.find('\n', at_), text_.size());
  }
  void skip_lines() {
    for (;;) {
      skip_spaces();
      if (at_end() || (text_[at_] != '\n' && text_[at_] != '\r')) return;
      ++at_;
    }
  }
  // Skips spaces, and also line breaks unless they end the definition. Inside a group (`depth` > 0), line breaks never
  // end the definition.
  void skip(int depth) {
    skip_spaces();
    const size_t begin = at_;
    skip_lines();
    if (depth == 0 && (at_end() || text_[at_] != '|')) at_ = begin;
  }

  std::string_view name_here() const {
    size_t end = at_;
    while (end < text_.size() && is_lark_name(text_[end])) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    return !name.empty() && is_digit(name.front()) ? std::string_view{} : name;
  }
  static bool is_terminal(std::string_view name) {
    const size_t first = name.find_first_not_of('_');
    return first != std::string_view::npos && is_upper(name[first]);
  }
  static std::string kind_of(std::string_view name) { return is_terminal(name) ? "terminal" : "rule"; }

  uint32_t named(std::string_view name, size_t at) {
    const auto [found, is_new] = rules_.try_emplace(std::string(name), static_cast<uint32_t>(out_.rules.size()));
    if (is_new) {
      out_.rules.emplace_back();
      out_.rules.back().name = name;
      out_.rules.back().at = at;
      if (name.size() > RuleTree::kLongestName) refuse(at, "a name is longer than 200 characters");
    }
    return found->second;
  }

  // ---- Statements ----

  void statement() {
    if (text_[at_] == '%') return directive();
    const size_t begin = at_;
    while (take_if("?") || take_if("!")) continue;
    const std::string_view name = name_here();
    if (name.empty()) {
      refuse(at_, "expected the name of a rule or a terminal, found " + here());
      return;
    }
    at_ += name.size();
    if (!at_end() && text_[at_] == '{') {
      refuse(at_, "templates are not supported");
      return;
    }
    skip_spaces();
    if (take_if(".")) priority();
    skip(1);
    if (!failed_ && !take_if(":")) {
      refuse(at_, "expected \":\" after the name, found " + here());
      return;
    }
    define(named(name, begin), begin, is_terminal(name));
    end_statement();
  }

  void define(uint32_t rule, size_t begin, bool in_terminal) {
    if (out_.rules[rule].defined) {
      refuse(begin, "\"" + out_.rules[rule].name + "\" is defined twice");
      return;
    }
    out_.rules[rule].defined = true;
    in_terminal_ = in_terminal;
    const uint32_t first = static_cast<uint32_t>(out_.nodes.size());
    const uint32_t root = either(0);
    out_.rules[rule].first = first;
    out_.rules[rule].root = root;
  }

  void end_statement() {
    skip_spaces();
    if (!failed_ && !at_end() && text_[at_] != '\n' && text_[at_] != '\r') refuse(at_, here() + " is unexpected");
  }

  void priority() {
    take_if("-");
    const size_t begin = at_;
    while (!at_end() && is_digit(text_[at_])) ++at_;
    if (at_ == begin) refuse(at_, "expected a priority, found " + here());
  }

  void directive() {
    const size_t begin = at_++;
    const std::string_view name = name_here();
    at_ += name.size();
    skip_spaces();
    if (name == "ignore") {
      ignore(begin);
    } else if (name == "import") {
      import(begin);
    } else {
      refuse(begin, "%" + std::string(name) + " is not supported");
      return;
    }
    end_statement();
  }

  void ignore(size_t begin) {
    const std::string name = "%ignore " + std::to_string(ignored_.size());
    const uint32_t rule = named(name, begin);
    define(rule, begin, true);
    ignored_.push_back(rule);
  }

  // %import common.NAME, %import common.NAME -> OTHER or %import common (NAME, NAME).
  void import(size_t begin) {
    const std::string_view library = name_here();
    at_ += library.size();
    if (library != "common") {
      refuse(begin, "only terminals of \"common\" can be imported");
      return;
    }
    if (take_if(".")) {
      const std::string_view name = name_here();
      at_ += name.size();
      skip_spaces();
      std::string_view as = name;
      if (take_if("->")) {
        skip_spaces();
        as = name_here();
        at_ += as.size();
      }
      import_terminal(name, as, begin);
      return;
    }
    skip_spaces();
    if (!take_if("(")) {
      refuse(at_, "expected \".\" or \"(\" after the library name, found " + here());
      return;
    }
    do {
      skip_lines();
      const size_t at = at_;
      const std::string_view name = name_here();
      at_ += name.size();
      import_terminal(name, name, at);
      skip_lines();
    } while (!failed_ && take_if(","));
    if (!failed_ && !take_if(")")) refuse(at_, "expected \")\", found " + here());
  }

  void import_terminal(std::string_view name, std::string_view as, size_t at) {
    const std::string_view pattern = common_terminal(name);
    if (pattern.empty()) {
      refuse(at, "\"common\" has no terminal \"" + std::string(name.substr(0, RuleTree::kLongestName)) + "\"");
      return;
    }
    if (!is_terminal(as)) {
      refuse(at, "an imported terminal needs a name in capital letters");
      return;
    }
    const uint32_t rule = named(as, at);
    if (out_.rules[rule].defined) {
      refuse(at, "\"" + std::string(as) + "\" is defined twice");
      return;
    }
    out_.rules[rule].defined = true;
    out_.rules[rule].first = out_.rules[rule].root = add_regex(pattern, {}, at);
  }

  // ---- Expansions ----

  uint32_t either(int depth) {
    if (depth > RuleTree::kDeepest) return refused(at_, "groups are nested more than 128 deep");
    std::vector<uint32_t> ways;
    skip(depth);
    take_if("|");  // A definition may start with a bar.
    do {
      ways.push_back(sequence(depth));
      if (!failed_ && take_if("->")) {
        skip_spaces();
        const std::string_view alias = name_here();
        if (alias.empty()) return refused(at_, "expected the name of an alias, found " + here());
        at_ += alias.size();
        skip(depth);
      }
    } while (!failed_ && take_if("|"));
    return failed_ ? 0 : out_.add_list(Kind::kEither, ways);
  }

  uint32_t sequence(int depth) {
    std::vector<uint32_t> parts;
    for (skip(depth); !failed_ && !at_end(); skip(depth)) {
      const char c = text_[at_];
      if (c == '|' || c == ')' || c == ']' || c == '\n' || c == '\r' || text_.substr(at_).starts_with("->")) break;
      uint32_t part = atom(depth);
      if (failed_) return 0;
      skip_spaces();
      part = repetition(part);
      parts.push_back(part);
    }
    return failed_ ? 0 : out_.add_list(Kind::kConcat, parts);
  }

  uint32_t repetition(uint32_t part) {
    if (take_if("*")) return out_.add({Kind::kRepeat, part, 0, kUnbounded});
    if (take_if("+")) return out_.add({Kind::kRepeat, part, 1, kUnbounded});
    if (take_if("?")) return out_.add({Kind::kRepeat, part, 0, 1});
    if (!take_if("~")) return part;
    const size_t begin = at_;
    const auto least = count();
    if (!least) return 0;
    auto most = least;
    skip_spaces();
    if (take_if("..") && !(most = count())) return 0;
    if (*most < *least) return refused(begin, "the bounds of a repetition are out of order");
    return out_.add({Kind::kRepeat, part, *least, *most});
  }

  std::optional<uint32_t> count() {
    skip_spaces();
    const size_t begin = at_;
    uint32_t value = 0;
    for (; !at_end() && is_digit(text_[at_]); ++at_) {
      value = value * 10 + static_cast<uint32_t>(text_[at_] - '0');
      if (value <= RuleTree::kMaxRepeats) continue;
      refuse(begin, "a repetition count is above 65,535");
      return std::nullopt;
    }
    if (at_ > begin) return value;
    refuse(at_, "expected a repetition count, found " + here());
    return std::nullopt;
  }

  uint32_t atom(int depth) {
    const size_t begin = at_;
    const char c = text_[at_];
    if (c == '(' || c == '[') {
      ++at_;
      const uint32_t group = either(depth + 1);
      if (failed_) return 0;
      if (!take_if(c == '(' ? ")" : "]")) return refused(begin, std::string("a ") + c + " is not closed");
      return c == '(' ? group : out_.add({Kind::kRepeat, group, 0, 1});
    }
    if (c == '"') return as_terminal(string());
    if (c == '/') return as_terminal(regex());
    const std::string_view name = name_here();
    if (name.empty()) return refused(at_, here() + " is unexpected");
    at_ += name.size();
    if (!at_end() && text_[at_] == '{') return refused(at_, "templates are not supported");
    if (in_terminal_ && !is_terminal(name))
      return refused(
          begin, "a terminal cannot contain the rule \"" + std::string(name.substr(0, RuleTree::kLongestName)) + "\"");
    const uint32_t node = out_.add({Kind::kRule, named(name, begin)});
    return is_terminal(name) ? as_terminal(node) : node;
  }

  // Inside a rule, each terminal may be followed by the terminals of %ignore.
  uint32_t as_terminal(uint32_t node) {
    if (in_terminal_ || failed_) return node;
    const uint32_t ignored = out_.add({Kind::kRule, ignore_rule_});
    return out_.add_list(Kind::kConcat, {node, ignored});
  }

  // A string, or a range "a".."z".
  uint32_t string() {
    const size_t begin = at_;
    const auto text = in_quotes();
    if (!text) return 0;
    const size_t behind = at_;
    skip_spaces();
    if (take_if("..")) {
      skip_spaces();
      const auto last = in_quotes();
      if (!last) return 0;
      const Utf8Char from = decode_utf8(*text), to = decode_utf8(*last);
      if (from.size != text->size() || to.size != last->size() || to.code_point < from.code_point)
        return refused(begin, "a range must have one character on each side, in ascending order");
      return out_.add_set(CodePointSet::of(from.code_point, to.code_point));
    }
    at_ = behind;
    const bool ignore_case =
        !at_end() && text_[at_] == 'i' && (at_ + 1 == text_.size() || !is_lark_name(text_[at_ + 1]));
    if (!ignore_case) return out_.add_literal(*text);
    ++at_;
    std::vector<uint32_t> parts;
    for (std::string_view left = *text; !left.empty();) {
      const Utf8Char c = decode_utf8(left);
      left.remove_prefix(c.size);
      if (c.code_point > 127) return refused(begin, "a case-insensitive string may contain only ASCII characters");
      CodePointSet set = CodePointSet::of(c.code_point);
      const char letter = static_cast<char>(c.code_point);
      if (is_upper(letter)) set.add(c.code_point + 32, c.code_point + 32);
      if (is_lower(letter)) {
        set = CodePointSet::of(c.code_point - 32);
        set.add(c.code_point, c.code_point);
      }
      parts.push_back(out_.add_set(std::move(set)));
    }
    return out_.add_list(Kind::kConcat, parts);
  }

  std::optional<std::string> in_quotes() {
    const size_t begin = at_;
    if (!take_if("\"")) {
      refuse(at_, "expected a string, found " + here());
      return std::nullopt;
    }
    std::string text;
    while (!failed_ && !take_if("\"")) {
      if (at_end() || text_[at_] == '\n') {
        refuse(begin, "a string is not closed");
        return std::nullopt;
      }
      const Utf8Char c = decode_utf8(text_.substr(at_));
      if (c.code_point == kInvalidByte) refuse(at_, "invalid UTF-8");
      at_ += c.size;
      append_utf8(c.code_point == '\\' ? escape() : c.code_point, text);
    }
    return failed_ ? std::nullopt : std::optional(text);
  }

  // Parses the part of an escape sequence that follows the backslash.
  uint32_t escape() {
    const size_t begin = at_ - 1;
    if (at_end()) return refused(begin, "the text ends with a backslash");
    const char kind = text_[at_++];
    switch (kind) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'f': return '\f';
      case 'v': return '\v';
      case '\\':
      case '"':
      case '\'':
      case '/': return static_cast<uint32_t>(kind);
      case 'x': return hex(begin, 2);
      case 'u': return hex(begin, 4);
      case 'U': return hex(begin, 8);
      default: return refused(begin, "unknown escape in a string");
    }
  }

  uint32_t hex(size_t begin, int n) {
    uint32_t value = 0;
    for (int i = 0; i < n; ++i) {
      const int digit = at_end() ? -1 : hex_digit(text_[at_]);
      if (digit < 0) return refused(begin, "an escape must have " + std::to_string(n) + " hexadecimal digits");
      ++at_;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF))
      return refused(begin, "an escape is not a valid code point");
    return value;
  }

  uint32_t regex() {
    const size_t begin = at_++;
    std::string pattern;
    for (;;) {
      if (at_end() || text_[at_] == '\n') return refused(begin, "a regular expression is not closed");
      if (take_if("/")) break;
      if (text_.substr(at_).starts_with("\\/")) ++at_;  // \/ stands for a slash.
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n';
      pattern += text_.substr(at_, escaped ? 2 : 1);
      at_ += escaped ? 2 : 1;
    }
    RegexFlags flags;
    for (; !at_end() && is_lower(text_[at_]); ++at_) {
      switch (text_[at_]) {
        case 'i': flags.ignore_case = true; break;
        case 's': flags.dot_all = true; break;
        case 'm':
        case 'u': break;  // Anchors are rejected anyway, and classes cover Unicode anyway.
        default: return refused(at_, "the regular expression flag " + here() + " is not supported");
      }
    }
    return add_regex(pattern, flags, begin);
  }

  uint32_t add_regex(std::string_view pattern, RegexFlags flags, size_t at) {
    const std::string key =
        std::string(1, static_cast<char>('0' + flags.ignore_case * 2 + flags.dot_all)) + std::string(pattern);
    if (const auto known = regexes_.find(key); known != regexes_.end()) return out_.add({Kind::kRegex, known->second});
    Regex regex;
    Regex::Problem problem;
    if (!Regex::parse(pattern, regex, problem, RegexDialect::kPython, flags))
      return refused(at, problem.unsupported ? "the regular expression contains " + problem.what
                                             : "the regular expression is invalid: " + problem.what);
    if (regex.asserts()) return refused(at, "the regular expression contains an anchor or a lookahead");
    n_ranges_ += regex.n_ranges();
    if (n_ranges_ > kMaxClassRanges) return refused(at, "the regular expressions have too many classes of characters");
    out_.regexes.push_back(std::move(regex));
    const auto index = static_cast<uint32_t>(out_.regexes.size() - 1);
    regexes_.emplace(key, index);
    return out_.add({Kind::kRegex, index});
  }

  // ---- After all statements ----

  // Checks that no terminal contains itself. Uses a depth-first search with an explicit stack instead of recursion.
  bool check_terminals() {
    enum class Mark : uint8_t { kNew, kOpen, kDone };
    struct Step {
      uint32_t rule, node;
    };
    std::vector<Mark> marks(out_.rules.size(), Mark::kNew);
    for (uint32_t start = 0; start < out_.rules.size(); ++start) {
      if (marks[start] != Mark::kNew || !is_terminal(out_.rules[start].name)) continue;
      std::vector<Step> path{{start, out_.rules[start].first}};
      marks[start] = Mark::kOpen;
      while (!path.empty()) {
        Step& step = path.back();
        if (step.node > out_.rules[step.rule].root) {
          marks[step.rule] = Mark::kDone;
          path.pop_back();
          continue;
        }
        const RuleTree::Node& node = out_.nodes[step.node++];
        if (node.kind != Kind::kRule || marks[node.a] == Mark::kDone) continue;
        const RuleTree::Rule& used = out_.rules[node.a];
        if (marks[node.a] == Mark::kOpen) return refuse(used.at, "the terminal \"" + used.name + "\" contains itself");
        marks[node.a] = Mark::kOpen;
        path.push_back({node.a, used.first});
      }
    }
    return true;
  }

  void define_ignored() {
    RuleTree::Rule& rule = out_.rules[ignore_rule_];
    rule.defined = true;
    rule.first = static_cast<uint32_t>(out_.nodes.size());
    std::vector<uint32_t> ways;
    for (const uint32_t ignored : ignored_) ways.push_back(out_.add({Kind::kRule, ignored}));
    const uint32_t one = out_.add_list(Kind::kEither, ways);
    rule.root = ways.empty() ? one : out_.add({Kind::kRepeat, one, 0, kUnbounded});
  }

  void define_root(uint32_t start) {
    out_.root = named("%root", 0);
    RuleTree::Rule& rule = out_.rules[out_.root];
    rule.defined = true;
    rule.first = static_cast<uint32_t>(out_.nodes.size());
    const uint32_t ignored = out_.add({Kind::kRule, ignore_rule_});
    const uint32_t whole = out_.add({Kind::kRule, start});
    rule.root = out_.add_list(Kind::kConcat, {ignored, whole});
  }

  const std::string_view text_;
  RuleTree& out_;
  std::string& problem_;
  std::unordered_map<std::string, uint32_t> rules_;
  std::unordered_map<std::string, uint32_t> regexes_;  // Indices by flags and pattern.
  size_t n_ranges_ = 0;
  std::vector<uint32_t> ignored_;
  uint32_t ignore_rule_ = 0;
  size_t at_ = 0;
  bool in_terminal_ = false, failed_ = false;
};

}  // namespace

bool RuleTree::parse_lark(std::string_view text, RuleTree& out, std::string& problem) {
  out = RuleTree();
  return LarkParser(text, out, problem).run();
}

}  // namespace monolith::grammar
