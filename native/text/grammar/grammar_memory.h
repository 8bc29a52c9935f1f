// What the grammars of an engine take together, and which of them was used last. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace monolith::grammar {

class GrammarMemory {
 public:
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // One of them takes so much now, and took so much before.
  void change(size_t before, size_t now) { bytes_.fetch_add(now - before, std::memory_order_relaxed); }
  // Later uses have higher numbers.
  uint64_t use() { return uses_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  std::atomic<size_t> bytes_{0};
  std::atomic<uint64_t> uses_{0};
};

}  // namespace monolith::grammar
