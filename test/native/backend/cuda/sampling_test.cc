// Tests that sampling on the GPU (here in the emulator) produces the same tokens and bit-identical logprobs as the
// host's sampler, for all sampling options.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "emulator/emulator.h"
#include "check.h"
#include "engine/sampling/sampler.h"

namespace monolith {
namespace {

// A sampling task and the data to which it refers.
struct Case {
  std::vector<float> logits;
  std::vector<std::pair<int32_t, float>> bias;
  std::vector<int32_t> banned, allowed;
  std::vector<UsedToken> used;
  std::vector<uint64_t> mask;
  SampleTask task;  // Its logits pointer is set later, once they are in device memory.
};

class Cases {
 public:
  Cases(int n_vocab, uint32_t seed) : n_vocab_(n_vocab), random_(seed) {}

  Case next() {
    Case one;
    one.logits.resize(static_cast<size_t>(n_vocab_));
    const float spread = pick({0.01f, 1, 3, 12, 40});
    std::normal_distribution<float> normal(0, spread);
    for (float& logit : one.logits) logit = normal(random_);
    switch (random_() % 8) {
      case 0:  // Logits with many ties.
        for (float& logit : one.logits) logit = std::round(logit);
        break;
      case 1:  // Nothing but ties, some of them zeros of either sign.
        for (float& logit : one.logits) logit = random_() % 2 ? 0.0f : -0.0f;
        break;
      case 2: one.logits[random_() % one.logits.size()] += 30; break;
      default: break;
    }
    SampleTask& task = one.task;
    task.random = uint64_t{random_()} << 32 | random_();
    task.temperature = pick({0, 1e-6f, 0.3f, 1, 1, 2, 100});
    task.top_k = static_cast<int>(pick({0, 0, 0, 1, 2, 40, 700, 100000}));
    task.top_p = pick({0, 0.1f, 0.5f, 0.95f, 0.9999f, 1, 1});
    task.min_p = pick({0, 0, 0.05f, 0.5f, 1});
    task.n_top = static_cast<int>(pick({-1, -1, 0, 1, 20}));
    if (random_() % 4 == 0) {
      for (uint32_t i = 0, n = random_() % 40; i < n; ++i)
        one.bias.emplace_back(token(), pick({-100, -1000, 5, -2, 100}));
      if (random_() % 2) distinct(one.bias, [](const auto& entry) { return entry.first; });
    }
    for (uint32_t i = 0, n = random_() % 6 == 0 ? 3 : 0; i < n; ++i) one.banned.push_back(token());
    if (random_() % 4 == 0) {
      for (uint32_t i = 0, n = random_() % 60; i < n; ++i)
        one.used.push_back({token(), static_cast<int32_t>(random_() % 3)});
      distinct(one.used, [](const UsedToken& used) { return used.token; });
      task.repetition_penalty = pick({1, 1.3f, 0.8f});
      task.frequency_penalty = pick({0, 0.5f, -1});
      task.presence_penalty = pick({0, 0.7f});
    }
    const uint32_t kind = random_() % 6;
    if (kind == 2 && random_() % 2) task.given = token();
    if (kind == 0) {
      for (uint32_t i = 0, n = 1 + random_() % 5; i < n; ++i) one.allowed.push_back(token());
      std::ranges::sort(one.allowed);
      one.allowed.erase(std::ranges::unique(one.allowed).begin(), one.allowed.end());
      if (random_() % 3 == 0) one.banned = one.allowed;  // Bans have no effect on a list of allowed tokens.
    } else if (kind == 1) {
      one.mask.resize(static_cast<size_t>(n_vocab_ + 63) / 64);
      const uint32_t one_in = 1 + random_() % 300;
      for (int id = 0; id < n_vocab_; ++id)
        if (random_() % one_in == 0 || id == n_vocab_ / 2)
          one.mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    }
    if (random_() % 20 == 0)
      one.logits[random_() % one.logits.size()] =
          pick({std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                -std::numeric_limits<float>::infinity()});
    if (n_vocab_ < 100 && random_() % 10 == 0)
      for (int id = 0; id < n_vocab_; ++id) one.bias.emplace_back(id, -100.0f);  // Biases that leave no token.
    return one;
  }

  float pick(std::initializer_list<float> values) { return values.begin()[random_() % values.size()]; }

 private:
  int32_t token() { return static_cast<int32_t>(random_() % static_cast<uint32_t>(n_vocab_)); }
  template <typename T, typename Of>
  static void distinct(std::vector<T>& list, Of&& of) {
    std::vector<T> kept;
    for (const T& entry : list)
      if (std::ranges::find(kept, of(entry), of) == kept.end()) kept.push_back(entry);
    list = kept;
  }

  int n_vocab_;
  std::mt19937 random_;
};

void check_same(const SampleResult& got, const SampleResult& expected, const Case& one, int n_vocab) {
  const auto differs = [&](const std::string& what) {
    const SampleTask& task = one.task;
    check::fail(__FILE__, __LINE__,
                what + ": token " + std::to_string(got.token) + " instead of " + std::to_string(expected.token) +
                    ", vocabulary " + std::to_string(n_vocab) + ", temperature " + std::to_string(task.temperature) +
                    ", top_k " + std::to_string(task.top_k) + ", top_p " + std::to_string(task.top_p) + ", min_p " +
                    std::to_string(task.min_p) + ", top " + std::to_string(task.n_top) + ", lists of " +
                    std::to_string(one.bias.size()) + " " + std::to_string(one.banned.size()) + " " +
                    std::to_string(one.used.size()) + " " + std::to_string(one.allowed.size()) + " " +
                    std::to_string(one.mask.size()) + ", given " + std::to_string(task.given));
  };
  if (got.token != expected.token) return differs("token");
  if (expected.token < 0 || one.task.n_top < 0) return;
  if (std::memcmp(&got.logprob, &expected.logprob, sizeof got.logprob) != 0)
    return differs("logprob " + std::to_string(got.logprob) + " instead of " + std::to_string(expected.logprob));
  if (got.n_top != expected.n_top) return differs("number of logprobs");
  if (std::memcmp(got.top, expected.top, static_cast<size_t>(got.n_top) * sizeof got.top[0]) != 0)
    differs("top logprobs");
}

// Samples `n_cases` consecutive rows in one call, as in a step.
void check_cases(Backend& backend, int n_vocab, int n_cases, uint32_t seed) {
  Cases cases(n_vocab, seed);
  std::vector<Case> all;
  for (int i = 0; i < n_cases; ++i) all.push_back(cases.next());
  auto memory = backend.allocate(int64_t{n_vocab} * n_cases);
  REQUIRE(memory.ok());
  std::vector<SampleTask> tasks;
  std::vector<SampleResult> results(all.size());
  Sampler sampler(n_vocab);
  std::vector<SampleResult> expected(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    Case& one = all[i];
    one.task.bias = one.bias;
    one.task.banned = one.banned;
    one.task.used = one.used;
    one.task.allowed = one.allowed;
    one.task.mask = one.mask;
    one.task.logits = one.logits.data();
    sampler.sample(one.task, expected[i]);
    float* const row = *memory + static_cast<int64_t>(i) * n_vocab;
    backend.write_floats(row, one.logits.data(), n_vocab);
    tasks.push_back(one.task);
    tasks.back().logits = row;
    std::memset(static_cast<void*>(&results[i]), 0x5a, sizeof results[i]);
  }
  backend.sample(n_vocab, tasks, results);
  for (size_t i = 0; i < all.size(); ++i) check_same(results[i], expected[i], all[i], n_vocab);
  // The logits must stay unchanged, because other choices may sample from the same row of logits.
  std::vector<float> after(static_cast<size_t>(n_vocab));
  for (size_t i = 0; i < all.size(); ++i) {
    backend.read_floats(after.data(), tasks[i].logits, n_vocab);
    CHECK(std::memcmp(after.data(), all[i].logits.data(), after.size() * sizeof(float)) == 0);
  }
}

std::unique_ptr<Backend> open_backend(int n_vocab, int most_tasks) {
  auto backend = make_cuda_backend({});
  if (!backend) {
    check::fail(__FILE__, __LINE__, backend.error().message);
    return nullptr;
  }
  CHECK((*backend)->can_sample(n_vocab));
  CHECK((*backend)->reserve_samples(n_vocab, most_tasks).ok());
  return std::move(*backend);
}

TEST(cuda_sampling_matches_the_host) {
  using cuda::emulator::Order;
  auto backend = open_backend(20'011, 16);
  REQUIRE(backend != nullptr);
  uint32_t seed = 1;
  for (const int n_vocab : {1, 2, 5, 63, 64, 65, 1000, 1024, 1027, 4096, 20'011}) {
    cuda::emulator::set_order(seed % 3 == 0   ? Order::kDescending
                              : seed % 3 == 1 ? Order::kAscending
                                              : Order::kShuffled);
    check_cases(*backend, n_vocab, n_vocab < 100 ? 60 : 45, seed++);  // Enough rows for several rounds.
  }
  cuda::emulator::set_order(Order::kAscending);
}

// Uses logits near the point where weights round to zero: draws the last token that has a nonzero weight, and the
// tokens before it.
TEST(cuda_samples_the_smallest_weights) {
  constexpr int kVocab = 5000;
  auto backend = open_backend(kVocab, 1);
  REQUIRE(backend != nullptr);
  auto memory = backend->allocate(kVocab);
  REQUIRE(memory.ok());
  Sampler sampler(kVocab);
  std::vector<float> logits(kVocab);
  // Logits from 0 down to -25.
  for (int i = 0; i < kVocab; ++i)
    logits[static_cast<size_t>(i)] = i == 0 ? 0.0f : -22.5f - 0.0005f * static_cast<float>(i);
  backend->write_floats(*memory, logits.data(), kVocab);
  int32_t last = 0;
  for (uint64_t back = 0; back < 16; ++back) {
    SampleTask task;
    task.logits = logits.data();
    task.n_top = 0;
    task.random = ~uint64_t{0} - (back * 60 << 30);  // Random numbers at the upper end, a few quanta of 2^34 apart.
    SampleResult expected, got;
    sampler.sample(task, expected);
    task.logits = *memory;
    backend->sample(kVocab, {&task, 1}, {&got, 1});
    CHECK_EQ(got.token, expected.token);
    CHECK(std::memcmp(&got.logprob, &expected.logprob, sizeof got.logprob) == 0);
    last = std::max(last, got.token);
  }
  CHECK(last > 3400 && last < 3600);  // The last token drawn is 24.26 below the largest logit.
}

// Tests rows whose logits a histogram of distances cannot distinguish: equal logits, and logits that differ only in
// their last bits.
TEST(cuda_samples_rows_of_ties) {
  constexpr int kVocab = 9001;
  auto backend = open_backend(kVocab, 1);
  REQUIRE(backend != nullptr);
  auto memory = backend->allocate(kVocab);
  REQUIRE(memory.ok());
  Sampler sampler(kVocab);
  std::vector<float> logits(kVocab);
  for (const int kind : {0, 1, 2}) {
    for (int i = 0; i < kVocab; ++i) {
      const auto at = static_cast<size_t>(i);
      logits[at] = kind == 0   ? 2.5f
                   : kind == 1 ? -7.0f - 4.7683716e-7f * static_cast<float>(i * 37 % 5)
                               : static_cast<float>(-(i * 7919 % 3));
    }
    backend->write_floats(*memory, logits.data(), kVocab);
    for (const int top_k : {0, 3, 2049, 5000, 8999}) {
      for (const float top_p : {0.0f, 0.3f, 0.9f, 1.0f}) {
        SampleTask task;
        task.logits = logits.data();
        task.top_k = top_k;
        task.top_p = top_p;
        task.n_top = top_k == 3 ? 20 : -1;
        task.random = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(top_k + 17 * kind + 1);
        SampleResult expected, got;
        sampler.sample(task, expected);
        task.logits = *memory;
        backend->sample(kVocab, {&task, 1}, {&got, 1});
        CHECK_EQ(got.token, expected.token);
        if (task.n_top >= 0) CHECK(got.n_top == 20 && std::memcmp(got.top, expected.top, sizeof got.top) == 0);
      }
    }
  }
}

TEST(cuda_samples_with_room_for_every_list) {
  constexpr int kVocab = 3000;
  auto backend = open_backend(kVocab, 2);
  REQUIRE(backend != nullptr);
  CHECK(!backend->can_sample((1 << 20) + 1));
  auto memory = backend->allocate(kVocab);
  REQUIRE(memory.ok());
  std::vector<float> logits(kVocab);
  std::vector<UsedToken> used;
  std::vector<std::pair<int32_t, float>> bias;
  for (int i = 0; i < kVocab; ++i) {
    logits[static_cast<size_t>(i)] = 0.001f * static_cast<float>(i * 1237 % kVocab);
    used.push_back({i, i % 4});
    if (i < 1024) bias.emplace_back(i, 0.1f * static_cast<float>(i % 20));
  }
  const std::vector<uint64_t> mask((kVocab + 63) / 64 - 1, 0x5555555555555555u);
  std::vector<uint64_t> whole = mask;
  whole.push_back(1);
  backend->write_floats(*memory, logits.data(), kVocab);
  std::vector<SampleTask> tasks(9);
  std::vector<SampleResult> expected(9), got(9);
  Sampler sampler(kVocab);
  for (size_t i = 0; i < tasks.size(); ++i) {
    SampleTask& task = tasks[i];
    task.random = i << 60;
    task.used = used;
    task.bias = bias;
    task.mask = whole;
    task.frequency_penalty = 0.3f;
    task.repetition_penalty = 1.1f;
    task.top_p = 0.8f;
    task.n_top = 5;
    task.logits = logits.data();
    sampler.sample(task, expected[i]);
    task.logits = *memory;
  }
  backend->sample(kVocab, tasks, got);
  for (size_t i = 0; i < tasks.size(); ++i) {
    CHECK_EQ(got[i].token, expected[i].token);
    CHECK(std::memcmp(got[i].top, expected[i].top, 5 * sizeof got[i].top[0]) == 0);
  }
}

// If there are more rows with modified logits than the buffer holds, they are sampled in two calls. Before these calls,
// another call is started whose results are never collected.
TEST(cuda_samples_in_two_calls) {
  constexpr int kVocab = 500, kTasks = 20;
  auto backend = open_backend(1 << 20, kTasks);  // The sampler's buffer has room for 8 such rows.
  REQUIRE(backend != nullptr);
  auto memory = backend->allocate(kVocab);
  REQUIRE(memory.ok());
  std::vector<float> logits(kVocab);
  for (int i = 0; i < kVocab; ++i) logits[static_cast<size_t>(i)] = 0.01f * static_cast<float>(i * 237 % kVocab);
  backend->write_floats(*memory, logits.data(), kVocab);
  std::vector<std::vector<std::pair<int32_t, float>>> biases(kTasks);
  std::vector<SampleTask> tasks(kTasks);
  std::vector<SampleResult> expected(kTasks), got(kTasks);
  Sampler sampler(kVocab);
  for (size_t i = 0; i < kTasks; ++i) {
    if (i % 4 != 3) biases[i] = {{static_cast<int32_t>(11 * i), 9.0f}};
    tasks[i].bias = biases[i];
    tasks[i].temperature = i % 2 ? 0.0f : 1.0f;
    tasks[i].random = i << 59;
    tasks[i].logits = logits.data();
    sampler.sample(tasks[i], expected[i]);
    tasks[i].logits = *memory;
  }
  backend->begin_sample(kVocab, std::span(tasks).subspan(5, 3));
  backend->begin_sample(kVocab, tasks);
  backend->end_sample(kVocab, tasks, got);
  for (size_t i = 0; i < kTasks; ++i) CHECK_EQ(got[i].token, expected[i].token);
}

}  // namespace
}  // namespace monolith
