#include "engine/sampling/batch_sampler.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <new>

namespace monolith {
namespace {

constexpr size_t kWorthSharing = 1 << 16;  // Runs with fewer logits than this use a single thread.

}  // namespace

BatchSampler::BatchSampler(DeviceSampling& device, HostThreads& host, int n_vocab, int most_tasks)
    : device_(device), host_(host), n_vocab_(n_vocab), on_backend_(device.can_sample(n_vocab)) {
  if (on_backend_) {
    if (!device.reserve_samples(n_vocab, most_tasks)) throw std::bad_alloc();
  } else {
    for (int i = 0; i < host.host_threads(); ++i) samplers_.emplace_back(n_vocab);
  }
  const auto n = static_cast<size_t>(std::max(most_tasks, 1));
  tasks_.reserve(n);
  links_.reserve(n);
  results_.resize(n);
  known_.resize(n);
  departed_ = std::make_unique<std::atomic<int>[]>(n);
}

void BatchSampler::clear() {
  tasks_.clear();
  links_.clear();
  n_run_ = 0;
  has_begun_ = false;
}

int BatchSampler::add(const SampleTask& task) { return place(task, {static_cast<int>(tasks_.size()), 0, kNoToken}); }

int BatchSampler::add_behind(int row, TokenId draft, const SampleTask& task) {
  Link& before = links_[static_cast<size_t>(row)];
  before.draft = draft;
  return place(task, {before.head, before.depth + 1, kNoToken});
}

int BatchSampler::place(const SampleTask& task, const Link& link) {
  assert(!has_begun_);
  const size_t at = tasks_.size();
  if (at == results_.size()) {  // The choices of one prompt may outnumber the logit rows of a step.
    // The size of `results_` is the capacity, so it grows last: if memory runs out, nothing has changed.
    auto departed = std::make_unique<std::atomic<int>[]>(2 * at);
    for (size_t i = 0; i < at; ++i) departed[i] = departed_[i].load(std::memory_order_relaxed);
    tasks_.reserve(2 * at);
    links_.reserve(2 * at);
    known_.resize(2 * at);
    results_.resize(2 * at);
    departed_ = std::move(departed);
  }
  tasks_.push_back(task);
  links_.push_back(link);
  known_[at] = 0;
  departed_[at].store(std::numeric_limits<int>::max(), std::memory_order_relaxed);
  return static_cast<int>(at);
}

void BatchSampler::begin() {
  if (!on_backend_ || tasks_.size() == n_run_) return;
  device_.begin_sample(n_vocab_, {tasks_.data() + n_run_, tasks_.size() - n_run_});
  has_begun_ = true;
}

void BatchSampler::run() {
  const size_t begin = n_run_, n = tasks_.size() - begin;
  n_run_ = tasks_.size();
  if (n == 0) return;
  if (on_backend_) {
    const std::span<const SampleTask> tasks{tasks_.data() + begin, n};
    const std::span<SampleResult> results{results_.data() + begin, n};
    if (has_begun_)
      device_.end_sample(n_vocab_, tasks, results);
    else
      device_.sample(n_vocab_, tasks, results);
    has_begun_ = false;
    std::fill_n(known_.begin() + static_cast<ptrdiff_t>(begin), n, uint8_t{1});
    return;
  }
  // Worker threads sleep after a step. Waking them would take longer than the sampling itself, which takes only a few
  // microseconds.
  if (n * static_cast<size_t>(n_vocab_) < kWorthSharing) {
    for (size_t task = begin; task < n_run_; ++task) sample_one(task, 0);
    return;
  }
  struct Share {
    BatchSampler* sampler;
    size_t begin;
  };
  const Share share{this, begin};
  host_.run_on_host(
      static_cast<int64_t>(n),
      [](const void* context, int64_t i, int thread) {
        const auto* mine = static_cast<const Share*>(context);
        mine->sampler->sample_one(mine->begin + static_cast<size_t>(i), thread);
      },
      &share);
}

void BatchSampler::sample_one(size_t task, int thread) {
  const Link& link = links_[task];
  std::atomic<int>& departed = departed_[static_cast<size_t>(link.head)];
  int least = departed.load(std::memory_order_relaxed);
  if (least < link.depth) return;
  samplers_[static_cast<size_t>(thread)].sample(tasks_[task], results_[task]);
  known_[task] = 1;
  if (link.draft == kNoToken || link.draft == results_[task].token) return;
  while (link.depth < least && !departed.compare_exchange_weak(least, link.depth, std::memory_order_relaxed)) {
  }
}

const SampleResult* BatchSampler::result(int task) const {
  const auto at = static_cast<size_t>(task);
  assert(task >= 0 && at < n_run_);
  return known_[at] ? &results_[at] : nullptr;
}

const SampleResult& BatchSampler::sample(const SampleTask& task) {
  if (on_backend_)
    device_.sample(n_vocab_, {&task, 1}, {&single_, 1});
  else
    samplers_.front().sample(task, single_);
  return single_;
}

}  // namespace monolith
