// Schemas through the automaton: which documents fit, that masks say what bytes do, that nothing leads nowhere.
#include "text/grammar/schema.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "text/grammar/automaton.h"

namespace {

using namespace monolith::grammar;

const TokenTrie& vocabulary() {
  static const TokenTrie trie([] {
    std::vector<std::string> tokens;
    for (int c = 0; c < 256; ++c) tokens.emplace_back(1, static_cast<char>(c));
    for (const char* text : {"{\"", "\":", "\":\"", "\",\"", "\"}", "\"],", "true", "false", "null", "na", "name", " the", "ing", "12", "123", "\\n", "\\u00", "\\\"",
                             "é", "日本", "日\xE6", "\x9C\xAC", "}}", "]}", ",{", "[\"", "a\"", "ab", "abc", "0.", "e+", "-1", "\n  ", "2024-"})
      tokens.emplace_back(text);
    tokens.emplace_back();   // a control token
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

// Every way through small objects whose members are counted.
TEST(counted_members_in_order_come_where_they_lead_to_an_end) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const uint32_t required = random() % 32 & random() % 32, forbidden = random() % 32 & random() % 32 & random() % 32, least = random() % 6, most = least + random() % 4;
    const bool open_ended = random() % 4 == 0;
    std::string json = R"({"type":"object","properties":{)", names;
    for (uint32_t i = 0; i < 5; ++i) {
      json += std::string(i ? "," : "") + "\"" + static_cast<char>('a' + i) + "\":" + (forbidden >> i & 1 ? "false" : "{\"type\":\"null\"}");
      if (required >> i & 1) names += std::string(names.empty() ? "" : ",") + "\"" + static_cast<char>('a' + i) + "\"";
    }
    json += "},\"required\":[" + names + "],\"minProperties\":" + std::to_string(least) + (open_ended ? "" : ",\"maxProperties\":" + std::to_string(most)) + ",\"additionalProperties\":false}";
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

TEST(documents_fit_or_do_not) {
  struct Case { const char* schema; std::vector<const char*> yes, no; };
  const Case cases[] = {
      {"true", {"1", "null", "{\"a\":[1,{}]}", "\"\\ud83d\\ude00\"", "-0.5e+3", "[]"}, {"", "01", "\"\\ud83d\"", "{a:1}", "[1,]", "nul", "\"\n\"", "{\"a\":1,}"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false})",
       {R"({"a":1})", R"({"a":-5,"b":""})", R"({"b":"x","a":0})"}, {"{}", R"({"a":1.5})", R"({"a":1,"c":2})", R"({"a":1,"a":2})", R"({"b":"x"})"}},
      {R"({"type":["integer","null"],"minimum":3,"maximum":17})", {"3", "17", "10", "null"}, {"2", "18", "170", "-3", "3.0"}},
      {R"({"enum":["a","b\"c",1,null,[1,{"x":2}]]})", {"\"a\"", R"("b\"c")", "1", "null", R"([1,{"x":2}])", R"("\u0061")"}, {"\"c\"", "2", "[1]", R"([1,{"x":3}])"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"type":"string"}],"items":false,"minItems":1})", {"[1]", "[1,\"x\"]"}, {"[]", "[2]", "[1,\"x\",1]"}},
      {R"({"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":3})", {"[true,false]", "[true,true,true]"}, {"[true]", "[true,true,true,true]"}},
      {R"({"type":"string","minLength":2,"maxLength":3,"pattern":"^a"})", {"\"ab\"", "\"aéé\"", "\"a\\u00e9\""}, {"\"a\"", "\"abcd\"", "\"ba\""}},
      {R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"n":{"$ref":"#/$defs/n"}},"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/n"})",
       {R"({"v":1})", R"({"v":1,"n":{"v":2,"n":{"v":3}}})"}, {R"({"n":{"v":1}})", R"({"v":1,"n":{}})"}},
      {R"({"oneOf":[{"type":"integer","minimum":0},{"type":"integer","maximum":10}]})", {"-1", "11"}, {"5", "0"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"7", "\"x\""}, {"\"xy\"", "null"}},
      {R"({"allOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"a":{"type":"integer","maximum":3}},"required":["a"]}],"type":"object"})",
       {R"({"a":2})", R"({"a":1,"z":null})"}, {R"({"a":0})", R"({"a":4})", "{}"}},
      {R"({"type":"object","not":{"required":["a"]}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"type":"string","not":{"enum":["x","yy"]}})", {"\"\"", "\"y\"", "\"xx\""}, {"\"x\"", "\"yy\"", R"("\u0078")"}},
      {R"({"enum":[2.0]})", {"2.0", "2"}, {"2.", "2.1", "20"}},
      {R"({"const":1.0})", {"1.0", "1"}, {"1.5", "0", "10"}},
      {R"({"type":"integer","enum":[-3.0,1e3,4.5]})", {"-3.0", "-3", "1e3", "1000"}, {"4.5", "4", "3"}},
      {R"({"enum":[2.50,7],"minimum":2,"maximum":5.0})", {"2.50", "2.5"}, {"7", "2"}},
      {R"({"type":"integer","not":{"const":5}})", {"4", "55"}, {"5"}},
      {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "70"}, {"1", "8", "-15"}},
      {R"({"type":"number","multipleOf":0.01})", {"1", "1.25", "-0.5"}, {"1.255"}},
      {R"({"type":"object","patternProperties":{"^x":{"type":"integer"},"y$":{"minimum":5}},"additionalProperties":{"type":"string"}})",
       {R"({"xa":1})", R"({"xy":6})", R"({"b":"s","ay":5})"}, {R"({"xa":"s"})", R"({"xy":4})", R"({"b":1})"}},
      {R"({"type":"object","propertyNames":{"maxLength":2}})", {R"({"ab":1})", "{}"}, {R"({"abc":1})"}},
      {R"({"type":"object","minProperties":2,"maxProperties":3})", {R"({"a":1,"b":2})", R"({"a":1,"b":2,"c":3})"}, {R"({"a":1})", R"({"a":1,"a":2})", R"({"a":1,"b":2,"c":3,"d":4})"}},
      {R"({"type":"object","properties":{"a":true,"b":true},"dependentRequired":{"a":["b"]}})", {"{}", R"({"b":1})", R"({"a":1,"b":2})"}, {R"({"a":1})"}},
      {R"({"if":{"properties":{"k":{"const":"i"}},"required":["k"]},"then":{"properties":{"v":{"type":"integer"}}},"else":{"properties":{"v":{"type":"string"}}},"type":"object"})",
       {R"({"k":"i","v":1})", R"({"k":"j","v":"s"})", R"({"v":"s"})"}, {R"({"k":"i","v":"s"})", R"({"k":"j","v":1})"}},
      {R"({"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"type":"string"}},"$ref":"#/definitions/s","type":"integer"})", {"\"x\""}, {"1"}},
      {R"({"type":"number","exclusiveMinimum":0,"maximum":1.5})", {"0.1", "1", "1.5", "1.50"}, {"0", "0.0", "1.51", "-1"}},
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

TEST(members_come_in_the_order_of_the_schema_where_asked) {
  Run run = open(R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["b"]})", PropertyOrder::kSchema);
  CHECK(fits(run, R"({"a":1,"b":2,"c":3,"z":4})"));
  CHECK(fits(run, R"({"b":2})"));
  CHECK(!fits(run, R"({"b":2,"a":1})"));
  CHECK(!fits(run, R"({"c":2})"));
  CHECK(!fits(run, R"({"z":1,"b":2})"));
}

TEST(names_and_listed_strings_are_written_as_json_writers_do) {
  const char* json = R"({"type":"object","properties":{"age":{"enum":["a\nb","x\u0001y","é/"]},"free":{"type":"string"}},"additionalProperties":false})";
  Run written = open(json, PropertyOrder::kSchema), read = open(json, PropertyOrder::kAny);
  for (const char* text : {R"({"age":"a\nb"})", R"({"age":"x\u0001y"})", R"({"age":"é/"})", R"({"free":"\u0061\/\n"})"}) {
    CHECK(fits(written, text));
    CHECK(fits(read, text));
  }
  for (const char* text : {R"({"\u0061ge":"é/"})", R"({"age":"\u00e9/"})", R"({"age":"é\/"})", R"({"age":"a\u000ab"})", R"({"age":"x\u0001\u0079"})"}) {
    CHECK(!fits(written, text));
    CHECK(fits(read, text));
  }
}

TEST(what_is_not_served_is_named_with_its_place) {
  const auto refused = [](const char* json, SchemaProblem::Kind kind, const char* pointer, const char* keyword) {
    Run run = open(json);
    if (run.schema || run.problems.empty()) return check::fail(__FILE__, __LINE__, std::string(json) + " compiles");
    const SchemaProblem& problem = run.problems.back();
    if (problem.kind != kind || problem.pointer != pointer || problem.keyword != keyword)
      check::fail(__FILE__, __LINE__, std::string(json) + ": " + problem.pointer + " " + problem.keyword + " " + problem.what);
  };
  using Kind = SchemaProblem::Kind;
  refused(R"({"properties":{"a":{"type":"array","uniqueItems":true}}})", Kind::kUnsupported, "/properties/a", "uniqueItems");
  refused(R"({"type":"array","contains":{"type":"string"}})", Kind::kUnsupported, "", "contains");
  refused(R"({"properties":{"a/b":{"$ref":"https://elsewhere.example/x"}}})", Kind::kUnsupported, "/properties/a~1b", "$ref");
  refused(R"({"type":"strnig"})", Kind::kInvalid, "", "type");
  refused(R"({"pattern":"(a"})", Kind::kInvalid, "", "pattern");
  refused(R"({"type":"object","properties":{"a":false},"required":["a"]})", Kind::kImpossible, "", "");
  refused(R"({"type":"integer","multipleOf":983,"minimum":1,"maximum":982})", Kind::kImpossible, "", "");
  refused(R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object","required":["x"],"properties":{"x":{"$ref":"#/$defs/a"}}}}})", Kind::kImpossible, "", "");
  SchemaOptions lenient;
  lenient.strict = false;
  Run run = open(R"({"type":"array","items":{"type":"integer"},"uniqueItems":true})", PropertyOrder::kAny, lenient);
  REQUIRE(run.schema != nullptr);
  CHECK_EQ(run.problems.size(), size_t{1});
  CHECK(fits(run, "[1,1]"));
  CHECK(!fits(run, "[\"a\"]"));
}

TEST(hostile_schemas_end_within_their_bounds) {
  std::string deep = "true", wide = "{\"anyOf\":[", refs = "{\"$defs\":{", nested = "{}";
  for (int i = 0; i < 400; ++i) deep = "{\"items\":" + deep + "}";
  for (int i = 0; i < 2000; ++i) wide += (i ? "," : "") + std::string("{\"properties\":{\"p") + std::to_string(i) + "\":{\"type\":\"string\"}},\"required\":[\"p" + std::to_string(i) + "\"]}";
  wide += "]}";
  for (int i = 0; i < 200; ++i)
    refs += (i ? "," : "") + std::string("\"d") + std::to_string(i) + "\":{\"anyOf\":[{\"$ref\":\"#/$defs/d" + std::to_string((i + 1) % 200) + "\"},{\"$ref\":\"#/$defs/d" + std::to_string((i + 7) % 200) + "\"}]}";
  refs += "},\"$ref\":\"#/$defs/d0\"}";
  for (int i = 0; i < 24; ++i) nested = "{\"allOf\":[{\"anyOf\":[" + nested + ",{\"minLength\":" + std::to_string(i) + "}]},{\"anyOf\":[" + nested + ",{\"maxLength\":9}]}]}", nested = nested.size() > 100'000 ? "{}" : nested;
  for (const std::string& json : {deep, wide, refs, nested, std::string(R"({"type":"string","pattern":"^(.{0,1000}x){0,1000}$","minLength":99999})"),
                                  std::string(R"({"type":"string","allOf":[{"pattern":"^(a|b)*a(a|b){18}$"},{"pattern":"^(a|b)*b(a|b){19}$"}]})")}) {
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

// Random walks under the masks: a token is allowed exactly if its bytes can be taken, some token always is until
// the text is complete, and what is complete is JSON.
TEST(masks_say_what_bytes_do_and_never_lead_nowhere) {
  std::vector<std::string> bytes;
  for (int c = 0; c < 256; ++c) bytes.emplace_back(1, static_cast<char>(c));
  for (const char* text : {"{\"", "\":", "\",\"", "\"}", "true", "na", "name", "12", "é", "日\xE6", "\x9C\xAC", "}}", "]}", "abc", "\\u00", "2024-0"}) bytes.emplace_back(text);
  bytes.emplace_back();
  const TokenTrie trie(bytes);
  std::mt19937 random(99);
  for (const char* json : {
           R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},"tags":{"type":"array","items":{"enum":["a","abc","é"]},"maxItems":3},"n":{"type":"integer","minimum":-3,"maximum":120}},"required":["name","n"],"additionalProperties":false})",
           R"({"type":"object","minProperties":2,"maxProperties":3,"additionalProperties":{"type":"boolean"},"propertyNames":{"maxLength":3}})",
           R"({"type":"string","pattern":"^[a-z]{2,4}(-[0-9]{2})?$"})", R"({"type":"string","format":"date"})",
           R"({"anyOf":[{"type":"number","minimum":0.5,"maximum":12.25},{"type":"array","items":{"$ref":"#"},"maxItems":2}]})",
           R"({"enum":["a\nb","x\u0001y"]})", R"({"type":"string","minLength":3,"maxLength":3,"not":{"pattern":"b"}})"}) {
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
            if (mask.has(token) != (to != Automaton::kDead)) return check::fail(__FILE__, __LINE__, std::string(json) + " behind " + text + ": token " + std::to_string(token));
            if (mask.has(token)) allowed.push_back(token);
          }
          if (automaton.accepts(state) && random() % 2) break;
          if (allowed.empty()) {
            if (!automaton.accepts(state)) check::fail(__FILE__, __LINE__, std::string(json) + ": nothing may follow " + text);
            break;
          }
          const uint32_t token = allowed[random() % allowed.size()];
          for (const char c : bytes[token]) state = automaton.step(state, static_cast<uint8_t>(c));
          text += bytes[token];
        }
        if (!automaton.accepts(state)) continue;
        JsonDocument document;
        JsonId root;
        std::string error;
        if (!document.parse(text, root, error)) check::fail(__FILE__, __LINE__, "not JSON: " + text + ": " + error);
      }
      CHECK(!automaton.failed());
    }
  }
}

}  // namespace
