// One organization's flood and another's single request, through the whole engine.
#include "engine/step_loop.h"
#include "engine_fixture.h"

namespace monolith::testing {
namespace {

GenerationRequest request_of(uint64_t organization, int n, int max_tokens, int family) {
  GenerationRequest request;
  request.organization = organization;
  request.prompt = test_prompt(10, family);
  request.max_tokens = max_tokens;
  request.n = n;
  request.ignore_eos = true;
  return request;
}

// Step by step, so that what has ended before a step is known.
TEST(engine_flood_of_one_organization_does_not_hold_up_another) {
  constexpr int kPlaces = 4;
  EngineSetup setup;
  setup.options.max_sequences = kPlaces;
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  for (const int n : {1, 3, 8}) {
    EngineCounters counters;
    StepLoop loop(*parts.model, *parts.tokenizer, setup.options, counters);
    auto channel = std::make_shared<Channel>([] {}, setup.options.channel_bytes_max);
    std::map<RequestId, Outcome> outcomes;
    std::vector<std::byte> drained;
    RequestId last = 0;
    const auto add = [&](const GenerationRequest& request) {
      outcomes[++last].n = request.n;
      loop.add(std::make_unique<Request>(last, channel, request, parts.model->params().n_vocab, 512));
      return last;
    };
    const auto step = [&] {
      const bool more = loop.step();
      channel->drain(drained);
      EventReader(drained).read_into(outcomes);
      return more;
    };
    RequestId single = 0;
    const auto of_flood = [&](auto&& count) {
      int sum = 0;
      for (const auto& [id, outcome] : outcomes)
        if (id != single) sum += count(outcome);
      return sum;
    };
    const auto ended_choices = [&] {
      return of_flood([](const Outcome& outcome) {
        int ended = 0;
        for (const auto& [index, choice] : outcome.choices) ended += choice.finished;
        return ended;
      });
    };
    for (int i = 0; i < 64; ++i) add(request_of(1, n, 20 + i % 7, i % 5));
    for (int i = 0; i < 50; ++i) CHECK(step());
    const int ended_before = ended_choices();
    single = add(request_of(2, 1, 5, 9));
    while (outcomes[single].started == 0) REQUIRE(step());
    CHECK(ended_choices() - ended_before <= kPlaces);
    CHECK(of_flood([](const Outcome& outcome) { return outcome.started; }) < 32);
    while (!outcomes[single].ended()) REQUIRE(step());
    CHECK_EQ(outcomes[single].choices[0].completion_tokens, 5u);
    while (step()) continue;
    CHECK_EQ(ended_choices(), 64 * n);
    CHECK(loop.consistent());
  }
}

// Choices beyond the places get the same tokens as with a place for each.
TEST(engine_choices_that_waited_for_a_place_say_the_same) {
  std::map<int, std::string> expected;
  for (const int max_sequences : {8, 2}) {
    EngineSetup setup;
    setup.options.max_sequences = max_sequences;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    GenerationRequest request = request_of(1, 8, 30, 3);
    request.sampling.seed = 5;
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
      CHECK_EQ(choice.completion_tokens, 30u);
      if (max_sequences == 8) expected[index] = choice.content;
      CHECK_EQ(choice.content, expected[index]);
    }
  }
}

// A choice that waits in line ends at the request's time limit like those that run.
TEST(engine_ends_choices_in_line_at_the_time_limit) {
  EngineSetup setup;
  setup.limits.max_context = 4096;
  setup.options.max_sequences = 2;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest request = request_of(1, 4, 4000, 1);
  request.generation_ms = 60;
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  for (int i = 0; i < 4; ++i) CHECK(consumer.outcomes()[id].choices[i].reason == FinishReason::kTimeLimit);
  CHECK(pages_come_back(*engine));
}

}  // namespace
}  // namespace monolith::testing
