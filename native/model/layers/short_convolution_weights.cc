#include "model/layers/short_convolution_weights.h"

#include "model/weight_list.h"

namespace monolith {

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
