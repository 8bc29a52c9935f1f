// Tests compiled grammars with a small vocabulary: strings that are not JSON, suffixes after a value, special tokens,
// and limits.
#include "text/grammar/grammar.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace {

using namespace monolith::grammar;
using monolith::TokenId;

// IDs below 256 are single-byte tokens; longer tokens follow.
std::shared_ptr<const GrammarVocabulary> vocabulary() {
  static const auto made = [] {
    std::vector<std::string> tokens;
    for (int c = 0; c < 256; ++c) tokens.emplace_back(1, static_cast<char>(c));
    for (const char* text : {"{\"", "\":", "\"}", "}}", "ye", "yes", " no", "\n</", "call>", "}\n", "ab", "abab", "\\d",
                             "é", "日本", "\xE6\x97"})
      tokens.emplace_back(text);
    tokens.emplace_back();
    return std::make_shared<const GrammarVocabulary>(tokens);
  }();
  return made;
}

GrammarOptions of(GrammarOptions::Kind kind, std::string text, std::string suffix = "") {
  GrammarOptions options;
  options.kind = kind;
  options.text = std::move(text);
  options.suffix = std::move(suffix);
  return options;
}

std::shared_ptr<Grammar> compiled(const GrammarOptions& options, const GrammarLimits& limits = {}) {
  std::vector<SchemaProblem> problems;
  auto grammar = Grammar::compile(options, vocabulary(), limits, nullptr, problems);
  if (!grammar) check::fail(__FILE__, __LINE__, problems.back().what);
  return grammar;
}

enum class Read { kWhole, kBeginning, kNot };
Read read(Grammar& grammar, std::string_view text) {
  Grammar::Position position = grammar.start();
  std::vector<TokenId> before;
  for (const char c : text) {
    const auto token = static_cast<TokenId>(static_cast<uint8_t>(c));
    if (grammar.advance(position, before, token) != Grammar::Outcome::kOk) return Read::kNot;
    before.push_back(token);
  }
  return position.accepts ? Read::kWhole : Read::kBeginning;
}

TEST(grammar_of_a_regular_expression_matches_the_whole_text) {
  const auto grammar = compiled(of(GrammarOptions::Kind::kRegex, "\"?[a-c\\\\]{2,3}(é|日本|\\n)?"));
  for (const char* text : {"ab", "\"abc", "a\\", "ab\n", "abcé", "ab日本"}) CHECK(read(*grammar, text) == Read::kWhole);
  for (const char* text : {"", "a", "\"", "ab\xE6", "ab\xC3"}) CHECK(read(*grammar, text) == Read::kBeginning);
  for (const char* text : {"d", "abcd", "ab日", "xab", "ab\r", "ab\xFF", "\xC3"})
    CHECK((read(*grammar, text) == Read::kNot) != (std::string_view(text) == "ab日"));
}

TEST(grammar_of_choices_ends_with_them) {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kChoice;
  options.choices = {"yes", "no", "yes, but"};
  const auto grammar = compiled(options);
  for (const std::string& choice : options.choices) CHECK(read(*grammar, choice) == Read::kWhole);
  CHECK(read(*grammar, "yes, bu") == Read::kBeginning && read(*grammar, "maybe") == Read::kNot);
  Grammar::Position position = grammar->start();
  TokenMask mask(vocabulary()->trie().n_tokens());
  CHECK(grammar->allowed(position, {}, mask) == Grammar::Outcome::kOk);
  CHECK_EQ(mask.count(), size_t{4});  // The allowed tokens are y, n, ye and yes.
  std::vector<TokenId> before;
  for (const char c : std::string_view("no")) {
    CHECK(grammar->advance(position, before, c) == Grammar::Outcome::kOk);
    before.push_back(c);
  }
  CHECK(position.accepts && position.ends);
  CHECK(grammar->advance(position, before, 'x') == Grammar::Outcome::kRefused);
  CHECK(position.ends);  // A rejected token leaves the position unchanged.
}

TEST(grammar_continues_with_its_suffix) {
  const auto grammar = compiled(of(GrammarOptions::Kind::kJsonSchema, R"({"type":"number"})", "}\n</call>"));
  CHECK(read(*grammar, "12") == Read::kBeginning);
  CHECK(read(*grammar, "12}\n</call>") == Read::kWhole);
  CHECK(read(*grammar, "12.}\n") == Read::kNot && read(*grammar, "12}\n</call>x") == Read::kNot &&
        read(*grammar, "}") == Read::kNot);
  // A token may contain the end of the value and the start of the suffix, but must not continue beyond the suffix.
  const auto object = compiled(of(GrammarOptions::Kind::kJsonObject, "", "}"));
  Grammar::Position position = object->start();
  CHECK(object->advance(position, {}, '{') == Grammar::Outcome::kOk);
  const std::vector<TokenId> before = {'{'};
  TokenMask mask(vocabulary()->trie().n_tokens());
  CHECK(object->allowed(position, before, mask) == Grammar::Outcome::kOk);
  CHECK(mask.has(256 + 3));   // The token "}}" is allowed.
  CHECK(!mask.has(256 + 9));  // The token "}\n" is not allowed.
  CHECK(object->advance(position, before, 256 + 3) == Grammar::Outcome::kOk);
  CHECK(position.ends);
}

TEST(grammar_white_space_modes) {
  GrammarOptions options =
      of(GrammarOptions::Kind::kJsonSchema,
         R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"number"}}},"required":["a"]})");
  const auto read_with = [&](WhiteSpace white_space, std::string_view text) {
    options.white_space = white_space;
    return read(*compiled(options), text);
  };
  const std::string many(20, '\n');
  for (const WhiteSpace space : {WhiteSpace::kFlexible, WhiteSpace::kWithin}) {
    for (const char* text : {"{\"a\":[]}", "{ \"a\" :\t[ 1 ,\r\n2 ] }"}) CHECK(read_with(space, text) == Read::kWhole);
    CHECK(read_with(space, '{' + many + "\"a\":" + many + "[]}") == Read::kWhole);
    CHECK(read_with(space, '{' + many + ' ') == Read::kNot);
    CHECK(read_with(space, "{\"a\":[]} ") == Read::kNot);
  }
  CHECK(read_with(WhiteSpace::kNone, "{\"a\":[]}") == Read::kWhole && read_with(WhiteSpace::kNone, "{ ") == Read::kNot);
  CHECK(read_with(WhiteSpace::kFlexible, " \n{\"a\":[]}") == Read::kWhole);
  CHECK(read_with(WhiteSpace::kWithin, " ") == Read::kNot && read_with(WhiteSpace::kWithin, "\n") == Read::kNot);
}

// Returns options for members between tags, with strings written without quotes: <p=NAME>VALUE</p>, then the suffix.
GrammarOptions tagged(std::string schema) {
  GrammarOptions options = of(GrammarOptions::Kind::kJsonSchema, std::move(schema), "</f>");
  Spelling spelling;
  spelling.name_open = "<p=";
  spelling.text_open = spelling.json_open = ">";
  spelling.value_close = spelling.text_end = "</p>";
  spelling.kinds = {{"n", Spelling::Kind::kJson}, {"u", Spelling::Kind::kNullable}};
  options.spelling = spelling;
  return options;
}

TEST(grammar_writes_members_between_tags) {
  const auto grammar = compiled(
      tagged(R"({"type":"object","properties":{"s":{"type":"string","maxLength":9},"n":{"type":["integer","string"]},
      "u":{"type":["string","null"],"maxLength":2}},"required":["s"],"additionalProperties":{"type":"string"}})"));
  for (const char* text : {"<p=s></p></f>", "<p=s>a\n\"b\\</p></f>", "<p=s>5</p><p=n>5</p><p=u>null</p></f>",
                           "<p=s></</p></f>", "<p=s>x</p><p=n>\"a\"</p></f>", "<p=s>x</p><p=other-name>日本</p></f>"})
    CHECK(read(*grammar, text) == Read::kWhole);
  for (const char* text : {"", "<p=s>", "<p=s>a</p>", "<p=s>a</p><p=n>12", "<p=s>a</p></"})
    CHECK(read(*grammar, text) == Read::kBeginning);
  for (const char* text : {"</f>", "<p=n>5</p><p=s>", "<p=s>a</p><p=n>a", "<p=s>a</p><p=u>abc", "<p=s>0123456789",
                           "<p=s>a</p><p=s>", "<p=s>a</p><p=a b", "<p=s>a</p> "})
    CHECK(read(*grammar, text) == Read::kNot);
  // A member's name may be empty.
  const auto nameless = compiled(tagged(
      R"({"type":"object","properties":{"":{"type":"string"}},"required":["","n"],"additionalProperties":{"type":"integer"}})"));
  CHECK(read(*nameless, "<p=>x</p><p=n>1</p></f>") == Read::kWhole);
  CHECK(read(*nameless, "<p=>x</p><p=>") == Read::kNot && read(*nameless, "<p=>x</p></f>") == Read::kNot);
  // No string may contain its own closing tag. After the tag, only another member or the end may follow.
  CHECK(read(*grammar, "<p=s>a</p>b") == Read::kNot);
}

// Members are written between tags that repeat the name: <NAME>VALUE</NAME>. Nested objects are written in the same
// way, and array items are written as <i>VALUE</i>.
TEST(grammar_writes_objects_and_arrays_in_tags) {
  GrammarOptions options =
      of(GrammarOptions::Kind::kJsonSchema, R"({"type":"object","properties":{"s":{"type":"string","maxLength":9},
      "o":{"type":"object","properties":{"x":{"type":["string","integer"]},"y":{"type":"array","items":{"type":"array","items":{"type":"boolean"},"maxItems":2},"minItems":1}},
      "required":["x"],"additionalProperties":false},"u":{"type":["string","null"],"maxLength":3},"e":{"type":"object","properties":{"k":{"type":"null"}},"additionalProperties":false},
      "n":{"type":"number"},"free":{}},"required":["s"],"additionalProperties":{"type":"integer"}})",
         "~</f>");
  Spelling spelling;
  spelling.name_open = "~<";
  spelling.text_open = spelling.json_open = ">";
  spelling.value_close = "~</";
  spelling.text_end = "~";
  spelling.item = "i";
  options.spelling = spelling;
  const auto grammar = compiled(options);
  for (const char* text : {"~<s>~</s>~</f>", "~<s>a\n<b></s>~</s>~<o>~<x>a b~</x>~</o>~</f>",
                           "~<s>~</s>~<o>~<x>5~</x>~<y>~<i>~<i>true~</i>~</i>~<i>~</i>~</y>~</o>~</f>",
                           "~<s>~</s>~<o>~<x>5 a~</x>~</o>~</f>", "~<s>~</s>~<o>~<x> truely~</x>~</o>~</f>",
                           "~<s>~</s>~<o>~<x>\"5\"~</x>~</o>~<u>null~</u>~<e>~</e>~</f>",
                           "~<s>~</s>~<u>\"5\"~</u>~<n>-1.5~</n>~</f>", "~<s>~</s>~<e>~<k>null~</k>~</e>~</f>",
                           "~<s>~</s>~<free>~<a>~<i>b~</i>~<i>2~</i>~</a>~</free>~<other>7~</any>~</f>",
                           "~<s>~</s>~<free>{\"a\":\"b\"}~</free>~</f>"})
    if (read(*grammar, text) != Read::kWhole) check::fail(__FILE__, __LINE__, text);
  for (const char* text :
       {"~<s>~</o", "~<s>0123456789", "~<s>~</s>~<o>~</o", "~<s>~</s>~<o>~<x>5.~", "~<s>~</s>~<o>~<x> {\"~",
        "~<s>~</s>~<o>~<x> {~", "~<s>~</s>~<o>~<x>true~</x", "~<s>~</s>~<o>~<x>a~</x>~<y>~</y",
        "~<s>~</s>~<o>~<x>a~</x>~<y>~<i>~<i>true~</i>~<i>true~</i>~<i>", "~<s>~</s>~<n>a", "~<s>~</s>~<e>~<k>~",
        "~<s>~</s>~<u>\"ab\"", "~<s>~</s>~<free>{\"~", "~<s>~</s>~<free>\"~", "~<s>~</s>~<free>{\"a\":\"~",
        "~<s>~</s> "})
    if (read(*grammar, text) != Read::kNot) check::fail(__FILE__, __LINE__, text);
}

// Where a string is possible, an empty element is an empty string, as parsers interpret it, rather than the empty
// object of another alternative. Array items must match the schemas for their positions, and no more items are accepted
// than allowed.
TEST(grammar_reads_empty_tags_as_strings_and_items_by_position) {
  GrammarOptions options = of(GrammarOptions::Kind::kJsonSchema, R"({"type":"object","properties":{
      "b":{"anyOf":[{"type":"string","minLength":1},{"type":"object","properties":{"k":{"type":"integer"}},"additionalProperties":false}]},
      "l":{"anyOf":[{"type":"string","minLength":1},{"type":"array","items":{"type":"integer"}}]},
      "t":{"type":"array","prefixItems":[{"type":"boolean"},{"type":"integer"}],"items":{"type":"null"},"maxItems":3},
      "p":{"type":"array","prefixItems":[{"type":"boolean"}],"items":false},"n":{"type":"array","items":{"type":"integer"},"maxItems":0}},
      "additionalProperties":false})",
                              "~</f>");
  Spelling spelling;
  spelling.name_open = "~<";
  spelling.text_open = spelling.json_open = ">";
  spelling.value_close = "~</";
  spelling.text_end = "~";
  spelling.item = "i";
  options.spelling = spelling;
  const auto grammar = compiled(options);
  for (const char* text :
       {"~<b>a~</b>~</f>", "~<b>~<k>1~</k>~</b>~</f>", "~<b>{}~</b>~</f>", "~<l>~<i>1~</i>~</l>~</f>",
        "~<l>[]~</l>~</f>", "~<t>~<i>true~</i>~<i>1~</i>~<i>null~</i>~</t>~</f>", "~<p>~<i>true~</i>~</p>~</f>",
        "~<p>~</p>~</f>", "~<n>~</n>~</f>"})
    if (read(*grammar, text) != Read::kWhole) check::fail(__FILE__, __LINE__, text);
  for (const char* text :
       {"~<b>~</", "~<l>~</", "~<t>~<i>1", "~<t>~<i>true~</i>~<i>t", "~<t>~<i>true~</i>~<i>1~</i>~<i>1",
        "~<t>~<i>true~</i>~<i>1~</i>~<i>null~</i>~<i", "~<p>~<i>true~</i>~<i", "~<n>~<i"})
    if (read(*grammar, text) != Read::kNot) check::fail(__FILE__, __LINE__, text);
}

TEST(grammar_bans_closing_tags_in_json_strings) {
  const auto grammar = compiled(tagged(
      R"({"type":"object","properties":{"n":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":"integer"}}},"required":["n"]})"));
  CHECK(read(*grammar, "<p=n>{\"a\":\"</q>\\u003c\",\"</\":1}</p></f>") == Read::kWhole);
  CHECK(read(*grammar, "<p=n>{\"a\":\"</p>") == Read::kNot);
  CHECK(read(*grammar, "<p=n>{\"</p>") == Read::kNot);
}

TEST(grammar_writes_nested_objects_and_marks_strings) {
  GrammarOptions options = of(
      GrammarOptions::Kind::kJsonSchema,
      R"({"type":"object","properties":{"s":{"type":"string"},"o":{"type":"object","properties":{"x":{"type":"array","items":{"type":"string"}}},
      "required":["x"],"additionalProperties":false},"b":{"type":"boolean"}},"additionalProperties":false})",
      "}");
  Spelling spelling;
  spelling.text_open = spelling.json_open = ":";
  spelling.separator = ",";
  spelling.string_mark = "'''";
  spelling.nested = true;
  spelling.others = Spelling::Kind::kJson;
  options.spelling = spelling;
  const auto marked = compiled(options);
  for (const char* text : {"}", "s:'''a\"b'''}", "s:'''''',o:{x:[''''c''']},b:true}", "o:{x:[]}}"})
    CHECK(read(*marked, text) == Read::kWhole);
  for (const char* text : {"s:\"", ",", "s:'''a''',}", "o:{}", "b:True", "o:{\"x\""})
    CHECK(read(*marked, text) == Read::kNot);
  options.spelling->string_mark = "";
  options.spelling->nested = false;
  options.spelling->python = true;
  const auto python = compiled(options);
  for (const char* text : {"s:\"a\",b:True}", "b:False}", "o:{\"x\":[\"a\"]}}"})
    CHECK(read(*python, text) == Read::kWhole);
  for (const char* text : {"b:true", "o:{x", "s:a"}) CHECK(read(*python, text) == Read::kNot);
}

TEST(grammar_reads_the_text_before_its_value) {
  GrammarOptions options = of(GrammarOptions::Kind::kJsonSchema, R"({"type":"boolean"})");
  options.lead = {.letters = false, .least = 1, .most = 3, .close = "[A]"};
  const auto digits = compiled(options);
  CHECK(read(*digits, "0[A]true") == Read::kWhole && read(*digits, "123[A]") == Read::kBeginning);
  CHECK(read(*digits, "[A]") == Read::kNot && read(*digits, "1234") == Read::kNot && read(*digits, "a") == Read::kNot);
  options.lead = {.letters = true, .least = 4, .most = 4, .close = ""};
  const auto letters = compiled(options);
  CHECK(read(*letters, "aZ09false") == Read::kWhole && read(*letters, "aZ0f") == Read::kBeginning &&
        read(*letters, "aZ-") == Read::kNot);
  // Tests texts before the value that have one character too few or too many.
  CHECK(read(*letters, "aZ0false") == Read::kNot && read(*letters, "aZ091false") == Read::kNot);
}

TEST(grammar_masks_agree_with_tokens) {
  std::mt19937 random(4);
  for (
      const GrammarOptions& options :
      {tagged(R"({"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"}},"required":["s","n"]})"),
       tagged(
           R"({"type":"object","properties":{"s":{"type":"string","maxLength":6},"u":{"type":["string","null"]}},"required":["s"]})"),
       of(GrammarOptions::Kind::kJsonSchema, R"({"type":"string","maxLength":8,"not":{"pattern":"ab"}})"),
       of(GrammarOptions::Kind::kRegex, "(\\\\d|[^x]){1,9}(yes| no)\\n?"),
       of(GrammarOptions::Kind::kRegex, "[\\s\\S]*ab"), of(GrammarOptions::Kind::kJsonObject, "", "\n</call>")}) {
    GrammarLimits tight;
    tight.most_states = 300;
    const auto grammar = compiled(options), small = compiled(options, tight);
    for (int round = 0; round < 30; ++round) {
      Grammar::Position position = grammar->start(), other = small->start();
      std::vector<TokenId> before;
      TokenMask mask(vocabulary()->trie().n_tokens()), again = mask;
      for (int i = 0; i < 12; ++i) {
        REQUIRE(grammar->allowed(position, before, mask) == Grammar::Outcome::kOk);
        REQUIRE(small->allowed(other, before, again) == Grammar::Outcome::kOk);
        std::vector<TokenId> fine;
        for (uint32_t token = 0; token < vocabulary()->trie().n_tokens(); ++token) {
          Grammar::Position to = position;
          const bool ok = grammar->advance(to, before, static_cast<TokenId>(token)) == Grammar::Outcome::kOk;
          if (ok != mask.has(token) || ok != again.has(token))
            return check::fail(__FILE__, __LINE__, "token " + std::to_string(token));
          if (ok) fine.push_back(static_cast<TokenId>(token));
        }
        if (fine.empty()) {
          CHECK(position.accepts);
          break;
        }
        const TokenId token = fine[random() % fine.size()];
        CHECK(grammar->advance(position, before, token) == Grammar::Outcome::kOk);
        CHECK(small->advance(other, before, token) == Grammar::Outcome::kOk);
        CHECK(position.accepts == other.accepts && position.ends == other.ends);
        before.push_back(token);
      }
    }
  }
}

// Generates a text from random single-byte tokens until it ends. Returns the number of colons in it, and prints the
// time of the slowest mask computation.
size_t walk_to_its_end(Grammar& grammar) {
  Grammar::Position position = grammar.start();
  std::vector<TokenId> before;
  TokenMask mask(vocabulary()->trie().n_tokens());
  std::mt19937 random(6);
  size_t members = 0;
  int64_t slowest = 0;
  while (!position.ends) {
    const int64_t begun = Fuel::thread_time();
    if (grammar.allowed(position, before, mask) != Grammar::Outcome::kOk) return 0;
    slowest = std::max(slowest, Fuel::thread_time() - begun);
    std::vector<TokenId> fine;
    for (TokenId token = 0; token < 256; ++token)
      if (mask.has(static_cast<uint32_t>(token))) fine.push_back(token);
    if (fine.empty()) return 0;
    const TokenId token = fine[random() % fine.size()];
    members += token == ':';
    if (grammar.advance(position, before, token) != Grammar::Outcome::kOk) return 0;
    before.push_back(token);
  }
  check::note(std::to_string(members) + " members, slowest mask " + std::to_string(slowest / 1000) + " us");
  return members;
}

TEST(grammar_of_a_large_counted_object_reaches_its_end) {
  std::string schema =
      R"({"type":"object","minProperties":500,"maxProperties":900,"additionalProperties":false,"properties":{)";
  for (int i = 0; i < 1000; ++i)
    schema += std::string(i ? "," : "") + "\"property_" + std::to_string(i) + "\":{\"type\":\"boolean\"}";
  const auto grammar = compiled(of(GrammarOptions::Kind::kJsonSchema, schema + "}}"));
  REQUIRE(grammar != nullptr);
  const size_t members = walk_to_its_end(*grammar);
  CHECK(members >= 500 && members <= 900);
}

// Tests an object with many properties that are not in `properties`. `minProperties` requires all but one of the 1,000
// possible names, so toward the end few first characters are still available.
TEST(grammar_of_an_object_with_many_names_reaches_its_end) {
  const auto grammar = compiled(of(
      GrammarOptions::Kind::kJsonSchema,
      R"({"type":"object","minProperties":999,"additionalProperties":{"type":"boolean"},"propertyNames":{"pattern":"^[a-j]{3}$"}})"));
  REQUIRE(grammar != nullptr);
  const size_t members = walk_to_its_end(*grammar);
  CHECK(members >= 999 && members <= 1000);
}

// Reads the text and computes the mask at every `between_masks`-th token. Returns the position at which reading
// stopped, or -1 if the whole text was read.
int follow(Grammar& grammar, std::string_view text, size_t between_masks, Grammar::Position& position) {
  std::vector<TokenId> before;
  TokenMask mask(vocabulary()->trie().n_tokens());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto token = static_cast<TokenId>(static_cast<uint8_t>(text[i]));
    if (i % between_masks == 0 &&
        (grammar.allowed(position, before, mask) != Grammar::Outcome::kOk || !mask.has(static_cast<uint32_t>(token))))
      return static_cast<int>(i);
    if (grammar.advance(position, before, token) != Grammar::Outcome::kOk) return static_cast<int>(i);
    before.push_back(token);
  }
  return -1;
}

TEST(grammar_of_long_counted_texts_reaches_their_end) {
  std::string items = "[0";
  for (int i = 1; i < 15'000; ++i) items += ",7";
  struct Case {
    GrammarOptions options;
    std::string text;
  };
  const Case cases[] = {
      {of(GrammarOptions::Kind::kJsonSchema, R"({"type":"string","maxLength":50000})"),
       '"' + std::string(50'000, 'x') + '"'},
      {of(GrammarOptions::Kind::kJsonSchema, R"({"type":"array","maxItems":20000,"items":{"type":"integer"}})"),
       items + ']'},
      {of(GrammarOptions::Kind::kRules, "root ::= (\"a\"{1,1000}){1,1000}"), std::string(30'000, 'a')},
      {of(GrammarOptions::Kind::kRules, "root ::= (\"a\"{1,1000} \"b\"?){1,1000}"), std::string(30'000, 'a')},
      {of(GrammarOptions::Kind::kJsonSchema, R"({"type":"string","pattern":"^(a{2,900}b?){1,1000}$"})"),
       '"' + std::string(20'000, 'a') + '"'},
  };
  for (const Case& one : cases) {
    const auto grammar = compiled(one.options);
    REQUIRE(grammar != nullptr);
    Grammar::Position position = grammar->start();
    if (const int stopped = follow(*grammar, one.text, 10, position); stopped >= 0)
      return check::fail(__FILE__, __LINE__, one.options.text + ": " + std::to_string(stopped));
    CHECK(position.accepts);
  }
}

// Limits the immediate work per token, as the engine does. In the engine, a worker thread would do the remaining work.
TEST(grammar_of_long_counted_texts_needs_little_work_per_token) {
  std::string items = "[0";
  for (int i = 1; i < 20'000; ++i) items += ",7";
  struct Case {
    std::string schema, text;
  };
  const Case cases[] = {{R"({"type":"string","maxLength":50000})", '"' + std::string(50'000, 'x') + '"'},
                        {R"({"type":"array","maxItems":20000,"items":{"type":"integer"}})", items + ']'}};
  for (const Case& one : cases) {
    const auto grammar = compiled(of(GrammarOptions::Kind::kJsonSchema, one.schema));
    REQUIRE(grammar != nullptr);
    Grammar::Position position = grammar->start();
    std::vector<TokenId> before;
    TokenMask mask(vocabulary()->trie().n_tokens());
    int n_waits = 0;
    for (const char c : one.text) {
      const auto token = static_cast<TokenId>(static_cast<uint8_t>(c));
      Fuel fuel(20'000);
      Grammar::Outcome found = grammar->allowed(position, before, mask, &fuel);
      if (found == Grammar::Outcome::kOutOfBudget) ++n_waits, found = grammar->allowed(position, before, mask);
      if (found != Grammar::Outcome::kOk || !mask.has(static_cast<uint32_t>(token)) ||
          grammar->advance(position, before, token, &fuel) != Grammar::Outcome::kOk)
        return check::fail(__FILE__, __LINE__, one.schema + ": " + std::to_string(before.size()));
      before.push_back(token);
    }
    CHECK(position.accepts);
    CHECK(n_waits <= 2);
  }
}

TEST(grammar_of_wide_schemas_accepts_their_instances) {
  std::string properties, instance = "{", words, last;
  for (int i = 0; i < 120; ++i) {
    const std::string name = "\"property_" + std::to_string(i * 7919 % 1000) + "\"";
    properties += (i ? "," : "") + name + R"(:{"type":["string","null"],"maxLength":40})";
    if (i % 3 != 1) instance += (instance.size() > 1 ? "," : "") + name + ":\"some value\"";
  }
  for (int i = 0; i < 1500; ++i) {
    last = "value number " + std::to_string(i * 7919 % 10'007) + " of many";
    words += (i ? ",\"" : "\"") + last + '"';
  }
  std::string codes, rows = "[";
  for (int i = 0; i < 300; ++i) codes += "AB" + std::to_string(1'000'000 + i * 7919) + "-";
  for (int i = 0; i < 400; ++i)
    rows += std::string(i ? "," : "") + R"({"id":)" + std::to_string(i) + R"(,"tags":["a","bc"],"x":"text"})";
  struct Case {
    std::string schema, text;
  };
  const Case cases[] = {
      {R"({"type":"object","properties":{)" + properties + R"(},"additionalProperties":false})", instance + '}'},
      {R"({"type":"object","minProperties":20,"maxProperties":100,"properties":{)" + properties + "}}",
       instance + R"(,"another":1})"},
      {R"({"type":"array","maxItems":50,"items":{"enum":[)" + words + "]}}", "[\"" + last + "\",\"" + last + "\"]"},
      {R"({"type":"string","pattern":"^([A-Z]{2}[0-9]{1,30}-?){1,400}$"})", '"' + codes + '"'},
      {R"({"type":"string","pattern":"^([a-z]{0,63}\\.){0,100}[a-z]{2,63}$","maxLength":5000})",
       '"' + std::string(40, 'a') + '.' + std::string(50, 'b') + R"(.example")"},
      {R"({"type":"array","maxItems":1000,"items":{"type":"object","properties":{"id":{"type":"integer"},"tags":{"type":"array","maxItems":64,"items":{"type":"string","maxLength":128}},"x":{"type":"string","maxLength":10000}},"required":["id"]}})",
       rows + ']'},
  };
  for (const PropertyOrder order : {PropertyOrder::kAny, PropertyOrder::kSchema})
    for (const Case& one : cases) {
      auto options = of(GrammarOptions::Kind::kJsonSchema, one.schema);
      options.order = order;
      const auto grammar = compiled(options);
      if (grammar == nullptr) return check::fail(__FILE__, __LINE__, one.schema.substr(0, 200));
      Grammar::Position position = grammar->start();
      if (const int stopped = follow(*grammar, one.text, 3, position); stopped >= 0)
        return check::fail(__FILE__, __LINE__, one.schema.substr(0, 200) + ": " + std::to_string(stopped));
      CHECK(position.accepts);
    }
}

TEST(grammar_computes_transitions_before_a_token_is_read) {
  const auto grammar = compiled(of(GrammarOptions::Kind::kRegex, "(a|b)*a(a|b){9}"));
  REQUIRE(grammar != nullptr);
  Grammar::Position position = grammar->start();
  const TokenId token = 'a';
  Fuel none(0);
  // No fuel is needed, because the transition was already computed during compilation.
  CHECK(grammar->advance(position, {}, token, &none) == Grammar::Outcome::kOk);
  position = grammar->start();
  grammar->shrink();
  position = grammar->start();
  none = Fuel(0);
  CHECK(grammar->advance(position, {}, token, &none) == Grammar::Outcome::kOutOfBudget);
  none = Fuel(0);
  CHECK(grammar->prepared(position, {}, nullptr, &none, token) == Grammar::Outcome::kOutOfBudget);
  CHECK(grammar->prepare(position, nullptr, Fuel(100'000), token) == Grammar::Outcome::kOk);
  none = Fuel(0);
  CHECK(grammar->prepared(position, {}, nullptr, &none, token) == Grammar::Outcome::kOk);
  none = Fuel(0);
  CHECK(grammar->advance(position, {}, token, &none) == Grammar::Outcome::kOk);
}

TEST(grammar_positions_survive_a_reset_of_the_automaton) {
  GrammarLimits tight;
  tight.most_states = 400;
  // The schema has nesting, counters and remembered names, which are all the parts that a state can have.
  const auto options = of(
      GrammarOptions::Kind::kJsonSchema,
      R"({"type":"array","maxItems":3000,"items":{"type":"object","minProperties":2,"propertyNames":{"pattern":"^[a-z]{1,9}$"},"additionalProperties":{"type":"string","maxLength":300}}})");
  const auto grammar = compiled(options), small = compiled(options, tight);
  std::string text = "[";
  for (int i = 0; i < 150; ++i)
    text += std::string(i ? "," : "") + R"({"ab":"é)" + std::string(static_cast<size_t>(i), 'x') +
            R"(","cd":"","ef":"\u00e9"})";
  Grammar::Position position = grammar->start(), other = small->start(), late = other;
  std::vector<TokenId> before;
  TokenMask mask(vocabulary()->trie().n_tokens()), again = mask;
  for (const char c : text) {
    REQUIRE(grammar->allowed(position, before, mask) == Grammar::Outcome::kOk &&
            small->allowed(other, before, again) == Grammar::Outcome::kOk);
    REQUIRE(std::ranges::equal(mask.words(), again.words()));
    const auto token = static_cast<TokenId>(static_cast<uint8_t>(c));
    REQUIRE(grammar->advance(position, before, token) == Grammar::Outcome::kOk &&
            small->advance(other, before, token) == Grammar::Outcome::kOk);
    before.push_back(token);
  }
  CHECK(small->epoch() > 20 * grammar->epoch());
  // For a position that has not been advanced since the start, the whole text must be read again.
  REQUIRE(small->allowed(late, before, again) == Grammar::Outcome::kOk);
  REQUIRE(grammar->allowed(position, before, mask) == Grammar::Outcome::kOk);
  CHECK(std::ranges::equal(mask.words(), again.words()));
}

TEST(grammar_stops_at_its_budget_and_resumes) {
  const GrammarOptions cases[] = {
      of(GrammarOptions::Kind::kJsonSchema,
         R"({"type":"string","allOf":[{"pattern":"(a|b)*a(a|b){5}$"},{"pattern":"x"}]})"),
      of(GrammarOptions::Kind::kJsonSchema, R"({"type":"integer","minimum":3,"maximum":123456,"multipleOf":9973})"),
      of(GrammarOptions::Kind::kRegex, "(\\\\d|[^x]){1,9}(yes| no)\\n?"),
  };
  for (const GrammarOptions& options : cases) {
    const auto at_once = compiled(options), in_parts = compiled(options);
    REQUIRE(at_once != nullptr && in_parts != nullptr);
    TokenMask whole(vocabulary()->trie().n_tokens()), parts = whole;
    std::vector<TokenId> before;
    Grammar::Position position = at_once->start(), other = in_parts->start();
    std::mt19937 random(3);
    for (int i = 0; i < 6; ++i) {
      REQUIRE(at_once->allowed(position, before, whole) == Grammar::Outcome::kOk);
      Grammar::Outcome outcome;
      int calls = 0;
      do {
        Fuel fuel(60);
        outcome = in_parts->allowed(other, before, parts, &fuel);
      } while (outcome == Grammar::Outcome::kOutOfBudget && ++calls < 100'000);
      REQUIRE(outcome == Grammar::Outcome::kOk);
      CHECK(std::ranges::equal(whole.words(), parts.words()));
      std::vector<TokenId> fine;
      for (TokenId token = 0; token < 256; ++token)
        if (whole.has(static_cast<uint32_t>(token))) fine.push_back(token);
      if (fine.empty()) break;
      const TokenId token = fine[random() % fine.size()];
      REQUIRE(at_once->advance(position, before, token) == Grammar::Outcome::kOk &&
              in_parts->advance(other, before, token) == Grammar::Outcome::kOk);
      before.push_back(token);
    }
  }
}

TEST(grammar_of_multiples_reaches_them) {
  std::mt19937_64 random(11);
  for (const uint64_t divisor : {7u, 9973u, 20011u, 999'983u, 1u << 19}) {
    const std::string multiple = "\"multipleOf\":" + std::to_string(divisor);
    for (const std::string& bounds :
         {std::string(), std::string(",\"minimum\":1"),
          ",\"minimum\":" + std::to_string(divisor) + ",\"maximum\":" + std::to_string(divisor * 1000)})
      for (const char* type : {"integer", "number"}) {
        const auto grammar = compiled(of(GrammarOptions::Kind::kJsonSchema,
                                         std::string("{\"type\":\"") + type + "\"," + multiple + bounds + "}"));
        if (!grammar) return check::fail(__FILE__, __LINE__, type + multiple + bounds);
        for (int round = 0; round < 4; ++round) {
          const std::string text = std::to_string(divisor * (1 + random() % 999));
          Grammar::Position position = grammar->start();
          CHECK_EQ(follow(*grammar, text, 1, position), -1);
          CHECK(position.accepts);
          CHECK(read(*grammar, std::to_string(divisor * 5 + 1 + random() % (divisor - 1))) != Read::kWhole);
        }
      }
  }
  // If there is no multiple within the bounds, no number is possible and the schema is rejected.
  std::vector<SchemaProblem> problems;
  CHECK(Grammar::compile(of(GrammarOptions::Kind::kJsonSchema,
                            R"({"type":"integer","minimum":9974,"maximum":19000,"multipleOf":9973})"),
                         vocabulary(), {}, nullptr, problems) == nullptr);
  CHECK(problems.back().kind == SchemaProblem::Kind::kImpossible);
}

TEST(grammar_compilation_is_bounded) {
  const auto refused = [](const GrammarOptions& options, const GrammarLimits& limits,
                          const std::atomic<bool>* cancelled = nullptr) {
    std::vector<SchemaProblem> problems;
    const int64_t begun = Fuel::thread_time();
    const bool none = Grammar::compile(options, vocabulary(), limits, cancelled, problems) == nullptr;
    const int64_t took = (Fuel::thread_time() - begun) / 1'000'000;
    if (took > 10 * limits.compile_ms) check::fail(__FILE__, __LINE__, std::to_string(took) + " ms");
    return none && problems.back().kind == SchemaProblem::Kind::kTooLarge;
  };
  GrammarLimits limits;
  limits.compile_ms = 20;
  CHECK(
      refused(of(GrammarOptions::Kind::kRegex, "((a|b)*a(a|b){20}c|(b|a)*(aab){9,5000}){7,900}(x?y?z?){800}&"),
              limits) ||
      refused(
          of(GrammarOptions::Kind::kJsonSchema,
             R"({"type":"string","allOf":[{"pattern":"(a|b)*a(a|b){16}$"},{"pattern":"^(.*x.*y.*z){3,60}$"},{"not":{"pattern":"(ab|ba)*c{9,4000}"}}]})"),
          limits));
  const std::atomic<bool> cancelled{true};
  limits.compile_ms = 5000;
  CHECK(refused(
      of(GrammarOptions::Kind::kJsonSchema,
         R"({"type":"string","allOf":[{"pattern":"(a|b)*a(a|b){16}$"},{"pattern":"^(.*x.*y.*z){3,60}$"},{"not":{"pattern":"(ab|ba)*c{9,4000}"}}]})"),
      limits, &cancelled));
}

}  // namespace
