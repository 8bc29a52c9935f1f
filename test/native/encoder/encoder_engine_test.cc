// Tests the engine of text encoders: rejected requests, round-robin between organizations, cancellation, time limits
// and the shutdown of the engine.
#include <string>
#include <vector>

#include "check.h"
#include "encoder/embedding_fixture.h"
#include "engine/embedding/encoder_queue.h"

namespace monolith::testing {
namespace {

std::unique_ptr<LoadedEngine> load_bert() { return load_embedder("bert-mean.q8_0"); }

TEST(encoder_engine_describes_its_embeddings) {
  const auto loaded = load_bert();
  if (!loaded) return;
  const auto& info = loaded->info.embeddings;
  REQUIRE(info.has_value());
  CHECK_EQ(info->dimensions, 128);
  CHECK(info->pooling == Pooling::kMean);
  CHECK(info->is_encoder);
  CHECK_EQ(info->max_tokens, 448);
  CHECK(info->prefix == std::vector<TokenId>{2});
  CHECK(info->suffix == std::vector<TokenId>{3});
  CHECK_EQ(info->separator, 3);
}

TEST(configured_context_limits_the_tokens_of_a_text) {
  LoadOptions options;
  options.max_context = 64;
  const auto loaded = load_embedder("bert-mean.q8_0", options);
  if (!loaded) return;
  REQUIRE(loaded->info.embeddings.has_value());
  CHECK_EQ(loaded->info.embeddings->max_tokens, 64);
  CHECK_EQ(loaded->engine->max_context(), 64);
}

// A text longer than a batch is computed in a separate, larger batch. Shorter texts never form a larger batch.
TEST(one_organization_cannot_fill_a_larger_batch) {
  LoadOptions options;
  options.max_context = 4096;
  const auto loaded = load_embedder("modern-bert.q8_0", options);
  if (!loaded) return;
  CHECK(loaded->engine->max_context() > 1024);
  Consumer consumer(*loaded->engine);
  std::vector<RequestId> ids = {consumer.submit(embedding_request(test_prompt(400, 0)))};
  for (int i = 0; i < 100; ++i) ids.push_back(consumer.submit(embedding_request(test_prompt(16, i))));
  int most = 0;
  consumer.pump_until([&] {
    int n_running = 0;
    for (const RequestId id : ids)
      n_running += consumer.outcomes()[id].started > 0 && !consumer.outcomes()[id].ended() ? 1 : 0;
    most = std::max(most, n_running);
    return std::ranges::all_of(ids, [&](RequestId id) { return consumer.outcomes()[id].ended(); });
  });
  CHECK(most <= 32);
}

TEST(reranker_describes_its_labels) {
  const auto loaded = load_embedder("qwen3-rank.q8_0");
  if (!loaded) return;
  const auto& info = loaded->info.embeddings;
  REQUIRE(info.has_value());
  CHECK_EQ(info->dimensions, 2);
  CHECK(!info->is_encoder);
  CHECK(info->labels == std::vector<std::string>({"yes", "no"}));
}

TEST(encoder_engine_refuses_what_it_cannot_compute) {
  const auto loaded = load_bert();
  if (!loaded) return;
  Engine& engine = *loaded->engine;
  const ChannelId channel = engine.open_channel([] {});
  const auto refusal = [&](const GenerationRequest& request) { return engine.submit(channel, request); };
  GenerationRequest text = embedding_request({2, 5, 3});
  text.output = OutputKind::kTokens;
  text.max_tokens = 4;
  const auto generation = refusal(text);
  REQUIRE(!generation);
  CHECK(generation.error().code == ErrorCode::kUnsupported);
  CHECK(generation.error().message.find("text encoder") != std::string::npos);
  const auto outside = refusal(embedding_request({2, 352, 3}));
  REQUIRE(!outside);
  CHECK(outside.error().code == ErrorCode::kInvalidArgument);
  CHECK(outside.error().message.find("prompt[1]") != std::string::npos);
  const auto empty = refusal(embedding_request({}));
  CHECK(!empty && empty.error().code == ErrorCode::kInvalidArgument);
  const auto longer = refusal(embedding_request(test_prompt(449, 1)));
  CHECK(!longer && longer.error().code == ErrorCode::kTooLong);
  engine.close_channel(channel);
}

TEST(decoder_without_pooling_refuses_vectors) {
  EngineSetup setup;
  auto engine = start_engine(setup);
  if (!engine) return;
  const ChannelId channel = engine->open_channel([] {});
  const auto refused = engine->submit(channel, embedding_request({1, 2}));
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::kUnsupported);
}

TEST(encoder_queue_takes_turns) {
  EncoderQueue queue;
  const auto channel = std::make_shared<Channel>([] {}, size_t{1} << 20);
  for (const auto& [id, organization] : {std::pair{1u, 7u}, {2u, 7u}, {3u, 7u}, {4u, 9u}, {5u, 9u}, {6u, 4u}}) {
    auto job = std::make_unique<EncoderJob>();
    job->id = id;
    job->channel = channel;
    job->organization = organization;
    job->tokens.resize(16);
    queue.add(job);
  }
  const auto ids = [&](int rows) {
    std::vector<RequestId> taken;
    for (const auto& job : queue.take_batch(rows, [](size_t n) { return static_cast<int>(n); }))
      taken.push_back(job->id);
    return taken;
  };
  CHECK(ids(64) == std::vector<RequestId>({1, 4, 6, 2}));
  CHECK(ids(8) == std::vector<RequestId>({5}));  // A text longer than the batch is taken alone.
  queue.for_each([](EncoderJob& job) { job.ended = job.id == 3; });
  CHECK(queue.empty());
}

TEST(cancelled_texts_end_and_others_are_not_affected) {
  const auto loaded = load_bert();
  if (!loaded) return;
  Engine& engine = *loaded->engine;
  const std::vector<TokenId> kept = test_prompt(200, 2);
  const auto expected = embed(engine, {&kept, 1});
  Consumer consumer(engine);
  std::vector<RequestId> others;
  for (int i = 0; i < 40; ++i) others.push_back(consumer.submit(embedding_request(test_prompt(400, i))));
  const RequestId id = consumer.submit(embedding_request(kept, 2));
  for (const RequestId other : others) engine.cancel(consumer.channel(), other);
  consumer.pump_until_ended(id);
  CHECK(consumer.outcomes()[id].vector == expected[0]);
  for (const RequestId other : others) CHECK(!consumer.outcomes()[other].ended());
  const EngineStats stats = engine.stats();
  CHECK_EQ(stats.cancelled_queued + stats.cancelled_prefill + stats.finished, uint64_t{42});
  CHECK_EQ(stats.waiting, 0);
}

TEST(texts_that_wait_too_long_time_out) {
  const auto loaded = load_bert();
  if (!loaded) return;
  Consumer consumer(*loaded->engine);
  std::vector<RequestId> ids;
  for (int i = 0; i < 100; ++i) {
    GenerationRequest request = embedding_request(test_prompt(448, i));
    request.queue_wait_ms = 1;
    ids.push_back(consumer.submit(request));
  }
  int timed_out = 0;
  for (const RequestId id : ids) {
    consumer.pump_until_ended(id);
    const Outcome& outcome = consumer.outcomes()[id];
    if (outcome.failed) CHECK(outcome.code == FailureCode::kQueueTimeout);
    timed_out += outcome.failed ? 1 : 0;
  }
  CHECK(timed_out > 0);
  CHECK_EQ(loaded->engine->stats().waiting, 0);
}

TEST(texts_that_are_computed_for_too_long_end) {
  const auto loaded = load_bert();
  if (!loaded) return;
  Consumer consumer(*loaded->engine);
  std::vector<RequestId> ids;
  for (int i = 0; i < 100; ++i) {
    GenerationRequest request = embedding_request(test_prompt(448, i));
    request.generation_ms = 1;
    ids.push_back(consumer.submit(request));
  }
  int cut = 0;
  for (const RequestId id : ids) {
    consumer.pump_until_ended(id);
    const Outcome& outcome = consumer.outcomes()[id];
    CHECK(!outcome.failed);
    const bool in_time = !outcome.vector.empty();
    CHECK(outcome.choices.at(0).reason == (in_time ? FinishReason::kMaxTokens : FinishReason::kTimeLimit));
    cut += in_time ? 0 : 1;
  }
  CHECK(cut > 0);
  CHECK_EQ(loaded->engine->stats().running, 0);
}

TEST(drain_fails_waiting_texts_and_refuses_new_ones) {
  const auto loaded = load_bert();
  if (!loaded) return;
  Consumer consumer(*loaded->engine);
  std::vector<RequestId> ids;
  for (int i = 0; i < 50; ++i) ids.push_back(consumer.submit(embedding_request(test_prompt(448, i))));
  loaded->engine->drain();
  int shut_down = 0;
  for (const RequestId id : ids) {
    consumer.pump_until_ended(id);
    shut_down += consumer.outcomes()[id].failed ? 1 : 0;
  }
  CHECK(shut_down > 0);
  const auto refused = loaded->engine->submit(consumer.channel(), embedding_request({2, 3}));
  CHECK(!refused && refused.error().code == ErrorCode::kClosed);
}

TEST(full_queue_refuses_texts) {
  LoadOptions options;
  options.engine.queue_max = 1;
  const auto loaded = load_embedder("bert-mean.q8_0", options);
  if (!loaded) return;
  Consumer consumer(*loaded->engine);
  bool refused = false;
  for (int i = 0; i < 200 && !refused; ++i) {
    const auto result = loaded->engine->submit(consumer.channel(), embedding_request(test_prompt(448, i)));
    refused = !result && result.error().code == ErrorCode::kQueueFull;
  }
  CHECK(refused);
}

}  // namespace
}  // namespace monolith::testing
