// The LoRA adapters of an engine. All functions may be called from any thread.
//
// A request holds a reference to its adapter from submission until the request ends (AdapterUse). unload() prevents new
// references. The adapter is freed when the last request that uses it has finished, and counts towards the limits until
// then.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/machine_memory.h"
#include "base/result.h"
#include "engine/adapter_info.h"
#include "model/adapter.h"
#include "model/model.h"

namespace monolith {

struct LoadedAdapter {
  AdapterInfo info;
  std::unique_ptr<const Adapter> adapter;
  std::atomic<int> waiting{0}, running{0};  // Requests in the queue, and requests that have started but not finished.
};

// A request's reference to its adapter.
class AdapterUse {
 public:
  explicit AdapterUse(std::shared_ptr<LoadedAdapter> loaded) : loaded_(std::move(loaded)) { ++loaded_->waiting; }
  ~AdapterUse() { --(started_ ? loaded_->running : loaded_->waiting); }
  AdapterUse(const AdapterUse&) = delete;
  AdapterUse& operator=(const AdapterUse&) = delete;

  // Called when the request leaves the queue: counts it as running. Further calls have no effect.
  void start() {
    if (started_) return;
    started_ = true;
    ++loaded_->running;
    --loaded_->waiting;
  }
  const Adapter* adapter() const { return loaded_->adapter.get(); }
  const ContentHash& hash() const { return loaded_->info.hash; }

 private:
  std::shared_ptr<LoadedAdapter> loaded_;
  bool started_ = false;
};

class AdapterSet {
 public:
  // `most_bytes`: maximum total memory of all adapters.
  AdapterSet(Model& model, size_t most_bytes) : model_(model), most_bytes_(most_bytes) {}

  // Loads an adapter from a GGUF file or a PEFT folder. `reserve` is called with the adapter's rank and must call
  // Model::reserve_adapters() on the engine thread. Error messages start with the path.
  Result<AdapterInfo> load(const std::string& path, const AdapterOptions& options,
                           const std::function<Status(int rank)>& reserve);
  Status unload(AdapterId id);
  Result<std::shared_ptr<AdapterUse>> use(AdapterId id);
  std::vector<AdapterInfo> list() const;
  std::vector<AdapterStats> stats() const;

 private:
  struct Entry {
    std::shared_ptr<LoadedAdapter> loaded;  // Null after unload().
    std::weak_ptr<LoadedAdapter> used;      // Expires when the adapter is freed.
  };

  // Sets `claim` to the memory that the adapter needs before any of it is allocated.
  Result<std::shared_ptr<LoadedAdapter>> read(const std::string& path, const AdapterOptions& options,
                                              MemoryClaim& claim);
  Result<size_t> room();
  void remove_freed();

  Model& model_;
  const size_t most_bytes_;
  std::mutex loading_;        // Held by load(), so that concurrent loads do not claim the same memory.
  mutable std::mutex mutex_;  // Guards the members below.
  std::vector<Entry> entries_;
  AdapterId next_id_ = 1;
};

}  // namespace monolith
