// Benchmark of sampling on the CPU: the time to choose all tokens of one step. `rows` is the number of rows of logits,
// one per sequence.
//
// usage: sampling_bench [rows] [vocabulary] [threads]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/sampling/batch_sampler.h"

namespace monolith {
namespace {

struct Way {
  const char* name;
  float temperature, top_p, min_p;
  int top_k;
  int n_top;
  float spread;  // Standard deviation of the logits.
};
constexpr Way kWays[] = {
    {"greedy", 0, 1, 0, 0, -1, 3},
    {"temperature 0.8", 0.8f, 1, 0, 0, -1, 3},
    {"top_p 0.95, peaked", 0.8f, 0.95f, 0, 0, -1, 8},
    {"top_p 0.95, flat", 0.8f, 0.95f, 0, 0, -1, 1},
    {"top_k 40, top_p 0.95", 0.8f, 0.95f, 0, 40, -1, 3},
    {"min_p 0.05", 0.8f, 1, 0.05f, 0, -1, 3},
    {"20 logprobs", 0.8f, 1, 0, 0, 20, 3},
};

int run(int n_rows, int n_vocab, int threads) {
  auto backend = make_cpu_backend({.threads = threads});
  if (!backend) {
    std::fprintf(stderr, "%s\n", backend.error().message.c_str());
    return 1;
  }
  // Each sequence has its own row of logits, as after a forward pass. With the default sizes, the rows exceed the CPU
  // caches.
  std::vector<float> logits(static_cast<size_t>(n_rows) * static_cast<size_t>(n_vocab));
  BatchSampler sampler(**backend, **backend, n_vocab, n_rows);
  std::printf("%d rows of %d logits, %d threads\n", n_rows, n_vocab, (*backend)->host_threads());
  float spread = 0;
  for (const Way& way : kWays) {
    if (way.spread != spread) {
      spread = way.spread;
      std::mt19937 random(1);
      std::normal_distribution<float> normal(0, spread);
      std::vector<float> some(1 << 20);
      for (float& logit : some) logit = normal(random);
      for (size_t i = 0; i < logits.size(); ++i) logits[i] = some[(i * 7 + i / some.size()) % some.size()];
    }
    double best_ms = 1e9;
    for (int repeat = 0; repeat < 7; ++repeat) {
      sampler.clear();
      for (int row = 0; row < n_rows; ++row) {
        SampleTask task;
        task.logits = logits.data() + static_cast<size_t>(row) * static_cast<size_t>(n_vocab);
        task.random = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(row + repeat + 1);
        task.temperature = way.temperature;
        task.top_p = way.top_p;
        task.min_p = way.min_p;
        task.top_k = way.top_k;
        task.n_top = way.n_top;
        sampler.add(task);
      }
      const auto start = std::chrono::steady_clock::now();
      sampler.run();
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      best_ms = std::min(best_ms, took.count());
    }
    std::printf("  %-22s %8.3f ms, %6.1f us per row\n", way.name, best_ms, 1000 * best_ms / n_rows);
  }
  return 0;
}

}  // namespace
}  // namespace monolith

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const int n_rows = number(1, 32), n_vocab = number(2, 128'256), threads = number(3, 0);
  if (n_rows < 1 || n_rows > 4096 || n_vocab < 1 || n_vocab > 1 << 20 || threads < 0) {
    std::fprintf(stderr, "usage: sampling_bench [rows] [vocabulary] [threads]\n");
    return 2;
  }
  return monolith::run(n_rows, n_vocab, threads);
}
