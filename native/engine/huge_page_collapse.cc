#include "engine/huge_page_collapse.h"

#include <system_error>
#include <utility>

#if defined(__linux__)
#include <pthread.h>
#endif

#include "base/thread_pool.h"
#include "model/model.h"

namespace monolith {

HugePageCollapse::HugePageCollapse(std::vector<Model*> models) {
  try {
    thread_ = std::thread([this, models = std::move(models)] {
#if defined(__linux__)
      pthread_setname_np(pthread_self(), "monolith-pages");
#endif
      use_process_affinity();
      lower_priority();
      uint64_t bytes = 0;
      for (Model* const model : models)
        if (model != nullptr)
          bytes += model->collapse_huge_pages([this] { return stop_.load(std::memory_order_relaxed); });
      bytes_.store(bytes, std::memory_order_relaxed);
      done_.store(true, std::memory_order_release);
    });
  } catch (const std::system_error&) {
    done_.store(true, std::memory_order_release);
  }
}

HugePageCollapse::~HugePageCollapse() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

std::optional<uint64_t> HugePageCollapse::bytes() const {
  if (!done_.load(std::memory_order_acquire)) return std::nullopt;
  return bytes_.load(std::memory_order_relaxed);
}

}  // namespace monolith
