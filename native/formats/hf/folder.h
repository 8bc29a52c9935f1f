// Presents a Hugging Face folder (config.json, *.safetensors, tokenizer.json and smaller files) as the GGUF file to
// which it would be converted. Tensors remain in the mapped files; rows are reordered when they are read.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith::hf {

// Error messages name the file in the folder, and the key or tensor in that file.
Result<std::unique_ptr<GgufFile>> open_folder(const std::string& path);

// Presents the folder's vision encoder and projector as the GGUF vision file ("mmproj", docs/reference/vision.md) to
// which they would be converted. Reads vision_config in config.json, the image processor's settings and the encoder's
// tensors, which remain in the mapped files.
//
// Error messages start with the path and name the file in the folder, and the key or tensor in that file. kUnsupported:
// this kind of vision encoder is not supported. kInvalidFile: the folder has no vision encoder.
Result<std::unique_ptr<GgufFile>> open_vision_folder(const std::string& path);

}  // namespace monolith::hf
