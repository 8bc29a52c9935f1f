// The streaming text stage against the obvious algorithm over the whole text, at every way to cut it.
#include "engine/text_stage.h"

#include <algorithm>
#include <random>

#include "check.h"

namespace monolith {
namespace {

struct Collected final : PieceSink {
  std::string content, reasoning;
  int n_tokens = 0;
  std::vector<TokenId> entries;   // of logprobs, in order
  void piece(Section section, std::string_view text, int n, std::span<const TokenLogprobs> logprobs) override {
    CHECK(!text.empty());
    (section == Section::kContent ? content : reasoning) += text;
    n_tokens += n;
    for (const TokenLogprobs& entry : logprobs) entries.push_back(entry.token);
  }
};

std::string show(const std::string& text) { return "'" + text + "'"; }

// A section's text within the whole: line breaks from `begin`, then what is shown from `shown` to `end`.
struct Range {
  size_t begin = 0, shown = 0, end = 0;
};

// The definition: reasoning by spelled markers, without line breaks around them, then the stop string that
// ends first, the longest of those that end together.
struct Expected {
  std::string content, reasoning;
  int stop = -1;
  Range content_at, reasoning_at;
};

Range without_line_breaks(const std::string& text, size_t begin, size_t end) {
  Range range{begin, begin, end};
  while (range.shown < end && (text[range.shown] == '\n' || text[range.shown] == '\r')) ++range.shown;
  return range;
}

Expected one_shot(const std::string& text, const ReasoningParams& reasoning, const std::vector<std::string>& stops) {
  Expected expected;
  Range& at = expected.content_at;
  at.end = text.size();
  bool inside = reasoning.starts_inside;
  size_t open_end = 0;
  if (!inside && !reasoning.open.text.empty()) {
    const size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    inside = start <= 32 && text.compare(start, reasoning.open.text.size(), reasoning.open.text) == 0;
    if (inside) open_end = start + reasoning.open.text.size();
  }
  if (inside) {
    const size_t close = reasoning.close.text.empty() ? std::string::npos : text.find(reasoning.close.text, open_end);
    expected.reasoning_at = without_line_breaks(text, open_end, std::min(close, text.size()));
    const size_t begin = close == std::string::npos ? text.size() : close + reasoning.close.text.size();
    at = without_line_breaks(text, begin, text.size());
  }
  for (size_t end = at.shown + 1; end <= text.size() && expected.stop < 0; ++end) {
    for (size_t i = 0; i < stops.size(); ++i) {
      if (!std::string_view(text).substr(at.shown, end - at.shown).ends_with(stops[i])) continue;
      if (expected.stop < 0 || stops[i].size() > stops[static_cast<size_t>(expected.stop)].size())
        expected.stop = static_cast<int>(i);
    }
    if (expected.stop >= 0) at.end = end - stops[static_cast<size_t>(expected.stop)].size();
  }
  expected.content = text.substr(at.shown, at.end - at.shown);
  const Range& before = expected.reasoning_at;
  expected.reasoning = text.substr(before.shown, before.end - before.shown);
  return expected;
}

// What becomes of the token whose bytes are text[begin, end).
struct TokenFate {
  bool counted = false, has_entry = false;
};

TokenFate fate_of(const std::string& text, size_t begin, size_t end, const Expected& expected) {
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;   // its character's start
  const Range& reasoning = expected.reasoning_at;
  const Range& content = expected.content_at;
  const bool in_reasoning = !expected.reasoning.empty() && begin < reasoning.end && end > reasoning.shown;
  const bool in_content = !expected.content.empty() && begin < content.end && end > content.shown;
  const auto only_breaks = [&](const Range& range) { return end > range.begin && end <= range.shown; };
  const bool left_out = (only_breaks(reasoning) && !(expected.reasoning + expected.content).empty()) ||
                        (only_breaks(content) && !expected.content.empty());
  return {in_reasoning || in_content || left_out, in_content && !in_reasoning};
}

// Feeds `text` cut before each position whose bit is set.
void check_cut(const std::string& text, const ReasoningParams& reasoning, const std::vector<std::string>& stops,
               uint64_t cuts) {
  const Expected expected = one_shot(text, reasoning, stops);
  Collected got;
  TextStage stage(reasoning, stops, true);
  int stop = -1, n_tokens = 0, n_counted = 0;
  std::vector<TokenId> entries;
  for (size_t begin = 0; begin < text.size() && stop < 0;) {
    size_t end = begin + 1;
    while (end < text.size() && !(cuts >> (end % 64) & 1)) ++end;
    TokenLogprobs entry;
    entry.token = n_tokens;
    const TokenFate fate = fate_of(text, begin, end, expected);
    n_counted += fate.counted;
    if (fate.has_entry) entries.push_back(n_tokens);
    stop = stage.push(n_tokens++, std::string_view(text).substr(begin, end - begin), &entry, got);
    begin = end;
  }
  if (stop < 0) stop = stage.finish(got);
  if (got.content != expected.content || got.reasoning != expected.reasoning || stop != expected.stop) {
    check::fail(__FILE__, __LINE__, show(text) + " cut " + std::to_string(cuts) + ": content " + show(got.content) +
                                        " instead of " + show(expected.content) + ", reasoning " + show(got.reasoning) +
                                        " instead of " + show(expected.reasoning) + ", stop " + std::to_string(stop));
  }
  if (got.entries != entries || got.n_tokens != n_counted) {
    check::fail(__FILE__, __LINE__, show(text) + " cut " + std::to_string(cuts) + ": " +
                                        std::to_string(got.entries.size()) + " entries instead of " +
                                        std::to_string(entries.size()) + ", " + std::to_string(got.n_tokens) +
                                        " tokens instead of " + std::to_string(n_counted));
  }
}

TEST(text_stage_stop_strings_at_every_cut) {
  const std::vector<std::vector<std::string>> stop_sets = {
      {}, {"b"}, {"abc"}, {"aab"}, {"abab"}, {"abcd", "bc"}, {"c", "abc"}, {"ä"}, {"bä"}, {"aaaa", "ab", "caab"}};
  for (const std::string text : {"", "a", "abc", "aaabc", "ababab", "xabcd", "aabaaab", "caaab", "baäb", "äbäc"})
    for (const auto& stops : stop_sets)
      for (uint64_t cuts = 0; cuts < 1u << text.size(); ++cuts) check_cut(text, {}, stops, cuts);
}

TEST(text_stage_spelled_markers_at_every_cut) {
  for (const bool inside : {false, true}) {
    ReasoningParams reasoning;
    reasoning.open.text = "<t>";
    reasoning.close.text = "</t>";
    reasoning.starts_inside = inside;
    for (const std::string text : {"<t>ab</t>c", " \n<t>a</t>", "<<t></t>", "a<t>b</t>", "<t>a</</t>b", "</t></t>x",
                                   "<t>sss</t>sx", "<t", "  ", "a</t>a<t>b"}) {
      for (uint64_t cuts = 0; cuts < 1u << text.size(); ++cuts) {
        check_cut(text, reasoning, {}, cuts);
        check_cut(text, reasoning, {"s"}, cuts);        // not applied inside reasoning
        check_cut(text, reasoning, {"<t>", "</"}, cuts);
      }
    }
  }
}

TEST(text_stage_line_breaks_at_markers_at_every_cut) {
  ReasoningParams reasoning;
  reasoning.open.text = "<t>";
  reasoning.close.text = "</t>";
  for (const std::string text : {"<t>\na\n</t>\n\r\nb\nc", "<t>\n</t>\n\nb\n", "<t></t>\n", "<t>\n\n", "\n\nb\nc",
                                 "<t>\n</</t>\n \nb", "<t>\nä</t>\nä"}) {
    for (uint64_t cuts = 0; cuts < 1u << text.size(); ++cuts) {
      check_cut(text, reasoning, {}, cuts);
      check_cut(text, reasoning, {"\n", "\nb"}, cuts);
      check_cut(text, {}, {"\n\n"}, cuts);
    }
  }
}

TEST(text_stage_random_texts_and_cuts) {
  std::mt19937_64 random(11);
  const std::vector<std::string> parts = {"a", "b", "<", "<t>", "</t>", "/", "t>", " ", "ä", "漢", "🙂", "\n", "ab"};
  for (int round = 0; round < 20'000; ++round) {
    ReasoningParams reasoning;
    if (random() % 2) reasoning.open.text = "<t>";
    if (random() % 2) reasoning.close.text = "</t>";
    reasoning.starts_inside = random() % 3 == 0;
    std::vector<std::string> stops;
    for (uint64_t n = random() % 4; n > 0; --n) {
      std::string stop;
      for (uint64_t i = 1 + random() % 3; i > 0; --i) stop += parts[random() % parts.size()];
      stops.push_back(stop);
    }
    std::string text;
    for (uint64_t i = random() % 14; i > 0; --i) text += parts[random() % parts.size()];
    check_cut(text, reasoning, stops, random());
    check_cut(text, reasoning, stops, ~uint64_t{0});
  }
}

TEST(text_stage_releases_what_cannot_match_any_more) {
  Collected got;
  TextStage stage({}, {"stop!"}, false);
  stage.push(0, "a st", nullptr, got);
  CHECK_EQ(got.content, "a ");
  CHECK_EQ(got.n_tokens, 1);
  stage.push(1, "op", nullptr, got);
  CHECK_EQ(got.content, "a ");
  CHECK_EQ(got.n_tokens, 1);
  stage.push(2, "sts", nullptr, got);
  CHECK_EQ(got.content, "a stopst");   // the last s may begin anew
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
  TextStage stage(reasoning, {"x"}, false);
  stage.push(1, "\n", nullptr, got);
  CHECK_EQ(got.content, "");
  stage.push(100, "<think>", nullptr, got);
  CHECK(stage.in_reasoning());
  stage.push(2, "a </think> x \xC3", nullptr, got);   // spelled: text, when the marker is a token
  CHECK_EQ(got.reasoning, "a </think> x ");
  stage.push(101, "</think>", nullptr, got);
  CHECK_EQ(got.reasoning, "a </think> x \xEF\xBF\xBD");   // a character cut by the marker
  CHECK_EQ(stage.reasoning_tokens(), 4);
  stage.push(3, "<think>", nullptr, got);
  stage.push(100, "<think>", nullptr, got);   // never back: a user-defined token is its text
  CHECK_EQ(got.content, "<think><think>");
  CHECK(!stage.in_reasoning());
  stage.push(102, "", nullptr, got);          // a control token
  CHECK_EQ(stage.push(4, "\xC3\xA4x", nullptr, got), 0);
  CHECK_EQ(got.content, "<think><think>\xC3\xA4");
  CHECK_EQ(stage.reasoning_tokens(), 4);
}

TEST(text_stage_leaves_out_line_breaks_behind_marker_tokens) {
  ReasoningParams reasoning;
  reasoning.open = {"<think>", 100};
  reasoning.close = {"</think>", 101};
  Collected got;
  TextStage stage(reasoning, {"\n"}, true);
  TokenLogprobs entry;
  const auto push = [&](TokenId token, std::string_view bytes) {
    entry.token = token;
    return stage.push(token, bytes, &entry, got);
  };
  CHECK_EQ(push(100, "<think>"), -1);
  CHECK_EQ(push(1, "\n"), -1);
  CHECK_EQ(push(2, "\r\nwhy"), -1);
  CHECK_EQ(push(3, "\n"), -1);
  CHECK_EQ(got.reasoning, "why\n");
  CHECK_EQ(got.n_tokens, 3);
  CHECK_EQ(push(101, "</think>"), -1);
  CHECK_EQ(push(4, "\n"), -1);   // not the stop string: it is no part of the content
  CHECK_EQ(push(5, "\n47"), -1);
  CHECK_EQ(push(6, " - 45"), -1);
  CHECK_EQ(push(7, "\n"), 0);
  CHECK_EQ(got.content, "47 - 45");
  CHECK_EQ(got.n_tokens, 6);
  CHECK(got.entries == (std::vector<TokenId>{5, 6}));
  CHECK_EQ(stage.reasoning_tokens(), 5);

  Collected plain;   // without reasoning before it, content keeps its own
  TextStage other(reasoning, {}, false);
  other.push(1, "\n", nullptr, plain);
  other.push(2, "\n47", nullptr, plain);
  CHECK_EQ(plain.content, "\n\n47");
}

// The close marker is looked for before line breaks are left out: one that begins with them is found.
TEST(text_stage_close_marker_that_begins_with_a_line_break) {
  ReasoningParams reasoning;
  reasoning.close.text = "\n</t>";
  reasoning.starts_inside = true;
  for (const std::string text : {"\n</t>\nb", "\n\na\n</t>b", "\n\n</t>\n\n", "\n</\na"})
    for (uint64_t cuts = 0; cuts < 1u << text.size(); ++cuts) check_cut(text, reasoning, {"\n"}, cuts);
}

TEST(text_stage_closes_reasoning_on_demand) {
  ReasoningParams reasoning;
  reasoning.close.text = "</think>";
  reasoning.starts_inside = true;
  Collected got;
  TextStage stage(reasoning, {}, false);
  stage.push(1, "so </thi", nullptr, got);
  CHECK_EQ(got.reasoning, "so ");
  stage.close_reasoning(got);
  CHECK_EQ(got.reasoning, "so </thi");
  stage.push(2, "\n", nullptr, got);
  stage.push(3, "nk>", nullptr, got);
  CHECK_EQ(got.content, "nk>");
}

TEST(text_stage_attaches_logprobs_to_the_piece_that_releases_their_text) {
  Collected got;
  TextStage stage({}, {"END"}, true);
  const auto push = [&](TokenId token, std::string_view bytes) {
    TokenLogprobs entry;
    entry.token = token;
    return stage.push(token, bytes, &entry, got);
  };
  push(1, "a");
  push(2, "\xE6\xBC");   // half a character
  CHECK(got.entries == std::vector<TokenId>{1});
  push(3, "\xA2" "E");   // completes it, and may begin a stop string
  CHECK(got.entries == (std::vector<TokenId>{1, 2, 3}));
  push(4, "N");
  CHECK_EQ(push(5, "D"), 0);
  CHECK(got.entries == (std::vector<TokenId>{1, 2, 3}));   // no text of 4 and 5 was released
}

}  // namespace
}  // namespace monolith
