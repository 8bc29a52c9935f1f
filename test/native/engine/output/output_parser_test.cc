// Compares the streaming text stage with a simple reference algorithm that sees the whole text, for every way to split
// the text.
#include "engine/output/output_parser.h"

#include <random>

#include "engine/output/text_stage_reference.h"

namespace monolith::testing {
namespace {

TEST(text_stage_stop_strings_at_every_cut) {
  const std::vector<std::vector<std::string>> stop_sets = {
      {}, {"b"}, {"abc"}, {"aab"}, {"abab"}, {"abcd", "bc"}, {"c", "abc"}, {"ä"}, {"bä"}, {"aaaa", "ab", "caab"}};
  for (const std::string text : {"", "a", "abc", "aaabc", "ababab", "xabcd", "aabaaab", "caaab", "baäb", "äbäc"})
    for (const auto& stops : stop_sets) check_every_cut(text, {.stops = stops});
}

TEST(text_stage_spelled_markers_at_every_cut) {
  for (const bool inside : {false, true}) {
    ReasoningParams reasoning;
    reasoning.open.text = "<t>";
    reasoning.close.text = "</t>";
    reasoning.starts_inside = inside;
    for (const std::string text : {"<t>ab</t>c", " \n<t>a</t>", "<<t></t>", "a<t>b</t>", "<t>a</</t>b", "</t></t>x",
                                   "<t>sss</t>sx", "<t", "  ", "a</t>a<t>b"}) {
      check_every_cut(text, {.reasoning = reasoning});
      check_every_cut(text, {.reasoning = reasoning, .stops = {"s"}});  // Stop strings do not apply inside reasoning.
      check_every_cut(text, {.reasoning = reasoning, .stops = {"<t>", "</"}});
    }
  }
}

TEST(text_stage_line_breaks_at_markers_at_every_cut) {
  ReasoningParams reasoning;
  reasoning.open.text = "<t>";
  reasoning.close.text = "</t>";
  for (const std::string text :
       {"<t>\na\n</t>\n\r\nb\nc", "<t>\n</t>\n\nb\n", "<t></t>\n", "<t>\n\n", "\n\nb\nc", "<t>\n</</t>\n \nb",
        "<t>\nä</t>\nä", "<t>\na\n", "<t>a\n\n<\n</t>", "<t>a\r\n</t>b"}) {
    check_every_cut(text, {.reasoning = reasoning});
    check_every_cut(text, {.reasoning = reasoning, .stops = {"\n", "\nb"}});
    check_every_cut(text, {.stops = {"\n\n"}});
  }
}

// Reasoning that starts in the prompt continues at the start of the response.
TEST(text_stage_continued_reasoning_keeps_its_line_breaks_at_every_cut) {
  ReasoningParams reasoning;
  reasoning.close.text = "</t>";
  reasoning.starts_inside = reasoning.continued = true;
  for (const std::string text : {"\n\na\n</t>\nb", "\n</t>\nb", "\n\n", "\n</\na", "</t>\n"})
    check_every_cut(text, {.reasoning = reasoning, .stops = {"\n"}});
}

TEST(text_stage_random_texts_and_cuts) {
  std::mt19937_64 random(11);
  const std::vector<std::string> parts = {"a", "b", "<", "<t>", "</t>", "/", "t>", " ", "ä", "漢", "🙂", "\n", "ab"};
  for (int round = 0; round < 20'000; ++round) {
    ReasoningParams reasoning;
    if (random() % 2) reasoning.open.text = "<t>";
    if (random() % 2) reasoning.close.text = "</t>";
    reasoning.starts_inside = random() % 3 == 0;
    reasoning.continued = reasoning.starts_inside && random() % 2;
    std::vector<std::string> stops;
    for (uint64_t n = random() % 4; n > 0; --n) {
      std::string stop;
      for (uint64_t i = 1 + random() % 3; i > 0; --i) stop += parts[random() % parts.size()];
      stops.push_back(stop);
    }
    std::string text;
    for (uint64_t i = random() % 14; i > 0; --i) text += parts[random() % parts.size()];
    check_cut(text, {.reasoning = reasoning, .stops = stops}, random());
    check_cut(text, {.reasoning = reasoning, .stops = stops}, ~uint64_t{0});
  }
}

TEST(text_stage_emits_text_that_can_no_longer_match) {
  Collected got;
  OutputParser stage({}, {}, {"stop!"}, false);
  stage.push(0, "a st", nullptr, got);
  CHECK_EQ(got.content, "a ");
  CHECK_EQ(got.n_tokens, 1);
  stage.push(1, "op", nullptr, got);
  CHECK_EQ(got.content, "a ");
  CHECK_EQ(got.n_tokens, 1);
  stage.push(2, "sts", nullptr, got);
  CHECK_EQ(got.content, "a stopst");  // The last "s" may start a new match.
  CHECK_EQ(got.n_tokens, 3);
  CHECK_EQ(stage.finish(got), -1);
  CHECK_EQ(got.content, "a stopsts");
  CHECK_EQ(got.n_tokens, 3);
}

TEST(text_stage_marker_tokens) {
  ReasoningParams reasoning;
  reasoning.open = {"<think>", 100};
  reasoning.close = {"</think>", 101};
  Collected got;
  OutputParser stage(reasoning, {}, {"x"}, false);
  stage.push(1, "\n", nullptr, got);
  CHECK_EQ(got.content, "");
  stage.push(100, "<think>", nullptr, got);
  CHECK(stage.in_reasoning());
  stage.push(2, "a </think> x \xC3", nullptr, got);  // If the marker is a token, its spelling is text.
  CHECK_EQ(got.reasoning, "a </think> x ");
  stage.push(101, "</think>", nullptr, got);
  CHECK_EQ(got.reasoning, "a </think> x \xEF\xBF\xBD");  // The marker interrupts a character.
  CHECK_EQ(stage.reasoning_tokens(), 4);
  stage.push(3, "<think>", nullptr, got);
  stage.push(100, "<think>", nullptr, got);  // Reasoning does not start again: a user-defined token is emitted as text.
  CHECK_EQ(got.content, "<think><think>");
  CHECK(!stage.in_reasoning());
  stage.push_control(102, "<|pad|>", nullptr, got);  // A control token has no text here.
  CHECK_EQ(stage.push(4, "\xC3\xA4x", nullptr, got), 0);
  CHECK_EQ(got.content, "<think><think>\xC3\xA4");
  CHECK_EQ(stage.reasoning_tokens(), 4);
}

TEST(text_stage_drops_line_breaks_after_marker_tokens) {
  ReasoningParams reasoning;
  reasoning.open = {"<think>", 100};
  reasoning.close = {"</think>", 101};
  Collected got;
  OutputParser stage(reasoning, {}, {"\n"}, true);
  TokenLogprobs entry;
  const auto push = [&](TokenId token, std::string_view bytes) {
    entry.token = token;
    return stage.push(token, bytes, &entry, got);
  };
  CHECK_EQ(push(100, "<think>"), -1);
  CHECK_EQ(push(1, "\n"), -1);
  CHECK_EQ(push(2, "\r\nwhy"), -1);
  CHECK_EQ(push(3, "\n"), -1);
  CHECK_EQ(got.reasoning, "why");
  CHECK_EQ(got.n_tokens, 2);
  CHECK_EQ(push(101, "</think>"), -1);
  CHECK_EQ(push(4, "\n"), -1);  // Not the stop string, because the line break is not part of the content.
  CHECK_EQ(push(5, "\n47"), -1);
  CHECK_EQ(push(6, " - 45"), -1);
  CHECK_EQ(push(7, "\n"), 0);
  CHECK_EQ(got.content, "47 - 45");
  CHECK_EQ(got.n_tokens, 6);
  CHECK(got.entries == (std::vector<TokenId>{5, 6}));
  CHECK_EQ(stage.reasoning_tokens(), 5);

  Collected plain;  // Without preceding reasoning, content keeps its line breaks.
  OutputParser other(reasoning, {}, {}, false);
  other.push(1, "\n", nullptr, plain);
  other.push(2, "\n47", nullptr, plain);
  CHECK_EQ(plain.content, "\n\n47");
}

// The close marker is searched for before line breaks are dropped, so that a marker that starts with a line break is
// found.
TEST(text_stage_finds_a_close_marker_that_starts_with_a_line_break) {
  ReasoningParams reasoning;
  reasoning.close.text = "\n</t>";
  reasoning.starts_inside = true;
  for (const std::string text : {"\n</t>\nb", "\n\na\n</t>b", "\n\n</t>\n\n", "\n</\na"})
    check_every_cut(text, {.reasoning = reasoning, .stops = {"\n"}});
}

TEST(text_stage_closes_reasoning_on_demand) {
  ReasoningParams reasoning;
  reasoning.close.text = "</think>";
  reasoning.starts_inside = true;
  Collected got;
  OutputParser stage(reasoning, {}, {}, false);
  stage.push(1, "so </thi", nullptr, got);
  CHECK_EQ(got.reasoning, "so ");
  stage.close_reasoning(got);
  CHECK_EQ(got.reasoning, "so </thi");
  stage.push(2, "\n", nullptr, got);
  stage.push(3, "nk>", nullptr, got);
  CHECK_EQ(got.content, "nk>");
}

TEST(text_stage_attaches_logprobs_to_the_delta_with_their_text) {
  Collected got;
  OutputParser stage({}, {}, {"END"}, true);
  const auto push = [&](TokenId token, std::string_view bytes) {
    TokenLogprobs entry;
    entry.token = token;
    return stage.push(token, bytes, &entry, got);
  };
  push(1, "a");
  push(2, "\xE6\xBC");  // Half a character.
  CHECK(got.entries == std::vector<TokenId>{1});
  push(3,
       "\xA2"
       "E");  // Completes the character, and may start a stop string.
  CHECK(got.entries == (std::vector<TokenId>{1, 2, 3}));
  push(4, "N");
  CHECK_EQ(push(5, "D"), 0);
  CHECK(got.entries == (std::vector<TokenId>{1, 2, 3}));  // No text of tokens 4 and 5 was emitted.
}

}  // namespace
}  // namespace monolith::testing
