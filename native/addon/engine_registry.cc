#include "addon/engine_registry.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "addon/load_vision.h"
#include "addon/make_backend.h"
#include "base/machine_memory.h"
#include "engine/speculation/draft_model.h"
#include "engine/debug/file_hash.h"
#include "engine/memory/page_budget.h"
#include "formats/gguf/tokenizer.h"
#include "model/eagle_params.h"

namespace monolith::addon {
namespace {

// When the last listener cancels a load during teardown: how long to wait for the load to finish.
constexpr std::chrono::seconds kAbandonedLoadWait{10};

// A registered engine name. While the engine is loading, `listeners` wait and `engine` is empty. Once it is ready,
// `engine` can be locked; once it has stopped, `engine` has expired. A stopped entry may be replaced; the load that
// replaces it waits for `stopped`.
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

// Held from the time a load plans a device's memory until the engine has allocated it. Otherwise, two concurrent loads
// would both plan to use all of the free memory. One mutex serves all devices because loading is usually limited by
// disk throughput.
std::mutex& device_loading() {
  static std::mutex* const instance = new std::mutex;
  return *instance;
}

// Held from the time a load reads the machine's free memory until it has claimed its planned memory. Otherwise, two
// concurrent loads would both plan to use the same free memory.
std::mutex& planning() {
  static std::mutex* const instance = new std::mutex;
  return *instance;
}

// Never destroyed, because a loading thread may outlive main().
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

Status check_tokens_fit(const Tokenizer& tokenizer, const HyperParams& params) {
  if (tokenizer.n_vocab() <= params.n_vocab) return {};
  return Error{ErrorCode::kInvalidFile, "the tokenizer has " + std::to_string(tokenizer.n_vocab()) +
                                            " tokens, but the embedding table only " + std::to_string(params.n_vocab)};
}

// Opens the draft model's file. Returns null if there is no draft model or speculation is off.
Result<std::unique_ptr<const GgufFile>> open_draft(const LoadOptions& options) {
  if (options.draft_path.empty() || options.engine.speculation == Speculation::kOff)
    return std::unique_ptr<const GgufFile>();
  return open_model_file(options.draft_path, options.draft_file());
}

Error of_draft(const LoadOptions& options, const Error& error) {
  return {error.code, options.draft_path + ": " + error.message};
}

// Checks that an EAGLE-3 head was made for this model. If the head's file contains a vocabulary, it must be the
// model's.
Status check_head(const GgufFile& head, const Tokenizer& tokenizer, const HyperParams& params) {
  if (head.find("tokenizer.ggml.tokens") != nullptr) {
    auto own = load_tokenizer(head);
    if (!own) return own.error();
    if (Status status = DraftModel::check_vocabulary(tokenizer, **own); !status) return status;
  }
  HyperParams both = params;
  return add_eagle_head(head, params.context_length, both);
}

// Loads the draft model on the main model's backend, and adds its memory to the main model's plan in `memory`.
Result<std::unique_ptr<Model>> load_draft(const GgufFile& file, Backend& backend, const ModelLimits& limits,
                                          const Tokenizer& tokenizer, MemoryPlan& memory) {
  auto own_tokenizer = load_tokenizer(file);
  if (!own_tokenizer) return own_tokenizer.error();
  if (Status status = DraftModel::check_vocabulary(tokenizer, **own_tokenizer); !status) return status.error();
  auto params = HyperParams::read(file);
  if (!params) return params.error();
  if (Status status = check_tokens_fit(**own_tokenizer, *params); !status) return status.error();
  auto own_limits = DraftModel::choose_limits(file, backend, limits, memory.kv_bytes);
  if (!own_limits) return own_limits.error();
  auto draft = Model::load(file, backend, *own_limits, {});
  if (!draft) return draft.error();
  const MemoryPlan& own = (*draft)->memory();
  memory.weight_bytes += own.weight_bytes;
  memory.kv_bytes += own.kv_bytes;
  memory.kv_start_bytes += own.kv_start_bytes;
  memory.activation_bytes += own.activation_bytes;
  return draft;
}

Result<std::unique_ptr<LoadedEngine>> load_from(const GgufFile& file, std::unique_ptr<Backend> backend,
                                                const LoadOptions& options, const Model::Progress& progress) {
  auto params = HyperParams::read(file);
  if (!params) return params.error();
  auto tokenizer = load_tokenizer(file);
  if (!tokenizer) return tokenizer.error();
  if (Status status = check_tokens_fit(**tokenizer, *params); !status) return status.error();
  auto info = model_info(file, *params, **tokenizer);
  if (!info) return info.error();
  std::unique_lock loading(device_loading(), std::defer_lock);
  if (backend->free_memory() > 0) loading.lock();
  auto vision = read_vision(options, file, **tokenizer);
  if (!vision) return vision.error();
  ModelLimits wanted = options.limits();
  wanted.max_batch_tokens = std::max(wanted.max_batch_tokens, rows_at_once(*vision));
  auto draft_file = open_draft(options);
  if (!draft_file) return draft_file.error();
  const GgufFile* const head = *draft_file && is_eagle_head(**draft_file) ? draft_file->get() : nullptr;
  if (head)
    if (Status status = check_head(*head, **tokenizer, *params); !status) return of_draft(options, status.error());
  MemoryClaim claim;  // Covers the time until the engine holds its own claim.
  uint64_t weight_bytes = 0;
  std::unique_lock planned(planning());
  auto limits = choose_limits(file, *backend, wanted, options.max_context, options.kv_bytes, head);
  if (!limits) return limits.error();
  if (!loading.owns_lock()) {
    auto plan = Model::plan(file, *backend, *limits, head);
    if (!plan) return plan.error();
    weight_bytes = plan->weight_bytes;
    claim.set(plan->total());
  }
  planned.unlock();
  const uint64_t total = claim.bytes();
  auto model = Model::load(
      file, *backend, *limits,
      [&](float fraction) {
        // The memory of weights that have already been copied no longer counts as free, so the claim shrinks.
        if (total > 0)
          claim.set(total - std::min(total, static_cast<uint64_t>(static_cast<double>(weight_bytes) *
                                                                  std::min(1.0, double{fraction}))));
        if (progress) progress(fraction);
      },
      head);
  if (!model) return model.error();

  auto loaded = std::make_unique<LoadedEngine>();
  loaded->info = std::move(*info);
  loaded->backend = backend->info();
  loaded->plan = InspectedPlan::of((*model)->memory(), *limits, (*model)->params());
  loaded->file_hash = hash_text(file_hash(file));
  std::unique_ptr<Model> draft;
  if (*draft_file && !head) {
    auto opened = load_draft(**draft_file, *backend, *limits, **tokenizer, loaded->plan.memory);
    if (!opened) return of_draft(options, opened.error());
    draft = std::move(*opened);
  }
  draft_file->reset();
  EngineVision sight;
  if (vision->model) {
    auto encoder = load_encoder(options, *vision, *backend);
    if (!encoder) return encoder.error();
    sight = std::move(*encoder);
  }
  loaded->vision = std::move(vision->model);
  loaded->markers = std::move(vision->markers);
  loaded->vision_problem = std::move(vision->problem);
  auto engine = Engine::start(std::move(*model), std::move(backend), std::move(*tokenizer), options.engine,
                              std::move(draft), std::move(sight));
  if (!engine) return engine.error();
  loaded->engine = std::move(*engine);
  return loaded;
}

// Loads an engine. Converts standard library exceptions to errors.
Result<std::unique_ptr<LoadedEngine>> open_engine(const std::string& path, const LoadOptions& options,
                                                  const Model::Progress& progress) {
  try {
    auto backend = make_backend(options);
    if (!backend) return backend.error();
    const LoadOptions chosen = for_backend(options, **backend);
    std::shared_ptr<StepProfile> profile;
    if (options.profile) {
      profile = std::make_shared<StepProfile>();
      backend = make_profiled_backend(std::move(*backend), profile);
    }
    auto loaded = read_model_file(path, options.file(), [&](const GgufFile& file) {
      return load_from(file, std::move(*backend), chosen, progress);
    });
    if (loaded) (*loaded)->profile = std::move(profile);
    return loaded;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, path + ": not enough memory to load the model"};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, path + ": " + error.what()};
  }
}

// Creates an EngineRef whose deleter marks the entry as stopped.
EngineRef make_ref(std::unique_ptr<LoadedEngine> loaded, std::shared_ptr<Entry> entry) {
  return EngineRef(loaded.release(), [entry = std::move(entry)](const LoadedEngine* engine) mutable {
    delete engine;  // Joins the engine thread.
    // Moved out of the deleter: otherwise, the entry's weak_ptr and the deleter would keep each other alive.
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
  // Declared before the lock so that it is released after it: the deleter of a last reference takes the same lock.
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
      // The last listener takes over the reference. If one were kept here, it would delay the destruction of an engine
      // that is closed immediately.
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
    // Waits for the load to end: the process may be about to exit, and no thread should be reading weights then.
    const auto abandoned = entry;
    if (abandoned->listeners.empty()) {
      all.changed.wait_for(lock, kAbandonedLoadWait, [&] { return !abandoned->loading; });
    }
    return;
  }
}

}  // namespace monolith::addon
