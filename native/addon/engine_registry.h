// This process's engines by name, shared by all JavaScript environments (the main thread and worker threads). The first
// load() of a name loads the file on a separate thread. Later calls attach to the same engine, even while it is still
// loading. An engine stops when its last EngineRef is destroyed.
//
// Every function may be called from any thread. This module does not use Node-API.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/load/load_engine.h"

namespace monolith::addon {

// Shared ownership of a registered engine. Destroying the last reference waits for the engine's current step.
using EngineRef = std::shared_ptr<const LoadedEngine>;

// A pending load(). Both functions are called on the loading thread, and never after cancel_load() has returned. They
// must not block or call back into the registry.
class LoadListener {
 public:
  virtual ~LoadListener() = default;
  virtual void on_progress(float fraction) = 0;
  virtual void on_loaded(Result<EngineRef> result) = 0;  // Called once; no other call follows.
};

// Loads the engine or attaches to a running one. The listener receives the result, possibly before this function
// returns. Fails with kInvalidArgument if an engine with this name was loaded from a different file or with different
// options.
void load_engine(const std::string& name, const std::string& path, const LoadOptions& options,
                 std::shared_ptr<LoadListener> listener);
// After this function returns, `listener` receives no further calls. If no other listener is waiting, the engine is
// discarded once it has loaded, and this call waits up to 10 seconds for that to happen.
void cancel_load(const LoadListener* listener);

}  // namespace monolith::addon
