// The steps of HyperParams::read that are specific to MLA. Errors name the key.
#pragma once

#include "base/result.h"
#include "model/architectures.h"
#include "model/metadata_reader.h"
#include "model/model.h"

namespace monolith {

// Fills params.latents.index. `n_rotated` is the number of key dimensions with RoPE.
Status read_index(const MetadataReader& read, const ArchitectureTraits& traits, int n_rotated, HyperParams& params);

// Fills params.latents and the cached sizes of the attention layers. Their head counts must have been read.
Status read_latents(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                    HyperParams& params);

}  // namespace monolith
