// Sampling on the GPU: sampling.h's tasks, one block each, with the same bits as the host's sampler. Weights are whole
// numbers of quanta here, so that sums are exact in whatever order threads add them; nothing is sorted but what a few
// histograms leave. The logarithm of logprobs is the host's, so that it is the same one.
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

// A SampleTask whose lists are on the device.
struct DeviceTask {
  const float* logits;
  float* adjusted;       // room for a row; null: nothing changes the logits
  const uint64_t* mask;  // null: every token is allowed
  const TokenBias* bias;
  const int32_t* banned;
  const UsedToken* used;
  uint64_t random;
  int32_t n_bias, n_banned, n_used;
  int32_t bias_repeats;  // 1: a token has more than one bias
  int32_t only;          // the one token that is allowed; -1: there are others, or all are
  int32_t greedy;        // 1: the best is taken
  float inverse_temperature;
  int32_t top_k;  // n_vocab: off
  float top_p, min_p;
  float repetition_penalty, frequency_penalty, presence_penalty;
  int32_t n_top;  // -1: no logprobs
};

// What the host makes a SampleResult of.
struct DeviceResult {
  uint64_t quanta;  // weight of all tokens at temperature 1; this and the following where logprobs are wanted
  int32_t token;
  float logit, max;  // the token's, and the largest
  int32_t tops[kMaxTopLogprobs];
  float top_logits[kMaxTopLogprobs];
};

// Of the vocabulary that one block can sample.
inline constexpr int kMostSampled = 1 << 20;

// tasks and results: device.
void sample(Runtime& runtime, const DeviceTask* tasks, int n_tasks, int n_vocab, DeviceResult* results);

// The host's part. Owned and used by the engine's thread; only reserve() allocates.
class DeviceSampler {
 public:
  explicit DeviceSampler(Runtime& runtime) : runtime_(runtime) {}

  // For the largest vocabulary and number of tasks of all calls; more tasks go in several rounds. Errors:
  // kOutOfMemory, kUnsupported.
  Status reserve(int n_vocab, int most_tasks);
  // Waits for the answers. Throws std::runtime_error if the device has failed.
  void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results);
  // The same in two parts: the first asks for the answers to as many as go in one round, the second waits for these and
  // sees to the rest.
  void begin(int n_vocab, std::span<const SampleTask> tasks);
  void end(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results);

 private:
  struct Round;
  size_t lists_at() const;
  size_t start(int n_vocab, std::span<const SampleTask> tasks);
  bool put(int n_vocab, const SampleTask& task, Round& round);
  bool repeats(std::span<const std::pair<int32_t, float>> bias);
  static void finish(int n_vocab, const SampleTask& task, const DeviceResult& found, SampleResult& result);

  Runtime& runtime_;
  int n_vocab_ = 0, most_tasks_ = 0;
  int n_adjusted_ = 0;                    // rows in adjusted_
  size_t n_begun_ = 0;                    // tasks asked for and not waited for
  size_t list_bytes_ = 0;                 // room for lists
  unsigned char* staging_ = nullptr;      // pinned: tasks, then their lists
  unsigned char* device_ = nullptr;       // the same there
  DeviceResult* host_results_ = nullptr;  // pinned
  DeviceResult* results_ = nullptr;
  float* adjusted_ = nullptr;
  std::vector<uint64_t> seen_;  // a bit per token, all zero between calls
};

}  // namespace monolith::cuda
