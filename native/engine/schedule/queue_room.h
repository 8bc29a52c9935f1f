// Enforces the two limits of the waiting queue: the number of waiting requests and the number of their prompt tokens.
// Both counts share one atomic word and are updated together, so the limits hold exactly with any number of submitting
// threads. Safe to call from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace monolith {

inline constexpr int kQueueRequestsMost = 1'000'000;
inline constexpr int kQueueTokensMost = 1'000'000'000;

class QueueRoom {
 public:
  enum class Taken : uint8_t { kTaken, kTooManyRequests, kTooManyTokens };

  // Sets the limits for later calls to take(). Requests that are already waiting stay in the queue.
  void configure(int requests, int tokens) {
    max_requests_.store(std::clamp(requests, 1, kQueueRequestsMost), std::memory_order_relaxed);
    max_tokens_.store(std::clamp(tokens, 1, kQueueTokensMost), std::memory_order_relaxed);
  }
  int max_requests() const { return max_requests_.load(std::memory_order_relaxed); }
  int max_tokens() const { return max_tokens_.load(std::memory_order_relaxed); }

  // A prompt above the token limit is accepted only into an empty queue; otherwise it could never be served.
  Taken take(size_t n_tokens) {
    uint64_t held = held_.load(std::memory_order_relaxed);
    for (;;) {
      const uint64_t requests = held >> kTokenBits, tokens = held & kTokens;
      if (requests >= static_cast<uint64_t>(max_requests())) return Taken::kTooManyRequests;
      if (tokens > 0 && tokens + n_tokens > static_cast<uint64_t>(max_tokens())) return Taken::kTooManyTokens;
      if (held_.compare_exchange_weak(held, held + kRequest + n_tokens, std::memory_order_relaxed))
        return Taken::kTaken;
    }
  }
  void give_back(size_t n_requests, size_t n_tokens) {
    held_.fetch_sub(n_requests * kRequest + n_tokens, std::memory_order_relaxed);
  }

  int requests() const { return static_cast<int>(held_.load(std::memory_order_relaxed) >> kTokenBits); }
  int64_t tokens() const { return static_cast<int64_t>(held_.load(std::memory_order_relaxed) & kTokens); }

 private:
  static constexpr int kTokenBits = 40;  // Leaves ample room above kQueueTokensMost plus one longest prompt.
  static constexpr uint64_t kRequest = uint64_t{1} << kTokenBits, kTokens = kRequest - 1;

  std::atomic<uint64_t> held_{0};  // Request count in the upper bits, prompt tokens in the lower kTokenBits.
  std::atomic<int> max_requests_{1}, max_tokens_{kQueueTokensMost};
};

// One request's reservation in the queue limits. The destructor returns the reservation, unless hand_over() has passed
// that duty on.
class QueuePlace {
 public:
  QueuePlace(QueueRoom& room, size_t n_tokens) : room_(&room), n_tokens_(n_tokens) {}
  ~QueuePlace() {
    if (room_) room_->give_back(1, n_tokens_);
  }
  QueuePlace(const QueuePlace&) = delete;
  QueuePlace& operator=(const QueuePlace&) = delete;
  void hand_over() { room_ = nullptr; }

 private:
  QueueRoom* room_;
  const size_t n_tokens_;
};

}  // namespace monolith
