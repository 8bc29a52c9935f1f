// Several residual streams that every part of a network reads a mixture of and writes to (StreamMix): before the first
// layer, around each part (Residual), and behind the last layer.
#pragma once

#include <vector>

#include "model/layers/layer_part.h"

namespace monolith {

// The streams of the embeddings, all alike. `repeated`: each row's number as often as there are streams.
void open_mixed_streams(const HyperParams& params, Operations& operations, const Activations& activations,
                        const std::vector<int32_t>& repeated, int n_rows);

// What a part, or the output, reads of `streams`, in `x`; and in `numbers` how, for write_streams().
void read_mixed(const HyperParams& params, const StreamMixWeights& weights, bool reads_only, Operations& operations,
                const Activations& activations, const float* streams, int n_rows, float* numbers, float* x);

}  // namespace monolith
