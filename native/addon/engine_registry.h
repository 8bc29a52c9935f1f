// The engines of this process by name, shared by all its JavaScript environments: the main thread and any
// worker threads. The first load() of a name loads the file on a thread of its own; others attach, also
// while it loads. An engine stops when its last EngineRef goes.
//
// Threads: everything here may be called from any thread. No Node-API in here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "addon/options.h"
#include "backend/profiled_backend.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/diagnose/inspect.h"
#include "vision/vision.h"

namespace monolith::addon {

// A running engine and what was found out while loading it; all but the engine immutable.
struct LoadedEngine {
  std::unique_ptr<Engine> engine;
  ModelInfo info;
  BackendInfo backend;
  InspectedPlan plan;
  std::string file_hash;
  std::shared_ptr<const StepProfile> profile;  // null unless asked for
  std::shared_ptr<const VisionModel> vision;   // null: it does not see
  MarkerTokens markers;
  std::string vision_problem;  // why the tower it was given is left out; empty: it is not
};

// Shared ownership of a registered engine. Destroying the last one waits for the engine's current step.
using EngineRef = std::shared_ptr<const LoadedEngine>;

// One waiting load(). Both functions are called on the loading thread, never after cancel_load() returned;
// they must not block or call back into the registry.
class LoadListener {
 public:
  virtual ~LoadListener() = default;
  virtual void on_progress(float fraction) = 0;
  virtual void on_loaded(Result<EngineRef> result) = 0;  // once; nothing follows
};

// Loads or attaches; the answer comes to `listener`, possibly before this returns.
// An engine of that name from another file or with other options: kInvalidArgument.
void load_engine(const std::string& name, const std::string& path, const LoadOptions& options,
                 std::shared_ptr<LoadListener> listener);
// After return nothing more is told to `listener`. If nobody else waits, the engine is dropped once loaded;
// the call then waits some seconds for that.
void cancel_load(const LoadListener* listener);

}  // namespace monolith::addon
