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

}  // namespace monolith::hf
