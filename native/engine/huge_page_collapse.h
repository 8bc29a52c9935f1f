// Moves the weights of a running engine's models to huge pages on a separate low-priority thread, so that neither
// loading nor the engine waits for it. Steps may run in the meantime: they only read the weights.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

namespace monolith {

class Model;

class HugePageCollapse {
 public:
  // Starts the thread. The models must outlive the object; null entries are skipped. If no thread can be started, the
  // weights stay where they are.
  explicit HugePageCollapse(std::vector<Model*> models);
  // Stops the thread. Waits until the current page has been moved, which takes milliseconds.
  ~HugePageCollapse();
  HugePageCollapse(const HugePageCollapse&) = delete;
  HugePageCollapse& operator=(const HugePageCollapse&) = delete;

  // Bytes of weights that are known to be in huge pages; not set until the thread is done. May be called from any
  // thread.
  std::optional<uint64_t> bytes() const;

 private:
  std::atomic<bool> stop_{false}, done_{false};
  std::atomic<uint64_t> bytes_{0};
  std::thread thread_;
};

}  // namespace monolith
