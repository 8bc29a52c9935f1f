// Tests that sliding-window pages can be freed, reused and found again without changing a bit of any response. The
// reference uses a single page table for all layers and frees no page.
#include "engine_fixture.h"

namespace monolith::testing {
namespace {

// Six layers have a window of 64 positions, and one layer attends to all positions. Each of the seven has its own page
// table.
constexpr int kTables = 7;

EngineSetup setup_of(bool by_window) {
  EngineSetup setup;
  setup.model = "models/gemma3.f16.gguf";
  setup.limits.max_context = 1024;
  setup.limits.pages_by_window = by_window;
  setup.limits.n_pages = 512 * (by_window ? kTables : 1);
  return setup;
}

// Prompts and responses are much longer than the window. Requests in the same family share a long prefix.
std::vector<GenerationRequest> long_requests() {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 8; ++i) {
    GenerationRequest request;
    request.prompt = test_prompt(20 + i * 45, i % 3);
    // The text repeats itself, so that prompt lookup finds draft tokens.
    if (i % 2) request.prompt.insert(request.prompt.end(), request.prompt.begin(), request.prompt.begin() + 60);
    request.n = i % 4 == 2 ? 4 : 1;
    request.organization = static_cast<uint64_t>(i % 2);
    request.max_tokens = 90 + 7 * i;
    request.ignore_eos = true;
    request.sampling.seed = static_cast<uint64_t>(300 + i);
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.7f;
    request.sampling.top_p = i % 3 == 1 ? 0.8f : 1.0f;
    request.sampling.top_logprobs = 2;
    // Biases that make the response repetitive.
    if (i % 3 == 0) request.sampling.logit_bias = {{50, 30.0f}, {120, 30.0f}, {200, 30.0f}};
    requests.push_back(request);
  }
  return requests;
}

using Choices = std::vector<ChoiceOutcome>;

std::vector<Choices> outcomes_one_by_one(const EngineSetup& setup, const std::vector<GenerationRequest>& requests) {
  auto engine = start_engine(setup);
  if (!engine) return {};
  Consumer consumer(*engine);
  std::vector<Choices> outcomes;
  for (const GenerationRequest& request : requests) {
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    CHECK(!consumer.outcomes()[id].failed);
    Choices& choices = outcomes.emplace_back();
    for (int choice = 0; choice < request.n; ++choice) choices.push_back(consumer.outcomes()[id].choices[choice]);
  }
  return outcomes;
}

void check_together(const EngineSetup& setup, const std::vector<GenerationRequest>& requests,
                    const std::vector<Choices>& expected, int rounds, bool preempts, const std::string& what) {
  auto engine = start_engine(setup);
  REQUIRE(engine);
  Consumer consumer(*engine);
  for (int round = 0; round < rounds || (preempts && round < 12 && engine->stats().preemptions == 0); ++round) {
    std::vector<RequestId> ids;
    for (const GenerationRequest& request : requests) ids.push_back(consumer.submit(request));
    for (size_t i = 0; i < ids.size(); ++i) {
      consumer.pump_until_ended(ids[i]);
      const Outcome& outcome = consumer.outcomes()[ids[i]];
      for (int choice = 0; choice < requests[i].n; ++choice)
        check_same(outcome.choices.at(choice), expected[i][static_cast<size_t>(choice)],
                   what + ", round " + std::to_string(round) + ", request " + std::to_string(i));
      // Unless a page was evicted, the whole prefix of a prompt is cached, including the parts outside the window.
      if (round > 0 && setup.options.prefix_cache && !preempts)
        CHECK_EQ(outcome.cached_tokens, static_cast<uint32_t>((requests[i].prompt.size() - 1) / 16 * 16));
    }
  }
  if (preempts) CHECK(engine->stats().preemptions > 0);
  if (setup.options.speculation == Speculation::kAlways) {
    CHECK(engine->stats().accepted_draft_tokens > 0);
    CHECK(engine->stats().accepted_draft_tokens < engine->stats().draft_tokens);
  }
  CHECK(pages_come_back(*engine));
  CHECK(!engine->stats().failed);
}

TEST(freeing_sliding_window_pages_changes_no_response) {
  const std::vector<GenerationRequest> requests = long_requests();
  EngineSetup setup = setup_of(false);
  setup.options.prefix_cache = false;
  const std::vector<Choices> expected = outcomes_one_by_one(setup, requests);
  if (expected.empty()) return;

  setup = setup_of(true);
  setup.options.prefix_cache = false;
  check_together(setup, requests, expected, 1, false, "together");
  setup.options.prefix_cache = true;
  setup.threads = 2;
  check_together(setup, requests, expected, 2, false, "with cached prefixes and two threads");
  setup.options.max_batch_tokens = 9;
  setup.options.max_sequences = 4;
  check_together(setup, requests, expected, 2, false, "with nine tokens per step");
  setup.options.max_batch_tokens = 64;
  setup.options.max_sequences = 32;
  setup.options.speculation = Speculation::kAlways;
  check_together(setup, requests, expected, 2, false, "with draft tokens");
  setup.limits.n_pages = 18 * kTables;
  check_together(setup, requests, expected, 2, true, "with draft tokens and few pages");
  setup.options.prefix_cache = false;
  check_together(setup, requests, expected, 1, true, "with few pages and no cache");
}

TEST(choices_that_share_window_pages_equal_separate_requests) {
  // With only 17 pages per table, the choices cannot all run at the same time.
  for (const int64_t n_pages : {int64_t{256}, int64_t{17}}) {
    EngineSetup setup = setup_of(true);
    setup.limits.n_pages = n_pages * kTables;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    GenerationRequest request;
    request.prompt = test_prompt(150, 1);
    request.max_tokens = 120;
    request.ignore_eos = true;
    request.sampling.seed = 4;
    request.sampling.top_logprobs = 1;
    request.n = 5;
    const RequestId all = consumer.submit(request);
    consumer.pump_until_ended(all);
    REQUIRE(!consumer.outcomes()[all].failed);
    setup.limits.n_pages = 256;
    setup.limits.pages_by_window = false;
    std::vector<GenerationRequest> separate(5, request);
    for (size_t i = 0; i < separate.size(); ++i) {
      separate[i].n = 1;
      separate[i].sampling.stream = static_cast<uint32_t>(i);
    }
    const std::vector<Choices> expected = outcomes_one_by_one(setup, separate);
    for (int choice = 0; choice < 5; ++choice)
      check_same(consumer.outcomes()[all].choices[choice], expected[static_cast<size_t>(choice)][0],
                 "choice " + std::to_string(choice));
    if (n_pages < 256) CHECK(engine->stats().preemptions > 0);
    CHECK(pages_come_back(*engine));
  }
}

// If no layer had a sliding window, one sequence of the full context length would need more pages than the pool has.
TEST(a_long_sequence_runs_in_its_sliding_window_pages) {
  EngineSetup setup = setup_of(true);
  setup.limits.n_pages = 160;  // Seven tables of 64 pages would need 448.
  auto engine = start_engine(setup);
  if (!engine) return;
  CHECK_EQ(engine->max_context(), 1024);
  GenerationRequest request;
  request.prompt = test_prompt(700, 2);
  request.max_tokens = 324;
  request.ignore_eos = true;
  request.sampling.top_logprobs = 1;
  Consumer consumer(*engine);
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  REQUIRE(!consumer.outcomes()[id].failed);
  CHECK_EQ(engine->stats().preemptions, uint64_t{0});
  setup.limits.n_pages = 64;
  setup.limits.pages_by_window = false;
  check_same(consumer.outcomes()[id].choices[0], outcomes_one_by_one(setup, {request}).at(0).at(0), "with all pages");
}

}  // namespace
}  // namespace monolith::testing
