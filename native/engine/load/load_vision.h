// Loads a model's vision encoder: reads its file, checks that it matches the text model, and loads its weights. The
// functions may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/load/load_options.h"
#include "vision/vision.h"

namespace monolith {

// An engine's vision encoder. Empty if there is none. If an encoder was given but not loaded, `problem` gives the
// reason.
struct LoadedVision {
  std::shared_ptr<const VisionModel> model;
  MarkerTokens markers;
  std::string problem;
};

// Reads options.vision_path and checks that it matches the text model. Returns VisionModel's errors, prefixed with the
// file name. With options.vision_optional, an unusable vision encoder sets `problem` instead of causing an error.
Result<LoadedVision> read_vision(const LoadOptions& options, const GgufFile& text, const Tokenizer& tokenizer);

// Maximum number of tokens in an image part with bidirectional attention, which must be computed in a single step; 0 if
// image tokens use causal attention.
int rows_at_once(const LoadedVision& vision);

// For inspect(): describes the vision encoder's file and whether it matches the text model. Loads no weights. With
// options.vision_optional, `problem` is also set if the file cannot be read; the other fields are then empty.
struct InspectedVision {
  std::string projector;
  size_t weight_bytes = 0, work_bytes = 0;
  struct Size {
    int width = 0, height = 0, tokens = 0;
  };
  std::vector<Size> image_tokens;  // Token counts for some common image sizes.
  std::string problem;             // Why the vision encoder does not match the model; empty if it does.
};
Result<InspectedVision> inspect_vision(const LoadOptions& options, const std::string& text_path, Backend& backend);

// Loads the vision encoder's weights on `backend`, or on a new CPU backend if the device does not support vision
// encoders. `vision.model` must not be null.
Result<EngineVision> load_encoder(const LoadOptions& options, const LoadedVision& vision, Backend& backend);

}  // namespace monolith
