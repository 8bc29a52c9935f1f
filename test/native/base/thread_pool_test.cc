#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "check.h"

using monolith::ThreadPool;

TEST(thread_pool_runs_once_per_thread) {
  for (int size : {1, 2, 3, 8}) {
    ThreadPool pool(size);
    CHECK_EQ(pool.size(), size);
    std::vector<int> calls(static_cast<size_t>(size), 0);   // each written by its thread alone, read after run()
    for (int section = 1; section <= 300; ++section) {
      pool.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
      for (int count : calls) REQUIRE(count == section);
    }
  }
}

TEST(thread_pool_caller_is_thread_zero) {
  ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  std::thread::id ids[3];
  pool.run([&](int thread) { ids[thread] = std::this_thread::get_id(); });
  CHECK(ids[0] == caller);
  CHECK(ids[1] != caller && ids[2] != caller && ids[1] != ids[2]);
}

TEST(thread_pool_parallel_for_covers_every_index_once) {
  ThreadPool pool(3);
  for (int64_t n : {0, 1, 2, 7, 64, 1000}) {
    for (int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      pool.parallel_for(n, grain, [&](int64_t begin, int64_t end, int thread) {
        CHECK(thread >= 0 && thread < 3);
        CHECK(begin < end && end - begin <= grain);
        for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)].fetch_add(1);
      });
      for (auto& count : seen) REQUIRE(count.load() == 1);
    }
  }
}

// Sections must find their threads in every state of waiting: spinning, yielding, parked, just woken.
TEST(thread_pool_sections_after_pauses) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  int64_t expected = 0;
  for (int i = 0; i < 120; ++i) {
    if (i % 3 == 0) pool.begin_step();
    pool.run([&](int thread) { sum.fetch_add(thread + i); });
    expected += 6 + 4 * i;
    CHECK_EQ(sum.load(), expected);
    if (i % 3 == 2) pool.end_step();
    std::this_thread::sleep_for(std::chrono::microseconds(i % 7 * i));
  }
}

TEST(thread_pool_waits_for_slow_threads) {
  ThreadPool pool(3);
  std::atomic<int> done{0};
  pool.run([&](int thread) {
    if (thread != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20 * thread));   // the caller parks
    done.fetch_add(1);
  });
  CHECK_EQ(done.load(), 3);
}

TEST(thread_pool_idle_threads_use_no_processor_time) {
  for (bool in_step : {false, true}) {
    ThreadPool pool(3);
    if (in_step) pool.begin_step();
    pool.run([](int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));   // beyond every spin and yield
    const std::clock_t before = std::clock();                    // of all threads of this process
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    if (used > 0.02) check::fail(__FILE__, __LINE__, "idle pool used " + std::to_string(used) + " s in 0.2 s");
  }
}

TEST(thread_pool_starts_and_stops_quickly_and_often) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 4);
    int calls = 0;
    if (i % 2) pool.run([&](int thread) { if (thread == 0) ++calls; });
    CHECK_EQ(calls, i % 2);
  }
}
