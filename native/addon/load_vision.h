// A model's vision tower, loaded with it: the file read, held against the text model, its weights taken. Any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "addon/options.h"
#include "engine/engine.h"
#include "vision/vision.h"

namespace monolith::addon {

// What an engine sees with. Empty where it does not: `problem` then says why a tower that it was given is left out.
struct LoadedVision {
  std::shared_ptr<const VisionModel> model;
  MarkerTokens markers;
  std::string problem;
};

// Whether options.vision_path fits the text model. Errors: those of VisionModel, named with the file, unless a tower that does
// not fit may be left out.
Result<LoadedVision> read_vision(const LoadOptions& options, const GgufFile& text, const Tokenizer& tokenizer);

// Rows of a piece that see one another, which are computed in one step; 0: none do.
int rows_at_once(const LoadedVision& vision);

// For inspect: what the file is and whether it fits. Nothing is loaded. Of a file that may be left out `problem` also says why it
// cannot be read; then there is nothing else.
struct InspectedVision {
  std::string projector;
  size_t weight_bytes = 0, work_bytes = 0;
  struct Size {
    int width = 0, height = 0, tokens = 0;
  };
  std::vector<Size> image_tokens;  // of some usual sizes
  std::string problem;             // why it does not fit; empty: it does
};
Result<InspectedVision> inspect_vision(const LoadOptions& options, const std::string& text_path, Backend& backend);

// Its weights: on `backend`, or where that computes no towers on a processor of its own. `vision.model` must not be null.
Result<EngineSight> load_tower(const LoadOptions& options, const LoadedVision& vision, Backend& backend);

}  // namespace monolith::addon
