#include "base/memory_bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace monolith {
namespace {

// Reads whole vectors from several locations in the buffer in parallel. Eight-byte loads from a single location reach
// only about half of a Zen 5 core's bandwidth (22 of 39 GB/s), and a reference value that is too low would flatter the
// code measured against it. The best number of locations depends on the processor: a Zen 4 core reaches 29 GB/s with
// two and 21 GB/s with four.
typedef uint64_t Vector __attribute__((vector_size(16)));

template <size_t kPlaces>
uint64_t add_up(const uint64_t* words, size_t count) {
  constexpr size_t kStep = 8;  // Step in words; 8 words are one cache line.
  const size_t part = count / kPlaces / kStep * kStep;
  Vector sums[kPlaces][kStep / 2] = {};
  for (size_t i = 0; i < part; i += kStep)
    for (size_t place = 0; place < kPlaces; ++place)
      for (size_t v = 0; v < kStep / 2; ++v)
        sums[place][v] += *reinterpret_cast<const Vector*>(words + place * part + i + 2 * v);
  uint64_t total = 0;
  for (const auto& place : sums)
    for (const Vector& sum : place) total += sum[0] + sum[1];
  return total;
}
constexpr uint64_t (*kWays[])(const uint64_t* words, size_t count) = {add_up<2>, add_up<4>};

class Mapping {
 public:
  explicit Mapping(size_t bytes) : bytes_(bytes) {
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return;
    words_ = static_cast<uint64_t*>(address);
    // The kernel may ignore this request for huge pages. Without them, the measurement includes the cost of page-table
    // walks.
    madvise(address, bytes, MADV_HUGEPAGE);
  }
  ~Mapping() {
    if (words_ != nullptr) munmap(words_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  uint64_t* words() const { return words_; }

 private:
  uint64_t* words_ = nullptr;
  size_t bytes_;
};

}  // namespace

Result<double> read_bandwidth(int threads, size_t bytes, int repeats) {
  if (threads < 1 || threads > 1024) return Error{ErrorCode::kInvalidArgument, "threads must be 1 to 1024"};
  if (bytes < 4096 || repeats < 1)
    return Error{ErrorCode::kInvalidArgument, "bytes must be at least 4096 and repeats at least 1"};
  const Mapping buffer(bytes);
  if (buffer.words() == nullptr) return Error{ErrorCode::kOutOfMemory, "not enough memory for the bandwidth buffer"};
  // Words per thread: a whole number of cache lines.
  const size_t words = bytes / sizeof(uint64_t) / static_cast<size_t>(threads) / 8 * 8;
  std::atomic<uint64_t> sink{0};

  // Each pass starts a new thread for each part. Starting a thread takes microseconds; reading a part takes many
  // milliseconds.
  const auto on_all = [&](auto&& work) {
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back([&work, thread] { work(thread); });
    work(0);
    for (std::thread& other : others) other.join();
  };
  on_all([&](int thread) { std::fill_n(buffer.words() + static_cast<size_t>(thread) * words, words, uint64_t{1}); });

  double best = 0;
  for (int pass = 0; pass < repeats; ++pass) {
    for (const auto way : kWays) {
      const auto begin = std::chrono::steady_clock::now();
      on_all([&](int thread) { sink += way(buffer.words() + static_cast<size_t>(thread) * words, words); });
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      best = std::max(best, static_cast<double>(words * sizeof(uint64_t)) * threads / took.count());
    }
  }
  // Uses the sums so that the compiler cannot remove the loop.
  if (sink == 0) return Error{ErrorCode::kInternal, "the bandwidth loop read no data"};
  return best;
}

}  // namespace monolith
