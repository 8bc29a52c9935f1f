// Total memory of an engine's grammars, and a use counter that orders them by last use. All functions may be called
// from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace monolith::grammar {

class GrammarMemory {
 public:
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Records that the size of one grammar has changed from `before` to `now` bytes.
  void change(size_t before, size_t now) { bytes_.fetch_add(now - before, std::memory_order_relaxed); }
  // Returns a number that is higher than those of earlier uses.
  uint64_t use() { return uses_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  std::atomic<size_t> bytes_{0};
  std::atomic<uint64_t> uses_{0};
};

}  // namespace monolith::grammar
