#include "model/layers/stream_weights.h"

#include <string>

#include "model/weight_list.h"

namespace monolith {

void list_weights(StreamProjections& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int others = p.streams.count - 1;
  weights.to.resize(static_cast<size_t>(others));
  weights.from.resize(static_cast<size_t>(others));
  for (int i = 0; i < others; ++i) {
    const auto at = static_cast<size_t>(i);
    list.one_matrix("altup_proj.weight", i, others, p.n_embd, p.n_embd, weights.to[at]);
    list.one_matrix("altup_unembd_proj.weight", i, others, p.n_embd, p.n_embd, weights.from[at]);
  }
}

void list_weights(StreamWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t n = p.streams.count, rank = p.streams.laurel_rank;
  if (n == 1) return;
  list.vector("altup_router_norm.weight", p.n_embd, weights.router_norm);
  list.matrix("altup_router.weight", n, p.n_embd, weights.router);
  list.matrix("altup_predict_coef.weight", n * n, n, weights.predict);
  list.matrix("altup_correct_coef.weight", n, n, weights.correct);
  list.vector("altup_correct_scale.weight", p.n_embd, weights.correct_scale);
  list.matrix("laurel_l.weight", rank, p.n_embd, weights.laurel_down);
  list.matrix("laurel_r.weight", p.n_embd, rank, weights.laurel_up);
  list.norm("laurel_post_norm.weight", p.n_embd, weights.laurel_post_norm);
}

void list_weights(std::string_view stem, bool reads_only, StreamMixWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t n = p.stream_mix.mix(reads_only).numbers();
  const std::string name(stem);
  list.matrix(name + "_fn.weight", n, int64_t{p.stream_mix.n_streams} * p.n_embd, weights.numbers);
  list.vector(name + "_scale.weight", reads_only ? 1 : 3, weights.scale);
  list.vector(name + "_base.weight", n, weights.base);
}

}  // namespace monolith
