#include "model/layers/mamba2_weights.h"

#include "model/weight_list.h"

namespace monolith {

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

}  // namespace monolith
