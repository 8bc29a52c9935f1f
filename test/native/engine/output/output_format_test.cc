// Tests how a request's tool calls, headers and format are converted to tags: each is possible at the right place and
// keeps its grammar.
#include "engine/output/output_format.h"

#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "text/grammar/grammar.h"

namespace monolith {
namespace {

using Then = Tag::Then;
using Tokens = std::vector<TokenId>;

// Expected properties of a tag: its tokens and the state that follows them.
struct Expected {
  Tokens tokens;
  Then then;
  GrammarRef grammar = nullptr;
};

GrammarRef grammar_of(const std::string& word) {
  static const auto vocabulary = [] {
    std::vector<std::string> bytes;
    for (int c = 0; c < 256; ++c) bytes.emplace_back(1, static_cast<char>(c));
    return std::make_shared<const grammar::GrammarVocabulary>(bytes);
  }();
  grammar::GrammarOptions options;
  options.kind = grammar::GrammarOptions::Kind::kChoice;
  options.choices = {word};
  std::vector<grammar::SchemaProblem> problems;
  return grammar::Grammar::compile(options, vocabulary, {}, nullptr, problems);
}

void collect(const TagSet& tags, TagSet::Node node, std::vector<const Tag*>& out) {
  if (const Tag* const tag = tags.complete(node)) out.push_back(tag);
  for (const TokenId token : tags.next(node)) collect(tags, tags.advance(node, token), out);
}

// Returns whether the set consists of exactly these tags, in ascending order of their tokens.
bool has(const TagSet& tags, const std::vector<Expected>& expected) {
  std::vector<const Tag*> found;
  collect(tags, TagSet::kStart, found);
  if (found.size() != expected.size()) return false;
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i]->tokens != expected[i].tokens || found[i]->then != expected[i].then ||
        found[i]->grammar != expected[i].grammar)
      return false;
  return true;
}

// Tests two grammars: one for calls that start with token 9, and one for calls that start with token 2.
struct TwoCalls {
  const GrammarRef nine = grammar_of("nine"), two = grammar_of("two");
  GenerationRequest request;

  TwoCalls() {
    CallParams& calls = request.calls;
    calls.prefixes = {{9, 1}, {2}};
    calls.required = {{50, 9, 1}, {50, 2}};
    calls.starts = {{50, 9, 1}, {50, 2}};
    calls.grammars = {nine, two};
  }
};

TEST(beginnings_of_calls_keep_their_grammars) {
  const TwoCalls calls;
  const OutputFormat format(calls.request);
  CHECK(has(format.prefixes, {{{2}, Then::kCall, calls.two}, {{9, 1}, Then::kCall, calls.nine}}));
  CHECK(has(format.required, {{{50, 2}, Then::kCall, calls.two}, {{50, 9, 1}, Then::kCall, calls.nine}}));
  CHECK(has(format.starts, {{{50, 2}, Then::kCall, calls.two}, {{50, 9, 1}, Then::kCall, calls.nine}}));
  CHECK(format.next.empty() && format.heads.empty() && format.reasoning_end.empty());

  // If two prefixes are equal, the first one is used.
  TwoCalls alike;
  alike.request.calls.prefixes = {{9, 1}, {9, 1}};
  CHECK(has(OutputFormat(alike.request).prefixes, {{{9, 1}, Then::kCall, alike.nine}}));

  TwoCalls bare;
  bare.request.calls.grammars.clear();
  CHECK(has(OutputFormat(bare.request).starts, {{{50, 2}, Then::kCall}, {{50, 9, 1}, Then::kCall}}));
}

// A marker that is recognized by its token is followed by a prefix. The grammar applies only after this prefix.
TEST(a_marker_token_has_no_grammar) {
  const GrammarRef only = grammar_of("only");
  GenerationRequest request;
  request.calls.open = {"<call>", 50};
  request.calls.prefixes = {{9}};
  request.calls.grammars = {only};
  const OutputFormat format(request);
  CHECK(has(format.starts, {{{50}, Then::kCall}}));
  CHECK(has(format.prefixes, {{{9}, Then::kCall, only}}));

  // Two calls with the same marker are distinguished by the tokens after it.
  TwoCalls calls;
  calls.request.calls.open = {"<call>", 50};
  CHECK(has(OutputFormat(calls.request).starts,
            {{{50, 2}, Then::kCall, calls.two}, {{50, 9, 1}, Then::kCall, calls.nine}}));

  request.calls.open = {"call:", kNoToken};
  request.calls.starts = {{40, 41}};
  CHECK(has(OutputFormat(request).starts, {{{40, 41}, Then::kCall, only}}));
  request.calls.open = {};
  request.calls.starts.clear();
  CHECK(OutputFormat(request).starts.empty());
}

TEST(further_calls_have_their_grammar_and_the_end_has_none) {
  TwoCalls calls;
  calls.request.calls.next = {{70, 9}, {70, 2}, {60, 9}, {60, 2}, {80, 9}};
  calls.request.calls.end = {65};
  CHECK(has(OutputFormat(calls.request).next, {{{60, 2}, Then::kCall, calls.two},
                                               {{60, 9}, Then::kCall, calls.nine},
                                               {{65}, Then::kCallsEnd},
                                               {{70, 2}, Then::kCall, calls.two},
                                               {{70, 9}, Then::kCall, calls.nine},
                                               {{80, 9}, Then::kCall, calls.nine}}));
}

TEST(a_content_header_is_a_beginning_without_a_grammar) {
  TwoCalls calls;
  calls.request.calls.answer = {5};
  calls.request.calls.answer_start = {50, 5};
  const OutputFormat format(calls.request);
  CHECK(has(format.prefixes, {{{2}, Then::kCall, calls.two}, {{5}, Then::kAnswer}, {{9, 1}, Then::kCall, calls.nine}}));
  CHECK(has(format.starts,
            {{{50, 2}, Then::kCall, calls.two}, {{50, 5}, Then::kAnswer}, {{50, 9, 1}, Then::kCall, calls.nine}}));
  // Where a call is required, the header of the content must not be accepted.
  CHECK(has(format.required, {{{50, 2}, Then::kCall, calls.two}, {{50, 9, 1}, Then::kCall, calls.nine}}));

  // A marker that is recognized only by its text has no prefixes, so none are added.
  calls.request.calls.prefixes.clear();
  CHECK(OutputFormat(calls.request).prefixes.empty());
}

TEST(a_format_header_is_a_beginning_followed_by_the_format) {
  TwoCalls calls;
  calls.request.format = grammar_of("format");
  calls.request.format_head = {50, 7};
  CHECK(has(OutputFormat(calls.request).heads, {{{50, 2}, Then::kCall, calls.two},
                                                {{50, 7}, Then::kFormat, calls.request.format},
                                                {{50, 9, 1}, Then::kCall, calls.nine}}));

  // Calls have no grammar.
  calls.request.calls.grammars.clear();
  CHECK(has(OutputFormat(calls.request).heads,
            {{{50, 2}, Then::kCall}, {{50, 7}, Then::kFormat, calls.request.format}, {{50, 9, 1}, Then::kCall}}));
  // Without a header, the content starts with the format. Without a format, there is no header.
  calls.request.format_head.clear();
  CHECK(OutputFormat(calls.request).heads.empty());
  calls.request.format_head = {50, 7};
  calls.request.format = nullptr;
  CHECK(OutputFormat(calls.request).heads.empty());
}

TEST(the_end_of_the_reasoning_is_a_tag) {
  GenerationRequest request;
  request.reasoning.close_sequence = {3, 4};
  CHECK(has(OutputFormat(request).reasoning_end, {{{3, 4}, Then::kReasoningEnd}}));
}

}  // namespace
}  // namespace monolith
