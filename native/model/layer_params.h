// The steps of HyperParams::read() for properties that can differ per layer: kinds, shapes, sliding windows, RoPE,
// experts. The sizes in `params` must have been read; these functions fill the remaining fields. Errors name the key.
#pragma once

#include "base/result.h"
#include "model/architectures.h"
#include "model/metadata_reader.h"
#include "model/model.h"

namespace monolith {

inline constexpr int64_t kMaxFeedForward = 1 << 20;

// Fills `ropes` and `layers`.
Status read_layers(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits, int max_context,
                   HyperParams& params);

// Fills the fields of the block attention layers, params.blocks, the indexer in params.latents, and stream_mix. Called
// by read_layers().
Status read_block_attention(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                            int max_context, HyperParams& params);

// Fills params.latents.index. `n_rotated` is the number of key dimensions with RoPE.
Status read_index(const MetadataReader& read, const ArchitectureTraits& traits, int n_rotated, HyperParams& params);

// Fills params.latents and the cached sizes of the attention layers. Their head counts must already have been read.
Status read_latents(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                    HyperParams& params);

// Fills delta_net if any layer is a delta-net layer. Must be called after read_layers().
Status read_delta_nets(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                       HyperParams& params);

// Fills state_space and convolution_taps if any layer needs them. Must be called after read_layers().
Status read_state_spaces(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                         HyperParams& params);

// Fills rwkv if any layer is an RWKV layer. Must be called after read_layers().
Status read_rwkv(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                 HyperParams& params);

// Fills `experts` and marks the layers that have experts.
Status read_experts(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                    HyperParams& params);

// Reads properties that only a few architectures have: per-layer inputs, residual streams, limits, scales. Must run
// last.
Status read_layer_extras(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                         HyperParams& params);

}  // namespace monolith
