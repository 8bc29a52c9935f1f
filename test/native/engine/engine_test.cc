// Tests the running engine through its public interface: limits, end conditions, cancellation, queue bounds, failures
// and closing.
#include <atomic>
#include <random>
#include <semaphore>

#include "engine_fixture.h"
#include "model_around.h"

namespace monolith::testing {
namespace {

GenerationRequest simple_request(int prompt_tokens, int max_tokens, int family = 0) {
  GenerationRequest request;
  request.prompt = test_prompt(prompt_tokens, family);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.seed = 5;
  return request;
}

TEST(engine_rejects_invalid_requests_immediately) {
  EngineSetup setup;
  setup.limits.n_pages = 4;  // 64 positions.
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  CHECK_EQ(engine->max_context(), 64);
  const auto refused = [&](auto&& change, ErrorCode code, const std::string& field) {
    GenerationRequest request = simple_request(10, 10);
    change(request);
    auto id = engine->submit(consumer.channel(), request);
    REQUIRE(!id.ok());
    CHECK(id.error().code == code);
    if (id.error().message.find(field) == std::string::npos)
      check::fail(__FILE__, __LINE__, "'" + id.error().message + "' does not name " + field);
  };
  const auto invalid = ErrorCode::kInvalidArgument;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  refused([](auto& r) { r.prompt = test_prompt(64, 0); }, ErrorCode::kTooLong, "prompt has 64 tokens");
  refused([](auto& r) { r.prompt.clear(); }, invalid, "prompt");
  refused([](auto& r) { r.prompt[3] = 1 << 30; }, invalid, "prompt[3]");
  refused([](auto& r) { r.prompt[3] = -1; }, invalid, "prompt[3]");
  refused([](auto& r) { r.n = 0; }, invalid, "n must");
  refused([](auto& r) { r.n = 129; }, invalid, "n must");
  refused([](auto& r) { r.max_tokens = 0; }, invalid, "max_tokens");
  refused([](auto& r) { r.output = OutputKind::kNothing; }, invalid, "max_tokens");
  refused([](auto& r) { r.output = OutputKind::kLogprobs; }, invalid, "max_tokens");
  refused([](auto& r) { r.output = OutputKind::kLogprobs, r.max_tokens = 0; }, invalid, "prompt_logprobs");
  refused([](auto& r) { r.sampling.prompt_logprobs = 21; }, invalid, "prompt_logprobs");
  refused([](auto& r) { r.min_tokens = 11; }, invalid, "min_tokens");
  refused([](auto& r) { r.output = OutputKind::kVector; }, ErrorCode::kUnsupported, "output: this model");
  refused([&](auto& r) { r.sampling.temperature = nan; }, invalid, "temperature");
  refused([](auto& r) { r.sampling.temperature = -1; }, invalid, "temperature");
  refused([](auto& r) { r.sampling.top_p = 1.5f; }, invalid, "top_p");
  refused([](auto& r) { r.sampling.min_p = -0.1f; }, invalid, "min_p");
  refused([](auto& r) { r.sampling.top_k = -1; }, invalid, "top_k");
  refused([](auto& r) { r.sampling.repetition_penalty = 0; }, invalid, "repetition_penalty");
  refused([](auto& r) { r.sampling.top_logprobs = 21; }, invalid, "top_logprobs");
  refused([](auto& r) { r.sampling.logit_bias = {{-5, 1.0f}}; }, invalid, "logit_bias");
  refused([&](auto& r) { r.sampling.logit_bias = {{5, nan}}; }, invalid, "logit_bias");
  refused([](auto& r) { r.stop = {"x", ""}; }, invalid, "stop[1]");
  refused([](auto& r) { r.stop = {std::string(1025, 'x')}; }, invalid, "stop[0]");
  refused([](auto& r) { r.stop = {"\x80"}; }, invalid, "stop[0]");
  refused([](auto& r) { r.stop.assign(17, "x"); }, invalid, "stop");
  refused([](auto& r) { r.stop_tokens = {-1}; }, invalid, "stop_tokens");
  refused([](auto& r) { r.reasoning.budget = -2; }, invalid, "reasoning.budget");
  refused([](auto& r) { r.reasoning.close_sequence = {1 << 30}; }, invalid, "close_sequence");
  refused([](auto& r) { r.sampling.banned = {-1}; }, invalid, "banned[0]");
  refused([](auto& r) { r.sampling.banned.assign(17, 1); }, invalid, "banned");
  refused([](auto& r) { r.calls.open.text = std::string(257, 'x'); }, invalid, "calls.open");
  refused([](auto& r) { r.calls.open.text = "\x80x"; }, invalid, "calls.open");
  refused([](auto& r) { r.calls.close.text = "x\xC3"; }, invalid, "calls.close");
  refused([](auto& r) { r.calls.close.token = 1 << 30; }, invalid, "calls.close");
  refused([](auto& r) { r.calls.prefixes = {{1}, {}}; }, invalid, "calls.prefixes[1]");
  refused([](auto& r) { r.calls.next = {{1}}; }, invalid, "calls.next requires calls.end");
  refused([](auto& r) { r.format_head.assign(2000, 1); }, invalid, "format_head has more");
  refused([](auto& r) { r.format_head = {-1}; }, invalid, "format_head");
  refused([](auto& r) { r.calls.end = {1}; }, invalid, "calls.end requires calls.grammars");
  refused([](auto& r) { r.calls.end.assign(2000, 1); }, invalid, "calls.end has more");
  refused([](auto& r) { r.calls.required = {{1}, {}}; }, invalid, "calls.required[1]");
  refused([](auto& r) { r.calls.required = {{1}, {2, -1}}; }, invalid, "calls.required[1][1]");
  refused([](auto& r) { r.calls.required.assign(kMaxCallPrefixes + 1, {1}); }, invalid, "calls.required");
  refused([](auto& r) { r.calls.required = {std::vector<TokenId>(2000, 1)}; }, invalid, "calls.required[0]");
  CHECK(!engine->submit(999, simple_request(1, 1)).ok());
  CHECK_EQ(engine->stats().waiting, 0);
  // The longest prompt that fits is accepted, and its response ends at the end of the context.
  const RequestId id = consumer.submit(simple_request(63, 10));
  consumer.pump_until_ended(id);
  CHECK(consumer.outcomes()[id].choices[0].reason == FinishReason::kContextFull);
  CHECK_EQ(consumer.outcomes()[id].choices[0].completion_tokens, 1u);
}

// The test takes a stop string and a stop token from the text and the tokens of one response.
TEST(engine_stops_at_stop_strings_and_tokens) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest request = simple_request(20, 40);
  request.sampling.top_logprobs = 0;
  const RequestId plain = consumer.submit(request);
  consumer.pump_until_ended(plain);
  const ChoiceOutcome whole = consumer.outcomes()[plain].choices[0];
  CHECK(whole.reason == FinishReason::kMaxTokens);
  CHECK_EQ(whole.completion_tokens, 40u);
  CHECK(whole.piece_tokens <= 40);
  REQUIRE(whole.content.size() > 20);

  size_t begin = whole.content.size() / 2;
  while ((static_cast<unsigned char>(whole.content[begin]) & 0xC0) == 0x80) ++begin;
  const std::string stop = whole.content.substr(begin, 5);
  request.stop = {"never generated", stop};
  const RequestId stopped = consumer.submit(request);
  consumer.pump_until_ended(stopped);
  const ChoiceOutcome& cut = consumer.outcomes()[stopped].choices[0];
  CHECK(cut.reason == FinishReason::kStopString);
  CHECK_EQ(cut.stop_index, 1);
  CHECK_EQ(cut.content, whole.content.substr(0, whole.content.find(stop)));
  CHECK(cut.completion_tokens < 40);

  request.stop.clear();
  request.stop_tokens = {whole.logprobs[10].first};
  const RequestId token = consumer.submit(request);
  consumer.pump_until_ended(token);
  const ChoiceOutcome& ended = consumer.outcomes()[token].choices[0];
  CHECK(ended.reason == FinishReason::kEndOfTurn);
  CHECK(whole.content.starts_with(ended.content));
  CHECK(ended.completion_tokens <= 11);  // The stop token is counted, but its text is not returned.

  // An end-of-generation token, forced by a bias, ends the response and counts as a sampled token.
  request.stop_tokens.clear();
  request.ignore_eos = false;
  request.sampling.logit_bias = {{engine->tokenizer().eos(), 100.0f}};
  const RequestId eos = consumer.submit(request);
  consumer.pump_until_ended(eos);
  CHECK(consumer.outcomes()[eos].choices[0].reason == FinishReason::kEndOfTurn);
  CHECK_EQ(consumer.outcomes()[eos].choices[0].completion_tokens, 1u);
  CHECK_EQ(consumer.outcomes()[eos].choices[0].content, std::string());
}

TEST(engine_closes_reasoning_when_the_budget_is_used_up) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  for (const int budget : {0, 1, 12}) {
    GenerationRequest request = simple_request(20, 40, 2);
    request.reasoning.starts_inside = true;
    request.reasoning.close.text = "</think>";
    request.reasoning.budget = budget;
    engine->tokenizer().encode("\n</think>\n\n", {}, request.reasoning.close_sequence);
    const auto closing = static_cast<uint32_t>(request.reasoning.close_sequence.size());
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    const ChoiceOutcome& choice = consumer.outcomes()[id].choices[0];
    CHECK_EQ(choice.completion_tokens, 40u);
    CHECK(choice.reasoning_tokens > static_cast<uint32_t>(budget));
    CHECK(choice.reasoning_tokens <= static_cast<uint32_t>(budget) + closing);
    CHECK(budget == 0 || !choice.reasoning.empty());
    CHECK(!choice.reasoning.starts_with("\n") && !choice.reasoning.ends_with("\n"));
    CHECK(!choice.content.empty() && !choice.content.starts_with("\n"));
    CHECK(choice.content.find("</think>") == std::string::npos);
  }
}

// A model that computes only as many steps as the test has released.
class AllowedModel final : public ModelAround {
 public:
  AllowedModel(std::unique_ptr<Model> model, std::counting_semaphore<>& steps)
      : ModelAround(std::move(model)), steps_(steps) {}
  const float* forward(const Batch& batch) override {
    steps_.acquire();
    return model_->forward(batch);
  }

 private:
  std::counting_semaphore<>& steps_;
};

// A model that takes at least a millisecond per step, so that the test has time to intervene.
class SlowModel final : public ModelAround {
 public:
  using ModelAround::ModelAround;
  const float* forward(const Batch& batch) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return model_->forward(batch);
  }
};

TEST(engine_cancels_at_every_stage_and_frees_the_pages) {
  EngineSetup setup;
  setup.options.max_sequences = 1;
  setup.options.max_batch_tokens = 4;  // Prefill takes many steps.
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  auto model = std::make_unique<SlowModel>(std::move(parts.model));
  auto running = Engine::start(std::move(model), std::move(parts.backend), parts.tokenizer, setup.options);
  REQUIRE(running.ok());
  const std::unique_ptr<Engine> engine = std::move(*running);
  Consumer consumer(*engine);
  const auto started = [&](RequestId id) { return consumer.outcomes()[id].started > 0; };

  const RequestId prefilling = consumer.submit(simple_request(400, 10, 1));
  const RequestId queued = consumer.submit(simple_request(10, 10, 2));
  consumer.pump_until([&] { return started(prefilling); });
  CHECK_EQ(engine->stats().waiting, 1);
  engine->cancel(consumer.channel(), queued);
  engine->cancel(consumer.channel(), queued);  // A second cancellation has no effect.
  engine->cancel(consumer.channel(), prefilling);
  CHECK(pages_come_back(*engine));

  const RequestId decoding = consumer.submit(simple_request(10, 450, 3));
  consumer.pump_until([&] { return consumer.outcomes()[decoding].choices[0].pieces > 2; });
  engine->cancel(consumer.channel(), decoding);
  const int pieces = consumer.outcomes()[decoding].choices[0].pieces;
  CHECK(pages_come_back(*engine));
  engine->cancel(consumer.channel(), 12345);

  const RequestId last = consumer.submit(simple_request(5, 5, 4));  // The engine keeps running.
  consumer.pump_until_ended(last);
  CHECK_EQ(consumer.outcomes()[decoding].choices[0].pieces, pieces);  // No delta arrives after cancel().
  CHECK(!consumer.outcomes()[queued].ended() && !consumer.outcomes()[prefilling].ended());
  const EngineStats stats = engine->stats();
  CHECK_EQ(stats.cancelled_queued, uint64_t{1});
  CHECK_EQ(stats.cancelled_prefill, uint64_t{1});
  CHECK_EQ(stats.cancelled_decode, uint64_t{1});
  CHECK_EQ(stats.finished, uint64_t{1});
  CHECK_EQ(stats.requests, uint64_t{4});
  CHECK_EQ(stats.last_step_age_ms, 0.0);
}

// The request has ended, but its records have not been drained. After cancel(), none of these records may be delivered.
TEST(cancel_drops_undelivered_output_of_an_ended_request) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine), another(*engine);
  const RequestId gone = consumer.submit(simple_request(10, 5, 1)), kept = consumer.submit(simple_request(10, 6, 2));
  const auto wait_for_ends = [&](uint64_t n) {
    while (engine->stats().finished < n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait_for_ends(2);
  // This request runs in a later step. By the time it finishes, the engine has removed both earlier requests.
  another.pump_until_ended(another.submit(simple_request(5, 5)));
  engine->cancel(another.channel(), kept);  // This request does not belong to the channel.
  engine->cancel(consumer.channel(), gone);
  consumer.pump_until_ended(kept);
  CHECK_EQ(consumer.outcomes()[gone].started, 0);
  CHECK(consumer.outcomes()[gone].choices.empty());
  CHECK_EQ(consumer.outcomes()[kept].choices[0].piece_tokens, 6);
  // The engine must not retain the IDs of finished requests forever.
  const RequestId next = consumer.submit(simple_request(10, 5, 3));
  consumer.pump_until_ended(next);
}

TEST(engine_bounds_its_queue_in_length_and_time) {
  EngineSetup setup;
  setup.options.max_sequences = 1;
  setup.options.queue_max = 2;
  setup.limits.max_context = 4096;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  const RequestId running = consumer.submit(simple_request(10, 4000));
  consumer.pump_until([&] { return consumer.outcomes()[running].started > 0; });
  GenerationRequest hurried = simple_request(10, 5);
  hurried.queue_wait_ms = 30;
  const RequestId impatient = consumer.submit(hurried);
  const RequestId patient = consumer.submit(simple_request(10, 5));
  auto refused = engine->submit(consumer.channel(), simple_request(10, 5));
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kQueueFull);
  consumer.pump_until_ended(impatient);
  CHECK(consumer.outcomes()[impatient].failed);
  CHECK(consumer.outcomes()[impatient].code == FailureCode::kQueueTimeout);
  CHECK_EQ(consumer.outcomes()[impatient].started, 0);
  engine->cancel(consumer.channel(), running);
  consumer.pump_until_ended(patient);
  CHECK_EQ(consumer.outcomes()[patient].choices[0].completion_tokens, 5u);
}

TEST(engine_bounds_the_waiting_prompt_tokens) {
  EngineSetup setup;
  setup.options.max_sequences = 1;
  setup.options.queue_max_tokens = 50;
  setup.limits.max_context = 4096;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  // The prompt exceeds the limit but is accepted, because the queue is empty.
  const RequestId running = consumer.submit(simple_request(60, 4000));
  consumer.pump_until([&] { return consumer.outcomes()[running].started > 0; });
  consumer.submit(simple_request(30, 5));
  consumer.submit(simple_request(20, 5));
  const auto refused = engine->submit(consumer.channel(), simple_request(1, 5));
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kQueueFull);
  CHECK(refused.error().message.find("prompt tokens") != std::string::npos);
  CHECK_EQ(engine->stats().waiting_tokens, int64_t{50});
  EngineTunables tunables;
  tunables.queue_max_tokens = 60;
  engine->configure(tunables);  // Applies from the next submission onwards.
  const RequestId last = consumer.submit(simple_request(10, 5));
  CHECK_EQ(engine->stats().waiting, 3);
  engine->cancel(consumer.channel(), running);
  consumer.pump_until_ended(last);
  CHECK_EQ(engine->stats().waiting_tokens, int64_t{0});
  CHECK_EQ(engine->stats().prompt_tokens, uint64_t{120});
}

TEST(engine_applies_new_limits_while_running) {
  EngineSetup setup;
  setup.options.max_batch_tokens = 64;
  setup.options.max_sequences = 2;
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  std::counting_semaphore<> steps(0);
  auto model = std::make_unique<AllowedModel>(std::move(parts.model), steps);
  auto running = Engine::start(std::move(model), std::move(parts.backend), parts.tokenizer, setup.options);
  REQUIRE(running.ok());
  const std::unique_ptr<Engine> engine = std::move(*running);
  EngineStats stats = engine->stats();
  CHECK_EQ(stats.batch_tokens_limit, 256);  // The allocated maximum.
  CHECK_EQ(stats.sequences_limit, 16);
  Consumer consumer(*engine);
  std::vector<RequestId> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(consumer.submit(simple_request(10, 400)));
  steps.release(2);  // Two, because the first step may be planned before the second request arrives.
  consumer.pump_until([&] { return consumer.outcomes()[ids[1]].started > 0; });
  CHECK_EQ(consumer.outcomes()[ids[2]].started, 0);
  EngineTunables tunables;
  tunables.max_sequences = 100;
  tunables.step_ms = 7;
  engine->configure(tunables);
  steps.release(20);  // Far fewer steps than a response takes, so all six requests run concurrently.
  consumer.pump_until([&] { return consumer.outcomes()[ids[5]].started > 0; });
  CHECK(!consumer.outcomes()[ids[0]].ended());
  stats = engine->stats();
  CHECK_EQ(stats.max_sequences, 16);
  CHECK_EQ(stats.max_batch_tokens, 64);
  CHECK_EQ(stats.step_ms, 7);
  tunables = {};
  tunables.max_batch_tokens = 4;  // Fewer sequences than requested.
  engine->configure(tunables);
  steps.release(1'000'000);
  for (const RequestId id : ids) consumer.pump_until_ended(id);
  CHECK_EQ(engine->stats().max_sequences, 3);
  tunables.max_batch_tokens = 64;
  engine->configure(tunables);
  consumer.pump_until_ended(consumer.submit(simple_request(10, 5)));
  CHECK_EQ(engine->stats().max_sequences, 16);  // The configured value.
}

TEST(engine_ends_responses_at_their_time_limit_and_on_drain) {
  EngineSetup setup;
  setup.limits.max_context = 4096;
  setup.options.max_sequences = 3;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest limited = simple_request(10, 4000);
  limited.generation_ms = 40;
  const RequestId timed = consumer.submit(limited);
  consumer.pump_until_ended(timed);
  CHECK(consumer.outcomes()[timed].choices[0].reason == FinishReason::kTimeLimit);
  CHECK(!consumer.outcomes()[timed].choices[0].content.empty());

  GenerationRequest choices = simple_request(10, 4000);
  choices.n = 3;
  const RequestId running = consumer.submit(choices);
  consumer.pump_until([&] { return consumer.outcomes()[running].choices[2].pieces > 1; });
  const RequestId waiting = consumer.submit(simple_request(10, 4000));
  engine->drain();
  CHECK(engine->submit(consumer.channel(), simple_request(1, 1)).error().code == ErrorCode::kClosed);
  consumer.pump_until_ended(running);
  consumer.pump_until_ended(waiting);
  for (int i = 0; i < 3; ++i) CHECK(consumer.outcomes()[running].choices[i].reason == FinishReason::kTimeLimit);
  CHECK(consumer.outcomes()[waiting].code == FailureCode::kShutdown);
  CHECK(pages_come_back(*engine));
}

TEST(engine_closes_promptly_while_running) {
  EngineSetup setup;
  setup.limits.max_context = 4096;
  auto engine = start_engine(setup);
  if (!engine) return;
  std::atomic<int> wakes{0};
  const ChannelId channel = engine->open_channel([&] { ++wakes; });
  for (int i = 0; i < 8; ++i) CHECK(engine->submit(channel, simple_request(100 + i, 4000)).ok());
  while (wakes == 0) std::this_thread::yield();
  const auto before = std::chrono::steady_clock::now();
  engine.reset();
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(2));
}

TEST(closing_a_channel_cancels_its_requests_and_wake_ups) {
  EngineSetup setup;
  setup.limits.max_context = 4096;
  auto engine = start_engine(setup);
  if (!engine) return;
  auto woken = std::make_unique<std::atomic<int>>(0);
  const ChannelId channel = engine->open_channel([flag = woken.get()] { ++*flag; });
  CHECK(engine->submit(channel, simple_request(10, 4000)).ok());
  while (*woken == 0) std::this_thread::yield();
  engine->close_channel(channel);
  woken.reset();  // A wake-up after close_channel() would access freed memory.
  CHECK(pages_come_back(*engine));
  CHECK_EQ(engine->stats().cancelled_decode + engine->stats().cancelled_prefill, uint64_t{1});
}

// Requests can be changed only through their own channel; knowing their ID is not enough.
TEST(requests_can_be_changed_only_through_their_channel) {
  EngineSetup setup;
  setup.limits.max_context = 1024;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine), other(*engine);
  constexpr ChannelId kClosed = 999;
  const RequestId id = consumer.submit(simple_request(10, 400));
  consumer.pump_until([&] { return consumer.outcomes()[id].started > 0; });
  engine->cancel(other.channel(), id);
  engine->cancel(kClosed, id);
  for (const int choice : {-1, kMaxChoices}) engine->finish(id, choice);
  engine->finish(id + 1, 0);
  engine->close_channel(kClosed);
  std::vector<std::byte> left(3);
  engine->drain_channel(kClosed, left);
  CHECK(left.empty());
  consumer.pump_until_ended(id);
  CHECK(consumer.outcomes()[id].choices[0].reason == FinishReason::kMaxTokens);
  CHECK_EQ(consumer.outcomes()[id].choices[0].completion_tokens, 400u);
  const EngineStats stats = engine->stats();
  CHECK_EQ(stats.cancelled_prefill + stats.cancelled_decode, uint64_t{0});
}

TEST(a_draining_engine_refuses_requests) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  const RequestId before = consumer.submit(simple_request(10, 5));
  consumer.pump_until_ended(before);
  engine->drain();
  const auto refused = engine->submit(consumer.channel(), simple_request(10, 5));
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kClosed);
  CHECK_EQ(refused.error().message, "the engine is closing");
  CHECK_EQ(engine->stats().waiting, 0);
}

TEST(engine_pauses_requests_of_a_consumer_that_does_not_drain) {
  EngineSetup setup;
  setup.limits.max_context = 4096;
  setup.options.channel_bytes_max = 2000;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer slow(*engine), quick(*engine);
  const RequestId held = slow.submit(simple_request(10, 300, 1));
  uint64_t steps = 0;
  for (int i = 0; i < 2000; ++i) {  // Waits until the engine takes no more steps.
    const EngineStats stats = engine->stats();
    if (stats.running == 0 && stats.steps > 10) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  steps = engine->stats().steps;
  CHECK(steps > 10 && steps < 200);
  CHECK_EQ(engine->stats().running, 0);
  const RequestId other = quick.submit(simple_request(10, 20, 2));  // Other consumers are not affected.
  quick.pump_until_ended(other);
  CHECK(engine->stats().steps <= steps + 21);
  slow.pump_until_ended(held);  // Once drained, the request continues and loses nothing.
  CHECK_EQ(slow.outcomes()[held].choices[0].completion_tokens, 300u);
  const RequestId again = quick.submit(simple_request(10, 300, 1));
  quick.pump_until_ended(again);
  CHECK_EQ(quick.outcomes()[again].choices[0].content, slow.outcomes()[held].choices[0].content);
}

// A model that fails either by returning NaN logits in one row or by throwing in forward().
class FailingModel final : public ModelAround {
 public:
  FailingModel(std::unique_ptr<Model> model, int bad_token, bool throws)
      : ModelAround(std::move(model)), bad_token_(bad_token), throws_(throws) {}
  const float* forward(const Batch& batch) override {
    const float* logits = model_->forward(batch);
    const auto n_vocab = static_cast<size_t>(params().n_vocab);
    logits_.assign(logits, logits + batch.logit_rows.size() * n_vocab);
    for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
      if (batch.tokens[static_cast<size_t>(batch.logit_rows[i])] != bad_token_) continue;
      if (throws_) throw std::runtime_error("the device is lost");
      logits_[i * n_vocab + 17] = std::numeric_limits<float>::quiet_NaN();
    }
    return logits_.data();
  }

 private:
  int bad_token_;
  bool throws_;
  std::vector<float> logits_;
};

// Hangs while `hangs` is set.
class HangingModel final : public ModelAround {
 public:
  HangingModel(std::unique_ptr<Model> model, const std::atomic<bool>& hangs)
      : ModelAround(std::move(model)), hangs_(hangs) {}
  const float* forward(const Batch& batch) override {
    while (hangs_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return model_->forward(batch);
  }

 private:
  const std::atomic<bool>& hangs_;
};

TEST(engine_survives_nan_logits_and_reports_a_failed_step) {
  for (const bool throws : {false, true}) {
    EngineParts parts = load_parts({});
    if (!parts.model) return;
    auto model = std::make_unique<FailingModel>(std::move(parts.model), 333, throws);
    auto started = Engine::start(std::move(model), std::move(parts.backend), parts.tokenizer, {});
    REQUIRE(started.ok());
    const std::unique_ptr<Engine> engine = std::move(*started);
    Consumer consumer(*engine);
    GenerationRequest good = simple_request(10, 30), bad = simple_request(10, 30);
    // The bias keeps the stop token from being generated.
    good.sampling.logit_bias = bad.sampling.logit_bias = {{333, -100.0f}};
    bad.prompt.back() = 333;
    bad.n = 2;
    const RequestId first = consumer.submit(good);
    consumer.pump_until([&] { return consumer.outcomes()[first].started > 0; });
    const RequestId broken = consumer.submit(bad);
    consumer.pump_until_ended(broken);
    CHECK(consumer.outcomes()[broken].failed);
    CHECK(consumer.outcomes()[broken].code == FailureCode::kEngineError);
    consumer.pump_until_ended(first);
    if (throws) {
      CHECK(engine->stats().failed);
      CHECK(engine->submit(consumer.channel(), good).error().code == ErrorCode::kClosed);
    } else {
      CHECK(!consumer.outcomes()[first].failed);
      CHECK_EQ(consumer.outcomes()[first].choices[0].completion_tokens, 30u);
      CHECK(!engine->stats().failed);
      CHECK(pages_come_back(*engine));
    }
  }
}

TEST(engine_reports_a_hanging_step_even_if_it_is_the_first) {
  EngineParts parts = load_parts({});
  if (!parts.model) return;
  std::atomic<bool> hangs{true};
  auto model = std::make_unique<HangingModel>(std::move(parts.model), hangs);
  auto started = Engine::start(std::move(model), std::move(parts.backend), parts.tokenizer, {});
  REQUIRE(started.ok());
  const std::unique_ptr<Engine> engine = std::move(*started);
  Consumer consumer(*engine);
  for (int round = 0; round < 2; ++round) {  // A new engine, and an engine that was idle for a while.
    hangs = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK_EQ(engine->stats().last_step_age_ms, 0.0);
    const auto submitted_at = std::chrono::steady_clock::now();
    const RequestId id = consumer.submit(simple_request(10, 5));
    EngineStats stats;
    for (int i = 0; i < 5000 && (stats.running == 0 || stats.last_step_age_ms < 50); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      stats = engine->stats();
    }
    const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now() - submitted_at;
    CHECK_EQ(stats.running, 1);
    CHECK_EQ(stats.waiting, 0);
    CHECK(stats.last_step_age_ms >= 50 && stats.last_step_age_ms <= since.count());  // Idle time is not included.
    hangs = false;
    consumer.pump_until_ended(id);
    CHECK_EQ(engine->stats().last_step_age_ms, 0.0);
    CHECK_EQ(engine->stats().running, 0);
  }
}

// Several threads submit and finish requests, cancel them, change settings and close channels, all at random.
void check_random_load(bool asynchronous) {
  EngineSetup setup;
  setup.asynchronous = asynchronous;
  setup.limits.n_pages = 10;
  setup.options.max_batch_tokens = 48;
  setup.options.queue_max = 16;
  auto engine = start_engine(setup);
  if (!engine) return;
  std::atomic<uint64_t> accepted{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int session = 0; session < 3; ++session) {
        Consumer consumer(*engine);
        std::vector<RequestId> open;
        for (int i = 0; i < 25; ++i) {
          GenerationRequest request =
              simple_request(1 + static_cast<int>(random() % 120), 1 + static_cast<int>(random() % 30),
                             static_cast<int>(random() % 3));
          request.organization = random() % 2;
          request.n = random() % 5 == 0 ? 3 : 1;
          request.sampling.top_logprobs = random() % 3 == 0 ? 1 : -1;
          if (random() % 3 == 0) request.calls.required = {{301, 310, 311}, {301, 312}};
          auto id = engine->submit(consumer.channel(), request);
          if (id) {
            ++accepted;
            consumer.outcomes()[*id].n = request.n;
            open.push_back(*id);
          } else {
            CHECK(id.error().code == ErrorCode::kQueueFull);
          }
          if (random() % 3 == 0 && !open.empty()) {
            const size_t at = random() % open.size();
            engine->cancel(consumer.channel(), open[at]);
            open.erase(open.begin() + static_cast<ptrdiff_t>(at));
          }
          if (random() % 4 == 0 && !open.empty())
            engine->finish(open[random() % open.size()], static_cast<int>(random() % 3));
          if (random() % 10 == 0)
            engine->configure({.max_batch_tokens = 1 + static_cast<int>(random() % 300),
                               .max_sequences = 1 + static_cast<int>(random() % 20),
                               .step_ms = static_cast<int>(random() % 3),
                               .queue_max = {},
                               .queue_max_tokens = {}});
          consumer.pump(std::chrono::milliseconds(1 + random() % 3));
        }
        if (session < 2)  // The last session is closed while requests are running.
          for (const RequestId id : open) consumer.pump_until_ended(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pages_come_back(*engine));
  const EngineStats stats = engine->stats();
  CHECK(!stats.failed);
  CHECK_EQ(stats.requests, accepted.load());
  CHECK_EQ(stats.finished + stats.cancelled_queued + stats.cancelled_prefill + stats.cancelled_decode, accepted.load());
  CHECK(stats.preemptions > 0);
}

TEST(engine_random_load_from_several_threads) { check_random_load(false); }
TEST(engine_random_load_with_steps_in_flight) { check_random_load(true); }

}  // namespace
}  // namespace monolith::testing
