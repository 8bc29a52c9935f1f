// Translates a checkpoint's tensors to GGUF names and GGUF row order. Used on the thread that opens the model.
#pragma once

#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/config.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

// Adds every tensor that the model uses, and returns the number of rows in the embedding table. Experts that are stored
// as separate tensors are joined. Tensors without a GGUF name keep their name, so that the model can report them as
// unknown. Errors name the tensor. kUnsupported: a type other than F32, F16 or BF16. kInvalidFile: an invalid shape, a
// missing expert, or no embedding table.
Result<int64_t> translate_tensors(const std::vector<Safetensor>& tensors, const Config& config, AssembledFile& file);

}  // namespace monolith::hf
