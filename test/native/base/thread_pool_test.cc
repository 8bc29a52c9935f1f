#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "check.h"

using monolith::NodeShares;
using monolith::ThreadPool;

namespace {

// Runs a parallel section in which every task waits until `threads` tasks are running at the same time, so the section
// can finish only if all threads take part.
void meet(ThreadPool& pool, int threads) {
  std::atomic<int> inside{0};
  pool.parallel_for(threads, 1, [&](int64_t, int64_t, int) {
    inside.fetch_add(1);
    while (inside.load() < threads) std::this_thread::yield();
  });
}

}  // namespace

TEST(thread_pool_uses_all_threads_and_the_caller_is_thread_zero) {
  for (int size : {1, 2, 3, 8}) {
    ThreadPool pool(size);
    CHECK_EQ(pool.size(), size);
    for (int section = 0; section < 100; ++section) meet(pool, size);
  }
  ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> inside{0};
  std::thread::id ids[3];
  pool.parallel_for(3, 1, [&](int64_t, int64_t, int thread) {
    ids[thread] = std::this_thread::get_id();
    inside.fetch_add(1);
    while (inside.load() < 3) std::this_thread::yield();
  });
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

TEST(thread_pool_runs_cover_every_index_once_from_separate_starts) {
  for (int size : {1, 2, 3, 8}) {
    ThreadPool pool(size);
    for (int64_t n : {0, 1, 2, 7, 64, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      pool.parallel_runs(n, [&](int64_t i, int thread) {
        CHECK(thread >= 0 && thread < size);
        REQUIRE(i >= 0 && i < n);
        seen[static_cast<size_t>(i)].fetch_add(1);
      });
      for (auto& count : seen) REQUIRE(count.load() == 1);
    }
  }
}

// A thread that is delayed in its first task keeps only that task and the tasks that it took at the same time. The
// other threads take all remaining tasks.
TEST(thread_pool_tasks_of_a_slow_thread_are_stolen) {
  ThreadPool pool(3);
  for (int slow = 0; slow < 3; ++slow) {
    constexpr int kPieces = 300;
    std::atomic<int> others{0};
    pool.parallel_runs(kPieces, [&](int64_t i, int) {
      if (i != slow * kPieces / 3) return void(others.fetch_add(1));
      while (others.load() < kPieces - ThreadPool::kMaxTaken) std::this_thread::yield();
    });
    CHECK_EQ(others.load(), kPieces - 1);
  }
}

// A new section must reach worker threads in every waiting state: spinning, yielding, parked, and just woken.
TEST(thread_pool_runs_sections_after_pauses) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  int64_t expected = 0;
  for (int i = 0; i < 120; ++i) {
    if (i % 3 == 0) pool.begin_step();
    pool.parallel_for(100, 1, [&](int64_t begin, int64_t, int) { sum.fetch_add(begin + i); });
    expected += 4950 + 100 * i;
    CHECK_EQ(sum.load(), expected);
    if (i % 3 == 2) pool.end_step();
    std::this_thread::sleep_for(std::chrono::microseconds(i % 7 * i));
  }
}

TEST(thread_pool_waits_for_slow_threads) {
  ThreadPool pool(3);
  std::atomic<int> inside{0}, done{0};
  pool.parallel_for(3, 1, [&](int64_t, int64_t, int thread) {
    inside.fetch_add(1);
    while (inside.load() < 3) std::this_thread::yield();
    // The calling thread finishes first and parks.
    if (thread != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20 * thread));
    done.fetch_add(1);
  });
  CHECK_EQ(done.load(), 3);
}

// The calling thread does any work that no worker has picked up, so sections finish even if no worker wakes up.
TEST(thread_pool_does_not_wait_for_threads_that_have_not_started) {
  ThreadPool pool(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // By now the worker is parked.
  std::atomic<int64_t> sum{0};
  for (int section = 0; section < 20'000; ++section)
    pool.parallel_for(2, 1, [&](int64_t begin, int64_t, int) { sum.fetch_add(begin); });
  CHECK_EQ(sum.load(), 20'000);
}

TEST(thread_pool_idle_threads_use_no_cpu_time) {
  for (bool in_step : {false, true}) {
    ThreadPool pool(3);
    if (in_step) pool.begin_step();
    meet(pool, 3);
    // This is longer than the threads spin and yield before they park.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::clock_t before = std::clock();  // CPU time of all threads in this process.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    if (used > 0.02) check::fail(__FILE__, __LINE__, "idle pool used " + std::to_string(used) + " s in 0.2 s");
  }
}

TEST(thread_pool_starts_and_stops_quickly_and_often) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 4);
    std::atomic<int> calls{0};
    if (i % 2) pool.parallel_for(4, 1, [&](int64_t, int64_t, int) { calls.fetch_add(1); });
    CHECK_EQ(calls.load(), i % 2 * 4);
  }
}

namespace {

// Two nodes. On a machine with at least two processors, each node has one processor.
monolith::ThreadPlacement two_nodes(int first_threads, int second_threads) {
  std::vector<int> cpus;
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
#endif
  if (cpus.empty()) cpus.push_back(0);
  return {.nodes = {{.id = 0, .n_threads = first_threads, .cpus = {cpus.front()}},
                    {.id = 1, .n_threads = second_threads, .cpus = {cpus.back()}}}};
}

}  // namespace

TEST(thread_pool_with_nodes_covers_every_index_once) {
  for (const auto& [first, second] : {std::pair(1, 1), {2, 1}, {1, 3}, {2, 2}}) {
    ThreadPool pool(first + second, two_nodes(first, second));
    CHECK_EQ(pool.n_nodes(), 2);
    for (const int64_t n : {0, 1, 2, 7, 64, 1000})
      for (const int64_t of_first : {int64_t{0}, n / 3, n}) {
        NodeShares shares;
        shares.add(of_first);
        shares.add(n - of_first);
        for (const bool runs : {false, true}) {
          std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
          const auto count = [&](int64_t i, int thread) {
            CHECK(thread >= 0 && thread < first + second);
            seen[static_cast<size_t>(i)].fetch_add(1);
          };
          if (runs)
            pool.parallel_runs(shares, count);
          else
            pool.parallel_by_node(shares, count);
          for (auto& times : seen) REQUIRE(times.load() == 1);
        }
      }
  }
}

// A node's threads compute all of its tasks as long as they are not delayed: in this test, every task waits until all
// four tasks are running, so no thread is free for the tasks of the other node.
TEST(thread_pool_threads_take_the_tasks_of_their_own_node) {
  ThreadPool pool(4, two_nodes(2, 2));
  for (const bool runs : {false, true}) {
    std::atomic<int> inside[2] = {};
    std::atomic<int> strangers{0};
    const auto work = [&](int64_t i, int thread) {
      const int node = i < 2 ? 0 : 1;
      if (thread / 2 != node) strangers.fetch_add(1);
      inside[node].fetch_add(1);
      while (inside[0].load() + inside[1].load() < 4) std::this_thread::yield();
    };
    NodeShares shares;
    shares.add(2);
    shares.add(2);
    if (runs)
      pool.parallel_runs(shares, work);
    else
      pool.parallel_by_node(shares, work);
    CHECK_EQ(strangers.load(), 0);
  }
}

// The only thread of the first node is delayed in its first task. The second node's threads process the remaining
// tasks.
TEST(thread_pool_threads_help_other_nodes_when_theirs_is_done) {
  ThreadPool pool(3, two_nodes(1, 2));
  for (const bool runs : {false, true}) {
    constexpr int kPieces = 300;
    std::atomic<int> others{0};
    const auto work = [&](int64_t i, int) {
      if (i != 0) return void(others.fetch_add(1));
      while (others.load() < kPieces - ThreadPool::kMaxTaken) std::this_thread::yield();
    };
    NodeShares shares;
    shares.add(kPieces / 3);
    shares.add(kPieces - kPieces / 3);
    if (runs)
      pool.parallel_runs(shares, work);
    else
      pool.parallel_by_node(shares, work);
    CHECK_EQ(others.load(), kPieces - 1);
  }
}

// A thread that steals tasks first steals from its own node: while the second node's second thread waits in a task, its
// third thread, which has no tasks left, takes the second thread's tasks, and only then tasks of the first node.
TEST(thread_pool_threads_steal_from_their_own_node_first) {
  ThreadPool pool(3, two_nodes(1, 2));
  // Thread 0 has [0, 1000), which is more than thread 1 has: [1000, 1040). Thread 2 starts at 1040.
  NodeShares shares;
  shares.add(1000);
  shares.add(80);
  std::atomic<int> own_left{80}, early{0};
  pool.parallel_runs(shares, [&](int64_t i, int thread) {
    if (i >= 1000) {
      own_left.fetch_sub(1);
      // The first task of thread 1 waits until few of its node's tasks are left, namely those that thread 1 took
      // together with this task.
      while (i == 1000 && own_left.load() > ThreadPool::kMaxTaken) std::this_thread::yield();
    } else if (thread == 2 && own_left.load() > ThreadPool::kMaxTaken) {
      early.fetch_add(1);
    } else if (thread == 0 && i == 0) {
      while (own_left.load() > ThreadPool::kMaxTaken) std::this_thread::yield();
    }
  });
  CHECK_EQ(early.load(), 0);
}

#if defined(__linux__)
TEST(thread_pool_threads_run_on_the_processors_of_their_node) {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  const monolith::ThreadPlacement placement = two_nodes(1, 1);
  {
    ThreadPool pool(2, placement);
    pool.begin_step();  // Binds this thread to the first node.
    cpu_set_t of_thread[2];
    std::atomic<int> inside{0};
    pool.parallel_for(2, 1, [&](int64_t, int64_t, int thread) {
      sched_getaffinity(0, sizeof(cpu_set_t), &of_thread[thread]);
      inside.fetch_add(1);
      while (inside.load() < 2) std::this_thread::yield();
    });
    pool.end_step();
    for (size_t thread : {0, 1}) {
      CHECK_EQ(CPU_COUNT(&of_thread[thread]), 1);
      CHECK(CPU_ISSET(placement.nodes[thread].cpus[0], &of_thread[thread]));
    }
  }
  sched_setaffinity(0, sizeof before, &before);
}

TEST(use_process_affinity_undoes_a_binding_that_a_thread_inherited) {
  cpu_set_t of_process, bound, after;
  REQUIRE(sched_getaffinity(0, sizeof of_process, &of_process) == 0);
  std::thread([&] {
    const int cpu = two_nodes(1, 1).nodes[0].cpus[0];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    std::thread([&] {
      sched_getaffinity(0, sizeof bound, &bound);
      monolith::use_process_affinity();
      sched_getaffinity(0, sizeof after, &after);
    }).join();
  }).join();
  CHECK_EQ(CPU_COUNT(&bound), 1);
  CHECK(CPU_EQUAL(&after, &of_process));
}

TEST(thread_pool_knows_how_many_threads_share_a_node) {
  ThreadPool pool(4, two_nodes(1, 3));
  if (pool.size() < 4) return;  // The system's thread limit was reached.
  for (int thread = 0; thread < 4; ++thread) CHECK_EQ(pool.threads_on_node_of(thread), thread == 0 ? 1 : 3);
}
#endif
