// Tests that rows sampled as a batch produce the same results as each row alone, on any number of threads and on a
// backend with its own sampler.
#include "engine/sampling/batch_sampler.h"

#include <cstring>
#include <random>

#include "engine/engine_fixture.h"
#include "backend/forwarding_backend.h"

namespace monolith::testing {
namespace {

constexpr int kVocab = 3000;

struct Rows {
  std::vector<std::vector<float>> logits;
  std::vector<SampleTask> tasks;
};

Rows random_rows(int n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  Rows rows;
  for (int i = 0; i < n; ++i) {
    rows.logits.emplace_back(kVocab);
    for (float& logit : rows.logits.back()) logit = normal(random);
    SampleTask task;
    task.logits = rows.logits.back().data();
    task.random = uint64_t{random()} << 32 | random();
    task.top_p = i % 3 == 0 ? 0.9f : 1.0f;
    task.top_k = i % 5 == 0 ? 30 : 0;
    task.temperature = i % 7 == 0 ? 0.0f : 0.8f;
    task.n_top = i % 4 == 0 ? 3 : -1;
    rows.tasks.push_back(task);
  }
  return rows;
}

bool same(const SampleResult& a, const SampleResult& b, bool with_logprobs) {
  if (a.token != b.token) return false;
  if (!with_logprobs) return true;
  return std::memcmp(&a.logprob, &b.logprob, sizeof a.logprob) == 0 && a.n_top == b.n_top &&
         std::memcmp(a.top, b.top, static_cast<size_t>(a.n_top) * sizeof a.top[0]) == 0;
}

TEST(batch_sampler_matches_single_row_sampling) {
  const Rows rows = random_rows(50, 1);
  std::vector<SampleResult> expected(rows.tasks.size());
  Sampler alone(kVocab);
  for (size_t i = 0; i < expected.size(); ++i) alone.sample(rows.tasks[i], expected[i]);
  for (const int threads : {1, 4}) {
    auto backend = make_cpu_backend({.threads = threads});
    REQUIRE(backend.ok());
    CHECK_EQ((*backend)->host_threads(), threads);
    BatchSampler sampler(**backend, **backend, kVocab, 8);  // The sampler grows for the other rows.
    for (int round = 0; round < 20; ++round) {
      sampler.clear();
      for (size_t i = 0; i < rows.tasks.size(); ++i) {
        CHECK_EQ(sampler.add(rows.tasks[i]), static_cast<int>(i));
        if (i == 20) sampler.run();
      }
      sampler.run();
      for (size_t i = 0; i < rows.tasks.size(); ++i) {
        const SampleResult* result = sampler.result(static_cast<int>(i));
        REQUIRE(result != nullptr);
        CHECK(same(*result, expected[i], rows.tasks[i].n_top >= 0));
      }
      CHECK(same(sampler.sample(rows.tasks[0]), expected[0], true));
    }
  }
}

// A chain of draft tokens is evaluated up to the first row for which a token other than the draft token is sampled. On
// one thread, the evaluation stops there.
TEST(batch_sampler_stops_where_a_chain_departs) {
  constexpr int kLength = 6;
  const Rows rows = random_rows(4 * kLength, 2);
  std::vector<SampleResult> expected(rows.tasks.size());
  Sampler alone(kVocab);
  for (size_t i = 0; i < expected.size(); ++i) alone.sample(rows.tasks[i], expected[i]);
  for (const int threads : {1, 4}) {
    auto backend = make_cpu_backend({.threads = threads});
    REQUIRE(backend.ok());
    BatchSampler sampler(**backend, **backend, kVocab, 100);
    for (int round = 0; round < 20; ++round) {
      sampler.clear();
      int of[4][kLength];
      for (int chain = 0; chain < 4; ++chain)
        of[chain][0] = sampler.add(rows.tasks[static_cast<size_t>(chain * kLength)]);
      // The first chain deviates from its draft tokens immediately, the second after two rows, and so on.
      for (int chain = 0; chain < 4; ++chain) {
        for (int i = 1; i < kLength; ++i) {
          const auto at = static_cast<size_t>(chain * kLength + i);
          const TokenId right = expected[at - 1].token;
          of[chain][i] =
              sampler.add_behind(of[chain][i - 1], i > 2 * chain ? (right + 1) % kVocab : right, rows.tasks[at]);
        }
      }
      sampler.run();
      for (int chain = 0; chain < 4; ++chain) {
        for (int i = 0; i < kLength; ++i) {
          const SampleResult* result = sampler.result(of[chain][i]);
          CHECK(result != nullptr || i > 2 * chain);
          if (threads == 1 && i > 2 * chain) CHECK(result == nullptr);
          const auto at = static_cast<size_t>(chain * kLength + i);
          if (result) CHECK(same(*result, expected[at], rows.tasks[at].n_top >= 0));
        }
      }
    }
  }
}

// The host must not access the logits, so their addresses are replaced with invalid addresses.
constexpr uintptr_t kFar = uintptr_t{1} << 46;
const float* moved(const float* at, uintptr_t by) {
  return reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(at) ^ by);
}

class SamplingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool is_host_memory() const override { return false; }
  bool can_sample(int) const override { return true; }
  Status reserve_samples(int n_vocab, int) override {
    sampler_ = std::make_unique<Sampler>(n_vocab);
    return {};
  }
  void sample(int, std::span<const SampleTask> tasks, std::span<SampleResult> results) override {
    for (size_t i = 0; i < tasks.size(); ++i) {
      SampleTask task = tasks[i];
      task.logits = moved(task.logits, kFar);
      sampler_->sample(task, results[i]);
    }
    n_tasks_ += tasks.size();
  }
  size_t n_tasks() const { return n_tasks_; }

 private:
  std::unique_ptr<Sampler> sampler_;
  std::atomic<size_t> n_tasks_{0};
};

class ModelOnSamplingBackend final : public Model {
 public:
  ModelOnSamplingBackend(std::unique_ptr<Model> model, Backend& backend)
      : model_(std::move(model)), backend_(backend) {}
  const HyperParams& params() const override { return model_->params(); }
  const ModelLimits& limits() const override { return model_->limits(); }
  const MemoryPlan& memory() const override { return model_->memory(); }
  KvCache& kv() override { return model_->kv(); }
  Backend& backend() override { return backend_; }
  const float* forward(const Batch& batch) override {
    CHECK(batch.leaves_logits);
    return moved(model_->forward(batch), kFar);
  }

 private:
  const std::unique_ptr<Model> model_;
  Backend& backend_;
};

std::vector<GenerationRequest> requests() {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 8; ++i) {
    GenerationRequest request;
    request.prompt = test_prompt(20 + i, i % 3);
    request.n = i == 3 ? 4 : 1;
    request.max_tokens = 30;
    request.ignore_eos = true;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 4 == 0 ? 0.0f : 0.7f;
    request.sampling.top_p = i % 3 == 0 ? 0.8f : 1.0f;
    request.sampling.repetition_penalty = i == 5 ? 1.2f : 1.0f;
    request.sampling.top_logprobs = i % 2 ? 2 : -1;
    request.sampling.logit_bias = {{50, 30.0f}, {120, 30.0f}, {200, 30.0f}};
    if (i >= 6) {
      request.calls.open = {"<open>", 301};
      request.calls.close = {"<close>", 302};
      request.calls.prefixes = {{310, 311, 312}, {310, 311, 313}, {314}, {310, 315}};
      request.calls.required = {{301, 310, 311}, {301, 314}};
    }
    requests.push_back(request);
  }
  return requests;
}

std::map<RequestId, Outcome> outcomes_of(Engine& engine) {
  Consumer consumer(engine);
  std::vector<RequestId> ids;
  for (const GenerationRequest& request : requests()) ids.push_back(consumer.submit(request));
  for (const RequestId id : ids) consumer.pump_until_ended(id);
  CHECK(pages_come_back(engine));
  return consumer.outcomes();
}

TEST(engine_samples_on_a_backend_that_can) {
  for (const Speculation speculation : {Speculation::kOff, Speculation::kAlways}) {
    EngineSetup setup;
    setup.options.speculation = speculation;
    setup.threads = 3;
    auto host = start_engine(setup);
    if (!host) return;
    const auto expected = outcomes_of(*host);
    EngineParts parts = load_parts(setup);
    REQUIRE(parts.model != nullptr);
    SamplingBackend sampling(*parts.backend);
    auto model = std::make_unique<ModelOnSamplingBackend>(std::move(parts.model), sampling);
    auto engine = Engine::start(std::move(model), std::move(parts.backend), parts.tokenizer, setup.options);
    REQUIRE(engine.ok());
    const auto got = outcomes_of(**engine);
    REQUIRE(got.size() == expected.size());
    for (const auto& [id, outcome] : expected) {
      REQUIRE(got.contains(id));
      CHECK_EQ(got.at(id).failed, outcome.failed);
      for (const auto& [index, choice] : outcome.choices)
        check_same(got.at(id).choices.at(index), choice,
                   "request " + std::to_string(id) + ", choice " + std::to_string(index));
    }
    CHECK(sampling.n_tasks() > 200);
  }
}

}  // namespace
}  // namespace monolith::testing
