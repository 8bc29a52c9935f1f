// Describes everything in the engine on which the bits of a KV page depend, apart from the model's files and the load
// options. Two engines with equal files, options and descriptions compute equal pages.
#pragma once

#include <string>

#include "model/model.h"

namespace monolith {

// Increased whenever a release produces different bits for the same model, options and input. Stored pages of other
// versions are not used. test/engine/kv-tier/numerics-version.test.ts fails if logits change and this number does not.
inline constexpr int kNumericsVersion = 2;

// Backend and instruction set, KV layout and shape, page size, RoPE frequencies and kNumericsVersion, as text.
std::string cache_identity(Model& model);

}  // namespace monolith
