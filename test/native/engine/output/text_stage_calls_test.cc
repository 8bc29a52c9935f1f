// Tests the separation of tool calls from content. The output is the same for every way to split recorded formats into
// tokens.
#include <random>

#include "engine/output/text_stage_reference.h"

namespace monolith::testing {
namespace {

CallParams spelled(const std::string& open, const std::string& close, bool at_start = false) {
  CallParams calls;
  calls.open.text = open;
  calls.close.text = close;
  calls.at_start = at_start;
  return calls;
}

// The same calls, with markers that are tokens.
CallParams as_tokens(CallParams calls) {
  calls.open.token = 1000;
  if (!calls.close.text.empty()) calls.close.token = 1001;
  return calls;
}

ReasoningParams thinking() {
  ReasoningParams reasoning;
  reasoning.open.text = "<t>";
  reasoning.close.text = "</t>";
  return reasoning;
}

TEST(text_stage_calls_at_every_cut) {
  const CallParams calls = spelled("<c>", "</c>");
  for (const std::string text : {"a<c>{}</c>", "<c>s</c>b<c></c>", "<<c>x</</c>c", "a<c>\n<c>", "</c>a<c",
                                 "<c></c><c></c>s", "ä<c>ä</c>\nä", "\n\n<c>\n</c>\n"}) {
    check_every_cut(text, {.calls = calls});
    check_every_cut(text, {.calls = as_tokens(calls)});
    check_every_cut(text, {.calls = calls, .stops = {"s", "}"}});  // Stop strings do not apply inside calls.
    check_every_cut(text, {.calls = calls, .stops = {"<c>", "a<c", "</c>a"}});
    check_every_cut(text, {.calls = calls, .stops = {"<", "\n"}});
    check_every_cut(text, {.reasoning = thinking(), .calls = calls});
  }
}

TEST(text_stage_calls_to_the_end_at_every_cut) {
  const CallParams calls = spelled("[C]", "");
  for (const std::string text : {"[C][{}]", "ab[C]x\n[C]", "[[C", "s[C]s", "\n [C]ä"}) {
    check_every_cut(text, {.calls = calls, .stops = {"s"}});
    check_every_cut(text, {.calls = as_tokens(calls), .stops = {"s"}});
    check_every_cut(text, {.reasoning = thinking(), .calls = calls});
  }
}

TEST(text_stage_calls_at_the_start_at_every_cut) {
  for (const std::string close : {"", "}"}) {
    const CallParams calls = spelled("{\"n", close, true);
    for (const std::string text : {"{\"name\": 1}", " \n{\"n\": s}s", "a{\"n\"}", "{\"m\"}", "{{\"n\"}", "{\"n}{\"n}",
                                   " \t", " {\"", "\n\n{\"n}\n"}) {
      check_every_cut(text, {.calls = calls});
      check_every_cut(text, {.calls = as_tokens(calls)});
      check_every_cut(text, {.calls = calls, .stops = {"s", "\n"}});
      check_every_cut(text, {.reasoning = thinking(), .calls = calls, .stops = {"{\""}});
    }
  }
  for (const size_t spaces : {size_t{31}, size_t{32}, size_t{33}}) {  // At most 32 whitespace characters are allowed.
    const std::string text = std::string(spaces, ' ') + "{\"n";
    check_cut(text, {.calls = spelled("{\"n", "", true)}, 0);
    check_cut(text, {.calls = as_tokens(spelled("{\"n", "", true))}, ~uint64_t{0});
  }
}

TEST(text_stage_calls_random_texts_and_cuts) {
  std::mt19937_64 random(12);
  const std::vector<std::string> parts = {"a",  "<", "<c>", "</c>", "<t>",  "</t>", "/",
                                          "c>", " ", "ä",   "漢",   "🙂", "\n",   "s"};
  const auto some_parts = [&](uint64_t n) {
    std::string text;
    for (; n > 0; --n) text += parts[random() % parts.size()];
    return text;
  };
  int n_calls = 0;
  for (int round = 0; round < 30'000; ++round) {
    StageParams params;
    if (random() % 2) params.reasoning = thinking();
    params.reasoning.starts_inside = random() % 4 == 0;
    params.calls = spelled("<c>", random() % 4 ? "</c>" : "", random() % 3 == 0);
    const std::string text = some_parts(random() % 16);
    for (uint64_t n = random() % 3; n > 0; --n) params.stops.push_back(some_parts(1 + random() % 2));
    check_cut(text, params, random());
    check_cut(text, params, ~uint64_t{0});
    for (const auto& piece : Reference(text, params).pieces) n_calls += piece.section == Section::kCall;
    params.calls = as_tokens(params.calls);
    // If every marker spelling is a token, text never contains part of a marker, so no stop string may end within one.
    params.reasoning = {};
    params.stops = {"s", "a "};
    check_cut(text, params, random());
  }
  CHECK(n_calls > 3000);
}

TEST(text_stage_calls_hermes) {
  CallParams calls;
  calls.open = {"<tool_call>", 100};
  calls.close = {"</tool_call>", 101};
  ReasoningParams reasoning;
  reasoning.open = {"<think>", 102};
  reasoning.close = {"</think>", 103};
  Collected got;
  OutputParser stage(reasoning, calls, {"\n{", "stop"}, true);
  TokenLogprobs entry;
  const auto push = [&](TokenId token, std::string_view bytes) {
    entry.token = token;
    return stage.push(token, bytes, &entry, got);
  };
  const auto control = [&](TokenId token, std::string_view spelling) {
    entry.token = token;
    return stage.push_control(token, spelling, &entry, got);
  };
  CHECK_EQ(control(102, "<think>"), -1);
  CHECK_EQ(push(1, "a <tool_call>"), -1);
  CHECK_EQ(push(100, "<tool_call>"), -1);  // Within the reasoning, the marker is text.
  CHECK(stage.in_reasoning());
  CHECK_EQ(control(103, "</think>"), -1);
  CHECK_EQ(push(2, "\n\nI sto\xE6"), -1);
  CHECK_EQ(got.content, "I ");
  CHECK_EQ(push(100, "<tool_call>"), -1);
  CHECK_EQ(got.content, "I sto\xEF\xBF\xBD");  // The held text can no longer become a stop string.
  CHECK_EQ(got.calls, "<tool_call>");
  CHECK(stage.in_call());
  CHECK_EQ(push(3, "\n{stop <tool_call>"), -1);
  CHECK_EQ(control(104, "<|pad|>"), -1);  // Control tokens are shown within calls.
  CHECK_EQ(push(100, "<tool_call>"), -1);
  CHECK_EQ(push(4, "</tool_call>"), -1);  // If the marker is a token, its spelling is text.
  CHECK_EQ(push(5, "\xC3"), -1);
  CHECK_EQ(push(101, "</tool_call>"), -1);
  CHECK_EQ(got.calls, "<tool_call>\n{stop <tool_call><|pad|><tool_call></tool_call>\xEF\xBF\xBD</tool_call>");
  CHECK(stage.in_content());
  CHECK_EQ(control(104, "<|pad|>"), -1);  // Control tokens are not shown in content.
  CHECK_EQ(push(101, "</tool_call>"), -1);
  CHECK_EQ(push(6, "\n"), -1);
  CHECK_EQ(push(100, "<tool_call>"), -1);
  CHECK_EQ(got.content, "I sto\xEF\xBF\xBD</tool_call>\n");
  CHECK_EQ(push(7, "{\n"), -1);
  CHECK_EQ(stage.finish(got), -1);
  CHECK(got.calls.ends_with("<tool_call>{\n"));
  CHECK(got.entries == (std::vector<TokenId>{2, 101, 6}));  // Only tokens of content have entries.
  CHECK_EQ(got.n_tokens, 14);  // All tokens that have text or whose line breaks were dropped.
  CHECK_EQ(stage.reasoning_tokens(), 4);
}

TEST(text_stage_calls_mistral) {
  CallParams calls;
  calls.open = {"[TOOL_CALLS]", 5};
  Collected got;
  OutputParser stage({}, calls, {"}"}, false);
  CHECK_EQ(stage.push(1, "Sure. ", nullptr, got), -1);
  CHECK_EQ(stage.push_control(5, "[TOOL_CALLS]", nullptr, got), -1);
  CHECK_EQ(stage.push(2, "[{\"name\": \"a\", \"arguments\": {}}", nullptr, got), -1);
  CHECK_EQ(stage.push_control(5, "[TOOL_CALLS]", nullptr, got), -1);  // A second marker is part of the section.
  CHECK_EQ(stage.finish(got), -1);
  CHECK_EQ(got.content, "Sure. ");
  CHECK_EQ(got.calls, "[TOOL_CALLS][{\"name\": \"a\", \"arguments\": {}}[TOOL_CALLS]");
}

TEST(text_stage_calls_by_token_only_at_the_start) {
  CallParams calls;
  calls.open = {"<|python_tag|>", 5};
  calls.at_start = true;
  for (const std::string before : {"", "\n ", "a"}) {
    Collected got;
    OutputParser stage(thinking(), calls, {}, false);
    if (!before.empty()) stage.push(1, before, nullptr, got);
    CHECK_EQ(got.content, before == "a" ? "a" : "");  // Whitespace may still be part of the call.
    stage.push_control(5, "<|python_tag|>", nullptr, got);
    stage.push(2, "x", nullptr, got);
    stage.finish(got);
    CHECK_EQ(got.content, before == "a" ? "ax" : "");
    CHECK_EQ(got.calls, before == "a" ? "" : before + "<|python_tag|>x");
  }
}

TEST(text_stage_calls_are_emitted_immediately) {
  Collected got;
  OutputParser stage({}, spelled("<c>", "</c>"), {}, false);
  stage.push(1, "a <", nullptr, got);
  CHECK_EQ(got.content, "a ");
  stage.push(2, "c", nullptr, got);
  stage.push(3, ">{", nullptr, got);
  CHECK_EQ(got.calls, "<c>{");
  CHECK_EQ(got.n_tokens, 3);
  stage.push(4, "</", nullptr, got);
  CHECK_EQ(got.calls, "<c>{</");  // The close marker is part of the call, so nothing needs to be held back.
  stage.push(5, "c>b", nullptr, got);
  CHECK_EQ(got.calls, "<c>{</c>");
  CHECK_EQ(got.content, "a b");
  CHECK_EQ(got.n_tokens, 5);
}

TEST(text_stage_predicts_the_start_of_content) {
  ReasoningParams reasoning = thinking();
  OutputParser spelled_open(reasoning, {}, {}, false);
  Collected got;
  for (const std::string text : {"<", "<t>", "<t>x", "\n", " \n<t"}) CHECK(!spelled_open.would_begin_content(1, text));
  for (const std::string text : {"x", " <x", "", "\xC3"}) CHECK(spelled_open.would_begin_content(1, text));
  spelled_open.push(1, " <t", nullptr, got);
  CHECK(!spelled_open.would_begin_content(1, ">"));
  CHECK(spelled_open.would_begin_content(1, " >"));
  spelled_open.push(1, ">", nullptr, got);
  CHECK(!spelled_open.would_begin_content(1, "x"));  // Already decided.

  reasoning.open.token = 7;
  OutputParser token_open(reasoning, {}, {}, false);
  CHECK(!token_open.would_begin_content(7, "<t>"));
  CHECK(token_open.would_begin_content(1, "<t>"));
  token_open.push(1, std::string(31, '\n'), nullptr, got);
  CHECK(!token_open.would_begin_content(1, " "));
  CHECK(token_open.would_begin_content(1, "  "));  // More whitespace than is allowed before a marker.
}

}  // namespace
}  // namespace monolith::testing
