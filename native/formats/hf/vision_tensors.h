// The tensors of a folder's vision tower under a vision file's names. Used on the thread that opens the model.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/safetensors.h"
#include "formats/hf/vision_config.h"

namespace monolith::hf {

// Whether a tensor of this name is the tower's or its projector's.
bool is_of_tower(std::string_view name);

// Adds the tower's tensors; others are passed over. Most stay where they lie; kernels of two frames, heads that turn otherwise
// and norms less one are made as they are read. `row_break`: the token between rows, of a tower that has one. Errors name the
// tensor: kUnsupported for a type other than F32, F16 or BF16 or a name that is not known, kInvalidFile for a shape that cannot be.
Status translate_tower_tensors(const std::vector<const Safetensor*>& tensors, const Tower& tower, int64_t row_break,
                               AssembledFile& file);

}  // namespace monolith::hf
