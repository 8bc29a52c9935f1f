// Tests that queue limits are enforced exactly, even if requests are submitted concurrently.
#include "engine/schedule/queue_room.h"

#include <thread>
#include <vector>

#include "check.h"

namespace monolith {
namespace {

using Taken = QueueRoom::Taken;

TEST(queue_room_counts_requests_and_prompt_tokens) {
  QueueRoom room;
  room.configure(3, 100);
  CHECK(room.take(60) == Taken::kTaken);
  CHECK(room.take(41) == Taken::kTooManyTokens);
  CHECK(room.take(40) == Taken::kTaken);
  CHECK_EQ(room.tokens(), int64_t{100});
  CHECK(room.take(1) == Taken::kTooManyTokens);
  room.give_back(1, 60);
  CHECK(room.take(1) == Taken::kTaken);
  CHECK(room.take(1) == Taken::kTaken);
  CHECK(room.take(1) == Taken::kTooManyRequests);
  CHECK_EQ(room.requests(), 3);
  room.configure(4, 100);
  CHECK(room.take(1) == Taken::kTaken);
  room.configure(1, 1);  // Requests already in the queue stay.
  CHECK_EQ(room.requests(), 4);
  room.give_back(4, 43);
  CHECK_EQ(room.requests(), 0);
  CHECK_EQ(room.tokens(), int64_t{0});
  CHECK(room.take(16'000'000) == Taken::kTaken);  // An empty queue accepts a prompt of any length.
  CHECK(room.take(1) == Taken::kTooManyRequests);
}

// Threads reserve and release room in the queue at random. The limits are never exceeded, and no request is rejected
// while there is room for it.
TEST(queue_room_is_exact_across_threads) {
  constexpr int kThreads = 4, kEach = 500;
  for (const bool by_tokens : {false, true}) {
    QueueRoom room;
    room.configure(by_tokens ? 1'000'000 : 1000, by_tokens ? 7000 : 1'000'000'000);
    std::vector<int> taken(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < kEach; ++k) taken[static_cast<size_t>(i)] += room.take(7) == Taken::kTaken;
      });
    }
    for (std::thread& thread : threads) thread.join();
    int all = 0;
    for (const int n : taken) all += n;
    CHECK_EQ(all, 1000);  // Exactly 1,000 of 2,000 requests are accepted.
    CHECK_EQ(room.requests(), 1000);
    CHECK_EQ(room.tokens(), int64_t{7000});
  }
  QueueRoom room;
  room.configure(kThreads, 1000);
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20'000; ++k) {
        if (room.take(250) == Taken::kTaken)
          room.give_back(1, 250);
        else
          ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(refused.load(), 0);  // There is always room for one request per thread.
  CHECK_EQ(room.requests(), 0);
}

}  // namespace
}  // namespace monolith
