// Tests fairness in the whole engine: one organization floods the engine with requests while another sends a single
// request.
#include <array>

#include "engine/loop/step_loop.h"
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

// A step loop in which two responses of one organization are running when two other organizations send prompts. The two
// prompts do not both fit in the next step. That step is reserved for first tokens, so the request that was submitted
// last gets a sequence slot before any of its tokens are computed.
class PlaceWithoutStep {
 public:
  explicit PlaceWithoutStep(EngineParts& parts, const EngineOptions& options)
      : parts_(parts), loop_(*parts.model, *parts.tokenizer, options, counters_) {
    for (int i = 0; i < 2; ++i) add(request_of(1, 1, 60, i));
    for (int i = 0; i < 8; ++i) step();
    for (const uint64_t organization : {2, 3}) {
      GenerationRequest request = request_of(organization, 1, 5, 3);
      request.prompt = test_prompt(200, static_cast<int>(organization));
      last_ = add(request);
    }
    step();
  }
  bool reached() const {
    return counters_.running == 4 && outcomes_.at(last_ - 1).started == 1 && outcomes_.at(last_).started == 0;
  }

  bool step() {
    const bool more = loop_.step();
    channel_->drain(drained_);
    EventReader(drained_).read_into(outcomes_);
    return more;
  }
  std::map<RequestId, Outcome>& outcomes() { return outcomes_; }
  RequestId last() const { return last_; }
  const StepLoop& loop() const { return loop_; }

 private:
  RequestId add(const GenerationRequest& request) {
    const auto id = static_cast<RequestId>(outcomes_.size() + 1);
    outcomes_[id];
    loop_.add(std::make_unique<Request>(id, channel_, request, parts_.model->params().n_vocab, 512));
    return id;
  }

  EngineParts& parts_;
  EngineCounters counters_;
  StepLoop loop_;
  std::shared_ptr<Channel> channel_ = std::make_shared<Channel>([] {}, size_t{1} << 20);
  std::map<RequestId, Outcome> outcomes_;
  std::vector<std::byte> drained_;
  RequestId last_ = 0;
};

// Tests several start values of the clock, including those just before an overflow at 31, 32, 53 and 63 bits.
TEST(clock_start_value_does_not_end_requests_without_a_step) {
  using std::chrono::milliseconds, std::chrono::nanoseconds, std::chrono::hours;
  constexpr std::array<Clock::duration, 6> kTimes{nanoseconds(0),
                                                  hours(2),
                                                  milliseconds((int64_t{1} << 31) - 1),
                                                  milliseconds((int64_t{1} << 32) - 1),
                                                  nanoseconds((int64_t{1} << 53) - 1),
                                                  Clock::duration::max() - hours(1)};
  for (const bool in_flight : {false, true}) {
    EngineSetup setup;
    setup.asynchronous = in_flight;
    EngineParts parts = load_parts(setup);
    if (!parts.model) return;
    for (const Clock::duration at : kTimes) {
      const ClockAt clock(at);
      PlaceWithoutStep run(parts, setup.options);
      CHECK(run.reached());
      while (run.step()) continue;
      for (const auto& [id, outcome] : run.outcomes()) {
        CHECK(!outcome.failed);
        CHECK(outcome.choices.at(0).reason == FinishReason::kMaxTokens);
        CHECK_EQ(outcome.choices.at(0).completion_tokens, id < run.last() - 1 ? 60u : 5u);
      }
      CHECK(run.loop().consistent());
    }
  }
}

// A request counts as waiting from its submission until its first step, even after it has left the queue. Requests that
// have started continue.
TEST(requests_with_a_slot_but_no_step_time_out) {
  EngineParts parts = load_parts({});
  if (!parts.model) return;
  for (const auto& [later_ms, fails] : {std::pair{29'000, false}, std::pair{30'000, true}}) {
    const ClockAt clock(std::chrono::hours(100));
    PlaceWithoutStep run(parts, {});
    CHECK(run.reached());
    Clock::set(Clock::now() + std::chrono::milliseconds(later_ms));
    while (run.step()) continue;
    const Outcome& last = run.outcomes().at(run.last());
    CHECK_EQ(last.failed, fails);
    if (fails) CHECK(last.code == FailureCode::kQueueTimeout);
    CHECK_EQ(last.started, fails ? 0 : 1);
    for (const auto& [id, outcome] : run.outcomes())
      if (id != run.last()) CHECK(outcome.choices.at(0).reason == FinishReason::kMaxTokens);
    CHECK(run.loop().consistent());
  }
}

// A response's time limit is measured from its first step, not from its submission or from time zero.
TEST(responses_end_at_their_time_limit) {
  EngineParts parts = load_parts({});
  if (!parts.model) return;
  for (const auto& [later_ms, ends] : {std::pair{3'590'000, false}, std::pair{3'600'000, true}}) {
    const ClockAt clock(std::chrono::hours(100));
    PlaceWithoutStep run(parts, {});
    run.step();
    Clock::set(Clock::now() + std::chrono::milliseconds(later_ms));
    while (run.step()) continue;
    for (const auto& [id, outcome] : run.outcomes()) {
      CHECK(outcome.choices.at(0).reason == (ends ? FinishReason::kTimeLimit : FinishReason::kMaxTokens));
      CHECK(outcome.choices.at(0).completion_tokens > 0);
    }
  }
}

// Runs one step at a time, so that the test knows which requests have ended before each step.
TEST(a_flood_of_one_organization_does_not_delay_another) {
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

// If a request has more choices than there are sequence slots, each choice gets the same tokens as if it had a slot.
TEST(choices_that_waited_for_a_slot_give_the_same_text) {
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

// A choice that waits for a slot ends at the request's time limit, like the running choices.
TEST(waiting_choices_end_at_the_time_limit) {
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
