#include "base/memory_claim.h"

#include <atomic>

namespace monolith {
namespace {

std::atomic<uint64_t> claimed{0};

}  // namespace

void MemoryClaim::set(uint64_t bytes) {
  claimed.fetch_add(bytes - bytes_, std::memory_order_relaxed);  // Modulo 2^64, so this also subtracts.
  bytes_ = bytes;
}

uint64_t MemoryClaim::all() { return claimed.load(std::memory_order_relaxed); }

}  // namespace monolith
