// Presents the vision encoder and projector of a Hugging Face folder as the GGUF vision file ("mmproj",
// docs/reference/vision.md) that they would be converted to. Reads vision_config of config.json, the settings of the
// image processor and the encoder's tensors, which stay in the mapped files.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith::hf {

// Error messages start with the path and name the file in the folder and the key or tensor in that file. kUnsupported:
// this kind of vision encoder is not supported. kInvalidFile: the folder has no vision encoder.
Result<std::unique_ptr<GgufFile>> open_vision_folder(const std::string& path);

}  // namespace monolith::hf
