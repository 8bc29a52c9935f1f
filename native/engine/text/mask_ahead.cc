#include "engine/text/mask_ahead.h"

#include <exception>
#include <system_error>

namespace monolith {

MaskAhead::~MaskAhead() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool MaskAhead::start() {
  if (gathered_.empty()) return false;
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {   // then nothing is found ahead
      gathered_.clear();
      return false;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    std::swap(wanted_, gathered_);
    next_ = 0;
  }
  gathered_.clear();
  wake_.notify_one();
  return true;
}

void MaskAhead::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return closing_ || next_ < wanted_.size(); });
    if (closing_) return;
    const Wanted wanted = std::move(wanted_[next_++]);
    lock.unlock();
    try {
      wanted.grammar->prepare(wanted.position);
    } catch (const std::exception&) {   // no memory: the engine will meet that itself
    }
    lock.lock();
  }
}

}  // namespace monolith
