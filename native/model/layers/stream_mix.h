// Hyper-connections: several residual streams, of which each block reads a weighted mix and to which it writes
// (HyperConnections). The functions apply before the first layer, around each block (Residual) and after the last
// layer.
#pragma once

#include <vector>

#include "model/layers/layer_block.h"

namespace monolith {

// Initializes all streams with the embeddings. `repeated` holds each token's index, repeated once per stream.
void open_mixed_streams(const HyperParams& params, Operations& operations, const Activations& activations,
                        const std::vector<int32_t>& repeated, int n_rows);

// Mixes the input of a block or of the output head from `streams` into `x`, and stores the mixing weights in `numbers`
// for write_streams().
void read_mixed(const HyperParams& params, const StreamMixWeights& weights, bool reads_only, Operations& operations,
                const Activations& activations, const float* streams, int n_rows, float* numbers, float* x);

}  // namespace monolith
