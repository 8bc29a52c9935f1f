// Tests that overlapping steps produce the same responses as sequential steps, even if the text determines how a
// sequence continues, and regardless of what happens to a request while one of its tokens is in flight.
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>

#include "engine/output/grammar_cache.h"
#include "engine/loop/step_loop.h"
#include "engine_fixture.h"

namespace monolith::testing {
namespace {

GenerationRequest plain_request(int i, int max_tokens = 40) {
  GenerationRequest request;
  request.prompt = test_prompt(20 + 3 * i, i % 4);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.seed = static_cast<uint64_t>(100 + i);
  request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.8f;
  return request;
}

// Returns two or three consecutive ASCII characters of `text` at or after position `from`.
std::string middle_of(const std::string& text, size_t from) {
  const auto plain = [&](size_t at) { return text[at] >= ' ' && text[at] <= '~'; };
  for (size_t at = from; at + 1 < text.size(); ++at)
    if (plain(at) && plain(at + 1)) return text.substr(at, at + 2 < text.size() && plain(at + 2) ? 3 : 2);
  return "no such text";
}
std::string middle_of(const std::string& text) { return middle_of(text, text.size() / 2); }

// Returns requests of all kinds. `text` contains the texts that the first few requests generate when no stop string is
// set.
std::vector<GenerationRequest> mixed_requests(const std::array<std::string, 4>& text, const GrammarRef& numbers) {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 14; ++i) requests.push_back(plain_request(i));
  for (size_t i = 0; i < text.size(); ++i) requests[i].stop = {"never generated", middle_of(text[i])};
  requests[1].sampling.top_logprobs = 2;
  requests[2].n = 3;
  requests[4].n = 4;
  requests[4].sampling.temperature = 0.9f;
  requests[4].sampling.top_logprobs = 0;
  requests[5].sampling.repetition_penalty = 1.2f;
  requests[5].sampling.frequency_penalty = 0.3f;
  requests[6].max_tokens = 1;
  requests[7].max_tokens = 2;
  requests[8].stop_tokens = {60, 61, 62, 63, 64, 65, 66, 67, 68, 69};
  requests[8].sampling.logit_bias = {{60, 6.0f}, {64, 6.0f}};
  requests[9].format = numbers;
  for (const size_t i : {size_t{10}, size_t{11}}) {
    requests[i].calls.open = {"<open>", 301};
    requests[i].calls.close = {"<close>", 302};
    requests[i].calls.prefixes = {{310, 311, 312}, {310, 311, 313}, {314}, {310, 315}};
    requests[i].sampling.logit_bias = {{301, 7.0f}, {302, 7.0f}};
  }
  requests[11].calls.required = {{301, 310, 311}, {301, 314}};
  requests[12].reasoning = {.open = {"<think>", kNoToken},
                            .close = {"</think>", 303},
                            .starts_inside = true,
                            .budget = 7,
                            .close_sequence = {303, 40}};
  requests[13].calls.open = {"e", kNoToken};  // Recognized by its spelling.
  requests[13].calls.close = {"a", kNoToken};
  return requests;
}

using Requests = std::function<std::vector<GenerationRequest>(Engine&)>;

std::map<int, Outcome> run_all(const EngineSetup& setup, const Requests& requests) {
  std::map<int, Outcome> outcomes;
  auto engine = start_engine(setup);
  if (!engine) return outcomes;
  Consumer consumer(*engine);
  std::vector<RequestId> ids;
  for (const GenerationRequest& request : requests(*engine)) ids.push_back(consumer.submit(request));
  for (size_t i = 0; i < ids.size(); ++i) {
    consumer.pump_until_ended(ids[i]);
    outcomes[static_cast<int>(i)] = consumer.outcomes()[ids[i]];
  }
  CHECK(pages_come_back(*engine));
  return outcomes;
}

GrammarRef compiled(Engine& engine, const std::string& regex) {
  std::promise<CompiledGrammar> compiled;
  grammar::GrammarOptions options;
  options.kind = grammar::GrammarOptions::Kind::kRegex;
  options.text = regex;
  engine.compile_grammar(options, [&](CompiledGrammar done) { compiled.set_value(std::move(done)); });
  return compiled.get_future().get().grammar;
}

void check_same_outcomes(const std::map<int, Outcome>& got, const std::map<int, Outcome>& expected,
                         const std::string& what) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [i, outcome] : expected) {
    const Outcome& other = got.at(i);
    CHECK_EQ(other.failed, outcome.failed);
    CHECK_EQ(other.choices.size(), outcome.choices.size());
    for (const auto& [index, choice] : outcome.choices) {
      const ChoiceOutcome& answer = other.choices.at(index);
      const std::string name = what + ", request " + std::to_string(i) + ", choice " + std::to_string(index);
      check_same(answer, choice, name);
      CHECK_EQ(answer.stop_index, choice.stop_index);
      if (answer.pieces != choice.pieces || answer.piece_tokens != choice.piece_tokens ||
          answer.call_pieces != choice.call_pieces)
        check::fail(__FILE__, __LINE__, name + ": the deltas differ");
    }
  }
}

TEST(overlapping_steps_change_no_response) {
  EngineSetup setup;
  setup.asynchronous = true;
  setup.options.overlap = false;
  std::array<std::string, 4> text;
  const auto plain = run_all(setup, [](Engine&) {
    std::vector<GenerationRequest> requests;
    for (int i = 0; i < 4; ++i) requests.push_back(plain_request(i));
    return requests;
  });
  if (plain.empty()) return;
  for (size_t i = 0; i < text.size(); ++i) text[i] = plain.at(static_cast<int>(i)).choices.at(0).content;
  const auto mixed = [&](Engine& engine) {
    return mixed_requests(text, compiled(engine, "[0-9]{3}([, ][0-9]{1,3}){4}"));
  };
  const auto expected = run_all(setup, mixed);
  int by_stop = 0, by_format = 0;
  for (const auto& [i, outcome] : expected)
    for (const auto& [index, choice] : outcome.choices) {
      by_stop += choice.reason == FinishReason::kStopString;
      by_format += i == 9 && choice.reason == FinishReason::kEndOfTurn;
    }
  CHECK(by_stop >= 3);
  CHECK_EQ(by_format, 1);
  CHECK(!expected.at(11).choices.at(0).calls.empty());
  setup.options.overlap = true;
  check_same_outcomes(run_all(setup, mixed), expected, "overlapped");
  setup.options.speculation = Speculation::kAlways;
  check_same_outcomes(run_all(setup, mixed), expected, "with draft tokens");
  setup.options.speculation = Speculation::kOff;
  setup.options.max_batch_tokens = 24;  // Prompts are split into chunks, so some steps have no logits.
  setup.limits.n_pages = 24;            // Few pages cause preemption.
  check_same_outcomes(run_all(setup, mixed), expected, "with few pages");
}

// Runs the step loop without threads and records the outcomes of the requests.
class Loop {
 public:
  explicit Loop(const EngineSetup& setup) : parts_(load_parts(setup)) {
    if (!parts_.model) return;
    loop_.emplace(*parts_.model, *parts_.tokenizer, setup.options, counters_);
  }
  bool loaded() const { return loop_.has_value(); }
  StepLoop& operator*() { return *loop_; }
  StepLoop* operator->() { return &*loop_; }
  AsynchronousBackend& backend() { return static_cast<AsynchronousBackend&>(*parts_.backend); }

  void add(RequestId id, const GenerationRequest& request) {
    outcomes_[id].n = request.n;
    loop_->add(std::make_unique<Request>(id, channel_, request, parts_.model->params().n_vocab, 512));
  }
  // Runs one step and reads the resulting events.
  bool step() {
    const bool computed = loop_->step();
    read();
    return computed;
  }
  void read() {
    channel_->drain(drained_);
    EventReader(drained_).read_into(outcomes_);
  }
  Outcome& outcome(RequestId id) { return outcomes_[id]; }
  int tokens(RequestId id) { return outcomes_[id].choices[0].piece_tokens; }
  bool has_all_pages() const { return counters_.pages_free + counters_.pages_cached == counters_.pages_total; }
  EngineCounters& counters() { return counters_; }

 private:
  EngineParts parts_;
  EngineCounters counters_;
  std::optional<StepLoop> loop_;
  std::shared_ptr<Channel> channel_ = std::make_shared<Channel>([] {}, size_t{64} << 20);
  std::vector<std::byte> drained_;
  std::map<RequestId, Outcome> outcomes_;
};

EngineSetup in_flight() {
  EngineSetup setup;
  setup.asynchronous = true;
  return setup;
}

TEST(step_loop_has_one_step_in_flight) {
  Loop loop(in_flight());
  if (!loop.loaded()) return;
  loop.add(1, plain_request(1, 10));
  CHECK(loop.step());  // The step has started, but its result has not been read.
  CHECK_EQ(loop.outcome(1).started, 1);
  CHECK_EQ(loop.counters().steps.load(), 0u);
  for (int i = 1; i <= 10; ++i) {
    CHECK_EQ(loop.counters().decode_tokens.load(), static_cast<uint64_t>(i - 1));
    CHECK(loop.step());
    CHECK_EQ(loop.counters().steps.load(), static_cast<uint64_t>(i));
  }
  CHECK_EQ(loop.counters().decode_tokens.load(), 10u);
  CHECK(loop.outcome(1).ended());
  CHECK_EQ(loop.outcome(1).choices[0].piece_tokens, 10);
  CHECK(loop->idle());
  CHECK_EQ(loop.counters().progress_at_ns.load(), EngineCounters::kIdle);
  CHECK(!loop.step());
  CHECK(loop->consistent());
}

// The step loop must wait even if a step has nothing to sample, as with prompt chunks or with choices that have not
// started.
TEST(step_loop_waits_for_every_step_in_flight) {
  EngineSetup setup = in_flight();
  setup.options.max_batch_tokens = 16;
  Loop loop(setup);
  if (!loop.loaded()) return;
  int waits = 0;
  loop.backend().on_wait = [&] { ++waits; };
  GenerationRequest request = plain_request(0, 4);  // A prompt of 20 tokens.
  request.n = 3;
  loop.add(1, request);
  loop.step();
  for (int step = 0; step < 4; ++step) {
    waits = 0;
    loop->await();
    CHECK_EQ(waits, 1);
    loop.step();
  }
}

// Calls `happen` between two steps, while one request has a token in flight and another request continues.
void check_between_steps(const std::function<void(Loop&)>& happen, bool others_go_on = true) {
  ChoiceOutcome expected;
  for (const bool happens : {false, true}) {
    Loop loop(in_flight());
    if (!loop.loaded()) return;
    GenerationRequest two = plain_request(3, 200);
    two.n = 2;
    loop.add(1, two);
    loop.add(2, plain_request(4, 30));
    for (int i = 0; i < 5; ++i) CHECK(loop.step());
    if (happens) happen(loop);
    loop->publish();
    for (int i = 0; i < 300 && !loop->idle(); ++i) loop.step();
    loop.read();
    CHECK(loop->idle());
    CHECK(!loop.step());
    CHECK(loop->consistent());
    CHECK(loop.has_all_pages());
    CHECK_EQ(loop.counters().running.load(), 0);
    const ChoiceOutcome& answer = loop.outcome(2).choices[0];
    if (!happens)
      expected = answer;
    else if (others_go_on)
      check_same(answer, expected, "the other request");
  }
}

TEST(step_loop_cancels_a_request_in_flight) {
  check_between_steps([](Loop& loop) {
    loop->cancel(1);
    CHECK_EQ(loop->ended().size(), 1u);
  });
}

TEST(step_loop_finishes_a_choice_in_flight) {
  check_between_steps([](Loop& loop) {
    const uint64_t tokens = loop.counters().decode_tokens;
    CHECK(tokens > 0);
    loop->finish_choice(1, 0);
    loop->publish();
    loop.read();
    CHECK(loop.outcome(1).choices[0].finished);
    CHECK(!loop.outcome(1).choices[1].finished);
    loop->finish_choice(1, 1);
  });
}

TEST(step_loop_drains_with_a_step_in_flight) {
  check_between_steps(
      [](Loop& loop) {
        loop->drain();
        CHECK(loop->idle());
        loop->publish();
        loop.read();
        CHECK(loop.outcome(1).ended() && loop.outcome(2).ended());
        CHECK(loop.outcome(2).choices[0].reason == FinishReason::kTimeLimit);
        loop.add(3, plain_request(5, 3));  // Submitted after a step whose results have not been awaited.
        for (int i = 0; i < 5; ++i) loop.step();
        CHECK(loop.outcome(3).ended());
        CHECK_EQ(loop.outcome(3).choices[0].piece_tokens, 3);
      },
      false);
}

TEST(step_loop_reports_a_device_failure_of_a_step_in_flight) {
  for (const int phase : {0, 1}) {
    Loop loop(in_flight());
    if (!loop.loaded()) return;
    loop.add(1, plain_request(1, 30));
    loop.add(2, plain_request(2, 30));
    for (int i = 0; i < 4; ++i) loop.step();
    loop.backend().on_wait = [] { throw std::runtime_error("the device is lost"); };
    bool failed = false;
    try {
      if (phase == 0)
        loop->await();
      else
        loop.step();
    } catch (const std::runtime_error&) {
      failed = true;
    }
    CHECK(failed);
    loop->fail_all(FailureCode::kEngineError, "the device is lost");
    loop->publish();
    loop.read();
    CHECK(loop.outcome(1).failed && loop.outcome(2).failed);
    CHECK(loop->idle() && loop->consistent() && loop.has_all_pages());
  }
}

// When a stop string ends a sequence, the sequence's next token is already in flight. The entries that this token
// leaves in the prefix cache must be correct.
TEST(prefix_cache_is_correct_after_a_stop_with_a_token_in_flight) {
  for (const int length : {14, 15, 16, 17}) {  // Length of prompt and response, around a page boundary.
    Loop loop(in_flight());
    if (!loop.loaded()) return;
    GenerationRequest request = plain_request(3, 40);
    request.sampling.temperature = 0;
    loop.add(1, request);
    for (int i = 0; i < 60 && !loop->idle(); ++i) loop.step();
    const std::string text = loop.outcome(1).choices[0].content;
    request.prompt = test_prompt(length + 9, 7);
    loop.add(2, request);
    for (int i = 0; i < 60 && !loop->idle(); ++i) loop.step();
    const std::string answer = loop.outcome(2).choices[0].content;
    REQUIRE(answer.size() > 8);
    request.stop = {middle_of(answer, 4)};
    loop.add(3, request);
    for (int i = 0; i < 60 && !loop->idle(); ++i) loop.step();
    CHECK(loop.outcome(3).choices[0].reason == FinishReason::kStopString);
    request.stop = {};
    loop.add(4, request);  // Reads from the cache.
    for (int i = 0; i < 60 && !loop->idle(); ++i) loop.step();
    CHECK(loop.outcome(4).choices[0].content == answer);
    CHECK(loop->consistent() && loop.has_all_pages());
    CHECK(!text.empty());
  }
}

TEST(engine_reports_a_device_that_hangs_with_a_step_in_flight) {
  EngineParts parts = load_parts(in_flight());
  if (!parts.model) return;
  std::atomic<bool> released{false};
  static_cast<AsynchronousBackend&>(*parts.backend).on_wait = [&, waits = 0]() mutable {
    for (++waits; waits == 5 && !released;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  auto started = Engine::start(std::move(parts.model), std::move(parts.backend), parts.tokenizer, {});
  REQUIRE(started.ok());
  const std::unique_ptr<Engine> engine = std::move(*started);
  Consumer consumer(*engine);
  const RequestId id = consumer.submit(plain_request(1, 60));
  for (int i = 0; i < 5000 && engine->stats().last_step_age_ms < 50; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(engine->stats().last_step_age_ms >= 50);
  CHECK_EQ(engine->stats().running, 1);
  released = true;
  consumer.pump_until_ended(id);
  CHECK_EQ(consumer.outcomes()[id].choices[0].completion_tokens, 60u);
  CHECK_EQ(engine->stats().last_step_age_ms, 0.0);
  CHECK(pages_come_back(*engine));
}

}  // namespace
}  // namespace monolith::testing
