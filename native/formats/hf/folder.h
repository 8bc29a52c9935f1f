// A Hugging Face folder as the file it would be converted to: config.json, *.safetensors, tokenizer.json and the
// small files beside them. Tensors stay where they lie; rows are put into GGUF's order as they are read.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith::hf {

// Errors name the file in the folder, and the key or tensor in it.
Result<std::unique_ptr<GgufFile>> open_folder(const std::string& path);

}  // namespace monolith::hf
