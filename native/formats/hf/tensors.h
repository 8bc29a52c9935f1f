// The tensors of a checkpoint under GGUF's names, in GGUF's order of rows. Used on the thread that opens the model.
#pragma once

#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/config.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

// Adds every tensor that computes something and returns the rows of the embedding table. Tensors of experts are
// joined; tensors without a name in GGUF keep their own, so that the model can say that it has no place for them.
// Errors name the tensor: kUnsupported for types other than F32, F16 and BF16; kInvalidFile for shapes that cannot be,
// experts that are missing, and where there is no embedding table.
Result<int64_t> translate_tensors(const std::vector<Safetensor>& tensors, const Config& config, AssembledFile& file);

}  // namespace monolith::hf
