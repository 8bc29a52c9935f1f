// The process-wide lock that serializes memory planning.
#pragma once

#include <mutex>

namespace monolith {

// Held from the time a model load reads the machine's free memory until it has claimed its planned memory
// (MemoryClaim). Otherwise, two concurrent loads would both plan to use the same free memory.
inline std::mutex& memory_planning() {
  static std::mutex* const instance = new std::mutex;
  return *instance;
}

}  // namespace monolith
