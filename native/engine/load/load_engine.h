// Loads a model and everything needed to serve it: backend, draft model or EAGLE-3 head, vision encoder and engine.
// Decides how much memory each component gets. The functions may be called from any thread; concurrent loads share the
// machine's free memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/profiled_backend.h"
#include "base/result.h"
#include "engine/debug/inspect.h"
#include "engine/engine.h"
#include "engine/load/load_options.h"
#include "engine/load/load_vision.h"
#include "vision/vision.h"

namespace monolith {

// A running engine, with the information gathered while it was loaded. Everything except the engine is immutable.
struct LoadedEngine {
  std::unique_ptr<Engine> engine;
  ModelInfo info;
  BackendInfo backend;
  InspectedPlan plan;
  std::string file_hash;
  std::shared_ptr<const StepProfile> profile;  // Null unless profiling was requested.
  std::shared_ptr<const VisionModel> vision;   // Null if the model has no vision encoder.
  MarkerTokens markers;
  std::string vision_problem;  // Why the given vision encoder was not loaded; empty if it was loaded or none was given.
};

// Loads the model in `path`, a GGUF file or a Hugging Face folder, and starts its engine. `progress` is called on this
// thread with the loaded fraction of the weights. Errors name the file that caused them: the model's, the draft model's
// or the vision encoder's.
Result<std::unique_ptr<LoadedEngine>> open_engine(const std::string& path, const LoadOptions& options,
                                                  const std::function<void(float)>& progress = {});

// Fills in the defaults that depend on the device, such as the tokens per step. Steps are larger on a GPU: each prefill
// step reads all weights, and a GPU can compute many tokens in that time.
LoadOptions for_backend(LoadOptions options, const Backend& backend);

// What open_engine() would load.
struct InspectedFiles {
  Inspection model;
  std::optional<InspectedVision> vision;
};

// Describes the model and its vision encoder, and plans their memory, without loading weights.
Result<InspectedFiles> inspect_files(const std::string& path, const LoadOptions& options);

}  // namespace monolith
