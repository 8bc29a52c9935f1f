// Tests grammars in Lark's notation: the strings that match, in a response and in an argument of a tool call, and the
// error messages.
#include <chrono>
#include <string>
#include <vector>

#include "check.h"
#include "text/grammar/grammar.h"

namespace {

using namespace monolith::grammar;
using monolith::TokenId;

std::shared_ptr<const GrammarVocabulary> bytes() {
  static const auto made = [] {
    std::vector<std::string> tokens;
    for (int c = 0; c < 256; ++c) tokens.emplace_back(1, static_cast<char>(c));
    return std::make_shared<const GrammarVocabulary>(tokens);
  }();
  return made;
}

std::shared_ptr<Grammar> compiled(const GrammarOptions& options, std::vector<SchemaProblem>& problems) {
  return Grammar::compile(options, bytes(), {}, nullptr, problems);
}

std::shared_ptr<Grammar> compiled(const GrammarOptions& options) {
  std::vector<SchemaProblem> problems;
  auto grammar = compiled(options, problems);
  if (!grammar) check::fail(__FILE__, __LINE__, problems.back().what + "\n" + options.text);
  return grammar;
}

GrammarOptions lark(const std::string& text) {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kLark;
  options.text = text;
  return options;
}

std::string refusal(const std::string& text) {
  std::vector<SchemaProblem> problems;
  return compiled(lark(text), problems) ? "none" : problems.back().what;
}

// Returns the options for a call whose argument "input" must match the grammar.
GrammarOptions argument(const char* keyword, const std::string& grammar) {
  std::string quoted;
  for (const char c : grammar)
    quoted += c == '\n' ? "\\n" : c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kJsonSchema;
  options.text = R"({"type":"object","properties":{"input":{"type":"string",")" + std::string("\\u0001") +
                 (keyword + 1) + "\":\"" + quoted + R"("}},"required":["input"],"additionalProperties":false})";
  return options;
}

// Returns 'w' if the text is a complete match, 'b' if it is a proper prefix of one, 'n' if the text is neither, and 'f'
// if the grammar reached its limits.
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

// A made-up patch grammar that resembles the grammars sent by coding agents.
constexpr const char* kPatch = R"--(start: head change+ tail
head: "=== patch" LF
tail: "=== end" LF?

change: add | remove | edit
add: "=== add " path LF added+
remove: "=== remove " path LF
edit: "=== edit " path LF (" " | "+" | "-") /(.*)/ LF -> edited
path: /(.+)/
added: "+" /(.*)/ LF -> line

%import common.LF
)--";

constexpr const char* kSums = R"--(
?start: sum
?sum: product | sum ("+" | "-") product   -> add
?product: atom
    | product "*" atom
atom.2: NUMBER | "(" sum ")" | NAME
NAME: ("a".."z")+
NUMBER.1: /[0-9]+/
%ignore " "   // spaces may occur anywhere
)--";

TEST(lark_grammars_match_as_the_notation_defines) {
  struct Case {
    const char* grammar;
    std::vector<const char*> whole, not_whole;
  };
  const Case cases[] = {
      {"start: \"yes\" | \"no\"", {"yes", "no"}, {"", "ye", "yesno"}},
      {"start: a b? c~2 d~1..2\na: \"a\"\nb: \"b\"\nc: \"c\"\nd: \"d\"", {"abccd", "accdd"}, {"acd", "accddd"}},
      {"start: [\"-\"] A+\nA: \"x\" | \"y\"i", {"x", "-yY"}, {"-", "X"}},
      {"start: /[a-c]+/i /./s /\\d/", {"aBc\n1", "Ab\xd9\xa1", "ab\xd9\xa1\xd9\xa1"}, {"d\n1", "ab"}},
      {"start: \"\\u00e9\\n\\\\\\\"\" // comment\n# another", {"é\n\\\""}, {"é"}},
      {"start: (\n  \"a\"\n  | \"b\"\n)\n  | \"c\"", {"a", "b", "c"}, {"", "ab"}},
      {"start: _list\n_list: INT (\",\" INT)*\n%import common.INT\n%ignore /[ \\t]+/",
       {"1,2", " 1 , 22 ", "3"},
       {"", "1,", "1 2"}},
      {"start: ID STRING\n%import common (CNAME, ESCAPED_STRING)\nID: CNAME\nSTRING: ESCAPED_STRING",
       {"a_1\"x\\\"y\"", "b\"\""},
       {"1\"x\"", "a\"x\"y\""}},
      {"start: \"[\" /[^]]+/ \"]\" /[]a]/", {"[ab]]", "[x]a"}, {"[a]]]", "[]a"}},
      {"start: W\n%import common.WORD -> W", {"abc"}, {"", "a1"}},
      {kSums, {"1", "(a + 2)*3 - x", " ( ( 7 ) ) "}, {"", "1 +", "()", "1 1", "(1"}},
      {"start: \"(\" start \")\" |", {"", "(())"}, {"(", ")("}},
      {kPatch,
       {"=== patch\n=== add a.txt\n+one\n+\n=== remove b\n=== end", "=== patch\n=== edit a b\n-x\n=== end\n"},
       {"=== patch\n=== end", "=== patch\n=== add a\none\n=== end", "=== patch\n=== add \n+a\n=== end"}},
  };
  for (const Case& one : cases) {
    const auto grammar = compiled(lark(one.grammar));
    if (!grammar) continue;
    for (const char* text : one.whole)
      if (read(*grammar, text) != 'w')
        check::fail(__FILE__, __LINE__, std::string(one.grammar) + " does not read " + text);
    for (const char* text : one.not_whole)
      if (read(*grammar, text) == 'w') check::fail(__FILE__, __LINE__, std::string(one.grammar) + " reads " + text);
  }
}

TEST(errors_in_lark_grammars_name_what_is_not_supported_and_where) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "the grammar is invalid: line 1, column 1: the rule \"start\" is missing"},
      {"start: A", "the grammar is invalid: line 1, column 8: undefined terminal \"A\""},
      {"start: a", "the grammar is invalid: line 1, column 8: undefined rule \"a\""},
      {"start: \"a", "the grammar is invalid: line 1, column 8: a string is not closed"},
      {"start: (\"a\"", "the grammar is invalid: line 1, column 8: a ( is not closed"},
      {"start: \"a\")", "the grammar is invalid: line 1, column 11: \")\" is unexpected"},
      {"start: \"a\"\nstart: \"b\"", "the grammar is invalid: line 2, column 1: \"start\" is defined twice"},
      {"start: x{\"a\"}", "the grammar is invalid: line 1, column 9: templates are not supported"},
      {"x{y}: y\nstart: \"a\"", "the grammar is invalid: line 1, column 2: templates are not supported"},
      {"%declare A\nstart: A", "the grammar is invalid: line 1, column 1: %declare is not supported"},
      {"%import python.NAME\nstart: NAME",
       "the grammar is invalid: line 1, column 1: only terminals of \"common\" can be imported"},
      {"%import common.NOPE\nstart: NOPE",
       "the grammar is invalid: line 1, column 1: \"common\" has no terminal \"NOPE\""},
      {"start: A\nA: \"a\" A?", "the grammar is invalid: line 1, column 8: the terminal \"A\" contains itself"},
      {"start: A\nA: b\nb: \"b\"",
       "the grammar is invalid: line 2, column 4: a terminal cannot contain the rule \"b\""},
      {"start: /a(?=b)/",
       "the grammar is invalid: line 1, column 8: the regular expression contains an anchor or a lookahead"},
      {"start: /^a$/",
       "the grammar is invalid: line 1, column 8: the regular expression contains an anchor or a lookahead"},
      {"start: /(?<!a)b/",
       "the grammar is invalid: line 1, column 8: the regular expression contains lookbehind (at byte 4)"},
      {"start: /a/x", "the grammar is invalid: line 1, column 11: the regular expression flag \"x\" is not supported"},
      {"start: \"a\"~3..2", "the grammar is invalid: line 1, column 12: the bounds of a repetition are out of order"},
      {"start: a\na: a \"x\"", "no text matches: the rule \"a\" recurses without end"},
  };
  for (const auto& [grammar, expected] : cases) {
    const std::string actual = refusal(grammar);
    if (actual != expected) check::fail(__FILE__, __LINE__, std::string(grammar) + ": " + actual);
  }
}

TEST(a_lark_grammar_binds_the_decoded_string_of_a_json_argument) {
  const auto patch = compiled(argument(kLarkKeyword, kPatch));
  REQUIRE(patch != nullptr);
  CHECK(read(*patch, R"--({"input":"=== patch\n=== add a\n+\"\\\n=== end"})--") == 'w');
  CHECK(read(*patch, R"--({"input":"=== patch\n=== add a\n-)--") == 'n');
  CHECK(read(*patch, R"--({"input":"=== patch\n=== end)--") == 'n');
  CHECK(read(*patch, R"--({"input":"=== patch\n=== remove a"})--") == 'n');
  const auto sums = compiled(argument(kLarkKeyword, kSums));
  REQUIRE(sums != nullptr);
  CHECK(read(*sums, R"--({"input":"((1+a)*2)"})--") == 'w');
  CHECK(read(*sums, R"--({"input":"((1+a)*2"})--") == 'n');
}

// The text must not contain the marker that ends the argument, even if the grammar is recursive.
TEST(a_lark_grammar_binds_the_raw_text_of_an_argument) {
  for (const auto& [grammar, good, bad] :
       {std::tuple{kPatch, "=== patch\n=== add a\n+</b>\n=== end", "=== patch\n=== add a\n+</end>\n=== end"},
        std::tuple{"start: \"(\" start \")\" | /[^()]+/", "((a</b>))", "((</end>))"},
        std::tuple{"start: \"!\" start \"?\" | \"x\" | \"</end>\"", "!!x??", "!!</end>"}}) {
    GrammarOptions options = argument(kLarkKeyword, grammar);
    Spelling spelling;
    spelling.name_open = "<arg=";
    spelling.text_open = spelling.json_open = ">\n";
    spelling.value_close = "\n</end>";
    spelling.text_end = "</end>";
    options.spelling = spelling;
    const auto compiled_grammar = compiled(options);
    REQUIRE(compiled_grammar != nullptr);
    CHECK(read(*compiled_grammar, std::string("<arg=input>\n") + good + "\n</end>") == 'w');
    CHECK(read(*compiled_grammar, std::string("<arg=input>\n") + bad + "\n</end>") == 'n');
    CHECK(read(*compiled_grammar, "<arg=input>\n)") == 'n');
  }
}

TEST(a_regular_expression_in_pythons_dialect_binds_the_whole_string) {
  const auto read_as = [](const char* pattern, const std::string& text) {
    const auto grammar = compiled(argument(kRegexKeyword, pattern));
    return grammar == nullptr ? 'f' : read(*grammar, "{\"input\":\"" + text + "\"}");
  };
  CHECK(read_as("(?P<day>\\d{4})-(?i:ab)", "2024-aB") == 'w');
  CHECK(read_as("^a+$", "aaa") == 'w' && read_as("a+", "aab") == 'n');
  CHECK(read_as("\\w+\\Z", "éa") == 'w' && read_as("a.c", "a\\rc") == 'w' && read_as("a.c", "a\\nc") == 'n');
  CHECK(read_as("(?s)a.c", "a\\nc") == 'w' && read_as("a{,2}b", "aab") == 'w' && read_as("a{,2}b", "aaab") == 'n');
  CHECK(read_as("(?!ab)[a-z]{2}", "ac") == 'w' && read_as("(?!ab)[a-z]{2}", "ab") == 'n');
  for (const auto& [pattern, what] :
       {std::pair{"(?x)a", "the pattern contains a group with an unsupported flag (at byte 3)"},
        std::pair{"(a)\\1", "the pattern contains a back reference (at byte 4)"},
        std::pair{"(?i)é", "the pattern contains a case-insensitive non-ASCII letter (at byte 6)"},
        std::pair{"(?i)[aé]", "the pattern contains a case-insensitive non-ASCII letter (at byte 8)"},
        std::pair{"(a", "the pattern is not a valid regular expression: a group is not closed (at byte 2)"}}) {
    std::vector<SchemaProblem> problems;
    CHECK(compiled(argument(kRegexKeyword, pattern), problems) == nullptr);
    if (problems.back().what != what) check::fail(__FILE__, __LINE__, problems.back().what);
  }
}

// The solutions of mutually left-recursive rules are expressions that share most of their parts. Without sharing, their
// size would grow exponentially with the number of rules.
TEST(the_shortest_texts_of_entangled_rules_are_found_within_the_limits) {
  std::vector<SchemaProblem> problems;
  const auto begin = std::chrono::steady_clock::now();
  for (const int n : {8, 10, 12, 14, 16, 24}) {
    std::string grammar = "start: r0\n";
    for (int rule = 0; rule < n; ++rule) {
      grammar += "r" + std::to_string(rule) + ": \"x" + std::to_string(rule) + "\"";
      for (int other = 0; other < n; ++other)
        grammar += " | r" + std::to_string(other) + " \"" + static_cast<char>('a' + rule) +
                   static_cast<char>('a' + other) + "\"";
      grammar += "\n";
    }
    GrammarOptions options = argument(kLarkKeyword, grammar);
    options.text.replace(options.text.find("\"string\","), 9, "\"string\",\"minLength\":30,");
    compiled(options, problems);  // Compiled or rejected within a short time.
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  std::string words;
  for (int i = 0; i < 8000; ++i) words += " /\\w" + std::string(1, static_cast<char>('a' + i % 26)) + "/i";
  compiled(lark("start:" + words.substr(0, 60'000) + "/"), problems);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST(a_schema_may_contain_only_one_grammar_for_a_text) {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kJsonSchema;
  options.text = R"({"type":"object","properties":{"a":{"\u0001lark":"start: \"a\""},"b":{"\u0001regex":"b"}}})";
  std::vector<SchemaProblem> problems;
  CHECK(compiled(options, problems) == nullptr);
  CHECK(problems.back().what == "a schema may contain at most one grammar for a string");
}

}  // namespace
