#include "engine/text/mask_prefetcher.h"

#include <exception>
#include <system_error>

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

bool MaskPrefetcher::Worker::start() {
  if (gathered.empty() && !thread_.joinable()) return false;
  if (!thread_.joinable()) {
    try {
      for (auto* list : {&gathered, &wanted_, &again_}) list->reserve(kUsual);
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // Without the thread, nothing is prefetched.
      gathered.clear();
      return false;
    }
  }
  bool any;
  {
    const std::lock_guard lock(mutex_);
    std::swap(wanted_, gathered);
    again_.clear();
    next_ = 0;
    ++batch_;
    any = !wanted_.empty();
  }
  gathered.clear();
  if (any) wake_.notify_one();
  return any;
}

void MaskPrefetcher::Worker::run() {
  using Outcome = grammar::Grammar::Outcome;
  if (many_turns_) lower_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return closing_ || next_ < wanted_.size(); });
    if (closing_) return;
    Wanted wanted = std::move(wanted_[next_++]);
    const uint64_t batch = batch_;
    lock.unlock();
    Outcome outcome = Outcome::kFailed;
    const int64_t turn_ends = grammar::Fuel::thread_time() + kTurnNs;
    try {
      const grammar::Fuel turn(UINT64_MAX, turn_ends);
      outcome = wanted.grammar->prepare(wanted.position, wanted.tokenizer, turn, wanted.token);
    } catch (const std::exception&) {  // Out of memory, which the engine thread will report itself.
    }
    if (outcome == Outcome::kOutOfBudget) std::this_thread::yield();
    // A computation that stopped early because the engine thread needed the grammar has not used up its turn.
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
