#include "addon/engine_registry.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace monolith::addon {
namespace {

// How long the teardown of an environment waits at most for a load to finish after the load's last listener has been
// cancelled.
constexpr std::chrono::seconds kAbandonedLoadWait{10};

// A registered engine name. While the engine is loading, `listeners` wait and `engine` is empty. Once the engine is
// ready, `engine` can be locked; once the engine has stopped, `engine` has expired. A stopped entry may be replaced;
// the load that replaces it waits for `stopped`.
struct Entry {
  std::string path;
  LoadOptions options;
  bool loading = true;
  bool stopped = false;  // The engine has been destroyed, or its load failed.
  std::weak_ptr<const LoadedEngine> engine;
  std::vector<std::shared_ptr<LoadListener>> listeners;
};

struct Registry {
  std::mutex mutex;                 // Guards this struct and all entries.
  std::condition_variable changed;  // Signaled when an entry finishes loading or its engine stops.
  std::map<std::string, std::shared_ptr<Entry>> entries;
};

// Never destroyed, because a loading thread may outlive main().
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

// Creates an EngineRef whose deleter marks the entry as stopped.
EngineRef make_ref(std::unique_ptr<LoadedEngine> loaded, std::shared_ptr<Entry> entry) {
  return EngineRef(loaded.release(), [entry = std::move(entry)](const LoadedEngine* engine) mutable {
    delete engine;  // Joins the engine thread.
    // Moved out of the deleter, because the entry's weak_ptr and the deleter would otherwise keep each other alive.
    const auto ended = std::move(entry);
    const std::lock_guard lock(registry().mutex);
    ended->engine.reset();
    ended->stopped = true;
    registry().changed.notify_all();
  });
}

void run_load(std::shared_ptr<Entry> entry, std::shared_ptr<Entry> predecessor) {
  Registry& all = registry();
  // Two engines with the same name would need twice the memory, so wait until the old one has stopped.
  if (predecessor) {
    std::unique_lock lock(all.mutex);
    all.changed.wait(lock, [&] { return predecessor->stopped; });
  }
  auto loaded = open_engine(entry->path, entry->options, [&](float fraction) {
    const std::lock_guard lock(all.mutex);
    for (const auto& listener : entry->listeners) listener->on_progress(fraction);
  });
  // Declared before the lock, so that this reference is dropped after the lock has been released: if it is the last
  // one, its deleter takes the same lock.
  EngineRef ref;
  std::vector<std::shared_ptr<LoadListener>> done;
  {
    const std::lock_guard lock(all.mutex);
    entry->loading = false;
    if (loaded) {
      ref = make_ref(std::move(*loaded), entry);
      entry->engine = ref;
    } else {
      entry->stopped = true;
    }
    done.swap(entry->listeners);
    for (const auto& listener : done) {
      if (!loaded) listener->on_loaded(loaded.error());
      // The last listener receives the loading thread's own reference. If the thread kept one, it would delay the
      // destruction of an engine that is closed immediately.
      else
        listener->on_loaded(listener == done.back() ? std::move(ref) : EngineRef(ref));
    }
    all.changed.notify_all();
  }
}

}  // namespace

void load_engine(const std::string& name, const std::string& path, const LoadOptions& options,
                 std::shared_ptr<LoadListener> listener) {
  Registry& all = registry();
  EngineRef running;  // Declared before the lock so that it is released after it.
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.entries, [](const auto& item) { return !item.second || item.second->stopped; });
  std::shared_ptr<Entry>& entry = all.entries[name];
  if (entry) running = entry->engine.lock();
  if (entry && (entry->loading || running)) {
    if (entry->path != path || !(entry->options == options)) {
      listener->on_loaded(Error{ErrorCode::kInvalidArgument,
                                "the engine '" + name + "' is already loaded from " +
                                    (entry->path == path ? "the same file with other options" : entry->path)});
    } else if (running) {
      listener->on_progress(1.0f);
      listener->on_loaded(std::move(running));
    } else {
      entry->listeners.push_back(std::move(listener));
    }
    return;
  }
  const auto fresh = std::make_shared<Entry>();
  fresh->path = path;
  fresh->options = options;
  fresh->listeners.push_back(listener);
  try {
    std::thread(run_load, fresh, entry).detach();
    entry = fresh;
  } catch (const std::system_error& error) {
    listener->on_loaded(
        Error{ErrorCode::kInternal, std::string("cannot start a thread to load the model: ") + error.what()});
  }
}

void cancel_load(const LoadListener* listener) {
  Registry& all = registry();
  std::shared_ptr<LoadListener> last;  // Declared before the lock so that it is released after it.
  std::unique_lock lock(all.mutex);
  for (const auto& [name, entry] : all.entries) {
    const auto found = std::ranges::find(entry->listeners, listener, &std::shared_ptr<LoadListener>::get);
    if (found == entry->listeners.end()) continue;
    last = std::move(*found);
    entry->listeners.erase(found);
    // Waits for the load to end: the process may be about to exit, and no thread should still be reading weights at
    // that point.
    const auto abandoned = entry;
    if (abandoned->listeners.empty()) {
      all.changed.wait_for(lock, kAbandonedLoadWait, [&] { return !abandoned->loading; });
    }
    return;
  }
}

}  // namespace monolith::addon
