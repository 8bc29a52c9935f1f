// Tests that no text is lost or ended twice if the engine of a text encoder fails to allocate memory. Each test is
// repeated so that every allocation of the engine thread fails once.
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "allocation_hook.h"
#include "backend/registry/registry.h"
#include "check.h"
#include "engine/embedding/encoder_engine.h"
#include "engine/embedding/encoder_queue.h"
#include "engine_fixture.h"
#include "formats/gguf/tokenizer.h"

namespace monolith::testing {
namespace {

constexpr int kJobs = 40, kOrganizations = 5;

// Takes batches until the queue is empty, and returns the number of jobs taken. The first `n` allocations succeed, and
// the next one fails. If it is reached, `failed` is set.
int count_jobs(int n, bool& failed) {
  EncoderQueue queue;
  const auto channel = std::make_shared<Channel>([] {}, size_t{1} << 20);
  for (int i = 0; i < kJobs; ++i) {
    auto job = std::make_unique<EncoderJob>();
    job->channel = channel;
    job->organization = static_cast<uint64_t>(i % kOrganizations);
    job->tokens.resize(16);
    queue.add(job);
  }
  int taken = 0;
  until_failure = n;
  n_failures = 1;
  while (!queue.empty()) {
    try {
      taken += static_cast<int>(queue.take_batch(128, [](size_t tokens) { return static_cast<int>(tokens); }).size());
    } catch (const std::bad_alloc&) {
      failed = true;
    }
  }
  until_failure = -1;
  return taken;
}

TEST(failed_allocations_lose_no_waiting_text) {
  bool failed = true;
  int n = 0;
  for (; failed; ++n) {
    failed = false;
    CHECK_EQ(count_jobs(n, failed), kJobs);
  }
  CHECK(n > 1);
}

std::unique_ptr<Engine> start_bert() {
  const std::string path = check::vectors_path("models/bert-mean.q8_0.gguf");
  auto file = GgufFile::open(path);
  if (!file) {
    check::skip("golden vectors not found: bert-mean.q8_0");
    return nullptr;
  }
  auto backend = make_backend({.device = "cpu", .threads = 1});
  auto tokenizer = load_tokenizer(**file);
  if (!backend || !tokenizer) return nullptr;
  auto encoder = TextEncoder::load(**file, **backend, 0, {});
  if (!encoder) return nullptr;
  auto engine = start_encoder_engine(std::move(*encoder), std::move(*backend), std::move(*tokenizer), {});
  return engine ? std::move(*engine) : nullptr;
}

// Submits texts. After the first text has started, the next `n` allocations of the engine thread succeed, and the
// following `in_a_row` allocations fail. Checks that each text ends exactly once.
void check_texts_end_once(Engine& engine, int n, int in_a_row) {
  constexpr int kTexts = 20;
  std::mutex mutex;
  std::condition_variable condition;
  bool woken = false, armed = false;
  const ChannelId channel = engine.open_channel([&] {  // Called on the engine thread.
    const std::lock_guard lock(mutex);
    woken = true;
    if (!std::exchange(armed, true)) {
      until_failure = n;
      n_failures = in_a_row;
    }
    condition.notify_one();
  });
  std::map<RequestId, Outcome> outcomes;
  for (int i = 0; i < kTexts; ++i) {
    GenerationRequest request;
    request.prompt = test_prompt(16 + 5 * i, i);
    request.output = OutputKind::kVector;
    request.max_tokens = 0;
    request.organization = static_cast<uint64_t>(i % 3);
    const auto id = engine.submit(channel, request);
    REQUIRE(id.ok());
    outcomes[*id].n = 1;
  }
  const auto ended = [&] { return std::ranges::all_of(outcomes, [](const auto& one) { return one.second.ended(); }); };
  std::vector<std::byte> events;
  while (!ended()) {
    {
      std::unique_lock lock(mutex);
      if (!condition.wait_for(lock, std::chrono::seconds(20), [&] { return woken; }))
        return check::fail(__FILE__, __LINE__, "a text did not end");
      woken = false;
    }
    engine.drain_channel(channel, events);
    EventReader(events).read_into(outcomes);
  }
  for (const auto& [id, outcome] : outcomes)
    if (outcome.failed) CHECK(outcome.code == FailureCode::kEngineError);
  const EngineStats stats = engine.stats();
  CHECK_EQ(stats.waiting, 0);
  CHECK_EQ(stats.waiting_tokens, 0);
  engine.close_channel(channel);
}

TEST(failed_allocations_end_each_text_once) {
  const auto engine = start_bert();
  if (!engine) return;
  uint64_t n_failed = 0;
  for (const int in_a_row : {1, 3})
    for (int n = 0; n < 12; ++n) {
      check_texts_end_once(*engine, n, in_a_row);
      const EngineStats stats = engine->stats();
      n_failed = stats.failed_requests;
      CHECK_EQ(stats.finished + stats.failed_requests, stats.requests);
    }
  CHECK(n_failed > 0);
}

}  // namespace
}  // namespace monolith::testing
