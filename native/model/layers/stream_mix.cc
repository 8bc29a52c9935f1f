#include "model/layers/stream_mix.h"

namespace monolith {

void open_mixed_streams(const HyperParams& params, Operations& operations, const Activations& activations,
                        const std::vector<int32_t>& repeated, int n_rows) {
  operations.gather_rows(activations.x, repeated.data(), n_rows * params.stream_mix.n_streams, params.n_embd,
                         activations.streams);
}

void read_mixed(const HyperParams& params, const StreamMixWeights& weights, bool reads_only, Operations& operations,
                const Activations& activations, const float* streams, int n_rows, float* numbers, float* x) {
  HyperConnections mix = params.stream_mix.mix(reads_only);
  mix.scale = weights.scale;
  mix.base = weights.base;
  float* const normed = activations.predicted;
  operations.rms_norm(streams, nullptr, params.norm_eps, n_rows, int64_t{mix.n_streams} * params.n_embd, normed);
  const MatmulTarget target{weights.numbers.get(), numbers, mix.numbers()};
  operations.matmul({&target, 1}, normed, n_rows, InputUse::kLast);
  operations.hyper_connection_weights(mix, numbers, n_rows);
  operations.read_streams(mix, numbers, streams, n_rows, params.n_embd, x);
}

}  // namespace monolith
