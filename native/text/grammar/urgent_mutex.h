// A mutex for work that must not wait for background work. A thread that waits in lock_urgent() is announced to the
// holder, which can then stop early.
#pragma once

#include <atomic>
#include <mutex>

namespace monolith::grammar {

class UrgentMutex {
 public:
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  void lock_urgent() {
    ++n_waiting_;
    wanted_ = true;
    mutex_.lock();
    if (--n_waiting_ > 0) return;
    wanted_ = false;
    // Another thread may have announced itself in the meantime, but it cannot acquire the lock before this function has
    // returned.
    if (n_waiting_ > 0) wanted_ = true;
  }

  // Returns true while a thread waits in lock_urgent().
  const std::atomic<bool>& wanted() const { return wanted_; }
  int n_waiting() const { return n_waiting_; }  // Number of threads in lock_urgent(). For tests.

 private:
  std::mutex mutex_;
  std::atomic<int> n_waiting_{0};
  std::atomic<bool> wanted_{false};
};

}  // namespace monolith::grammar
