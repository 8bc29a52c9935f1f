// Compares regular expressions and number ranges with their definitions, on generated strings.
#include "text/grammar/regex.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "text/grammar/formats.h"
#include "text/grammar/number_ranges.h"

namespace {

using namespace monolith::grammar;

struct Compiled {
  CharPartition partition;
  std::unique_ptr<ExpressionPool> pool;
  ExprId found = ExpressionPool::kNothing, whole = ExpressionPool::kNothing;
  bool ok = false;
};

void compile(Compiled& out, const std::string& pattern) {
  Regex regex;
  Regex::Problem problem;
  out.ok = Regex::parse(pattern, regex, problem);
  if (!out.ok) return;
  regex.separate(out.partition);
  out.ok = out.partition.freeze();
  out.pool = std::make_unique<ExpressionPool>(out.partition, 100'000);
  out.found = regex.found_in(*out.pool);
  out.whole = regex.whole(*out.pool);
}

// Compares literals() with the union of single literals. Both must match the same strings among all words, their
// prefixes, and all strings that differ from a word in one character.
TEST(literals_match_exactly_the_listed_texts) {
  std::mt19937 random(3);
  const char* const letters[] = {"a", "b", "c", "\u00e9", "\U0001F600"};
  for (int round = 0; round < 300; ++round) {
    CharPartition partition;
    for (const uint32_t c : {0x61u, 0x62u, 0x63u, 0xe9u, 0x1F600u}) partition.separate(c);
    REQUIRE(partition.freeze());
    ExpressionPool pool(partition, 100'000);
    const auto word = [&] {
      std::string text;
      for (uint32_t i = 0, n = random() % 5; i < n; ++i) text += letters[random() % (round % 2 ? 2 : 5)];
      return text;
    };
    std::vector<std::string> words;
    for (uint32_t i = 0, n = random() % 12; i < n; ++i) words.push_back(word());
    ExprId one_by_one = ExpressionPool::kNothing;
    for (const std::string& text : words) one_by_one = pool.either(one_by_one, pool.literal(text));
    const ExprId together = pool.literals({words.begin(), words.end()});
    for (int i = 0; i < 60; ++i) words.push_back(word());
    for (const std::string& text : words)
      if (pool.fits(together, text) != pool.fits(one_by_one, text)) return check::fail(__FILE__, __LINE__, text);
  }
  CharPartition partition;
  REQUIRE(partition.freeze());
  ExpressionPool pool(partition, 100);
  CHECK_EQ(pool.literals({}), ExpressionPool::kNothing);
  CHECK_EQ(pool.literals({""}), ExpressionPool::kEmpty);
  CHECK_EQ(pool.literals({"a\xFF"}), ExpressionPool::kNothing);
}

TEST(patterns_match_as_in_ecma_262) {
  struct Case {
    const char* pattern;
    std::vector<const char*> yes, no;
  };
  const Case cases[] = {
      {"b", {"b", "abc"}, {"", "a"}},
      {"^b", {"b", "bc"}, {"ab"}},
      {"b$", {"b", "ab"}, {"ba"}},
      {"^$", {""}, {"a"}},
      {"^a|b$", {"ax", "xb"}, {"xa", "bx"}},
      {"^(a|b$)", {"ax", "b"}, {"bx", "xa"}},
      {"^[^/]+$", {"ab"}, {"", "a/b"}},
      {"^\\d{2,3}$", {"12", "123"}, {"1", "1234", "1a"}},
      {"^(?!x-)[a-z-]+$", {"y-a", "x"}, {"x-a"}},
      {"^(?=.*\\d)(?=.*[a-z]).{3,}$", {"a1b", "12z"}, {"a1", "abc", "123"}},
      {"^a{0}$", {""}, {"a"}},
      {"^\\u00e9\\x41\\u{1F600}$", {"éA😀"}, {"eA😀"}},
      {"^\\ud83d\\ude00$", {"😀"}, {"x"}},
      {"^.$", {"é", "😀", "x"}, {"", "\n", "xy"}},
      {"^[\\w.-]+@[\\w-]+$", {"a.b-c@d"}, {"@d", "a@", "a b@c"}},
      {"^[a\\-z]$", {"a", "-", "z"}, {"b"}},
      {"^(ab?)*?c$", {"c", "aabc"}, {"abbc"}},
      {"^\\s$", {" ", "\t", "\u00a0", "\u3000"}, {"x", "\u180e"}},
      {"^\\p{Lu}\\p{Ll}*$", {"É", "Ünïcode", "Жук", "A"}, {"é", "AB", "1", "Aª"}},
      {"^[\\p{gc=Nd}\\p{Sc}]+$", {"1", "٣", "€", "5₹"}, {"½", "a", ""}},
      {"^\\P{C}$", {"a", "é", " "}, {"\x01", "\u200d", "\uE000"}},
      {"^\\p{Currency_Symbol}\\p{Zs}\\p{Lo}\\p{Mn}\\p{Pd}$", {"€\u00a0日\u0301-"}, {"€ 日x-"}},
      {"^\\p{L}+$", {"aé"}, {"a1"}},
      {"a{", {"xa{"}, {"a"}},
      {"a{,2}", {"a{,2}"}, {"aa"}},
  };
  for (const Case& one : cases) {
    Compiled c;
    compile(c, one.pattern);
    if (!c.ok) {
      check::fail(__FILE__, __LINE__, std::string("does not compile: ") + one.pattern);
      continue;
    }
    for (const char* text : one.yes)
      if (!c.pool->fits(c.found, text)) check::fail(__FILE__, __LINE__, std::string(one.pattern) + " refuses " + text);
    for (const char* text : one.no)
      if (c.pool->fits(c.found, text)) check::fail(__FILE__, __LINE__, std::string(one.pattern) + " takes " + text);
  }
}

TEST(unsupported_patterns_are_rejected_by_name) {
  struct Case {
    const char* pattern;
    bool unsupported;
  };
  for (const Case& one : {Case{"(a)\\1", true},
                          {"(?<=a)b", true},
                          {"a\\b", true},
                          {"(?i)a", true},
                          {"(a", false},
                          {"a)", false},
                          {"[a", false},
                          {"*a", false},
                          {"a**", false},
                          {"[z-a]", false},
                          {"a{3,2}", false},
                          {"\\", false},
                          {"\\y", false},
                          {"(^a)*", true}}) {
    Regex regex;
    Regex::Problem problem;
    CHECK(!Regex::parse(one.pattern, regex, problem));
    if (problem.unsupported != one.unsupported || problem.what.empty())
      check::fail(__FILE__, __LINE__, std::string(one.pattern) + ": " + problem.what);
  }
}

TEST(nested_quantifiers_are_cheap) {
  Compiled c;
  compile(c, "^(a+)+$");
  CHECK(!c.pool->fits(c.found, std::string(100'000, 'a') + "b"));
  CHECK(c.pool->n_nodes() < 100);
  Compiled nested;
  compile(nested, "^((((((a?){20}){20}){20}){20}){20})$");
  CHECK(nested.pool->fits(nested.found, std::string(50, 'a')));
}

// Compares derivatives with a simple backtracking matcher, on small random expressions.
struct Tree {
  int kind = 0;  // 0 letter, 1 concatenation, 2 union, 3 intersection, 4 complement, 5 repetition.
  char letter = 'a';
  int least = 0, most = 0;
  std::vector<Tree> children;
};

Tree grow(std::mt19937& random, int depth) {
  Tree tree;
  tree.kind = depth == 0 ? 0 : static_cast<int>(random() % 6);
  tree.letter = static_cast<char>('a' + random() % 2);
  tree.least = static_cast<int>(random() % 3);
  tree.most = tree.least + static_cast<int>(random() % 3);
  const size_t n = tree.kind == 0 ? 0 : tree.kind >= 4 ? 1 : 2;
  for (size_t i = 0; i < n; ++i) tree.children.push_back(grow(random, depth - 1));
  return tree;
}

bool plain_fits(const Tree& tree, const std::string& text) {
  switch (tree.kind) {
    case 0: return text == std::string(1, tree.letter);
    case 1:
      for (size_t i = 0; i <= text.size(); ++i)
        if (plain_fits(tree.children[0], text.substr(0, i)) && plain_fits(tree.children[1], text.substr(i)))
          return true;
      return false;
    case 2: return plain_fits(tree.children[0], text) || plain_fits(tree.children[1], text);
    case 3: return plain_fits(tree.children[0], text) && plain_fits(tree.children[1], text);
    case 4: return !plain_fits(tree.children[0], text);
    default: {
      if (tree.most == 0) return text.empty();
      if (tree.least == 0 && text.empty()) return true;
      Tree rest = tree;
      --rest.most;
      if (rest.least > 0) --rest.least;
      for (size_t i = 0; i <= text.size(); ++i)
        if (plain_fits(tree.children[0], text.substr(0, i)) && plain_fits(rest, text.substr(i))) return true;
      return false;
    }
  }
}

ExprId expression(const Tree& tree, ExpressionPool& pool) {
  switch (tree.kind) {
    case 0: return pool.character(static_cast<uint32_t>(tree.letter));
    case 1: return pool.concat(expression(tree.children[0], pool), expression(tree.children[1], pool));
    case 2: return pool.either(expression(tree.children[0], pool), expression(tree.children[1], pool));
    case 3: return pool.both(expression(tree.children[0], pool), expression(tree.children[1], pool));
    case 4: return pool.negate(expression(tree.children[0], pool));
    default:
      return pool.repeat(expression(tree.children[0], pool), static_cast<uint32_t>(tree.least),
                         static_cast<uint32_t>(tree.most));
  }
}

TEST(derivatives_agree_with_a_simple_matcher) {
  std::mt19937 random(20261121);
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < 5; ++i)
    for (const char c : {'a', 'b'}) texts.push_back(texts[i] + c);
  CharPartition partition;
  partition.separate('a');
  partition.separate('b');
  CHECK(partition.freeze());
  ExpressionPool pool(partition, 1'000'000);
  for (int round = 0; round < 400; ++round) {
    const Tree tree = grow(random, 3);
    const ExprId e = expression(tree, pool);
    bool any = false;
    for (const std::string& text : texts) {
      const bool wanted = plain_fits(tree, text);
      any = any || wanted;
      if (pool.fits(e, text) != wanted)
        check::fail(__FILE__, __LINE__, "round " + std::to_string(round) + " differs on \"" + text + "\"");
    }
    if (any && !pool.alive(e))
      check::fail(__FILE__, __LINE__, "round " + std::to_string(round) + " is considered empty");
  }
  CHECK(!pool.failed());
}

TEST(number_ranges_accept_exactly_the_numbers_in_range) {
  std::mt19937 random(7);
  CharPartition partition;
  for (const char c : std::string("+-.0123456789eE")) partition.separate(static_cast<uint32_t>(c));
  CHECK(partition.freeze());
  const auto number = [&](int places) {
    char text[64];
    const double value = (static_cast<double>(random() % 4001) - 2000) / std::pow(10, places);
    std::snprintf(text, sizeof text, "%.*f", places, value);
    return std::string(text);
  };
  for (int round = 0; round < 150; ++round) {
    ExpressionPool pool(partition, 1'000'000);
    NumberBounds bounds;
    const std::string low = number(static_cast<int>(random() % 4)), high = number(static_cast<int>(random() % 4));
    if (random() % 4) bounds.least = Decimal::parse(low), bounds.above_least = random() % 2;
    if (random() % 4) bounds.most = Decimal::parse(high), bounds.below_most = random() % 2;
    const ExprId all = decimals(pool, bounds), whole = integers(pool, bounds);
    for (int i = 0; i < 60; ++i) {
      std::string text = i == 0 ? low : i == 1 ? high : number(static_cast<int>(random() % 4));
      const double value = std::stod(text);
      if (value == 0 && text[0] == '-') continue;
      const bool in = (!bounds.least || (bounds.above_least ? value > std::stod(low) : value >= std::stod(low))) &&
                      (!bounds.most || (bounds.below_most ? value < std::stod(high) : value <= std::stod(high)));
      if (pool.fits(all, text) != in)
        check::fail(__FILE__, __LINE__,
                    text + (in ? " is refused" : " is accepted") + " with least " + (bounds.least ? low : "none") +
                        " most " + (bounds.most ? high : "none"));
      if (text.find('.') == std::string::npos && pool.fits(whole, text) != in)
        check::fail(__FILE__, __LINE__, text + " as an integer, " + low + " to " + high);
    }
  }
}

TEST(formats_match_their_specifications) {
  struct Case {
    const char* format;
    std::vector<const char*> yes, no;
  };
  const Case cases[] = {
      {"date",
       {"2024-02-29", "2023-12-31", "2000-02-29"},
       {"2023-02-29", "1900-02-29", "2023-13-01", "23-01-01", "2023-04-31"}},
      {"time", {"23:59:59Z", "00:00:00.5+01:00"}, {"24:00:00Z", "12:00", "12:00:00"}},
      {"date-time",
       {"2024-02-29T12:00:00Z", "2024-01-01t00:00:00.123-05:30"},
       {"2024-01-01 00:00:00Z", "2024-01-01T00:00:00"}},
      {"email",
       {"a.b+c@example.com", "a@b-c.d"},
       {"a@", "a@b", "a@b.", "a@[127.0.0.1]", "@b", "a b@c.d", "a..b@c.d", ".a@b.c"}},
      {"ipv4", {"0.0.0.0", "255.255.255.255"}, {"256.1.1.1", "1.1.1", "01.1.1.1"}},
      {"ipv6",
       {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "::ffff:1.2.3.4",
        "1:2::7:8", "fe80::a:b:c:d"},
       {"", ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "1:2:3:4:5:6:7:1.2.3.4",
        "::1.2.3"}},
      {"uuid",
       {"123e4567-e89b-12d3-a456-426614174000"},
       {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"}},
      {"uri",
       {"http://a.b/c?d=e#f", "urn:a:b", "mailto:a@b.c", "http://[::1]:80/", "file:///a"},
       {"//a.b", "/a", "a b:c", "http://a b", "http:// ", "\\\\x"}},
      {"uri-reference", {"", "/a/b", "a", "?q", "#f", "//h/p", "http://x"}, {"a b", "\\\\x", "%zz"}},
      {"iri", {"http://ü.example/é"}, {"é", "http://a b"}},
      {"hostname", {"a", "a-b.c", "xn--a.de"}, {"", "-a", "a-", "a..b", "a_b"}},
      {"duration", {"P1D", "PT1H30M", "P1Y2M3DT4H5M6S", "P2W"}, {"P", "PT", "1D", "P1H", "P1D2W"}},
      {"json-pointer", {"", "/a~0b/~1"}, {"a", "/~2"}},
  };
  for (const Case& one : cases) {
    const char* pattern = format_pattern(one.format);
    REQUIRE(pattern != nullptr);
    Compiled c;
    compile(c, pattern);
    REQUIRE(c.ok);
    for (const char* text : one.yes)
      if (!c.pool->fits(c.whole, text))
        check::fail(__FILE__, __LINE__, std::string(one.format) + " refuses \"" + text + "\"");
    for (const char* text : one.no)
      if (c.pool->fits(c.whole, text))
        check::fail(__FILE__, __LINE__, std::string(one.format) + " takes \"" + text + "\"");
  }
  CHECK(format_pattern("jsonschema") == nullptr);
}

}  // namespace
