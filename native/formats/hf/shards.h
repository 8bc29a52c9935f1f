// Opens the files in a folder that contain its tensors. Used on the thread that opens the model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

// One file and its tensors, whose bytes point into `file`.
struct Shard {
  MappedFile file;
  std::vector<Safetensor> tensors;
};

// Opens the files listed in model.safetensors.index.json. Without an index, opens model.safetensors or the folder's
// only .safetensors file. Errors name the file.
Result<std::vector<Shard>> open_shards(const std::string& folder);

}  // namespace monolith::hf
