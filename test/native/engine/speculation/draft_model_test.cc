// Tests the draft model in isolation: it predicts the target model's next tokens whether or not earlier draft tokens
// were accepted, and it stays within its budget.
#include "engine/speculation/draft_model.h"

#include <random>

#include "engine/loop/step_loop.h"
#include "engine/engine_fixture.h"

namespace monolith::testing {
namespace {

// In the test sequences, some draft tokens are accepted and others rejected, and some steps have no draft tokens. The
// reference is a draft model that computes every text from scratch.
TEST(draft_model_predicts_the_same_after_rejected_tokens) {
  EngineSetup setup;
  setup.draft = "models/llama.q8_0.gguf";
  setup.draft_pages = 3 * 20;
  EngineParts parts = load_parts(setup), fresh_parts = load_parts(setup);
  if (!parts.model) return;
  const int n_vocab = StepLoop::vocabulary(*parts.draft, *parts.tokenizer);
  DraftModel draft(*parts.draft, n_vocab), fresh(*fresh_parts.draft, n_vocab);
  DraftBudget pace;
  std::mt19937 random(5);
  std::vector<std::vector<TokenId>> texts;
  for (int i = 0; i < 3; ++i) texts.push_back(test_prompt(5 + 70 * i, i));
  std::array<std::array<TokenId, SequenceDrafts::kMax>, 3> out{};
  std::array<TokenId, SequenceDrafts::kMax> again{};
  int compared = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<DraftRequest> requests;
    std::vector<size_t> asked;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (random() % 4 == 0) continue;
      asked.push_back(i);
      requests.push_back({&texts[i], texts[i], std::span(out[i]).first(1 + random() % SequenceDrafts::kMax)});
    }
    draft.draft(requests, pace);
    CHECK(draft.consistent());
    for (size_t k = 0; k < asked.size(); ++k) {
      std::vector<TokenId>& text = texts[asked[k]];
      const std::span<const TokenId> drafts = requests[k].out.first(static_cast<size_t>(requests[k].n));
      CHECK(round < 8 || drafts.size() == requests[k].out.size());
      if (!drafts.empty()) {
        DraftRequest request;
        do {  // Feeds the text in chunks until all of it is computed.
          request = {&again, text, std::span(again).first(drafts.size())};
          fresh.draft({&request, 1}, pace);
        } while (request.n == 0);
        CHECK(std::ranges::equal(drafts, std::span(again).first(static_cast<size_t>(request.n))));
        fresh.forget(&again);
        CHECK_EQ(fresh.pool().free(), fresh.pool().size());
        ++compared;
      }
      const size_t n_accepted = random() % (drafts.size() + 1);
      text.insert(text.end(), drafts.begin(), drafts.begin() + static_cast<ptrdiff_t>(n_accepted));
      text.push_back(random() % 3 == 0 && n_accepted < drafts.size() ? drafts[n_accepted]
                                                                     : static_cast<TokenId>(random() % 200));
      if (text.size() > 280) {  // Another sequence takes its slot.
        draft.forget(&text);
        text = test_prompt(20, static_cast<int>(random() % 100));
      }
    }
  }
  CHECK(compared > 60);
  for (const std::vector<TokenId>& text : texts) draft.forget(&text);
  CHECK_EQ(draft.pool().free(), draft.pool().size());
}

// With greedy sampling, a model that is its own draft model always predicts the right tokens.
TEST(draft_model_of_the_same_weights_is_always_right) {
  EngineSetup setup;
  setup.draft = setup.model;
  setup.options.speculation = Speculation::kAlways;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  std::vector<RequestId> ids;
  for (int i = 0; i < 6; ++i) {
    GenerationRequest request;
    request.prompt = test_prompt(6 + 30 * i, i);
    request.max_tokens = 60;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    ids.push_back(consumer.submit(request));
  }
  for (const RequestId id : ids) consumer.pump_until_ended(id);
  const EngineStats stats = engine->stats();
  check::note(std::to_string(stats.accepted_drafter_tokens) + " of " + std::to_string(stats.drafter_tokens) +
              " right, " + std::to_string(stats.steps) + " steps");
  CHECK(stats.drafter_tokens > 100);
  CHECK_EQ(stats.accepted_drafter_tokens, stats.drafter_tokens);
}

// There are too few pages for all sequences. Sequences that request draft tokens take precedence, and sequences that
// have not been used for a long time lose their pages.
TEST(draft_model_skips_sequences_it_has_no_pages_for) {
  EngineSetup setup;
  setup.draft = "models/llama.q8_0.gguf";
  setup.draft_pages = 3;
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  DraftModel draft(*parts.draft, StepLoop::vocabulary(*parts.draft, *parts.tokenizer));
  DraftBudget pace;
  const std::vector<TokenId> first = test_prompt(20, 1), second = test_prompt(25, 2), whole = test_prompt(60, 3);
  std::array<TokenId, 4> out{};
  const auto drafts_for = [&](const std::vector<TokenId>& text) {
    DraftRequest request{&text, text, out};
    draft.draft({&request, 1}, pace);
    CHECK(draft.consistent());
    return request.n;
  };
  CHECK_EQ(drafts_for(first), 4);
  CHECK_EQ(drafts_for(second), 0);
  CHECK_EQ(drafts_for(whole), 0);
  draft.forget(&whole);
  for (int i = 0; i < 70 && drafts_for(second) == 0; ++i) continue;
  CHECK_EQ(drafts_for(second), 4);
  CHECK_EQ(drafts_for(first), 0);
}

// Returns the time spent on a draft model with the given acceptance rate, as a fraction of the time spent on the target
// model. Each draft model step takes half as long as a target model step.
double spent_of(double chance, double& saved) {
  constexpr int kSteps = 20'000;
  constexpr double kStepMs = 10;
  DraftBudget pace;
  std::mt19937 random(3);
  double spent = 0;
  saved = 0;
  for (int i = 0; i < kSteps; ++i) {
    if (pace.may_draft()) {
      pace.note_draft_step(1, kStepMs / 2);
      pace.earn(-kStepMs / 2);
      spent += kStepMs / 2;
      const bool right = random() % 1000 < 1000 * chance;
      if (right) pace.earn(kStepMs), saved += kStepMs;
      pace.record_acceptance(right, !right);
    }
    pace.note_step(i % 97 == 5 ? 20 * kStepMs : kStepMs);
  }
  return spent / (kSteps * kStepMs);
}

TEST(draft_budget_spends_little_more_than_it_saves) {
  double saved = 0;
  const double useless = spent_of(0, saved);
  CHECK(useless > 0.005 && useless < 0.03);
  CHECK(spent_of(0.3, saved) < 0.08);
  CHECK(spent_of(0.8, saved) > 0.49);  // Draft tokens are requested in every step.
  CHECK(saved > 0.7 * 20'000 * 10);
}

}  // namespace
}  // namespace monolith::testing
