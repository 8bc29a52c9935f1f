// The parts of HyperParams::read that a layer may have of its own: kinds, shapes, windows, rotations, experts.
// They fill their part of `params`, whose sizes have been read. Errors name the key.
#pragma once

#include "base/result.h"
#include "model/architectures.h"
#include "model/metadata_reader.h"
#include "model/model.h"

namespace monolith {

inline constexpr int64_t kMaxFeedForward = 1 << 20;

// ropes and layers.
Status read_layers(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits, int max_context,
                   HyperParams& params);

// What layers with block attention have, and params.blocks, latents' index and stream_mix: from within read_layers().
Status read_block_attention(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                            int max_context, HyperParams& params);

// delta_net, where a layer's mixer is one: after read_layers().
Status read_delta_nets(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                       HyperParams& params);

// state_space and convolution_taps, where a layer's mixer needs them: likewise.
Status read_state_spaces(const GgufFile& file, const MetadataReader& read, HyperParams& params);

// experts, and which layers have them.
Status read_experts(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                    HyperParams& params);

// What few architectures have: inputs of each layer's own, streams, limits, scales. Last.
Status read_layer_extras(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                         HyperParams& params);

}  // namespace monolith
