// The files of a folder that hold its tensors. Used on the thread that opens the model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

// One file and what it holds; the tensors' bytes lie in `file`.
struct Shard {
  MappedFile file;
  std::vector<Safetensor> tensors;
};

// All of them: those that model.safetensors.index.json names, model.safetensors, or the only one there is. Errors name the file.
Result<std::vector<Shard>> open_shards(const std::string& folder);

}  // namespace monolith::hf
