// Translates the tensors of a folder's vision encoder to the names in a GGUF vision file. Used on the thread that opens
// the model.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/safetensors.h"
#include "formats/hf/vision_config.h"

namespace monolith::hf {

// Whether the tensor with this name belongs to the vision encoder or its projector.
bool is_of_encoder(std::string_view name);

// Adds the vision encoder's tensors and ignores all others. Most tensors remain in the mapped file. Two-frame patch
// kernels, heads with a different RoPE pair order and norms stored minus one are converted when they are read.
// `row_break` is the token between image rows, for encoders that use one. Errors name the tensor. kUnsupported: a type
// other than F32, F16 or BF16, or an unknown name. kInvalidFile: an invalid shape.
Status translate_encoder_tensors(const std::vector<const Safetensor*>& tensors, const Encoder& encoder,
                                 int64_t row_break, AssembledFile& file);

}  // namespace monolith::hf
