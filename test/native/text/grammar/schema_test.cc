// Tests JSON Schemas as automata: which documents match, that masks agree with byte transitions, and that no state is a
// dead end.
#include "text/grammar/schema.h"

#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "check.h"
#include "text/grammar/automaton.h"

namespace {

using namespace monolith::grammar;

const TokenTrie& vocabulary() {
  static const TokenTrie trie([] {
    std::vector<std::string> tokens;
    for (int c = 0; c < 256; ++c) tokens.emplace_back(1, static_cast<char>(c));
    for (const char* text :
         {"{\"", "\":", "\":\"", "\",\"", "\"}",   "\"],", "true", "false", "null",   "na",       "name", " the",
          "ing", "12",  "123",   "\\n",   "\\u00", "\\\"", "é",    "日本",  "日\xE6", "\x9C\xAC", "}}",   "]}",
          ",{",  "[\"", "a\"",   "ab",    "abc",   "0.",   "e+",   "-1",    "\n  ",   "2024-"})
      tokens.emplace_back(text);
    tokens.emplace_back();  // The last token is a control token.
    return tokens;
  }());
  return trie;
}

struct Run {
  std::unique_ptr<Schema> schema;
  std::unique_ptr<Automaton> automaton;
  std::vector<SchemaProblem> problems;
};

Run open(const std::string& json, PropertyOrder order = PropertyOrder::kAny, SchemaOptions options = {}) {
  Run run;
  run.schema = Schema::compile(json, options, run.problems);
  AutomatonOptions of_automaton;
  of_automaton.order = order;
  if (run.schema) run.automaton = std::make_unique<Automaton>(*run.schema, vocabulary(), of_automaton);
  return run;
}

bool fits(Run& run, std::string_view text) {
  StateId state = run.automaton->start();
  for (const char c : text) state = run.automaton->step(state, static_cast<uint8_t>(c));
  return run.automaton->accepts(state);
}

// Tries every order of members in small objects whose number of members is limited.
TEST(counted_members_have_no_dead_ends) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const uint32_t required = random() % 32 & random() % 32, forbidden = random() % 32 & random() % 32 & random() % 32,
                   least = random() % 6, most = random() % 8 == 0 ? random() % 6 : least + random() % 4;
    const bool open_ended = random() % 4 == 0;
    std::string json = R"({"type":"object","properties":{)", names;
    for (uint32_t i = 0; i < 5; ++i) {
      json += std::string(i ? "," : "") + "\"" + static_cast<char>('a' + i) +
              "\":" + (forbidden >> i & 1 ? "false" : "{\"type\":\"null\"}");
      if (required >> i & 1) names += std::string(names.empty() ? "" : ",") + "\"" + static_cast<char>('a' + i) + "\"";
    }
    json += "},\"required\":[" + names + "],\"minProperties\":" + std::to_string(least) +
            (open_ended ? "" : ",\"maxProperties\":" + std::to_string(most)) + ",\"additionalProperties\":false}";
    const auto valid = [&](uint32_t set) {
      const uint32_t n = static_cast<uint32_t>(__builtin_popcount(set));
      return (set & required) == required && (set & forbidden) == 0 && n >= least && (open_ended || n <= most);
    };
    Run run = open(json, PropertyOrder::kSchema);
    bool any = false;
    for (uint32_t set = 0; set < 32; ++set) any = any || valid(set);
    if (any != (run.schema != nullptr)) return check::fail(__FILE__, __LINE__, json);
    if (!any) continue;
    for (uint32_t set = 0; set < 32; ++set) {
      std::string text = "{";
      bool alive = true;
      for (uint32_t i = 0; i < 5; ++i) {
        if (!(set >> i & 1)) continue;
        text += std::string(text.size() > 1 ? "," : "") + "\"" + static_cast<char>('a' + i) + "\":null";
        const uint32_t so_far = set & ((2u << i) - 1);
        bool leads = false;
        for (uint32_t rest = 0; rest < 32; rest += 2u << i) leads = leads || valid(so_far | rest);
        StateId state = run.automaton->start();
        for (const char c : text) state = run.automaton->step(state, static_cast<uint8_t>(c));
        alive = state != Automaton::kDead;
        if (alive != leads) return check::fail(__FILE__, __LINE__, json + " at " + text);
      }
      if (fits(run, text + "}") != valid(set)) return check::fail(__FILE__, __LINE__, json + " with " + text);
    }
  }
}

// Returns a text after which the automaton accepts nothing although the text does not match the schema, or "" if there
// is no such text. Visits every state, so the schema must match only a few strings.
std::string stuck_at(Automaton& automaton) {
  std::vector<StateId> states{automaton.start()};
  std::unordered_map<StateId, std::string> texts{{automaton.start(), ""}};
  std::unordered_map<StateId, std::vector<StateId>> before;
  for (size_t at = 0; at < states.size() && states.size() < 100'000; ++at)
    for (int byte = 0; byte < 256; ++byte) {
      const StateId to = automaton.step(states[at], static_cast<uint8_t>(byte));
      if (to == Automaton::kDead) continue;
      before[to].push_back(states[at]);
      if (texts.emplace(to, texts.at(states[at]) + static_cast<char>(byte)).second) states.push_back(to);
    }
  if (automaton.failed() || states.size() >= 100'000) return "too many states";
  std::unordered_set<StateId> leads;
  std::vector<StateId> open;
  for (const StateId state : states)
    if (automaton.accepts(state)) leads.insert(state), open.push_back(state);
  while (!open.empty()) {
    const StateId state = open.back();
    open.pop_back();
    for (const StateId from : before[state])
      if (leads.insert(from).second) open.push_back(from);
  }
  for (const StateId state : states)
    if (!leads.contains(state)) return "stuck at " + texts.at(state);
  return "";
}

// Tries every order of members in small objects whose number of members is limited and whose members depend on one
// another.
TEST(dependent_members_have_no_dead_ends) {
  constexpr uint32_t kMembers = 5, kSets = 1 << kMembers;
  std::mt19937 random(7);
  const auto name = [](uint32_t i) { return std::string("\"") + static_cast<char>('a' + i) + "\""; };
  const auto few = [&] { return static_cast<uint32_t>(random() % kSets & random() % kSets & random() % kSets); };
  for (int round = 0; round < 1200; ++round) {
    const uint32_t required = few(), forbidden = few(), least = random() % (kMembers + 1),
                   most = random() % 2 ? kMembers : least + random() % 2;
    uint32_t needs[kMembers] = {};
    for (uint32_t i = 0; i < kMembers; ++i) {
      needs[i] |= random() % 2 ? few() : 0;
      if (random() % 3 != 0) continue;  // Two members that depend on each other.
      const uint32_t other = random() % kMembers;
      needs[i] |= 1u << other;
      needs[other] |= 1u << i;
    }
    const bool others = random() % 4 == 0;  // One more name is possible, and no others.
    std::string properties, names, dependent;
    for (uint32_t i = 0; i < kMembers; ++i) {
      properties += std::string(i ? "," : "") + name(i) + (forbidden >> i & 1 ? ":false" : ":{\"type\":\"null\"}");
      if (required >> i & 1) names += std::string(names.empty() ? "" : ",") + name(i);
      std::string list;
      for (uint32_t k = 0; k < kMembers; ++k)
        if (needs[i] >> k & 1) list += std::string(list.empty() ? "" : ",") + name(k);
      dependent += std::string(i ? "," : "") + name(i) + ":[" + list + "]";
    }
    const std::string json = "{\"type\":\"object\",\"properties\":{" + properties + "},\"required\":[" + names +
                             "],\"dependentRequired\":{" + dependent + "},\"minProperties\":" + std::to_string(least) +
                             ",\"maxProperties\":" + std::to_string(most) +
                             (others ? R"(,"patternProperties":{"^z$":{"type":"null"}},"additionalProperties":false})"
                                     : ",\"additionalProperties\":false}");
    const uint32_t n_sets = others ? 2 * kSets : kSets;
    const auto valid = [&](uint32_t set) {
      const auto n = static_cast<uint32_t>(__builtin_popcount(set));
      bool fine = n >= least && n <= most && (set & required) == required && (set & forbidden) == 0;
      for (uint32_t i = 0; i < kMembers; ++i) fine = fine && (!(set >> i & 1) || (needs[i] & set) == needs[i]);
      return fine;
    };
    bool any = false;
    for (uint32_t set = 0; set < n_sets; ++set) any = any || valid(set);
    for (const PropertyOrder order : {PropertyOrder::kSchema, PropertyOrder::kAny}) {
      Run run = open(json, order);
      if (any != (run.schema != nullptr)) return check::fail(__FILE__, __LINE__, json);
      if (!any) continue;
      for (uint32_t set = 0; set < n_sets; ++set) {
        std::string text = "{";
        for (uint32_t i = 0; i <= kMembers; ++i)
          if (set >> i & 1)
            text += std::string(text.size() > 1 ? "," : "") + (i == kMembers ? "\"z\"" : name(i)) + ":null";
        if (fits(run, text + "}") != valid(set)) return check::fail(__FILE__, __LINE__, json + " with " + text);
      }
      if (const std::string stuck = stuck_at(*run.automaton); !stuck.empty())
        return check::fail(__FILE__, __LINE__, json + " " + stuck);
    }
  }
}

// A negated schema may require a member whose name or value does not match a certain schema.
TEST(members_that_must_exist_have_no_dead_ends) {
  struct Case {
    const char *json, *good, *bad;
  };
  for (
      const Case& of : {
          Case{
              R"({"type":"object","propertyNames":{"enum":["x","y"]},"additionalProperties":{"enum":[1,2]},"maxProperties":2,"not":{"additionalProperties":{"const":1}}})",
              R"({"x":1,"y":2})", R"({"x":2,"x":1})"},
          Case{
              R"({"type":"object","propertyNames":{"pattern":"^[ab]$"},"additionalProperties":{"enum":[1,2]},"maxProperties":3,"not":{"patternProperties":{"a":{"const":1}}}})",
              R"({"b":1,"a":2})", R"({"b":2})"},
          Case{
              R"({"type":"object","propertyNames":{"pattern":"^[ab]$"},"additionalProperties":{"const":1},"maxProperties":2,"not":{"propertyNames":{"const":"a"}}})",
              R"({"a":1,"b":1})", R"({"a":1})"},
      }) {
    Run run = open(of.json, PropertyOrder::kSchema);
    REQUIRE(run.schema != nullptr);
    if (const std::string stuck = stuck_at(*run.automaton); !stuck.empty())
      check::fail(__FILE__, __LINE__, std::string(of.json) + " " + stuck);
    if (!fits(run, of.good) || fits(run, of.bad)) check::fail(__FILE__, __LINE__, of.json);
  }
}

TEST(distinct_items_have_no_dead_ends) {
  for (const char* json :
       {R"({"type":"array","uniqueItems":true,"items":{"enum":["a","ab","b",1,12,null]},"minItems":3,"maxItems":4})",
        R"({"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":8,"maximum":11},"minItems":4})",
        R"({"type":"array","uniqueItems":true,"items":{"pattern":"^[ab]$","type":["string","boolean"]}})"}) {
    for (const PropertyOrder order : {PropertyOrder::kSchema, PropertyOrder::kAny}) {
      Run run = open(json, order);
      REQUIRE(run.schema != nullptr);
      if (const std::string stuck = stuck_at(*run.automaton); !stuck.empty())
        check::fail(__FILE__, __LINE__, std::string(json) + " " + stuck);
    }
  }
  CHECK(open(R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b"]},"minItems":3})").schema == nullptr);
  CHECK(open(R"({"type":"array","uniqueItems":true,"items":{"type":"object"}})").schema == nullptr);
}

// Compares `contains`, its minimum and maximum counts, and the negations of these with a count of the items, for all
// arrays of up to 5 items.
TEST(items_that_match_contains_are_counted) {
  struct Value {
    const char* text;
    bool is_integer, is_large, is_string;
  };
  const Value values[] = {
      {"1", true, false, false}, {"7.5", false, true, false}, {"8", true, true, false}, {"\"a\"", false, false, true}};
  struct Matcher {
    const char* json;
    bool (*matches)(const Value&);
  };
  const Matcher matchers[] = {
      {R"({"type":"integer"})", [](const Value& v) { return v.is_integer; }},
      {R"({"type":"number","minimum":5})", [](const Value& v) { return v.is_large; }},
      {R"({"enum":["a",8]})", [](const Value& v) { return v.is_string || (v.is_integer && v.is_large); }},
      {"true", [](const Value&) { return true; }},
      {"false", [](const Value&) { return false; }},
      {R"({"type":"string"})", [](const Value& v) { return v.is_string; }},
  };
  std::vector<std::vector<size_t>> arrays{{}};
  for (size_t at = 0; at < arrays.size(); ++at)
    for (size_t v = 0; v < std::size(values) && arrays[at].size() < 5; ++v) {
      std::vector<size_t> longer = arrays[at];
      longer.push_back(v);
      arrays.push_back(std::move(longer));
    }
  std::mt19937 random(11);
  int compiled = 0;
  for (int round = 0; round < 400; ++round) {
    const Matcher &contained = matchers[random() % std::size(matchers)],
                  &item = matchers[random() % 6 < 3 ? 3 : random() % 6];
    const uint32_t least_items = random() % 3 ? 0 : random() % 4;
    const bool has_most_items = random() % 2, has_least = random() % 2, has_most = random() % 2;
    const uint32_t most_items = least_items + random() % 3;
    const uint32_t least = has_least ? random() % 4 : 1, most = random() % 4;
    std::string keywords = std::string(R"("items":)") + item.json + R"(,"minItems":)" + std::to_string(least_items);
    if (has_most_items) keywords += R"(,"maxItems":)" + std::to_string(most_items);
    std::string counts = std::string(R"("contains":)") + contained.json;
    if (has_least) counts += R"(,"minContains":)" + std::to_string(least);
    if (has_most) counts += R"(,"maxContains":)" + std::to_string(most);
    const bool negated = random() % 3 == 0;
    const std::string json = R"({"type":"array",)" + keywords +
                             (negated ? R"(,"not":{"type":"array",)" + counts + "}}" : "," + counts + "}");
    const auto valid = [&](const std::vector<size_t>& array) {
      uint32_t n = 0;
      for (const size_t v : array) {
        if (!item.matches(values[v])) return false;
        n += contained.matches(values[v]);
      }
      const bool counts_fit = n >= least && (!has_most || n <= most);
      return array.size() >= least_items && (!has_most_items || array.size() <= most_items) && counts_fit != negated;
    };
    Run run = open(json, PropertyOrder::kSchema);
    bool any = false;
    for (const auto& array : arrays) any = any || valid(array);
    if (!run.schema) {
      // A rejected schema must match none of the arrays tried here. Some schemas that compile match only arrays with
      // more than five items.
      if (any) return check::fail(__FILE__, __LINE__, json + ": " + run.problems.at(0).what);
      continue;
    }
    ++compiled;
    for (const auto& array : arrays) {
      std::string text = "[";
      for (const size_t v : array) text += (text.size() > 1 ? "," : "") + std::string(values[v].text);
      if (fits(run, text + "]") != valid(array)) return check::fail(__FILE__, __LINE__, json + " with " + text + "]");
    }
  }
  CHECK(compiled > 200);
  for (
      const char* schema :
      {R"({"type":"array","contains":{"const":2},"items":{"enum":[1,2]},"maxItems":4})",
       R"({"type":"array","contains":{"const":2},"items":{"enum":[1,2]},"minContains":2,"maxContains":3,"minItems":3,"maxItems":5})",
       R"({"type":"array","contains":{"minItems":2},"items":{"type":"array","items":{"const":1},"maxItems":2},"maxContains":1,"maxItems":3})",
       R"({"type":"array","maxItems":3,"items":{"enum":[1,2]},"not":{"items":{"const":1}}})"}) {
    Run run = open(schema, PropertyOrder::kSchema);
    REQUIRE(run.schema != nullptr);
    if (const std::string stuck = stuck_at(*run.automaton); !stuck.empty())
      check::fail(__FILE__, __LINE__, std::string(schema) + " " + stuck);
  }
}

// Names are compared after unescaping, so it does not matter how the schema or the object escapes them.
TEST(dependent_schemas_apply_to_names_with_escapes) {
  Run run = open(R"({"dependentSchemas":{"foo\tbar":{"minProperties":4},"foo'bar":{"required":["foo\"bar"]}}})");
  REQUIRE(run.schema != nullptr);
  CHECK(fits(run, R"({"foo\tbar":1,"a":2,"b":3,"c":4})"));
  CHECK(!fits(run, R"({"foo\tbar":1,"a":2})"));
  CHECK(!fits(run, R"({"foo\u0009bar":1,"a":2})"));
  CHECK(fits(run, R"({"foo'bar":1,"foo\"bar":2})"));
  CHECK(fits(run, R"({"foo\u0027bar":1,"foo\u0022bar":2})"));
  CHECK(!fits(run, R"({"foo'bar":1})"));
  CHECK(!fits(run, R"({"foo\u0027bar":1})"));
  CHECK(!fits(run, R"({"foo'bar":{"foo\"bar":1}})"));
}

// In request schemas, oneOf has the meaning of anyOf, even if its branches overlap, and nullable is supported.
TEST(one_of_is_any_of_and_nullable_adds_null_if_requested) {
  SchemaOptions options;
  options.one_of_as_any_of = true;
  Run run = open(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", PropertyOrder::kSchema, options);
  REQUIRE(run.schema != nullptr);
  CHECK(fits(run, "1") && fits(run, "1.5") && !fits(run, "null"));
  run = open(R"({"type":"object","properties":{"a":{"type":"string","nullable":true}},"additionalProperties":false})",
             PropertyOrder::kSchema, options);
  REQUIRE(run.schema != nullptr);
  CHECK(fits(run, R"({"a":null})") && fits(run, R"({"a":""})") && !fits(run, R"({"a":1})"));
  run = open(R"({"type":"string","nullable":true})");
  CHECK(!fits(run, "null"));
  run = open(R"({"oneOf":[{"type":"string"},{"type":"string"}]})", PropertyOrder::kSchema, options);
  REQUIRE(run.schema != nullptr);
  CHECK(fits(run, "\"a\""));
}

// For objects with many pairs of dependent members, the compiler computes the possible numbers of members. It reports
// an error if this would take too long.
TEST(many_dependent_members_are_counted) {
  const auto schema = [](int n_pairs, int least, int most, bool entangled) {
    std::string properties, needs;
    for (int i = 0; i < n_pairs; ++i) {
      const auto name = [](char side, int pair) { return std::string("\"") + side + std::to_string(pair) + "\""; };
      properties +=
          std::string(i ? "," : "") + name('a', i) + ":{\"type\":\"null\"}," + name('b', i) + ":{\"type\":\"null\"}";
      needs += std::string(i ? "," : "") + name('a', i) + ":[" + name('b', i) +
               (entangled && i > 0 ? "," + name('a', i * 7919 % i) + "," + name('b', (i * i + 3) % i) : "") + "]," +
               name('b', i) + ":[" + name('a', i) + "]";
    }
    return "{\"type\":\"object\",\"properties\":{" + properties +
           "},\"additionalProperties\":false,\"minProperties\":" + std::to_string(least) +
           ",\"maxProperties\":" + std::to_string(most) + ",\"dependentRequired\":{" + needs + "}}";
  };
  for (const PropertyOrder order : {PropertyOrder::kSchema, PropertyOrder::kAny})
    for (const int n : {6, 7, 198, 199}) {
      Run run = open(schema(100, n, n, false), order);
      CHECK_EQ(run.schema != nullptr, n % 2 == 0);
      if (!run.schema) {
        CHECK(run.problems.at(0).kind == SchemaProblem::Kind::kImpossible);
        continue;
      }
      std::string text = "{";
      for (int i = 100 - n / 2; i < 100; ++i)
        text += std::string(text.size() > 1 ? "," : "") + "\"a" + std::to_string(i) + "\":null,\"b" +
                std::to_string(i) + "\":null";
      CHECK(fits(run, text + "}"));
      CHECK(!fits(run, text.substr(0, text.rfind(',')) + "}"));
      CHECK(!run.automaton->failed());
    }
  // Returns the remaining part of the budget that all schemas of a request share.
  const auto left = [&](int least, int most) {
    SchemaOptions options;
    options.fuel = Fuel(1'000'000);
    return open(schema(100, least, most, false), PropertyOrder::kAny, options).schema->expressions().fuel().left();
  };
  CHECK(left(6, 6) + 400 < left(0, 200));
  for (const int pairs : {5, 12, 60, 400}) {
    SchemaOptions options;
    options.most_steps = 200'000;
    Run run = open(schema(pairs, pairs | 1, pairs | 1, true), PropertyOrder::kAny, options);
    CHECK(run.schema == nullptr);
    CHECK(run.problems.at(0).kind == (pairs < 20 ? SchemaProblem::Kind::kImpossible : SchemaProblem::Kind::kTooLarge));
  }
}

TEST(schemas_may_list_thousands_of_values) {
  for (const int n : {3000, 20'000}) {
    std::string strings, numbers;
    for (int i = 0; i < n; ++i) {
      const std::string comma = i == 0 ? "" : ",";
      strings += comma + "\"region-" + std::to_string(i * 7919 % n) + "/zone\"";
      numbers += comma + std::to_string(i * 3);
    }
    SchemaOptions options;
    options.fuel = Fuel(4'000'000);
    Run run = open(R"({"type":"object","properties":{"a":{"enum":[)" + strings + R"(]},"b":{"enum":[)" + numbers +
                       R"(,null]}},"required":["a","b"],"additionalProperties":false})",
                   PropertyOrder::kSchema, options);
    if (!run.schema) return check::fail(__FILE__, __LINE__, std::to_string(n) + ": " + run.problems.at(0).what);
    CHECK(fits(run, R"({"a":"region-2999/zone","b":2997})"));
    CHECK(fits(run, R"({"a":"region-0/zone","b":null})"));
    CHECK(!fits(run, R"({"a":"region-/zone","b":0})"));
    CHECK(!fits(run, R"({"a":"region-00/zone","b":0})"));
    CHECK(!fits(run, R"({"a":"region-1/zone","b":2998})"));
    CHECK(!fits(run, "{\"a\":\"region-" + std::to_string(n) + "/zone\",\"b\":0}"));
  }
}

// If the schema requires a certain number of members and allows only a few names, each member uses up one name.
TEST(few_possible_names_are_not_used_up_too_early) {
  struct Case {
    const char* names;
    uint32_t n;
    std::string one;
  };
  const Case cases[] = {{R"({"enum":["a","ab","b"]})", 3, "ab"},
                        {R"({"pattern":"^[a-d]$"})", 4, "c"},
                        {R"({"pattern":"^(a|b[xy]?)$"})", 4, "bx"},
                        {R"({"enum":["\u00e9","\u00ea","\n","\ud83d\ude00"]})", 4, "\xC3\xA9"},
                        {R"({"maxLength":0})", 1, ""},
                        {R"({"enum":[1,"x"]})", 1, "x"}};
  for (const Case& of : cases)
    for (uint32_t least = 0; least <= of.n + 1; ++least)
      for (const PropertyOrder order : {PropertyOrder::kSchema, PropertyOrder::kAny}) {
        const std::string json =
            std::string(R"({"type":"object","propertyNames":)") + of.names +
            ",\"additionalProperties\":{\"type\":\"null\"},\"minProperties\":" + std::to_string(least) +
            (least % 2 ? "" : ",\"maxProperties\":" + std::to_string(std::max(least, 2u))) + "}";
        Run run = open(json, order);
        if ((run.schema != nullptr) != (least <= of.n)) return check::fail(__FILE__, __LINE__, json);
        if (!run.schema) continue;
        if (const std::string stuck = stuck_at(*run.automaton); !stuck.empty())
          return check::fail(__FILE__, __LINE__, json + " " + stuck);
        if (fits(run, "{\"" + of.one + "\":null}") != (least <= 1)) return check::fail(__FILE__, __LINE__, json);
      }
  for (const auto& [pattern, n] : {std::pair{"^x+$", 4'000'000'000u},
                                   {"^x{2,30}$", 29u},
                                   {"^x{0,3}(y|z)$", 8u},
                                   {"^[a-j]{7}$", 10'000'000u},
                                   {"^(x|yx*)$", 9u}})
    for (const uint32_t least : {2u, n, n + 1}) {
      SchemaOptions options;
      options.most_steps = 200'000;
      options.fuel = Fuel(500'000);
      Run run = open(R"({"type":"object","propertyNames":{"pattern":")" + std::string(pattern) +
                         R"("},"minProperties":)" + std::to_string(least) + "}",
                     PropertyOrder::kAny, options);
      const bool endless = n == 4'000'000'000u || n == 9;
      if ((run.schema != nullptr) != (least <= n || endless))
        return check::fail(__FILE__, __LINE__, std::string(pattern) + " " + std::to_string(least));
    }
  Run run =
      open(R"({"type":"object","required":["id"],"propertyNames":{"enum":["id","x","y","z"]},"minProperties":3})");
  REQUIRE(run.automaton != nullptr);
  CHECK(fits(run, R"({"x":1,"z":2,"id":3})"));
  CHECK(!fits(run, R"({"x":1,"x":2,"id":3})"));
  CHECK(!fits(run, R"({"x":1,"id":3})"));
}

// Half of a surrogate pair is not a character. If the prefix of an escape can be completed only to such a half, nothing
// may follow the prefix: rejecting only the last digit would be too late.
TEST(string_escapes_form_valid_characters) {
  for (const char* json :
       {"{}", R"({"type":"string"})", R"({"type":"string","maxLength":2})", R"({"type":"string","pattern":"^."})"}) {
    Run run = open(json);
    REQUIRE(run.automaton != nullptr);
    const auto alive = [&](std::string_view text) {
      StateId state = run.automaton->start();
      for (const char c : text) state = run.automaton->step(state, static_cast<uint8_t>(c));
      return state != Automaton::kDead;
    };
    for (const char* text : {R"("\ud)", R"("\ud7)", R"("\ud7ff)", R"("\uD8)", R"("\udb)", R"("\udbff)", R"("\udbff\ud)",
                             R"("\udbff\udf)", R"("\ue)", "\"\xED\x9F"})
      CHECK(alive(text));
    for (const char* text :
         {R"("\udc)", R"("\uDE)", R"("\udf)", R"("\udbff\ud8)", R"("\udbff\ue)", R"("\udbffx)", "\"\xED\xA0"})
      CHECK(!alive(text));
  }
}

TEST(documents_match_their_schemas) {
  struct Case {
    const char* schema;
    std::vector<const char*> yes, no;
  };
  const Case cases[] = {
      {"true",
       {"1", "null", "{\"a\":[1,{}]}", "\"\\ud83d\\ude00\"", "-0.5e+3", "[]"},
       {"", "01", "\"\\ud83d\"", "{a:1}", "[1,]", "nul", "\"\n\"", "{\"a\":1,}"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false})",
       {R"({"a":1})", R"({"a":-5,"b":""})", R"({"b":"x","a":0})"},
       {"{}", R"({"a":1.5})", R"({"a":1,"c":2})", R"({"a":1,"a":2})", R"({"b":"x"})"}},
      {R"({"type":["integer","null"],"minimum":3,"maximum":17})",
       {"3", "17", "10", "null"},
       {"2", "18", "170", "-3", "3.0"}},
      {R"({"enum":["a","b\"c",1,null,[1,{"x":2}]]})",
       {"\"a\"", R"("b\"c")", "1", "null", R"([1,{"x":2}])", R"("\u0061")"},
       {"\"c\"", "2", "[1]", R"([1,{"x":3}])"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"type":"string"}],"items":false,"minItems":1})",
       {"[1]", "[1,\"x\"]"},
       {"[]", "[2]", "[1,\"x\",1]"}},
      {R"({"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":3})",
       {"[true,false]", "[true,true,true]"},
       {"[true]", "[true,true,true,true]"}},
      {R"({"type":"string","minLength":2,"maxLength":3,"pattern":"^a"})",
       {"\"ab\"", "\"aéé\"", "\"a\\u00e9\""},
       {"\"a\"", "\"abcd\"", "\"ba\""}},
      {R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"n":{"$ref":"#/$defs/n"}},"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/n"})",
       {R"({"v":1})", R"({"v":1,"n":{"v":2,"n":{"v":3}}})"},
       {R"({"n":{"v":1}})", R"({"v":1,"n":{}})"}},
      {R"({"oneOf":[{"type":"integer","minimum":0},{"type":"integer","maximum":10}]})", {"-1", "11"}, {"5", "0"}},
      {R"({"type":"string","pattern":"^(\\p{Extended_Pictographic}|\\p{Emoji_Component})+$"})",
       {"\"👋\"", "\"👋🏽\""},
       {"\"a\""}},
      {R"({"oneOf":[{"type":"integer"},{"minimum":2}]})", {"1", "2.5", "true"}, {"3", "1.5"}},
      {R"({"oneOf":[{"properties":{"op":{"enum":["a"]}},"required":["op"],"additionalProperties":false},{"properties":{"op":{"pattern":"^b$"},"v":true},"required":["op"],"additionalProperties":false}]})",
       {R"({"op":"a"})", R"({"op":"b","v":1})"},
       {"1", "\"x\"", "null", R"({"op":"a","v":1})"}},
      {R"({"type":"object","oneOf":[{"properties":{"a":true},"additionalProperties":false},{"properties":{"a":true,"b":true},"additionalProperties":false}]})",
       {R"({"b":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1})", R"({"c":1})"}},
      {R"({"type":"object","not":{"patternProperties":{"^b":{"type":"integer"}}}})",
       {R"({"b":"x"})", R"({"a":1,"bb":null})", R"({"b":1,"bc":"x"})"},
       {R"({"b":1})", "{}", R"({"a":"x"})", R"({"b":"x","b":1})"}},
      {R"({"type":"object","properties":{"a":true,"b":true},"not":{"properties":{"a":true},"additionalProperties":false}})",
       {R"({"b":1})", R"({"z":1})", R"({"a":1,"z":1})"},
       {R"({"a":1})", "{}"}},
      {R"({"type":"object","not":{"propertyNames":{"maxLength":2}}})", {R"({"abc":1})"}, {R"({"ab":1})", "{}"}},
      {R"({"type":"object","not":{"propertyNames":false}})", {R"({"":1})"}, {"{}"}},
      {R"({"type":"object","not":{"const":{"a":1}}})", {"{}", R"({"a":2})", R"({"a":1,"b":1})"}, {R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":true,"b":true},"not":{"dependentRequired":{"a":["b"]}}})",
       {R"({"a":1})"},
       {"{}", R"({"b":1})", R"({"a":1,"b":1})"}},
      {R"({"type":"number","not":{"multipleOf":2}})", {"3", "2.5"}, {"4", "4.0", "1e1", "-2", "0"}},
      {R"({"not":{"type":"integer"}})", {"2.5", "\"x\"", "{}"}, {"2", "2.0", "2e0"}},
      {R"({"type":"integer","not":{"oneOf":[{"minimum":5},{"maximum":10}]}})", {"7", "5"}, {"3", "12"}},
      {R"({"type":"array","not":{"prefixItems":[{"type":"string"}]}})", {"[1]", "[1,2]"}, {"[]", "[\"a\"]"}},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b",1,true]},"minItems":2})",
       {R"(["a","b"])", R"([1,true,"a","b"])"},
       {R"(["a","a"])", R"(["a","\u0061"])", "[1,1]", R"(["a"])", R"([1,true,"a","b",1])"}},
      {R"({"type":"array","uniqueItems":true,"items":{"type":["string","number"]}})",
       {"[]", R"(["a","ab","","1",1,1.5,-1])", R"(["é","日本"])"},
       {R"(["a","b","a"])", R"(["",""])", R"(["é","\u00e9"])", "[1,1.0]", "[1,1e0]", "[0,-0]", "[10,1,10]"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"7", "\"x\""}, {"\"xy\"", "null"}},
      {R"({"allOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"a":{"type":"integer","maximum":3}},"required":["a"]}],"type":"object"})",
       {R"({"a":2})", R"({"a":1,"z":null})"},
       {R"({"a":0})", R"({"a":4})", "{}"}},
      {R"({"type":"object","not":{"required":["a"]}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"type":"string","not":{"enum":["x","yy"]}})",
       {"\"\"", "\"y\"", "\"xx\""},
       {"\"x\"", "\"yy\"", R"("\u0078")"}},
      {R"({"enum":[2.0]})", {"2.0", "2"}, {"2.", "2.1", "20"}},
      {R"({"const":1.0})", {"1.0", "1"}, {"1.5", "0", "10"}},
      {R"({"type":"integer","enum":[-3.0,1e3,4.5]})", {"-3.0", "-3", "1e3", "1000"}, {"4.5", "4", "3"}},
      {R"({"enum":[2.50,7],"minimum":2,"maximum":5.0})", {"2.50", "2.5"}, {"7", "2"}},
      {R"({"type":"integer","not":{"const":5}})", {"4", "55"}, {"5"}},
      // Integers beyond 2^53 keep all their digits.
      {R"({"const":1234567890123456789})", {"1234567890123456789"}, {"1234567890123456788", "1234567890123456800"}},
      {R"({"type":"integer","minimum":9223372036854775807,"maximum":9223372036854775807})",
       {"9223372036854775807"},
       {"9223372036854775806", "9223372036854775808"}},
      {R"({"allOf":[{"enum":[9007199254740993,5]},{"enum":[9007199254740992,5]}]})",
       {"5"},
       {"9007199254740993", "9007199254740992"}},
      {R"({"type":"integer","not":{"const":9007199254740992}})", {"9007199254740993"}, {"9007199254740992"}},
      {R"({"type":"integer","enum":[9007199254740993.5,7]})", {"7"}, {"9007199254740993.5"}},
      {R"({"allOf":[{"enum":[1.0e1,20,-0.0]},{"enum":[10,0]}]})", {"10", "0"}, {"20"}},
      {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "70"}, {"1", "8", "-15"}},
      {R"({"type":"number","multipleOf":0.01})", {"1", "1.25", "-0.5"}, {"1.255"}},
      {R"({"type":"object","patternProperties":{"^x":{"type":"integer"},"y$":{"minimum":5}},"additionalProperties":{"type":"string"}})",
       {R"({"xa":1})", R"({"xy":6})", R"({"b":"s","ay":5})"},
       {R"({"xa":"s"})", R"({"xy":4})", R"({"b":1})"}},
      {R"({"type":"object","propertyNames":{"maxLength":2}})", {R"({"ab":1})", "{}"}, {R"({"abc":1})"}},
      {R"({"type":"object","minProperties":2,"maxProperties":3})",
       {R"({"a":1,"b":2})", R"({"a":1,"b":2,"c":3})"},
       {R"({"a":1})", R"({"a":1,"a":2})", R"({"a":1,"b":2,"c":3,"d":4})"}},
      {R"({"type":"object","properties":{"a":true,"b":true},"dependentRequired":{"a":["b"]}})",
       {"{}", R"({"b":1})", R"({"a":1,"b":2})"},
       {R"({"a":1})"}},
      {R"({"if":{"properties":{"k":{"const":"i"}},"required":["k"]},"then":{"properties":{"v":{"type":"integer"}}},"else":{"properties":{"v":{"type":"string"}}},"type":"object"})",
       {R"({"k":"i","v":1})", R"({"k":"j","v":"s"})", R"({"v":"s"})"},
       {R"({"k":"i","v":"s"})", R"({"k":"j","v":1})"}},
      {R"({"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"type":"string"}},"$ref":"#/definitions/s","type":"integer"})",
       {"\"x\""},
       {"1"}},
      {R"({"type":"number","exclusiveMinimum":0,"maximum":1.5})",
       {"0.1", "1", "1.5", "1.50"},
       {"0", "0.0", "1.51", "-1"}},
      {R"({"properties":{"a":false},"type":"object"})", {"{}", R"({"b":1})"}, {R"({"a":1})", R"({"\u0061":1})"}},
  };
  for (const Case& one : cases) {
    Run run = open(one.schema);
    if (!run.schema) {
      check::fail(__FILE__, __LINE__, std::string(one.schema) + " is refused: " + run.problems.back().what);
      continue;
    }
    for (const char* text : one.yes)
      if (!fits(run, text)) check::fail(__FILE__, __LINE__, std::string(one.schema) + " refuses " + text);
    for (const char* text : one.no)
      if (fits(run, text)) check::fail(__FILE__, __LINE__, std::string(one.schema) + " takes " + text);
  }
}

TEST(members_follow_the_schema_order_if_requested) {
  Run run = open(R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["b"]})", PropertyOrder::kSchema);
  CHECK(fits(run, R"({"a":1,"b":2,"c":3,"z":4})"));
  CHECK(fits(run, R"({"b":2})"));
  CHECK(!fits(run, R"({"b":2,"a":1})"));
  CHECK(!fits(run, R"({"c":2})"));
  CHECK(!fits(run, R"({"z":1,"b":2})"));
}

TEST(names_and_enum_strings_are_written_as_standard_json) {
  const char* json =
      R"({"type":"object","properties":{"age":{"enum":["a\nb","x\u0001y","é/"]},"free":{"type":"string"}},"additionalProperties":false})";
  Run written = open(json, PropertyOrder::kSchema), read = open(json, PropertyOrder::kAny);
  for (const char* text :
       {R"({"age":"a\nb"})", R"({"age":"x\u0001y"})", R"({"age":"é/"})", R"({"free":"\u0061\/\n"})"}) {
    CHECK(fits(written, text));
    CHECK(fits(read, text));
  }
  for (const char* text : {R"({"\u0061ge":"é/"})", R"({"age":"\u00e9/"})", R"({"age":"é\/"})", R"({"age":"a\u000ab"})",
                           R"({"age":"x\u0001\u0079"})"}) {
    CHECK(!fits(written, text));
    CHECK(fits(read, text));
  }
}

TEST(unsupported_keywords_are_reported_with_their_location) {
  const auto refused = [](const char* json, SchemaProblem::Kind kind, const char* pointer, const char* keyword) {
    Run run = open(json);
    if (run.schema || run.problems.empty()) return check::fail(__FILE__, __LINE__, std::string(json) + " compiles");
    const SchemaProblem& problem = run.problems.back();
    if (problem.kind != kind || problem.pointer != pointer || problem.keyword != keyword)
      check::fail(__FILE__, __LINE__,
                  std::string(json) + ": " + problem.pointer + " " + problem.keyword + " " + problem.what);
  };
  using Kind = SchemaProblem::Kind;
  refused(R"({"properties":{"a":{"type":"array","uniqueItems":true}}})", Kind::kUnsupported, "/properties/a",
          "uniqueItems");
  refused(R"({"type":"array","contains":{"type":"string"},"prefixItems":[true]})", Kind::kUnsupported, "", "contains");
  refused(R"({"type":"array","contains":{"minimum":5},"allOf":[{"contains":{"type":"null"}}]})", Kind::kUnsupported,
          "/allOf/0", "contains");
  refused(R"({"properties":{"a/b":{"$ref":"https://elsewhere.example/x"}}})", Kind::kUnsupported, "/properties/a~1b",
          "$ref");
  refused(R"({"type":"strnig"})", Kind::kInvalid, "", "type");
  refused(R"({"pattern":"(a"})", Kind::kInvalid, "", "pattern");
  refused(R"({"type":"object","properties":{"a":false},"required":["a"]})", Kind::kImpossible, "", "");
  refused(R"({"type":"integer","multipleOf":983,"minimum":1,"maximum":982})", Kind::kImpossible, "", "");
  refused(
      R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object","required":["x"],"properties":{"x":{"$ref":"#/$defs/a"}}}}})",
      Kind::kImpossible, "", "");
  SchemaOptions lenient;
  lenient.strict = false;
  Run run = open(R"({"type":"array","items":{"type":"object"},"uniqueItems":true})", PropertyOrder::kAny, lenient);
  REQUIRE(run.schema != nullptr);
  CHECK_EQ(run.problems.size(), size_t{1});
  CHECK(fits(run, "[{},{}]"));
  CHECK(!fits(run, "[\"a\"]"));
}

// A long chain of dependent members, listed in forward and in reverse order.
TEST(long_dependency_chains_are_followed) {
  for (const bool backwards : {false, true}) {
    constexpr int kMembers = 2000;
    std::string properties, chain;
    for (int i = 0; i < kMembers; ++i) {
      const int from = backwards ? kMembers - 1 - i : i;
      properties += std::string(i ? "," : "") + "\"p" + std::to_string(i) + "\":{\"type\":\"null\"}";
      if (from + 1 < kMembers)
        chain += std::string(chain.empty() ? "" : ",") + "\"p" + std::to_string(from) + "\":[\"p" +
                 std::to_string(from + 1) + "\"]";
    }
    SchemaOptions options;
    options.most_steps = 200'000;
    for (const char* last : {"0", "1"}) {  // The limit is one member too low, or just high enough.
      const std::string json = "{\"type\":\"object\",\"required\":[\"p0\"],\"properties\":{" + properties +
                               "},\"maxProperties\":" + std::to_string(kMembers - 1 + (*last - '0')) +
                               ",\"dependentRequired\":{" + chain + "}}";
      const Run run = open(json, PropertyOrder::kSchema, options);
      CHECK_EQ(run.schema != nullptr, *last == '1');
    }
  }
}

TEST(malicious_schemas_end_within_their_limits) {
  std::string deep = "true", wide = "{\"anyOf\":[", refs = "{\"$defs\":{", nested = "{}";
  for (int i = 0; i < 400; ++i) deep = "{\"items\":" + deep + "}";
  for (int i = 0; i < 2000; ++i)
    wide += (i ? "," : "") + std::string("{\"properties\":{\"p") + std::to_string(i) +
            "\":{\"type\":\"string\"}},\"required\":[\"p" + std::to_string(i) + "\"]}";
  wide += "]}";
  for (int i = 0; i < 200; ++i)
    refs += (i ? "," : "") + std::string("\"d") + std::to_string(i) + "\":{\"anyOf\":[{\"$ref\":\"#/$defs/d" +
            std::to_string((i + 1) % 200) + "\"},{\"$ref\":\"#/$defs/d" + std::to_string((i + 7) % 200) + "\"}]}";
  refs += "},\"$ref\":\"#/$defs/d0\"}";
  for (int i = 0; i < 24; ++i)
    nested = "{\"allOf\":[{\"anyOf\":[" + nested + ",{\"minLength\":" + std::to_string(i) + "}]},{\"anyOf\":[" +
             nested + ",{\"maxLength\":9}]}]}",
    nested = nested.size() > 100'000 ? "{}" : nested;
  for (const std::string& json :
       {deep, wide, refs, nested,
        std::string(R"({"type":"string","pattern":"^(.{0,1000}x){0,1000}$","minLength":99999})"),
        std::string(
            R"({"type":"string","allOf":[{"pattern":"^(a|b)*a(a|b){18}$"},{"pattern":"^(a|b)*b(a|b){19}$"}]})")}) {
    SchemaOptions options;
    options.most_expressions = 50'000;
    options.most_steps = 200'000;
    Run run = open(json, PropertyOrder::kAny, options);
    CHECK(run.schema != nullptr || !run.problems.empty());
    if (run.automaton) {
      TokenMask mask(vocabulary().n_tokens());
      run.automaton->allowed(run.automaton->start(), mask);
    }
  }
}

// Any keyword with any value must be either supported or rejected with a reason, wherever it occurs. The code that
// negates schemas handles each keyword separately and has misread an array as a number before.
TEST(keywords_with_any_value_are_accepted_or_rejected) {
  constexpr const char* kKeywords[] = {"type",
                                       "enum",
                                       "const",
                                       "required",
                                       "properties",
                                       "pattern",
                                       "format",
                                       "minLength",
                                       "maxLength",
                                       "minItems",
                                       "maxItems",
                                       "minProperties",
                                       "maxProperties",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       "multipleOf",
                                       "not",
                                       "allOf",
                                       "anyOf",
                                       "oneOf",
                                       "$ref",
                                       "items",
                                       "prefixItems",
                                       "additionalItems",
                                       "contains",
                                       "uniqueItems",
                                       "additionalProperties",
                                       "patternProperties",
                                       "propertyNames",
                                       "if",
                                       "then",
                                       "else",
                                       "dependencies",
                                       "dependentSchemas",
                                       "dependentRequired",
                                       "$dynamicRef",
                                       "$recursiveRef",
                                       "unevaluatedProperties",
                                       "unevaluatedItems",
                                       "minContains",
                                       "maxContains",
                                       "$id",
                                       "$anchor",
                                       "$defs",
                                       "definitions",
                                       "$schema",
                                       "nullable"};
  // The values have many arrays and objects and few strings, so that an index into the values of one kind is out of
  // range for the other kinds.
  constexpr const char* kValues[] = {"null",
                                     "true",
                                     "false",
                                     "-1",
                                     "1.5",
                                     "1e400",
                                     "\"\"",
                                     "\"#\"",
                                     "[]",
                                     "{}",
                                     "[[[[[[[[[]]]]]]],[],[],[],[],[],[],[],[],[],[],[],[],[]]",
                                     "[1,{},\"a\"]",
                                     R"({"a":{"b":{"c":{"d":{"e":{"f":{}}}}}}})",
                                     R"([{"$ref":{}},{"minLength":[]}])",
                                     R"({"a":[],"b":3})",
                                     R"({"$ref":{"$ref":{"$ref":[]}}})"};
  constexpr const char* kPlaces[] = {
      "%",
      R"({"not":%})",
      R"({"not":{"not":%}})",
      R"({"anyOf":[%,{"type":"null"}]})",
      R"({"oneOf":[%,{"not":%}]})",
      R"({"allOf":[%,{"minLength":1}]})",
      R"({"if":%,"then":%,"else":{"not":%}})",
      R"({"type":"object","properties":{"a":%},"required":["a"],"patternProperties":{"b":%},"additionalProperties":%})",
      R"({"items":%,"prefixItems":[%]})",
      R"({"not":{"$ref":"#/$defs/x"},"$defs":{"x":%}})",
      R"({"not":{"allOf":[%],"properties":{"a":%}}})"};
  for (const std::string_view place : kPlaces)
    for (const char* keyword : kKeywords)
      for (const char* value : kValues) {
        std::string json;
        for (const char c : place)
          json += c == '%' ? std::string("{\"") + keyword + "\":" + value + "}" : std::string(1, c);
        SchemaOptions options;
        options.one_of_as_any_of = json.size() % 2 == 0;
        Run run = open(json, PropertyOrder::kSchema, options);
        if (run.schema == nullptr && run.problems.empty())
          check::fail(__FILE__, __LINE__, json + " is refused without a reason");
      }
}

// Random walks that follow the masks. A token is allowed if and only if its bytes are accepted. Until the text is
// complete, some token is always allowed, and a complete text is JSON.
TEST(masks_agree_with_bytes_and_have_no_dead_ends) {
  std::vector<std::string> bytes;
  for (int c = 0; c < 256; ++c) bytes.emplace_back(1, static_cast<char>(c));
  for (const char* text : {"{\"", "\":", "\",\"", "\"}", "true", "na", "name", "12", "é", "日\xE6", "\x9C\xAC", "}}",
                           "]}", "abc", "\\u00", "2024-0"})
    bytes.emplace_back(text);
  bytes.emplace_back();
  const TokenTrie trie(bytes);
  std::mt19937 random(99);
  for (
      const char* json :
      {R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},"tags":{"type":"array","items":{"enum":["a","abc","é"]},"maxItems":3},"n":{"type":"integer","minimum":-3,"maximum":120}},"required":["name","n"],"additionalProperties":false})",
       R"({"type":"object","minProperties":2,"maxProperties":3,"additionalProperties":{"type":"boolean"},"propertyNames":{"maxLength":3}})",
       R"({"type":"string","pattern":"^[a-z]{2,4}(-[0-9]{2})?$"})", R"({"type":"string","format":"date"})",
       R"({"anyOf":[{"type":"number","minimum":0.5,"maximum":12.25},{"type":"array","items":{"$ref":"#"},"maxItems":2}]})",
       R"({"enum":["a\nb","x\u0001y"]})",
       R"({"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":-3,"maximum":20},"maxItems":3})",
       R"({"type":"array","uniqueItems":true,"items":{"pattern":"^[ab]{1,2}$","type":["string","boolean"]}})",
       R"({"type":"object","not":{"additionalProperties":{"type":"integer"}},"propertyNames":{"maxLength":2}})",
       R"({"type":"string","minLength":3,"maxLength":3,"not":{"pattern":"b"}})"}) {
    for (const PropertyOrder order : {PropertyOrder::kSchema, PropertyOrder::kAny}) {
      std::vector<SchemaProblem> problems;
      const auto schema = Schema::compile(json, {}, problems);
      REQUIRE(schema != nullptr);
      AutomatonOptions options;
      options.order = order;
      Automaton automaton(*schema, trie, options);
      TokenMask mask(trie.n_tokens());
      for (int round = 0; round < 60; ++round) {
        StateId state = automaton.start();
        std::string text;
        while (!automaton.ends(state) && text.size() < 200) {
          automaton.allowed(state, mask);
          std::vector<uint32_t> allowed;
          for (uint32_t token = 0; token < bytes.size(); ++token) {
            StateId to = bytes[token].empty() ? Automaton::kDead : state;
            for (const char c : bytes[token]) to = automaton.step(to, static_cast<uint8_t>(c));
            if (mask.has(token) != (to != Automaton::kDead))
              return check::fail(__FILE__, __LINE__,
                                 std::string(json) + " behind " + text + ": token " + std::to_string(token));
            if (mask.has(token)) allowed.push_back(token);
          }
          if (automaton.accepts(state) && random() % 2) break;
          if (allowed.empty()) {
            if (!automaton.accepts(state))
              check::fail(__FILE__, __LINE__, std::string(json) + ": nothing may follow " + text);
            break;
          }
          const uint32_t token = allowed[random() % allowed.size()];
          for (const char c : bytes[token]) state = automaton.step(state, static_cast<uint8_t>(c));
          text += bytes[token];
        }
        if (!automaton.accepts(state)) continue;
        monolith::json::Document document;
        monolith::json::Id root;
        std::string error;
        if (!document.parse(text, root, error)) check::fail(__FILE__, __LINE__, "not JSON: " + text + ": " + error);
      }
      CHECK(!automaton.failed());
    }
  }
}

}  // namespace
