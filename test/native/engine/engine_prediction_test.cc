// Tests that a predicted text changes only the number of steps: for every kind of request and any prediction, tokens
// and logprobs are bit-identical to a run without a prediction.
#include "engine/request_check.h"
#include "engine/speculation_check.h"

namespace monolith::testing {
namespace {

std::vector<GenerationRequest> asking_for_tokens(Engine& engine) {
  std::vector<GenerationRequest> requests = requests_of(engine);
  for (GenerationRequest& request : requests) request.return_tokens = true;
  return requests;
}

std::vector<ChoiceOutcome> outcomes_of(Engine& engine, const std::vector<GenerationRequest>& requests) {
  Consumer consumer(engine);
  std::vector<ChoiceOutcome> outcomes;
  for (const GenerationRequest& request : requests) {
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    CHECK(!consumer.outcomes()[id].failed);
    outcomes.push_back(consumer.outcomes()[id].choices[0]);
  }
  return outcomes;
}

// Returns the output with every `period`-th token replaced.
std::vector<TokenId> edited(std::vector<TokenId> tokens, size_t period) {
  for (size_t i = period - 1; i < tokens.size(); i += period) tokens[i] = tokens[i] == 7 ? 8 : 7;
  return tokens;
}

void check_prediction(const std::string& model) {
  EngineSetup setup;
  setup.model = model;
  setup.options.prefix_cache = false;
  setup.options.speculation = Speculation::kOff;
  auto plain = start_engine(setup);
  if (!plain) return;
  const std::vector<GenerationRequest> requests = asking_for_tokens(*plain);
  const std::vector<ChoiceOutcome> expected = outcomes_of(*plain, requests);
  const uint64_t plain_steps = plain->stats().steps;
  plain.reset();

  setup.options.speculation = Speculation::kAlways;
  for (const size_t period : {size_t{1000}, size_t{11}, size_t{2}}) {
    auto engine = start_engine(setup);
    REQUIRE(engine != nullptr);
    std::vector<GenerationRequest> predicted = asking_for_tokens(*engine);
    for (size_t i = 0; i < predicted.size(); ++i) predicted[i].prediction = edited(expected[i].tokens, period);
    const std::vector<ChoiceOutcome> found = outcomes_of(*engine, predicted);
    const std::string what = model + ", every " + std::to_string(period) + "th token is wrong";
    for (size_t i = 0; i < found.size(); ++i) {
      check_same(found[i], expected[i], what + ", request " + std::to_string(i));
      CHECK(found[i].tokens == expected[i].tokens);
      if (period == 1000) CHECK_EQ(found[i].predicted_tokens, static_cast<uint32_t>(expected[i].tokens.size()));
      if (period == 2) CHECK(found[i].predicted_tokens < expected[i].tokens.size());
    }
    check::note(what + ": " + std::to_string(engine->stats().steps) + " steps, without " + std::to_string(plain_steps));
    if (period == 1000) CHECK(engine->stats().steps * 3 < plain_steps);
    CHECK(pages_come_back(*engine));
  }
}

TEST(prediction_changes_no_token_llama) { check_prediction("models/llama.q8_0.gguf"); }
TEST(prediction_changes_no_token_recurrent_state) { check_prediction("models/qwen35.f16.gguf"); }

// All choices follow the same prediction independently. Concurrent requests and a shortage of pages do not change the
// results.
TEST(prediction_with_choices_and_preemption) {
  EngineSetup setup;
  setup.options.speculation = Speculation::kOff;
  const auto request_for = [](int i) {
    GenerationRequest request;
    request.prompt = test_prompt(20 + i, i);
    request.n = 3;
    request.max_tokens = 40;
    request.ignore_eos = true;
    request.return_tokens = true;
    request.sampling.seed = 9 + static_cast<uint64_t>(i);
    request.sampling.temperature = 0.3f;
    request.sampling.logit_bias = few_words();
    return request;
  };
  constexpr int kRequests = 4;
  std::vector<Outcome> expected;
  for (const bool predicts : {false, true}) {
    if (predicts) {
      setup.options.speculation = Speculation::kAlways;
      setup.options.max_batch_tokens = 64;
      setup.limits.n_pages = 24;
    }
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    std::vector<RequestId> ids;
    for (int i = 0; i < kRequests; ++i) {
      GenerationRequest request = request_for(i);
      if (predicts) request.prediction = expected[static_cast<size_t>(i)].choices[1].tokens;
      ids.push_back(consumer.submit(request));
    }
    for (int i = 0; i < kRequests; ++i) {
      consumer.pump_until_ended(ids[static_cast<size_t>(i)]);
      Outcome& outcome = consumer.outcomes()[ids[static_cast<size_t>(i)]];
      REQUIRE(!outcome.failed);
      if (!predicts) {
        expected.push_back(outcome);
        continue;
      }
      for (int choice = 0; choice < 3; ++choice) {
        const ChoiceOutcome& found = outcome.choices[choice];
        const ChoiceOutcome& before = expected[static_cast<size_t>(i)].choices[choice];
        check_same(found, before, "request " + std::to_string(i) + ", choice " + std::to_string(choice));
        if (choice == 1) CHECK_EQ(found.predicted_tokens, static_cast<uint32_t>(before.tokens.size()));
      }
    }
    CHECK(pages_come_back(*engine));
  }
}

TEST(prediction_is_checked_at_submission) {
  auto engine = start_engine(EngineSetup{});
  if (!engine) return;
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  const RequestBounds bounds{.n_vocab = 10, .max_context = 16, .input_width = 1};
  request.prediction = std::vector<TokenId>(16, 3);
  CHECK(static_cast<bool>(check_request(request, bounds)));
  request.prediction.push_back(3);
  CHECK_EQ(check_request(request, bounds).error().message, "prediction has 17 tokens; this model takes at most 16");
  request.prediction = {10};
  CHECK_EQ(check_request(request, bounds).error().message, "prediction[0] is token 10, outside the vocabulary of 10");
}

}  // namespace
}  // namespace monolith::testing
