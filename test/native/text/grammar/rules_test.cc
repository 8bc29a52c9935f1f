// Tests grammars written as rules: their meaning (compared with a recognizer of a different kind), their error
// messages, and malicious grammars.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "text/grammar/grammar.h"
#include "text/grammar/rule_text.h"
#include "text/tokenizer/unicode.h"

namespace {

using namespace monolith::grammar;
using monolith::TokenId;

std::shared_ptr<const GrammarVocabulary> bytes_and_more() {
  static const auto made = [] {
    std::vector<std::string> tokens;
    for (int c = 0; c < 256; ++c) tokens.emplace_back(1, static_cast<char>(c));
    for (const char* text : {"((", "))", "ab", "aaaa", "\"}", "é", "日本"}) tokens.emplace_back(text);
    return std::make_shared<const GrammarVocabulary>(tokens);
  }();
  return made;
}

std::shared_ptr<Grammar> compiled(const std::string& rules, std::vector<SchemaProblem>& problems,
                                  const GrammarLimits& limits = {}) {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kRules;
  options.text = rules;
  return Grammar::compile(options, bytes_and_more(), limits, nullptr, problems);
}

std::shared_ptr<Grammar> compiled(const std::string& rules) {
  std::vector<SchemaProblem> problems;
  auto grammar = compiled(rules, problems);
  if (!grammar) check::fail(__FILE__, __LINE__, problems.back().what + "\n" + rules);
  return grammar;
}

std::string refusal(const std::string& rules) {
  std::vector<SchemaProblem> problems;
  return compiled(rules, problems) ? "none" : problems.back().what;
}

// Returns 'w' if the text matches completely, 'b' if it is a proper prefix of a matching text, 'n' if the text is
// neither, and 'f' if the grammar reached its limits.
char read(Grammar& grammar, std::string_view text) {
  Grammar::Position position = grammar.start();
  std::vector<TokenId> before;
  for (const char c : text) {
    const auto token = static_cast<TokenId>(static_cast<uint8_t>(c));
    const Grammar::Outcome outcome = grammar.advance(position, before, token);
    if (outcome != Grammar::Outcome::kOk) return outcome == Grammar::Outcome::kRefused ? 'n' : 'f';
    before.push_back(token);
  }
  return position.accepts ? 'w' : 'b';
}

TEST(rules_match_as_the_notation_defines) {
  struct Case {
    const char* rules;
    std::vector<const char*> whole, not_whole;
  };
  const Case cases[] = {
      {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "ye", "yesno"}},
      {"# one\nroot ::= # two\n  a b? # three\r\na ::= [a-c\\x5D]+\nb::=\"-\"{2}",
       {"a", "a]c", "b--"},
       {"", "-", "a-"}},
      {"root ::= [^\"\\n-]{1,2}", {"a", "é日", "\\"}, {"", "\"", "-", "\n", "aaa"}},
      {"root ::= \"\\\"\\\\\\t\\u00e9\\U0001F600\\ud83d\\ude00\"", {"\"\\\té😀😀"}, {"\""}},
      {"root ::= . .", {"é\n", "ab"}, {"a", "abc"}},
      {"root ::= (\"a\" | \"b\"){2,} \"c\"{0} \"d\" {1, 2}", {"abd", "aabdd"}, {"ad", "abcd", "abddd"}},
      {"root ::= \"ab\"* | \"\"", {"", "abab"}, {"aba"}},
      {"root ::= [a-] [-a] [z\\]^]", {"a-]", "--^"}, {"b-z"}},
      {"root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"", "(x", "(x))", "()"}},
      {"root ::= \"a\" root \"b\" |", {"", "ab", "aaabbb"}, {"aab", "abb", "ba"}},
      {"root ::= p\np ::= \"\" | \"a\" p \"a\" | \"b\" p \"b\"", {"", "abba", "aabbaa"}, {"ab", "aba"}},
      {"root ::= sum\nsum ::= sum [+-] product | product\nproduct ::= product \"*\" value | value\nvalue ::= [0-9]+ | "
       "\"(\" sum \")\"",
       {"1", "1+2*3", "(1-2)*(3+4)*5", "((7))"},
       {"1+", "(1", "1)", "*1", "()"}},
      {"root ::= a\na ::= b \"x\" | \"1\"\nb ::= c \"y\" | a \"z\"\nc ::= a | \"2\"",
       {"1", "1yx", "1zx", "2yx", "2yxyxzx"},
       {"2", "1x", "yx"}},
      {"root ::= maybe root \"x\" | \"y\"\nmaybe ::= \"m\"?", {"y", "yx", "myx", "mmyxx", "myxx"}, {"my", "x", "myxm"}},
      {"root ::= root root | \"a\" | \"\"", {"", "a", "aaaaaaaa"}, {"b"}},
      {"root ::= root | \"a\" | dead | \"b\" dead\ndead ::= dead \"x\"", {"a"}, {"", "b", "ax"}},
      {"root ::= nothing \"a\" nothing*\nnothing ::= \"\" | (nothing)*", {"a"}, {"", "aa"}},
  };
  for (const Case& one : cases) {
    const auto grammar = compiled(one.rules);
    if (!grammar) continue;
    for (const char* text : one.whole)
      if (read(*grammar, text) != 'w')
        check::fail(__FILE__, __LINE__, std::string(one.rules) + " does not read " + text);
    for (const char* text : one.not_whole)
      if (read(*grammar, text) == 'w') check::fail(__FILE__, __LINE__, std::string(one.rules) + " reads " + text);
  }
  const auto nested = compiled("root ::= \"(\" root \")\" | \"x\"");
  CHECK(read(*nested, "((x)") == 'b' && read(*nested, "((x)))") == 'n' && read(*nested, ")") == 'n');
}

TEST(errors_in_rules_report_the_location) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "line 1, column 1: the rule \"root\" is missing"},
      {"start ::= \"a\"", "line 1, column 14: the rule \"root\" is missing"},
      {"root ::= a\na ::= \"é\" missing", "line 2, column 11: undefined rule \"missing\""},
      {"root ::= \"a", "line 1, column 10: a literal is not closed"},
      {"root ::= [a", "line 1, column 10: a [ is not closed"},
      {"root ::= []", "line 1, column 10: a character class is empty"},
      {"root ::= [z-a]", "line 1, column 11: a range of characters is out of order"},
      {"root ::= (\"a\"\nb ::= \"b\"", "line 1, column 10: a ( is not closed"},
      {"root ::= \"a\")", "line 1, column 13: unmatched )"},
      {"root ::= | *", "line 1, column 12: there is nothing before \"*\" to repeat"},
      {"root ::= \"a\"{65536}", "line 1, column 13: a repetition count is above 65,535"},
      {"root ::= \"a\"{3,2}", "line 1, column 13: the bounds of a repetition are out of order"},
      {"root ::= \"a\"{,2}", "line 1, column 14: a repetition is {m}, {m,} or {m,n}: expected a number, found \",\""},
      {"root ::= \"a\"{2",
       "line 1, column 15: a repetition is {m}, {m,} or {m,n}: expected \"}\", found the end of the text"},
      {"root ::= \"\\q\"", "line 1, column 11: unknown escape \\q"},
      {"root ::= \"\\x4\"", "line 1, column 11: an escape must have 2 hexadecimal digits"},
      {"root ::= \"\\ud800\"", "line 1, column 11: an escape is an unpaired surrogate"},
      {"root ::= \"\\U00110000\"", "line 1, column 11: an escape is not a code point"},
      {"root = \"a\"", "line 1, column 6: expected \"::=\" after the rule name, found \"=\""},
      {"root ::= \"a\"\n\nroot ::= \"b\"", "line 3, column 1: the rule \"root\" is defined twice"},
      {"root ::= <think>", "line 1, column 10: token references are not supported"},
      {"root ::= 'a'", "line 1, column 10: \"'\" is unexpected: literals must be in double quotes"},
  };
  for (const auto& [rules, what] : cases) {
    const std::string told = refusal(rules);
    if (told != std::string("the grammar is invalid: ") + what)
      check::fail(__FILE__, __LINE__, std::string(rules) + " is refused so: " + told);
  }
  CHECK_EQ(refusal("root ::= a\na ::= \"x\" b\nb ::= \"y\" a"),
           std::string("no text matches: the rule \"a\" recurses without end"));
  CHECK_EQ(refusal("root ::= root"), std::string("no text matches: the rule \"root\" recurses without end"));
  CHECK_EQ(refusal("root ::= \"a\" [^\\U00000000-\\U0010FFFF]"),
           std::string("no text matches: the rule \"root\" has an empty character class"));
  CHECK_EQ(refusal(std::string(65'537, ' ')), std::string("the grammar is invalid: it is longer than 64 KiB"));
}

// For each node in the rule tree and each start position, computes the set of possible end positions. The sets are a
// least fixed point, computed directly from the tree.
class Recognizer {
 public:
  Recognizer(const RuleTree& tree, std::string_view text)
      : tree_(tree), text_(text), n_(text.size() + 1), ends_(tree.nodes.size() * n_) {
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t node = 0; node < tree.nodes.size(); ++node)
        for (size_t from = 0; from < n_; ++from) {
          const uint64_t now = reach(tree.nodes[node], from);
          changed = changed || now != ends_[node * n_ + from];
          ends_[node * n_ + from] = now;
        }
    }
  }
  bool reads() const { return ends_[tree_.rules[tree_.root].root * n_] >> (n_ - 1) & 1; }

 private:
  uint64_t ends(uint32_t node, uint64_t from) const {
    uint64_t all = 0;
    for (size_t i = 0; i < n_; ++i)
      if (from >> i & 1) all |= ends_[node * n_ + i];
    return all;
  }
  uint64_t reach(const RuleTree::Node& node, size_t from) const {
    uint64_t at = uint64_t{1} << from, all = 0;
    switch (node.kind) {
      case RuleTree::Kind::kEmpty: return at;
      case RuleTree::Kind::kLiteral: {
        const std::string& literal = tree_.literals[node.a];
        return text_.substr(from).starts_with(literal) ? uint64_t{1} << (from + literal.size()) : 0;
      }
      case RuleTree::Kind::kSet:
        return from + 1 < n_ && tree_.sets[node.a].contains(static_cast<uint8_t>(text_[from])) ? at << 1 : 0;
      case RuleTree::Kind::kRegex: return 0;  // GBNF has none.
      case RuleTree::Kind::kRule: return ends_[tree_.rules[node.a].root * n_ + from];
      case RuleTree::Kind::kConcat:
        for (uint32_t i = node.a; i < node.b; ++i) at = ends(tree_.children[i], at);
        return at;
      case RuleTree::Kind::kEither:
        for (uint32_t i = node.a; i < node.b; ++i) all |= ends_[tree_.children[i] * n_ + from];
        return all;
      case RuleTree::Kind::kRepeat:
        for (uint32_t i = 0; i < node.b; ++i) at = ends(node.a, at);
        for (uint32_t i = node.b; i < std::min<uint32_t>(node.c, node.b + 8); ++i) at |= ends(node.a, at);
        return at;
    }
    return 0;
  }
  const RuleTree& tree_;
  const std::string_view text_;
  const size_t n_;
  std::vector<uint64_t> ends_;  // Bit sets of end positions.
};

TEST(random_rules_agree_with_another_recognizer) {
  std::mt19937 random(11);
  const auto draw = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
  size_t read_whole = 0, read_not = 0, impossible = 0, too_large = 0;
  for (int round = 0; round < 3000; ++round) {
    const uint32_t n_rules = 1 + draw(4);
    std::string rules;
    for (uint32_t rule = 0; rule < n_rules; ++rule) {
      rules += rule == 0 ? "root ::= " : "r" + std::to_string(rule) + " ::= ";
      int open = 0;
      for (uint32_t i = 0, n = 1 + draw(7); i < n; ++i) {
        switch (draw(8)) {
          case 0: rules += "| "; continue;
          case 1: rules += "( ", ++open; continue;
          case 2:
            if (open > 0) rules += ") ", --open;
            continue;
          case 3: rules += "\"ab\" "; break;
          case 4: rules += "[ab] "; break;
          case 5: rules += "\"a\" "; break;
          default: {
            const uint32_t to = draw(n_rules);
            rules += to == 0 ? "root " : "r" + std::to_string(to) + " ";
          }
        }
        static const char* const kBehind[] = {"? ", "* ", "{2} ", "{0,2} ", "+ "};
        if (draw(4) == 0) rules += kBehind[draw(5)];
      }
      while (open-- > 0) rules += ") ";
      rules += "\n";
    }
    RuleTree tree;
    std::string what;
    REQUIRE(RuleTree::parse_gbnf(rules, tree, what));
    std::vector<SchemaProblem> problems;
    const auto grammar = compiled(rules, problems);
    if (!grammar && problems.back().kind == SchemaProblem::Kind::kTooLarge) ++too_large;
    for (int i = 0; i < 12; ++i) {
      std::string text;
      for (uint32_t n = draw(8); n > 0; --n) text += static_cast<char>('a' + draw(2));
      const bool reads = Recognizer(tree, text).reads();
      if (!grammar) {
        if (problems.back().kind == SchemaProblem::Kind::kImpossible && reads)
          return check::fail(__FILE__, __LINE__, rules + " reads " + text);
        ++impossible;
        continue;
      }
      const char got = read(*grammar, text);
      if (reads != (got == 'w') || got == 'f')
        return check::fail(__FILE__, __LINE__, rules + "reads \"" + text + "\": " + got);
      ++(reads ? read_whole : read_not);
    }
  }
  check::note(std::to_string(read_whole) + " texts read, " + std::to_string(read_not) + " not; " +
              std::to_string(impossible / 12) + " grammars without a text or too large (" + std::to_string(too_large) +
              ")");
  CHECK(read_whole > 3000 && read_not > 3000 && too_large < 10);
}

TEST(rule_masks_agree_with_tokens_and_have_no_dead_ends) {
  // Every accepted prefix can be completed. The test computes the shortest completion independently: it closes
  // everything that is open.
  const auto grammar = compiled(
      "root ::= list\nlist ::= \"(\" (item (\" \" item)*)? \")\"\nitem ::= list | [a-z]+ | \"\\\"\" [^\"\\n]* "
      "\"\\\"\"");
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    Grammar::Position position = grammar->start();
    std::vector<TokenId> before;
    TokenMask mask(bytes_and_more()->trie().n_tokens());
    for (int i = 0; i < 30 && !position.ends; ++i) {
      REQUIRE(grammar->allowed(position, before, mask) == Grammar::Outcome::kOk);
      std::vector<TokenId> fine;
      for (uint32_t token = 0; token < bytes_and_more()->trie().n_tokens(); ++token) {
        Grammar::Position to = position;
        const bool ok = grammar->advance(to, before, static_cast<TokenId>(token)) == Grammar::Outcome::kOk;
        if (ok != mask.has(token)) return check::fail(__FILE__, __LINE__, "token " + std::to_string(token));
        if (ok) fine.push_back(static_cast<TokenId>(token));
      }
      REQUIRE(!fine.empty());
      const TokenId token = fine[random() % fine.size()];
      CHECK(grammar->advance(position, before, token) == Grammar::Outcome::kOk);
      before.push_back(token);
    }
  }
}

TEST(rules_nest_as_deep_as_their_text) {
  const auto nested = compiled("root ::= \"(\" root \")\" | \"x\"");
  const std::string deep(10'000, '(');
  CHECK(read(*nested, deep) == 'b');
  // At each bracket, there are two alternatives, so that continuations are nested within alternatives.
  const auto twofold = compiled("root ::= a | b\na ::= \"(\" root \")\" | \"x\"\nb ::= \"(\" root \"]\" | \"y\"");
  CHECK(read(*twofold, std::string(2'000, '(') + "x" + std::string(1'000, ')') + std::string(1'000, ']')) == 'w');
  CHECK(read(*twofold, std::string(2'000, '(') + "x" + std::string(1'999, ')') + "x") == 'n');
}

TEST(malicious_rules_end_within_their_limits) {
  std::vector<std::pair<std::string, std::string>> cases;
  cases.emplace_back("root ::= (\"a\"*)*", "aaa");
  cases.emplace_back("root ::= ((\"a\"*)*)* ((\"\"*)* | \"a\"?)*", "aaaaaaaa");
  cases.emplace_back("root ::= " + std::string(128, '(') + "\"a\"" + std::string(128, ')'), "a");
  cases.emplace_back("root ::= " + std::string(30'000, '(') + "\"a\"" + std::string(30'000, ')'), "");
  std::string tower = "\"a\"";
  for (int i = 0; i < 100; ++i) tower = "(" + tower + "){65535}";
  cases.emplace_back("root ::= " + tower, std::string(300, 'a'));
  cases.emplace_back("root ::= \"a\"" + std::string(30'000, '?'), "a");
  std::string twos = "root ::= \"a\"";
  for (int i = 0; i < 15'000; ++i) twos += "{2}";
  cases.emplace_back(twos, "aaaa");
  std::string doubling = "root ::= r0\n";  // Expands to 2^600 copies of the last rule.
  for (int i = 0; i < 600; ++i)
    doubling += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " r" + std::to_string(i + 1) + "\n";
  cases.emplace_back(doubling + "r600 ::= \"a\"", std::string(200, 'a'));
  std::string chain = "root ::= r0\n";  // Each rule starts with the next one, 3,000 levels deep.
  for (int i = 0; i < 3'000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " | \"b\"\n";
  cases.emplace_back(chain + "r3000 ::= \"a\"", "a");
  std::string ring = "root ::= r0\n";  // Every rule starts with every other rule.
  for (int i = 0; i < 60; ++i) {
    ring += "r" + std::to_string(i) + " ::= \"" + std::to_string(i) + "\"";
    for (int j = 0; j < 60; ++j) ring += " | r" + std::to_string(j) + " \"" + std::to_string((i * 7 + j) % 10) + "\"";
    ring += "\n";
  }
  cases.emplace_back(ring, "11");
  cases.emplace_back("root ::= root root | \"a\"", std::string(3'000, 'a'));
  cases.emplace_back("root ::= \"a\" root root | \"\"", std::string(3'000, 'a'));
  cases.emplace_back("root ::= e\ne ::= e \"+\" e | e \"*\" e | \"-\" e | \"(\" e \")\" | [0-9]+",
                     "1+2*(3+4*(5+-6*7)*8)+9*10+11*(12*13+14)");
  cases.emplace_back("root ::= \"a\" root root | root root root | \"\"", std::string(200, 'a'));
  cases.emplace_back("root ::= (\"a\" | \"b\")* \"a\" (\"a\" | \"b\"){20} \"c\"", std::string(60, 'a'));
  cases.emplace_back("root ::= x{9,5000} y{7,900}\nx ::= (\"a\" | \"b\")* \"a\" | y*\ny ::= x? (\"b\" | x){30}",
                     std::string(60, 'a'));
  std::string classes = "root ::= ";
  for (int i = 0; i < 6'000; ++i) {
    classes += "[a-";
    monolith::append_utf8(0x4E00 + static_cast<uint32_t>(i), classes);
    classes += "] ";
  }
  cases.emplace_back(classes, "a");
  std::string scattered = "root ::= [";
  for (int i = 20'000; i > 0; --i) monolith::append_utf8(0x3000 + 2 * static_cast<uint32_t>(i), scattered);
  cases.emplace_back(scattered + "]+", "旦旦");
  std::string names = "root ::= ";
  for (int i = 0; i < 3'000; ++i) names += "| n" + std::to_string(i) + " ";
  for (int i = 0; i < 3'000; ++i) names += "\nn" + std::to_string(i) + "::=n";
  cases.emplace_back(names + "\nn ::= \"a\"", "a");
  for (const auto& [rules, text] : cases) {
    std::string name = rules.substr(0, 40);
    std::ranges::replace(name, '\n', ' ');
    const int64_t begun = Fuel::thread_time();
    std::vector<SchemaProblem> problems;
    const auto grammar = compiled(rules, problems);
    const int64_t compiled_at = Fuel::thread_time();
    const char got = grammar ? read(*grammar, text) : '-';
    const int64_t compile_ms = (compiled_at - begun) / 1'000'000,
                  read_ms = (Fuel::thread_time() - compiled_at) / 1'000'000;
    check::note(name + ": " + std::to_string(compile_ms) + " ms, " +
                (grammar ? std::string(1, got) + " in " + std::to_string(read_ms) + " ms" : problems.back().what));
    if (compile_ms > 1'500 || read_ms > 8'000)
      check::fail(__FILE__, __LINE__, "it took too long: " + rules.substr(0, 100));
    if (got == 'n') check::fail(__FILE__, __LINE__, "it does not read its text: " + rules.substr(0, 100));
    if (!grammar) CHECK(problems.back().kind != SchemaProblem::Kind::kUnsupported);
  }
}

}  // namespace
