// Sampling on the GPU: runs each SampleTask (sampling.h) in one block and produces the same bits as the host's sampler.
// On the device, weights are integer multiples of a quantum, so sums are exact regardless of the order in which threads
// add them. Histograms exclude all but a few tokens, and only these are sorted. The host computes the logarithms of the
// logprobs, so that these also have the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

struct TokenBias {
  int32_t token;
  float bias;
};

// A SampleTask whose lists are in device memory.
struct DeviceTask {
  const float* logits;
  float* adjusted;       // Space for one row; null if nothing modifies the logits.
  const uint64_t* mask;  // Null allows every token.
  const TokenBias* bias;
  const int32_t* banned;
  const UsedToken* used;
  uint64_t random;
  int32_t n_bias, n_banned, n_used;
  int32_t bias_repeats;  // 1 if a token has more than one bias.
  int32_t only;          // The result, if only one token is allowed or a token is given; otherwise -1.
  int32_t greedy;        // 1 selects the best token.
  float inverse_temperature;
  int32_t top_k;  // n_vocab disables top_k.
  float top_p, min_p;
  float repetition_penalty, frequency_penalty, presence_penalty;
  int32_t n_top;  // Number of top logprobs; -1 if no logprobs are wanted.
};

// The device's result, from which the host builds a SampleResult.
struct DeviceResult {
  // Total weight of all tokens at temperature 1. All members except `token` are set only if logprobs are requested.
  uint64_t quanta;
  int32_t token;
  float logit, max;  // The chosen token's logit, and the largest logit.
  int32_t n_top;     // Number of entries in `tops`.
  int32_t tops[kMaxTopLogprobs];
  float top_logits[kMaxTopLogprobs];
};

// Size of the largest vocabulary from which one block can sample.
inline constexpr int kMaxSampled = 1 << 20;

// `tasks` and `results` are in device memory.
void sample(Runtime& runtime, const DeviceTask* tasks, int n_tasks, int n_vocab, DeviceResult* results);

// The host side of GPU sampling. Owned and used by the engine thread; only reserve() allocates.
class DeviceSampler {
 public:
  explicit DeviceSampler(Runtime& runtime) : runtime_(runtime) {}

  // Reserves memory for the largest vocabulary and the largest number of tasks of all reserve() calls so far. If
  // sample() is called with more tasks, it runs in several rounds. Errors: kOutOfMemory, kUnsupported.
  Status reserve(int n_vocab, int most_tasks);
  // Waits for the results. Throws std::runtime_error if the device has failed.
  void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results);
  // begin() and end() do the work of sample() in two steps: begin() submits as many tasks as fit in one round, and
  // end() waits for these tasks and runs the remaining ones.
  void begin(int n_vocab, std::span<const SampleTask> tasks);
  void end(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results);

 private:
  struct Round;
  size_t lists_at() const;
  size_t start(int n_vocab, std::span<const SampleTask> tasks);
  bool put(int n_vocab, const SampleTask& task, Round& round);
  bool repeats(std::span<const std::pair<int32_t, float>> bias);
  static void finish(const SampleTask& task, const DeviceResult& found, SampleResult& result);

  Runtime& runtime_;
  int n_vocab_ = 0, most_tasks_ = 0;
  int n_adjusted_ = 0;                    // Number of rows in adjusted_.
  size_t n_begun_ = 0;                    // Number of tasks submitted and not yet waited for.
  size_t list_bytes_ = 0;                 // Size of the list area.
  unsigned char* staging_ = nullptr;      // Pinned host memory: tasks, followed by their lists.
  unsigned char* device_ = nullptr;       // The device copy of staging_.
  DeviceResult* host_results_ = nullptr;  // Pinned host memory.
  DeviceResult* results_ = nullptr;
  float* adjusted_ = nullptr;
  std::vector<uint64_t> seen_;  // One bit per token, all zero between calls.
};

}  // namespace monolith::cuda
