// A Hugging Face folder's vision tower and projector as the vision file (GGUF "mmproj", docs/reference/vision.md) that they would be
// converted to: vision_config of config.json, the image processor's settings, and the tower's tensors, which stay where they lie.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith::hf {

// Errors begin with the path and name the file in the folder, and the key or tensor in it: kUnsupported for a tower of a kind that
// is not read, kInvalidFile where there is none.
Result<std::unique_ptr<GgufFile>> open_vision_folder(const std::string& path);

}  // namespace monolith::hf
