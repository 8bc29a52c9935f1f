#include "model/layers/network_weights.h"

#include "model/weight_list.h"

namespace monolith {

void list_weights(const LayerParams& layer, NetworkWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t n_ff = layer.n_ff;
  const bool gated = layer.feed_forward != FeedForwardKind::kPlain;
  if (gated && p.fused_gate_up) {
    list.part("ffn_up.weight", 0, n_ff, 2 * n_ff, p.n_embd, weights.gate);
    list.part("ffn_up.weight", n_ff, n_ff, 2 * n_ff, p.n_embd, weights.up);
  } else {
    if (gated) list.matrix("ffn_gate.weight", n_ff, p.n_embd, weights.gate);
    list.matrix("ffn_up.weight", n_ff, p.n_embd, weights.up);
    list.vector_if(gated && p.gate_bias, "ffn_gate.bias", n_ff, weights.gate_bias);
    list.vector_if(p.up_bias, "ffn_up.bias", n_ff, weights.up_bias);
  }
  list.matrix("ffn_down.weight", p.n_embd, n_ff, weights.down);
  list.vector_if(p.down_bias, "ffn_down.bias", p.n_embd, weights.down_bias);
}

}  // namespace monolith
