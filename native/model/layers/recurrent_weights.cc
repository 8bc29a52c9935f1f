#include "model/layers/recurrent_weights.h"

#include <string>

#include "model/weight_list.h"

namespace monolith {
namespace {

// Kimi delta attention: every projection is a separate matrix; the projections for gate and decay are low-rank.
void list_apart(const DeltaNetParams& d, int64_t n_embd, DeltaNetWeights& weights, WeightList& list) {
  const int64_t keys = d.keys(), values = d.values(), rank = d.low_rank;
  list.matrix("attn_q.weight", keys, n_embd, weights.q);
  list.matrix("attn_k.weight", keys, n_embd, weights.k);
  list.matrix("attn_v.weight", values, n_embd, weights.v);
  list.vector_of_shape("ssm_conv1d_q.weight", {d.conv_kernel_size, 1, keys}, weights.q_convolution);
  list.vector_of_shape("ssm_conv1d_k.weight", {d.conv_kernel_size, 1, keys}, weights.k_convolution);
  list.vector_of_shape("ssm_conv1d_v.weight", {d.conv_kernel_size, 1, values}, weights.v_convolution);
  list.matrix("ssm_f_a.weight", rank, n_embd, weights.decay_low);
  list.matrix("ssm_f_b.weight", d.decays(), rank, weights.decay);
  list.matrix("ssm_g_a.weight", rank, n_embd, weights.gate_low);
  list.matrix("ssm_g_b.weight", values, rank, weights.gate);
  list.matrix("ssm_beta.weight", d.n_value_heads, n_embd, weights.beta);
  list.vector_of_shape("ssm_a", {1, d.n_value_heads, 1}, weights.rate);
  list.matrix("attn_output.weight", n_embd, values, weights.output);
}

void list_together(const DeltaNetParams& d, int64_t n_embd, DeltaNetWeights& weights, WeightList& list) {
  const int64_t channels = d.channels(), heads = d.n_value_heads;
  list.vector_of_shape("ssm_conv1d.weight", {d.conv_kernel_size, channels, 1}, weights.convolution);
  if (d.grouped_mixed) {
    // The rows are grouped by key head: query, key, and the values and gates of its value heads.
    const int64_t n = d.n_key_heads, key = d.key_dim, run = d.values() / n, all = 2 * (key + run);
    list.part_runs("ssm_in.weight", n, 0, key, all, n_embd, weights.q);
    list.part_runs("ssm_in.weight", n, key, key, all, n_embd, weights.k);
    list.part_runs("ssm_in.weight", n, 2 * key, run, all, n_embd, weights.v);
    list.part_runs("ssm_in.weight", n, 2 * key + run, run, all, n_embd, weights.gate);
  } else {
    list.matrix("attn_qkv.weight", channels, n_embd, weights.mixed);
    list.matrix("attn_gate.weight", d.values(), n_embd, weights.gate);
  }
  if (d.grouped_beta) {
    // The rows are grouped by key head: the betas of its value heads, then the decay inputs of its value heads.
    const int64_t run = heads / d.n_key_heads;
    list.part_runs("ssm_ba.weight", d.n_key_heads, 0, run, 2 * run, n_embd, weights.beta);
    list.part_runs("ssm_ba.weight", d.n_key_heads, run, run, 2 * run, n_embd, weights.decay);
  } else {
    list.matrix("ssm_beta.weight", heads, n_embd, weights.beta);
    list.matrix("ssm_alpha.weight", heads, n_embd, weights.decay);
  }
  list.vector("ssm_a", heads, weights.rate);
  list.matrix("ssm_out.weight", n_embd, d.values(), weights.output);
}

}  // namespace

void list_weights(const LayerParams&, DeltaNetWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const DeltaNetParams& d = p.delta_net;
  if (p.pre_norm) list.norm("attn_norm.weight", p.n_embd, weights.norm);
  d.apart ? list_apart(d, p.n_embd, weights, list) : list_together(d, p.n_embd, weights, list);
  list.vector("ssm_dt.bias", d.decays(), weights.decay_bias);
  list.vector("ssm_norm.weight", d.value_dim, weights.out_norm);
  if (p.post_norm) list.norm("post_attention_norm.weight", p.n_embd, weights.post_norm);
}

void list_weights(Mamba2Weights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const StateSpaceParams& s = p.state_space;
  const int64_t width = s.width(), channels = s.channels(), all = width + channels + s.n_heads;
  if (p.pre_norm) list.norm("attn_norm.weight", p.n_embd, weights.norm);
  list.part("ssm_in.weight", 0, width, all, p.n_embd, weights.gate);
  list.part("ssm_in.weight", width, channels, all, p.n_embd, weights.mixed);
  list.part("ssm_in.weight", width + channels, s.n_heads, all, p.n_embd, weights.step);
  list.vector_of_shape("ssm_conv1d.weight", {s.conv_kernel_size, channels, 1}, weights.convolution);
  list.vector_if(s.convolution_bias, "ssm_conv1d.bias", channels, weights.convolution_bias);
  list.vector_of_shape("ssm_a", {1, s.n_heads, 1}, weights.rate);
  list.vector("ssm_dt.bias", s.n_heads, weights.step_bias);
  list.vector_of_shape("ssm_d", {1, s.n_heads, 1}, weights.skip);
  if (s.out_norm) list.vector_of_shape("ssm_norm.weight", {width / s.n_groups, s.n_groups, 1}, weights.out_norm);
  list.matrix("ssm_out.weight", p.n_embd, width, weights.output);
  if (p.post_norm) list.norm("post_attention_norm.weight", p.n_embd, weights.post_norm);
}

void list_weights(MambaWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const StateSpaceParams& s = p.state_space;
  const int64_t width = s.width(), rank = s.step_rank, groups = 2 * s.space().group_width();
  if (p.pre_norm) list.norm("attn_norm.weight", p.n_embd, weights.norm);
  if (s.gate_first) {
    const int64_t n = s.n_heads, dim = s.head_dim;
    list.part_runs("ssm_in.weight", n, dim, dim, 2 * dim, p.n_embd, weights.x);
    list.part_runs("ssm_in.weight", n, 0, dim, 2 * dim, p.n_embd, weights.gate);
  } else {
    list.part("ssm_in.weight", 0, width, 2 * width, p.n_embd, weights.x);
    list.part("ssm_in.weight", width, width, 2 * width, p.n_embd, weights.gate);
  }
  list.vector_of_shape("ssm_conv1d.weight", {s.conv_kernel_size, width, 1}, weights.convolution);
  list.vector_if(s.convolution_bias, "ssm_conv1d.bias", width, weights.convolution_bias);
  list.part("ssm_x.weight", s.gate_first ? groups : 0, rank, rank + groups, width, weights.low_step);
  list.part("ssm_x.weight", s.gate_first ? 0 : rank, groups, rank + groups, width, weights.groups);
  if (s.projection_norm == ProjectionNorm::kWeighted) {
    const std::string end = s.gate_first ? "" : ".weight";
    list.vector("ssm_dt_norm" + end, rank, weights.step_norm);
    list.vector("ssm_b_norm" + end, s.state_dim, weights.b_norm);
    list.vector("ssm_c_norm" + end, s.state_dim, weights.c_norm);
  }
  list.matrix("ssm_dt.weight", s.space().steps(), rank, weights.step);
  if (s.channel_steps)
    list.transposed_vector("ssm_a", width, s.state_dim, weights.rate);
  else
    list.vector("ssm_a", s.n_heads, weights.rate);
  list.vector("ssm_dt.bias", s.space().steps(), weights.step_bias);
  list.vector("ssm_d", s.space().steps(), weights.skip);
  list.matrix("ssm_out.weight", p.n_embd, width, weights.output);
  if (p.post_norm) list.norm(p.attention_post_norm_name, p.n_embd, weights.post_norm);
}

void list_weights(ShortConvolutionWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t n = p.n_embd;
  if (p.pre_norm) list.norm("attn_norm.weight", n, weights.norm);
  list.part("shortconv.in_proj.weight", 0, n, 3 * n, n, weights.before);
  list.part("shortconv.in_proj.weight", n, n, 3 * n, n, weights.after);
  list.part("shortconv.in_proj.weight", 2 * n, n, 3 * n, n, weights.input);
  list.vector_of_shape("shortconv.conv.weight", {p.convolution_taps, n, 1}, weights.convolution);
  list.matrix("shortconv.out_proj.weight", n, n, weights.output);
  if (p.post_norm) list.norm("post_attention_norm.weight", n, weights.post_norm);
}

}  // namespace monolith
