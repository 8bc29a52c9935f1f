#include "model/layers/rwkv_weights.h"

#include <string>

#include "model/weight_list.h"

namespace monolith {
namespace {

void list_low_rank(const std::string& stem, int rank, int64_t n_embd, LowRankWeights& weights, WeightList& list) {
  list.matrix(stem + "1.weight", rank, n_embd, weights.down);
  list.matrix(stem + "2.weight", n_embd, rank, weights.up);
}

// RWKV 6: the vector `mu` of each input is shifted by a low-rank projection of the layer's input. The matrices of all
// projections are stacked.
void list_shifts(const RwkvParams& rwkv, int64_t n_embd, TimeMixWeights& weights, WeightList& list) {
  list.vector("time_mix_lerp_x.weight", n_embd, weights.shift_mu);
  const int64_t rank = rwkv.shift_rank, n = rwkv.inputs();
  for (int i = 0; i < n; ++i) {
    LowRankWeights& shift = weights.shifts[static_cast<size_t>(i)];
    list.part("time_mix_w1.weight", i * rank, rank, n * rank, n_embd, shift.down);
    list.one_matrix("time_mix_w2.weight", i, n, n_embd, rank, shift.up);
  }
}

}  // namespace

void list_weights(const LayerParams& layer, TimeMixWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const RwkvParams& rwkv = p.rwkv;
  const int64_t n = p.n_embd;
  const bool is_first = &layer == p.layers.data();
  list.norm("attn_norm.weight", n, weights.norm);
  const std::string_view names = rwkv.delta ? "rwkvag" : "wkvrg";
  for (int i = 0; i < rwkv.inputs(); ++i) {
    const float*& mu = weights.mu[static_cast<size_t>(i)];
    if (rwkv.fused_mu)
      list.outer_part("time_mix_lerp_fused.weight", i, rwkv.inputs(), n, mu);
    else
      list.vector(std::string("time_mix_lerp_") + names[static_cast<size_t>(i)] + ".weight", n, mu);
  }
  list.matrix("time_mix_receptance.weight", n, n, weights.r);
  list.matrix("time_mix_key.weight", n, n, weights.k);
  list.matrix("time_mix_value.weight", n, n, weights.v);
  if (rwkv.delta) {
    list_low_rank("time_mix_w", rwkv.decay_rank, n, weights.decay, list);
    list_low_rank("time_mix_a", rwkv.rate_rank, n, weights.rate, list);
    list_low_rank("time_mix_g", rwkv.gate_rank, n, weights.low_gate, list);
    list.vector("time_mix_w0.weight", n, weights.decay_bias);
    list.vector("time_mix_a0.weight", n, weights.rate_bias);
    if (!is_first) {
      list_low_rank("time_mix_v", rwkv.value_rank, n, weights.value, list);
      list.vector("time_mix_v0.weight", n, weights.value_bias);
    }
    list.vector("time_mix_k_k.weight", n, weights.key_scale);
    list.vector("time_mix_k_a.weight", n, weights.key_rate);
    list.vector("time_mix_r_k.weight", n, weights.bonus);
  } else {
    list_shifts(rwkv, n, weights, list);
    list_low_rank("time_mix_decay_w", rwkv.decay_rank, n, weights.decay, list);
    list.vector("time_mix_decay.weight", n, weights.decay_bias);
    list.vector_of_shape("time_mix_first.weight", {rwkv.head_dim, rwkv.n_heads, 1}, weights.bonus);
    list.matrix("time_mix_gate.weight", n, n, weights.gate);
  }
  list.vector("time_mix_ln.weight", n, weights.out_norm);
  list.vector("time_mix_ln.bias", n, weights.out_norm_bias);
  list.matrix("time_mix_output.weight", n, n, weights.output);
}

void list_weights(const LayerParams& layer, ChannelMixWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t n = p.n_embd, n_ff = layer.n_ff;
  list.vector("channel_mix_lerp_k.weight", n, weights.key_mu);
  list.matrix("channel_mix_key.weight", n_ff, n, weights.key);
  list.matrix("channel_mix_value.weight", n, n_ff, weights.value);
  if (p.rwkv.delta) return;
  list.vector("channel_mix_lerp_r.weight", n, weights.gate_mu);
  list.matrix("channel_mix_receptance.weight", n, n, weights.gate);
}

}  // namespace monolith
