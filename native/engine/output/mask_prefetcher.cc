#include "engine/output/mask_prefetcher.h"

#include <exception>
#include <new>
#include <system_error>

#include "base/grow.h"
#include "base/thread_pool.h"

namespace monolith {
namespace {

constexpr int64_t kTurnNs = 2'000'000;  // CPU time per turn of a mask computation, in ns.
constexpr size_t kUsual = 256;          // Initial capacity for requested masks.

}  // namespace

MaskPrefetcher::Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool MaskPrefetcher::start() {
  due_.start();
  return soon_.start();
}

void MaskPrefetcher::Worker::add(Wanted wanted) {
  try {
    gathered_.push_back(std::move(wanted));
  } catch (const std::bad_alloc&) {
  }
}

bool MaskPrefetcher::Worker::start() {
  if (gathered_.empty() && !thread_.joinable()) return false;
  bool any;
  try {
    if (!thread_.joinable()) {
      for (auto* list : {&gathered_, &wanted_, &again_}) list->reserve(kUsual);
      thread_ = std::thread([this] { run(); });
    }
    const std::lock_guard lock(mutex_);
    again_.clear();
    grow(again_, gathered_.size());  // The thread itself must not allocate: nothing could handle a failure.
    std::swap(wanted_, gathered_);
    next_ = 0;
    ++batch_;
    any = !wanted_.empty();
  } catch (const std::system_error&) {  // Without the thread nothing is prefetched.
    gathered_.clear();
    return false;
  } catch (const std::bad_alloc&) {
    gathered_.clear();
    return false;
  }
  gathered_.clear();
  if (any) wake_.notify_one();
  return any;
}

void MaskPrefetcher::Worker::run() {
  using Outcome = grammar::Grammar::Outcome;
  use_process_affinity();
  if (many_turns_) lower_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return closing_ || next_ < wanted_.size(); });
    if (closing_) return;
    Wanted wanted = std::move(wanted_[next_++]);
    const uint64_t batch = batch_;
    lock.unlock();
    Outcome outcome = Outcome::kFailed;
    bool is_ready = false;
    const int64_t turn_ends = grammar::Fuel::thread_time() + kTurnNs;
    try {
      const grammar::Fuel turn(UINT64_MAX, turn_ends);
      outcome = wanted.grammar->prepare(wanted.position, wanted.tokenizer, turn, wanted.token);
      is_ready = outcome != Outcome::kOutOfBudget;
    } catch (const std::exception&) {  // Out of memory: the engine thread will report that itself.
    }
    if (is_ready && wake_engine_) wake_engine_();
    if (outcome == Outcome::kOutOfBudget) std::this_thread::yield();
    // If a computation stopped early because the engine thread needed the grammar, its sequence keeps its turn.
    const bool comes_again =
        outcome == Outcome::kOutOfBudget && (many_turns_ || grammar::Fuel::thread_time() < turn_ends);
    lock.lock();
    if (batch != batch_) continue;
    if (comes_again) again_.push_back(std::move(wanted));
    if (next_ < wanted_.size()) continue;
    wanted_.clear();
    std::swap(wanted_, again_);
    next_ = 0;
  }
}

}  // namespace monolith
