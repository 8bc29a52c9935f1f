// Presents a Hugging Face folder (config.json, *.safetensors, tokenizer.json and smaller files) as if it had been
// converted to a GGUF file. Tensors remain in the mapped files; rows are reordered when they are read.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith::hf {

// Errors name the file within the folder, and the key or tensor in that file.
Result<std::unique_ptr<GgufFile>> open_folder(const std::string& path);

// Presents the folder's vision encoder and projector as if they had been converted to a GGUF vision file ("mmproj",
// docs/reference/vision.md). Reads vision_config in config.json, the image processor's settings and the encoder's
// tensors, which remain in the mapped files.
//
// Error messages start with the path and name the file within the folder, and the key or tensor in that file.
// kUnsupported: this kind of vision encoder is not supported. kInvalidFile: the folder has no vision encoder.
Result<std::unique_ptr<GgufFile>> open_vision_folder(const std::string& path);

}  // namespace monolith::hf
