#include "backend/cpu/machine/peak.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace monolith {
namespace {

constexpr long kRounds = 2'000'000;  // This many rounds take about 3 ms.

// Returns the number of operations per second of a measuring loop. Used only on x86-64, because other architectures
// have no such loops.
[[maybe_unused]] double rate(void (*loop)(long), double per_round, int threads, int repeats) {
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(loop, kRounds);
    loop(kRounds);
    for (std::thread& other : others) other.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, per_round * static_cast<double>(kRounds) * threads / took.count());
  }
  return best;
}

}  // namespace

ArithmeticPeak measure_peak(CpuIsa isa, int threads, int repeats) {
#if defined(__x86_64__)
  if (isa != CpuIsa::kPlain) {
    const PeakLoops& loops = isa == CpuIsa::kAvx2 ? kAvx2Peak : isa == CpuIsa::kAvxVnni ? kAvxVnniPeak : kAvx512Peak;
    const double floats = rate(loops.float32, loops.float32_round, threads, repeats);
    if (isa == CpuIsa::kAmx) return {rate(kAmxPeak.integer8, kAmxPeak.integer8_round, threads, repeats), floats};
    return {rate(loops.integer8, loops.integer8_round, threads, repeats), floats};
  }
#else
  (void)isa, (void)threads, (void)repeats;
#endif
  return {};
}

}  // namespace monolith
