// Tests the preparation of a request before it is queued: call prefixes are sorted in the order that forced sequences
// require, and each stays with its grammar.
#include "engine/sequence.h"

#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "text/grammar/grammar.h"

namespace monolith {
namespace {

using Alternatives = std::vector<std::vector<TokenId>>;
using Grammars = std::vector<GrammarRef>;

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

struct Calls : Request {
  explicit Calls(GenerationRequest request) : Request(1, nullptr, with_prompt(std::move(request)), 1000, 100) {}
  static GenerationRequest with_prompt(GenerationRequest request) {
    request.prompt = {1};
    request.max_tokens = 10;
    return request;
  }
};

// Two grammars: one for calls that start with token 9, and one for calls that start with token 2.
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

TEST(beginnings_of_calls_are_sorted_with_their_grammars) {
  const TwoCalls two_calls;
  const Calls made(two_calls.request);
  const Grammars sorted = {two_calls.two, two_calls.nine};
  CHECK(made.params.calls.prefixes == Alternatives({{2}, {9, 1}}));
  CHECK(made.params.calls.required == Alternatives({{50, 2}, {50, 9, 1}}));
  CHECK(made.params.calls.starts == Alternatives({{50, 2}, {50, 9, 1}}));
  CHECK(made.call_grammars.prefixes == sorted);
  CHECK(made.call_grammars.required == sorted);
  CHECK(made.call_grammars.starts == sorted);
  CHECK(made.call_grammars.next.empty() && made.call_grammars.heads.empty());

  // If two prefixes are equal, the first one is used.
  TwoCalls alike;
  alike.request.calls.prefixes = {{9, 1}, {9, 1}};
  CHECK(Calls(alike.request).call_grammars.prefixes == Grammars({alike.nine, alike.two}));

  // Without grammars, only the order matters.
  TwoCalls bare;
  bare.request.calls.grammars.clear();
  const Calls free(bare.request);
  CHECK(free.params.calls.prefixes == Alternatives({{2}, {9, 1}}));
  CHECK(free.call_grammars.prefixes.empty() && free.call_grammars.required.empty() &&
        free.call_grammars.starts.empty());
}

// A marker that is recognized by its token is followed by a prefix, and the grammar applies only after the prefix.
TEST(a_marker_token_has_no_grammar) {
  const GrammarRef only = grammar_of("only");
  GenerationRequest request;
  request.calls.open = {"<call>", 50};
  request.calls.prefixes = {{9}};
  request.calls.grammars = {only};
  const Calls made(request);
  CHECK(made.params.calls.starts == Alternatives({{50}}));
  CHECK(made.call_grammars.starts.empty());
  CHECK(made.call_grammars.prefixes == Grammars({only}));

  // Two calls with the same marker are distinguished by the tokens after it.
  TwoCalls two_calls;
  two_calls.request.calls.open = {"<call>", 50};
  CHECK(Calls(two_calls.request).call_grammars.starts == Grammars({two_calls.two, two_calls.nine}));

  request.calls.open = {"call:", kNoToken};
  request.calls.starts = {{40, 41}};
  CHECK(Calls(request).call_grammars.starts == Grammars({only}));
  request.calls.open = {};
  request.calls.starts.clear();
  CHECK(Calls(request).params.calls.starts.empty());
}

TEST(further_calls_have_their_grammar_and_the_end_has_none) {
  TwoCalls two_calls;
  CallParams& calls = two_calls.request.calls;
  calls.next = {{70, 9}, {70, 2}, {60, 9}, {60, 2}, {80, 9}};
  calls.end = {65};
  const Calls made(two_calls.request);
  CHECK(made.params.calls.next == Alternatives({{60, 2}, {60, 9}, {65}, {70, 2}, {70, 9}, {80, 9}}));
  CHECK(made.call_grammars.next ==
        Grammars({two_calls.two, two_calls.nine, nullptr, two_calls.two, two_calls.nine, two_calls.nine}));
  CHECK_EQ(made.call_grammars.end, size_t{2});
}

TEST(a_content_header_is_a_beginning_without_a_grammar) {
  TwoCalls two_calls;
  CallParams& calls = two_calls.request.calls;
  calls.answer = {5};
  calls.answer_start = {50, 5};
  const Calls made(two_calls.request);
  const Grammars sorted = {two_calls.two, nullptr, two_calls.nine};
  CHECK(made.params.calls.prefixes == Alternatives({{2}, {5}, {9, 1}}));
  CHECK(made.params.calls.starts == Alternatives({{50, 2}, {50, 5}, {50, 9, 1}}));
  CHECK(made.call_grammars.prefixes == sorted);
  CHECK(made.call_grammars.starts == sorted);
  CHECK_EQ(made.call_grammars.prefix_answer, size_t{1});
  CHECK_EQ(made.call_grammars.start_answer, size_t{1});
  // A required call cannot be the header of the content.
  CHECK(made.call_grammars.required == Grammars({two_calls.two, two_calls.nine}));
  CHECK_EQ(Calls(TwoCalls().request).call_grammars.prefix_answer, SIZE_MAX);

  // A marker that is recognized only by its text has no prefixes, and none are added.
  calls.prefixes.clear();
  CHECK(Calls(two_calls.request).params.calls.prefixes.empty());
  // Without grammars, nothing follows a prefix, including the header.
  calls.grammars.clear();
  CHECK(Calls(two_calls.request).call_grammars.starts.empty());
}

TEST(a_format_header_is_a_beginning_followed_by_the_format) {
  TwoCalls two_calls;
  two_calls.request.format = grammar_of("format");
  two_calls.request.format_head = {50, 7};
  const Calls made(two_calls.request);
  CHECK(made.call_grammars.heads == Alternatives({{50, 2}, {50, 7}, {50, 9, 1}}));
  CHECK(made.call_grammars.headed == Grammars({two_calls.two, two_calls.request.format, two_calls.nine}));
  CHECK_EQ(made.call_grammars.format_head, size_t{1});

  // Calls have no grammar.
  two_calls.request.calls.grammars.clear();
  CHECK(Calls(two_calls.request).call_grammars.headed == Grammars({nullptr, two_calls.request.format, nullptr}));
  // Without a header, the content starts with the format, and without a format, there is no header.
  two_calls.request.format_head.clear();
  CHECK(Calls(two_calls.request).call_grammars.heads.empty());
  two_calls.request.format_head = {50, 7};
  two_calls.request.format = nullptr;
  CHECK(Calls(two_calls.request).call_grammars.heads.empty());
}

// A required call takes precedence over a format.
TEST(the_required_start_of_the_content_is_due_once) {
  const auto due = [](bool call, bool format) {
    GenerationRequest request;
    if (call) request.calls.required = {{9}};
    if (format) request.format = grammar_of("format");
    const Calls made(request);
    return std::pair(made.choices[0]->call_due, made.choices[0]->format_due);
  };
  CHECK(due(false, false) == std::pair(false, false));
  CHECK(due(true, false) == std::pair(true, false));
  CHECK(due(false, true) == std::pair(false, true));
  CHECK(due(true, true) == std::pair(true, false));
}

// The repetition penalty also counts prompt tokens; the other penalties count only generated tokens. Embedding rows do
// not count as tokens.
TEST(the_repetition_penalty_counts_prompt_tokens) {
  const auto counted = [](float repetition, float frequency) {
    GenerationRequest request;
    request.prompt = {1, 2, 3, 4, 5};
    request.max_tokens = 10;
    request.sampling.repetition_penalty = repetition;
    request.sampling.frequency_penalty = frequency;
    request.spans = {{.first = 1, .n_rows = 2, .hash = {1, 1}, .rows = {}, .bidirectional = false}};
    const Request made(1, nullptr, request, 1000, 100);
    std::string tokens;
    made.choices[0]->allocate();
    for (const UsedToken& used : made.choices[0]->counts.entries()) tokens += static_cast<char>('0' + used.token);
    return tokens;
  };
  CHECK_EQ(counted(2, 0), std::string("145"));
  CHECK_EQ(counted(1, 1), std::string());
}

// At most as many tokens are generated as fit in the context.
TEST(the_maximum_length_is_bounded_by_the_context) {
  GenerationRequest request;
  request.prompt = std::vector<TokenId>(30, 1);
  request.max_tokens = 20;
  CHECK_EQ(Request(1, nullptr, request, 1000, 51).max_length, 50);
  CHECK_EQ(Request(1, nullptr, request, 1000, 40).max_length, 40);
}

}  // namespace
}  // namespace monolith
