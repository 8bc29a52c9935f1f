// The parts of HyperParams::read that latent attention has of its own. Errors name the key.
#pragma once

#include "base/result.h"
#include "model/architectures.h"
#include "model/metadata_reader.h"
#include "model/model.h"

namespace monolith {

// params.latents.index. `n_rotated`: dimensions of a key that rotate.
Status read_index(const MetadataReader& read, const ArchitectureTraits& traits, int n_rotated, HyperParams& params);

// params.latents, and what layers that attend keep instead of keys and values. Their heads have been read.
Status read_latents(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                    HyperParams& params);

}  // namespace monolith
