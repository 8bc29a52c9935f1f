// Translates the tensors of a checkpoint to GGUF names and GGUF row order. Used on the thread that opens the model.
#pragma once

#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/config.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

// Adds every tensor that is used in the computation, and returns the number of rows of the embedding table. The tensors
// of separate experts are joined. Tensors without a GGUF name keep their own name, so that the model can report them as
// unknown. Errors name the tensor. kUnsupported: types other than F32, F16 and BF16. kInvalidFile: an invalid shape, a
// missing expert, or no embedding table.
Result<int64_t> translate_tensors(const std::vector<Safetensor>& tensors, const Config& config, AssembledFile& file);

}  // namespace monolith::hf
