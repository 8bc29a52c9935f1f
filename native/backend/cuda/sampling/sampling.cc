#include "backend/cuda/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace monolith::cuda {
namespace {

constexpr size_t kAlignment = 16;                // Alignment of lists in bytes.
constexpr size_t kMaskBytes = size_t{16} << 20;  // Space for masks of one upload, in addition to the lists of one task.
constexpr size_t kAdjustedBytes = size_t{32} << 20;  // Space for rows of modified logits.
constexpr size_t kFewBiases = 16;                    // Up to this many biases are checked for duplicates pairwise.
constexpr size_t kSmallGap = 65536;  // Uploading a gap of up to this many bytes is faster than a second copy.

size_t words_of(int n_vocab) { return (static_cast<size_t>(n_vocab) + 63) / 64; }
size_t row_bytes(int n_vocab) { return static_cast<size_t>(n_vocab) * sizeof(float); }

// Returns the maximum size in bytes of one task's lists: a mask, and lists with one entry per vocabulary token.
size_t lists_of_one(int n_vocab) {
  const auto n = static_cast<size_t>(n_vocab);
  const size_t of_token = sizeof(TokenBias) + sizeof(UsedToken) + sizeof(int32_t);
  return words_of(n_vocab) * sizeof(uint64_t) + n * of_token + 8 * kAlignment;
}

// Returns the only token that the task allows, or -1 if it allows several.
int32_t only_token(const SampleTask& task) {
  if (task.mask.empty()) return task.allowed.size() == 1 ? task.allowed.front() : -1;
  int32_t only = -1;
  for (size_t i = 0; i < task.mask.size(); ++i) {
    const uint64_t word = task.mask[i];
    if (word == 0) continue;
    if (only >= 0 || (word & (word - 1)) != 0) return -1;
    only = static_cast<int32_t>(i * 64 + static_cast<size_t>(__builtin_ctzll(word)));
  }
  return only;
}

}  // namespace

// The tasks that are uploaded together, and their lists.
struct DeviceSampler::Round {
  DeviceTask* tasks;  // Points into staging_.
  size_t n_tasks = 0;
  unsigned char* lists;   // Points into staging_.
  size_t list_bytes = 0;  // Bytes used so far.
  int n_adjusted = 0;     // Number of tasks that modify their logits.

  // Allocates `bytes` bytes in the list area; returns null if they do not fit.
  void* room(size_t bytes, size_t capacity) {
    const size_t at = (list_bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (at > capacity || capacity - at < bytes) return nullptr;
    list_bytes = at + bytes;
    return lists + at;
  }
};

Status DeviceSampler::reserve(int n_vocab, int most_tasks) {
  if (n_vocab < 1 || n_vocab > kMaxSampled || most_tasks < 1)
    return Error{ErrorCode::kUnsupported, "GPU sampling supports vocabularies of 1 to " + std::to_string(kMaxSampled) +
                                              " tokens, but the vocabulary has " + std::to_string(n_vocab)};
  if (n_vocab <= n_vocab_ && most_tasks <= most_tasks_) return {};
  n_vocab_ = std::max(n_vocab, n_vocab_);
  most_tasks_ = std::max(most_tasks, most_tasks_);
  const auto tasks = static_cast<size_t>(most_tasks_);
  n_adjusted_ = static_cast<int>(std::clamp(kAdjustedBytes / row_bytes(n_vocab_), size_t{1}, tasks));
  const size_t mask_bytes = words_of(n_vocab_) * sizeof(uint64_t) + kAlignment;
  list_bytes_ = lists_of_one(n_vocab_) + std::min(kMaskBytes, tasks * mask_bytes);
  runtime_.free_pinned(staging_);
  runtime_.free_pinned(host_results_);
  runtime_.free(device_);
  runtime_.free(results_);
  runtime_.free(adjusted_);
  staging_ = device_ = nullptr;
  results_ = host_results_ = nullptr;
  adjusted_ = nullptr;
  try {
    seen_.assign(words_of(n_vocab_), 0);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory for the sampler's buffers"};
  }
  const size_t staged = lists_at() + list_bytes_, answers = tasks * sizeof(DeviceResult);
  const size_t adjusted = static_cast<size_t>(n_adjusted_) * row_bytes(n_vocab_);
  Status status;
  const auto take = [&]<typename T>(T*& memory, Result<void*> taken) {
    if (taken)
      memory = static_cast<T*>(*taken);
    else if (status)
      status = taken.error();
  };
  take(staging_, runtime_.allocate_pinned(staged));
  take(host_results_, runtime_.allocate_pinned(answers));
  take(device_, runtime_.allocate(staged));
  take(results_, runtime_.allocate(answers));
  take(adjusted_, runtime_.allocate(adjusted));
  if (!status) n_vocab_ = most_tasks_ = 0;
  return status;
}

size_t DeviceSampler::lists_at() const {
  return (static_cast<size_t>(most_tasks_) * sizeof(DeviceTask) + kAlignment - 1) / kAlignment * kAlignment;
}

void DeviceSampler::sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
  begin(n_vocab, tasks);
  end(n_vocab, tasks, results);
}

void DeviceSampler::begin(int n_vocab, std::span<const SampleTask> tasks) {
  if (n_vocab > n_vocab_) throw std::runtime_error("the vocabulary is larger than the size reserved for the sampler");
  if (n_begun_ > 0) runtime_.synchronize();  // An abandoned round may still be running.
  n_begun_ = start(n_vocab, tasks);
}

void DeviceSampler::end(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
  while (!tasks.empty()) {
    if (n_begun_ == 0) n_begun_ = start(n_vocab, tasks);
    runtime_.synchronize();
    const size_t n = std::exchange(n_begun_, 0);
    for (size_t i = 0; i < n; ++i) finish(tasks[i], host_results_[i], results[i]);
    tasks = tasks.subspan(n);
    results = results.subspan(n);
  }
}

// Submits as many tasks as fit in one round and returns their number.
size_t DeviceSampler::start(int n_vocab, std::span<const SampleTask> tasks) {
  Round round{.tasks = reinterpret_cast<DeviceTask*>(staging_), .lists = staging_ + lists_at()};
  const size_t most = std::min(tasks.size(), static_cast<size_t>(most_tasks_));
  while (round.n_tasks < most && put(n_vocab, tasks[round.n_tasks], round)) ++round.n_tasks;
  const size_t n = round.n_tasks;
  if (n == 0 && most > 0)
    throw std::runtime_error("the token lists of one sampling task are longer than the vocabulary");
  if (n == 0) return 0;
  const bool together = round.list_bytes > 0 && lists_at() - n * sizeof(DeviceTask) <= kSmallGap;
  runtime_.upload(device_, staging_, together ? lists_at() + round.list_bytes : n * sizeof(DeviceTask));
  if (round.list_bytes > 0 && !together) runtime_.upload(device_ + lists_at(), round.lists, round.list_bytes);
  // The launches run one after another, so each of them can reuse the rows of adjusted_.
  size_t first = 0;
  int n_adjusted = 0;
  const auto launch_to = [&](size_t end) {
    const auto* const staged = reinterpret_cast<const DeviceTask*>(device_);
    cuda::sample(runtime_, staged + first, static_cast<int>(end - first), n_vocab, results_ + first);
    first = end;
    n_adjusted = 0;
  };
  for (size_t i = 0; i < n; ++i) {
    if (!round.tasks[i].adjusted) continue;
    if (n_adjusted == n_adjusted_) launch_to(i);
    ++n_adjusted;
  }
  launch_to(n);
  runtime_.download(host_results_, results_, n * sizeof(DeviceResult));
  return n;
}

// Adds a task to the round. Returns false if it does not fit.
bool DeviceSampler::put(int n_vocab, const SampleTask& task, Round& round) {
  const size_t bytes_before = round.list_bytes;
  bool fits = true;
  // Returns the device address of a list; `fill` writes the list into the staging memory.
  const auto list = [&]<typename T>(const T*, size_t n, const auto& fill) -> const T* {
    if (n == 0) return nullptr;
    auto* const room = static_cast<T*>(round.room(n * sizeof(T), list_bytes_));
    if (!room) {
      fits = false;
      return nullptr;
    }
    fill(room);
    return reinterpret_cast<const T*>(device_ + (reinterpret_cast<unsigned char*>(room) - staging_));
  };
  DeviceTask staged{};
  staged.logits = task.logits;
  staged.random = task.random;
  staged.only = task.given >= 0 ? task.given : only_token(task);
  staged.greedy = task.temperature < kGreedyTemperature || task.top_k == 1;
  staged.inverse_temperature = staged.greedy ? 1.0f : 1.0f / task.temperature;
  staged.top_k = task.top_k > 0 ? std::min(task.top_k, n_vocab) : n_vocab;
  staged.top_p = task.top_p;
  staged.min_p = task.min_p;
  staged.repetition_penalty = task.repetition_penalty;
  staged.frequency_penalty = task.frequency_penalty;
  staged.presence_penalty = task.presence_penalty;
  staged.n_top = task.n_top;
  staged.n_bias = static_cast<int32_t>(task.bias.size());
  staged.n_banned = static_cast<int32_t>(task.banned.size());
  staged.n_used = static_cast<int32_t>(task.used.size());
  staged.bias_repeats = repeats(task.bias);
  staged.bias = list(staged.bias, task.bias.size(), [&](TokenBias* to) {
    for (const auto& [token, bias] : task.bias) *to++ = {token, bias};
  });
  staged.banned = list(staged.banned, task.banned.size(), [&](int32_t* to) { std::ranges::copy(task.banned, to); });
  staged.used = list(staged.used, task.used.size(), [&](UsedToken* to) { std::ranges::copy(task.used, to); });
  staged.mask = list(staged.mask, task.constrained() ? words_of(n_vocab) : 0, [&](uint64_t* to) {
    if (!task.mask.empty()) {
      std::ranges::copy(task.mask, to);
      return;
    }
    std::fill_n(to, words_of(n_vocab), uint64_t{0});
    for (const int32_t token : task.allowed) to[token / 64] |= uint64_t{1} << (token % 64);
  });
  if (!fits) {
    round.list_bytes = bytes_before;
    return false;
  }
  if (task.adjusts())
    staged.adjusted = adjusted_ + static_cast<size_t>(round.n_adjusted++ % n_adjusted_) * static_cast<size_t>(n_vocab_);
  round.tasks[round.n_tasks] = staged;
  return true;
}

// Returns whether any token has more than one bias.
bool DeviceSampler::repeats(std::span<const std::pair<int32_t, float>> bias) {
  if (bias.size() <= kFewBiases) {
    for (size_t i = 0; i < bias.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (bias[i].first == bias[j].first) return true;
    return false;
  }
  bool found = false;
  for (const auto& [token, value] : bias) {
    uint64_t& word = seen_[static_cast<size_t>(token) / 64];
    const uint64_t bit = uint64_t{1} << (token % 64);
    found |= (word & bit) != 0;
    word |= bit;
  }
  for (const auto& [token, value] : bias) seen_[static_cast<size_t>(token) / 64] = 0;
  return found;
}

void DeviceSampler::finish(const SampleTask& task, const DeviceResult& found, SampleResult& result) {
  result.token = found.token;
  result.n_top = 0;
  if (found.token < 0 || task.n_top < 0) return;
  const auto log_total = static_cast<float>(std::log(static_cast<double>(found.quanta) * (1.0 / 17179869184.0)));
  const auto logprob = [&](float logit) { return (logit - found.max) - log_total + 0.0f; };  // As on the host.
  result.logprob = logprob(found.logit);
  result.n_top = found.n_top;
  for (int i = 0; i < result.n_top; ++i) result.top[i] = {found.tops[i], logprob(found.top_logits[i])};
}

}  // namespace monolith::cuda
