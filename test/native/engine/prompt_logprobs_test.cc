// Tests the logprobs of prompt tokens, minimum response lengths, and the reported IDs of generated tokens.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine_fixture.h"

namespace monolith::testing {
namespace {

GenerationRequest scored(std::vector<TokenId> prompt, int top, int max_tokens = 0) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.output = max_tokens == 0 ? OutputKind::kLogprobs : OutputKind::kTokens;
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  request.sampling.prompt_logprobs = top;
  return request;
}

// Reference values in double precision, computed from one pass of the model: the logprob of each prompt token, and the
// most likely token at its position.
struct Expected {
  double logprob;
  TokenId best;
};
std::vector<Expected> expected_of(const EngineSetup& setup, const std::vector<TokenId>& prompt) {
  EngineSetup wide = setup;
  wide.limits.max_logit_rows = wide.limits.max_batch_tokens = 256;
  EngineParts parts = load_parts(wide);
  std::vector<Expected> expected;
  if (!parts.model) return expected;
  const auto n = static_cast<int>(prompt.size()), n_vocab = parts.model->params().n_vocab;
  std::vector<int32_t> rows, pages;
  for (int i = 0; i < n; ++i) rows.push_back(i);
  for (int i = 0; i < n / kPageTokens + 1; ++i) pages.push_back(i);
  const Segment segment{.first_row = 0, .n_tokens = n, .first_position = 0, .pages = pages.data()};
  const float* logits = parts.model->forward({.tokens = prompt, .segments = {&segment, 1}, .logit_rows = rows});
  for (int i = 0; i + 1 < n; ++i, logits += n_vocab) {
    const float most = *std::max_element(logits, logits + n_vocab);
    double sum = 0;
    for (int token = 0; token < n_vocab; ++token) sum += std::exp(double{logits[token]} - most);
    const auto best = static_cast<TokenId>(std::max_element(logits, logits + n_vocab) - logits);
    expected.push_back({logits[prompt[static_cast<size_t>(i) + 1]] - most - std::log(sum), best});
  }
  return expected;
}

bool same_bits(const std::vector<std::pair<TokenId, float>>& a, const std::vector<std::pair<TokenId, float>>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

TEST(engine_reports_prompt_logprobs) {
  const std::vector<TokenId> prompt = test_prompt(100, 1);
  const std::vector<Expected> expected = expected_of({}, prompt);
  if (expected.empty()) return;
  std::vector<std::pair<TokenId, float>> first;
  // Covers the smallest possible number of logit rows (one per sequence), overlapping steps, and different chunk sizes.
  for (const auto& [batch, logit_rows, overlaps] :
       {std::tuple{256, 4, false}, {24, 16, true}, {7, 5, false}, {256, 120, true}}) {
    EngineSetup setup;
    setup.asynchronous = overlaps;
    setup.limits.max_logit_rows = logit_rows;
    setup.options.max_batch_tokens = batch;
    setup.options.max_sequences = 4;
    auto engine = start_engine(setup);
    Consumer consumer(*engine);
    // The start of the prompt is already in the prefix cache.
    GenerationRequest before = scored(test_prompt(70, 1), -1, 4);
    consumer.pump_until_ended(consumer.submit(before));
    const RequestId id = consumer.submit(scored(prompt, 2));
    consumer.pump_until_ended(id);
    const Outcome& outcome = consumer.outcomes()[id];
    CHECK_EQ(outcome.cached_tokens, 0u);
    CHECK_EQ(outcome.prompt_entries, 99);
    CHECK_EQ(outcome.prompt.size(), size_t{3 * 99});
    CHECK(outcome.choices.at(0).reason == FinishReason::kMaxTokens);
    CHECK_EQ(outcome.choices.at(0).completion_tokens, 0u);
    for (size_t i = 0; i < expected.size() && outcome.prompt.size() == 3 * expected.size(); ++i) {
      const auto& [token, logprob] = outcome.prompt[3 * i];
      CHECK_EQ(token, prompt[i + 1]);
      CHECK(std::abs(logprob - expected[i].logprob) < 1e-4);
      CHECK_EQ(outcome.prompt[3 * i + 1].first, expected[i].best);
      CHECK(outcome.prompt[3 * i + 1].second >= outcome.prompt[3 * i + 2].second);
    }
    if (first.empty()) first = outcome.prompt;
    CHECK(same_bits(outcome.prompt, first));
    // Later requests reuse its pages.
    const RequestId next = consumer.submit(scored(prompt, -1, 2));
    consumer.pump_until_ended(next);
    CHECK_EQ(consumer.outcomes()[next].cached_tokens, 96u);
    CHECK(pages_come_back(*engine));
  }
}

TEST(prompt_logprobs_are_the_same_alone_and_in_a_batch) {
  EngineSetup setup;
  setup.options.max_batch_tokens = 48;
  setup.options.max_sequences = 6;
  const auto request = [](int family, int max_tokens) {
    GenerationRequest one = scored(test_prompt(60 + 9 * family, family), 1, max_tokens);
    one.sampling.top_logprobs = 1;
    one.n = max_tokens > 0 ? 2 : 1;
    one.organization = static_cast<uint64_t>(family % 2);
    return one;
  };
  std::vector<Outcome> alone;
  for (int family = 0; family < 6; ++family) {
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    const RequestId id = consumer.submit(request(family, family % 3 * 8));
    consumer.pump_until_ended(id);
    alone.push_back(consumer.outcomes()[id]);
    CHECK_EQ(alone.back().prompt_entries, 59 + 9 * family);
  }
  // With few pages, sequences are preempted and recomputed, but their logprobs are reported only once.
  for (const int64_t n_pages : {int64_t{256}, int64_t{18}}) {
    EngineSetup crowded = setup;
    crowded.limits.n_pages = n_pages;
    auto engine = start_engine(crowded);
    Consumer consumer(*engine);
    std::vector<RequestId> ids;
    for (int family = 0; family < 6; ++family) ids.push_back(consumer.submit(request(family, family % 3 * 8)));
    for (size_t i = 0; i < ids.size(); ++i) {
      consumer.pump_until_ended(ids[i]);
      const Outcome& outcome = consumer.outcomes()[ids[i]];
      CHECK(same_bits(outcome.prompt, alone[i].prompt));
      for (const auto& [index, choice] : outcome.choices)
        check_same(choice, alone[i].choices.at(index), "request " + std::to_string(i));
    }
    CHECK(pages_come_back(*engine));
  }
}

TEST(engine_ends_no_response_before_its_minimum_length) {
  for (const bool overlaps : {false, true}) {
    EngineSetup setup;
    setup.asynchronous = overlaps;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    GenerationRequest free = scored(test_prompt(40, 2), -1, 40);
    free.return_tokens = true;
    const RequestId plain = consumer.submit(free);
    consumer.pump_until_ended(plain);
    const ChoiceOutcome whole = consumer.outcomes()[plain].choices[0];
    CHECK_EQ(whole.tokens.size(), size_t{40});
    CHECK_EQ(whole.completion_tokens, 40u);

    // Without a minimum length, the third token ends the response.
    GenerationRequest ending = free;
    ending.stop_tokens = {whole.tokens[2]};
    const RequestId early = consumer.submit(ending);
    consumer.pump_until_ended(early);
    const ChoiceOutcome& cut = consumer.outcomes()[early].choices[0];
    CHECK(cut.reason == FinishReason::kEndOfTurn);
    // The IDs include the token that ended the response.
    CHECK(cut.tokens == std::vector<TokenId>(whole.tokens.begin(), whole.tokens.begin() + 3));
    ending.min_tokens = 12;
    const RequestId later = consumer.submit(ending);
    consumer.pump_until_ended(later);
    const ChoiceOutcome& held = consumer.outcomes()[later].choices[0];
    CHECK(held.completion_tokens >= 12);
    CHECK(std::find(held.tokens.begin(), held.tokens.begin() + 12, whole.tokens[2]) == held.tokens.begin() + 12);

    // Stop strings, too, take effect only after the minimum length.
    GenerationRequest stopping = free;
    stopping.stop = {whole.content.substr(0, 1)};
    stopping.min_tokens = 5;
    const RequestId stopped = consumer.submit(stopping);
    consumer.pump_until_ended(stopped);
    CHECK(consumer.outcomes()[stopped].choices[0].completion_tokens >= 6);
    stopping.min_tokens = 0;
    const RequestId at_once = consumer.submit(stopping);
    consumer.pump_until_ended(at_once);
    CHECK_EQ(consumer.outcomes()[at_once].choices[0].completion_tokens, 1u);
  }
}

}  // namespace
}  // namespace monolith::testing
