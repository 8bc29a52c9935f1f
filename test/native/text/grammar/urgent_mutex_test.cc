// Tests that the thread that holds the lock sees every thread that waits for it.
#include "text/grammar/urgent_mutex.h"

#include <semaphore>
#include <thread>
#include <vector>

#include "check.h"

using monolith::grammar::UrgentMutex;

TEST(a_lock_stays_wanted_until_no_thread_waits_for_it) {
  constexpr int kThreads = 3;
  UrgentMutex mutex;
  CHECK(!mutex.wanted());
  mutex.lock();
  std::counting_semaphore<> acquired(0), released(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      mutex.lock_urgent();
      acquired.release();
      released.acquire();
      mutex.unlock();
    });
  while (mutex.n_waiting() < kThreads) std::this_thread::yield();
  CHECK(mutex.wanted());
  mutex.unlock();
  for (int i = 1; i <= kThreads; ++i) {
    acquired.acquire();
    CHECK_EQ(mutex.wanted().load(), i < kThreads);
    released.release();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(!mutex.wanted());
}
