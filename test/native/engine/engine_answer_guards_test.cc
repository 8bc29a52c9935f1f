// Tests the guards that keep responses well-formed: markers are sampled only where they are valid, and endless
// repetition ends a response.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/output/section_bans.h"
#include "engine_fixture.h"

namespace monolith::testing {
namespace {

constexpr TokenId kOpen = 301, kClose = 302, kSaid = 303;

GenerationRequest simple_request(int prompt_tokens, int max_tokens, int family) {
  GenerationRequest request;
  request.prompt = test_prompt(prompt_tokens, family);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.seed = 5;
  return request;
}

// Logit biases make the model prefer first its close marker, then its open marker, then one word that it repeats
// forever.
GenerationRequest eager_request(const Engine& engine, int budget) {
  GenerationRequest request = simple_request(5, 40, 1);
  const auto marker = [&](TokenId token) { return Marker{std::string(engine.tokenizer().bytes(token)), token}; };
  request.reasoning.open = marker(kOpen);
  request.reasoning.close = marker(kClose);
  request.reasoning.budget = budget;
  request.sampling.logit_bias = {{kClose, 100.0f}, {kOpen, 90.0f}, {kSaid, 80.0f}};
  request.sampling.temperature = 0;
  return request;
}

std::string times(std::string_view text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// Covers synchronous steps, asynchronous steps as on a device, and speculative decoding in every step.
std::vector<EngineSetup> setups() {
  std::vector<EngineSetup> all(3);
  all[1].asynchronous = true;
  all[2].options.speculation = Speculation::kAlways;
  return all;
}

ChoiceOutcome outcome_of(Engine& engine, Consumer& consumer, const GenerationRequest& request) {
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  CHECK(!engine.tokenizer().is_end_of_generation(kSaid));
  return consumer.outcomes()[id].choices[0];
}

void check_markers(const EngineSetup& setup) {
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  const std::string said(engine->tokenizer().bytes(kSaid));
  for (const int budget : {-1, 30}) {
    GenerationRequest request = eager_request(*engine, budget);
    request.markers_in_place = true;
    const ChoiceOutcome thinking = outcome_of(*engine, consumer, request);
    CHECK_EQ(thinking.content, times(said, 38));
    CHECK_EQ(thinking.reasoning_tokens, 2u);
    CHECK_EQ(thinking.completion_tokens, 40u);
  }
  GenerationRequest request = eager_request(*engine, 0);
  request.markers_in_place = true;
  const ChoiceOutcome plain = outcome_of(*engine, consumer, request);
  CHECK_EQ(plain.content, times(said, 40));
  CHECK_EQ(plain.reasoning_tokens, 0u);
  // If the engine did not ban the markers, they would appear in the response.
  const ChoiceOutcome loose = outcome_of(*engine, consumer, eager_request(*engine, 0));
  CHECK(loose.content.find(engine->tokenizer().bytes(kClose)) != std::string::npos);
}

void check_loops(const EngineSetup& setup) {
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest request = simple_request(5, 60, 1);
  request.sampling.logit_bias = {{kSaid, 100.0f}};
  const std::string said(engine->tokenizer().bytes(kSaid));
  const ChoiceOutcome free = outcome_of(*engine, consumer, request);
  CHECK_EQ(free.content, times(said, 60));
  CHECK(free.reason == FinishReason::kMaxTokens);
  request.max_repeats = 3;
  const ChoiceOutcome ended = outcome_of(*engine, consumer, request);
  CHECK_EQ(ended.content, times(said, 16));
  CHECK_EQ(ended.completion_tokens, 16u);
  CHECK(ended.reason == FinishReason::kRepetition);
}

}  // namespace

TEST(markers_are_sampled_only_where_they_are_valid) {
  for (const EngineSetup& setup : setups()) check_markers(setup);
}

// The list of banned tokens changes after a marker that is a draft token. Tokens from an unconstrained response serve
// as markers, and a draft model with the same weights predicts all of them.
TEST(marker_bans_apply_to_draft_tokens) {
  EngineSetup plain, drafting;
  drafting.draft = plain.model;
  drafting.options.speculation = Speculation::kAlways;
  auto engine = start_engine(plain), drafter = start_engine(drafting);
  if (!engine || !drafter) return;
  Consumer consumer(*engine), other(*drafter);
  int compared = 0;
  for (int family = 0; family < 8; ++family) {
    GenerationRequest request = simple_request(20, 24, family);
    request.sampling.temperature = 0;
    request.return_tokens = true;
    const std::vector<TokenId> free = outcome_of(*engine, consumer, request).tokens;
    // A token can serve as a marker if it is text and does not occur earlier in the response.
    const auto may_mark = [&](size_t at) {
      const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
      const auto here = free.begin() + static_cast<ptrdiff_t>(at);
      return std::find(free.begin(), here, *here) == here &&
             std::ranges::all_of(engine->tokenizer().bytes(*here), is_ascii);
    };
    for (size_t at = 2; at + 1 < free.size(); ++at) {
      if (!may_mark(at) || !may_mark(at + 1)) continue;
      const auto marker = [&](TokenId token) { return Marker{std::string(engine->tokenizer().bytes(token)), token}; };
      GenerationRequest bound = request;
      bound.reasoning.starts_inside = true;
      bound.reasoning.close = marker(free[at]);
      bound.calls.open = marker(kOpen);
      bound.calls.close = marker(free[at + 1]);  // This marker is not allowed in the content.
      bound.markers_in_place = true;
      const ChoiceOutcome expected = outcome_of(*engine, consumer, bound), got = outcome_of(*drafter, other, bound);
      REQUIRE(expected.tokens.size() == free.size());
      CHECK(expected.tokens[at] == free[at] && expected.tokens[at + 1] != free[at + 1]);
      CHECK(got.tokens == expected.tokens);
      ++compared;
    }
  }
  check::note(std::to_string(compared) + " compared");
  CHECK(compared > 10);
}

TEST(a_response_that_repeats_itself_ends) {
  for (const EngineSetup& setup : setups()) check_loops(setup);
}

TEST(close_markers_are_banned_outside_calls_and_end_tokens_never) {
  auto engine = start_engine({});
  if (!engine) return;
  GenerationRequest request = simple_request(5, 4, 1);
  request.sampling.banned = {7};
  request.calls.open.token = kOpen;
  request.calls.close.token = kClose;
  CHECK(!make_bans(request, engine->tokenizer()).always.any());
  request.markers_in_place = true;
  const SectionBans bans = make_bans(request, engine->tokenizer()).always;
  CHECK((bans.content == std::vector<TokenId>{7, kClose}));
  CHECK((bans.undecided == std::vector<TokenId>{7, kClose}));
  CHECK((bans.call == std::vector<TokenId>{7}));
  CHECK((bans.reasoning == std::vector<TokenId>{7}));
  request.calls.close.token = engine->tokenizer().eos();
  CHECK((make_bans(request, engine->tokenizer()).always.content == std::vector<TokenId>{7}));
}

}  // namespace monolith::testing
