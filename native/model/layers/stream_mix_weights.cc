#include "model/layers/stream_mix_weights.h"

#include <string>

#include "model/weight_list.h"

namespace monolith {

void list_weights(std::string_view stem, bool reads_only, StreamMixWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t n = p.stream_mix.mix(reads_only).numbers();
  const std::string name(stem);
  list.matrix(name + "_fn.weight", n, int64_t{p.stream_mix.n_streams} * p.n_embd, weights.numbers);
  list.vector(name + "_scale.weight", reads_only ? 1 : 3, weights.scale);
  list.vector(name + "_base.weight", n, weights.base);
}

}  // namespace monolith
