// The parts of HyperParams::read that a layer may have of its own: windows, rotations, experts.
// They fill their part of `params`, whose sizes have been read. Errors name the key.
#pragma once

#include "base/result.h"
#include "model/architectures.h"
#include "model/metadata_reader.h"
#include "model/model.h"

namespace monolith {

inline constexpr int64_t kMaxFeedForward = 1 << 20;

// ropes and layers.
Status read_layers(const GgufFile& file, const MetadataReader& read,
                   const ArchitectureTraits& traits, int max_context, HyperParams& params);

// experts, and which layers have them.
Status read_experts(const GgufFile& file, const MetadataReader& read,
                    const ArchitectureTraits& traits, HyperParams& params);

}  // namespace monolith
