// The weights of a text encoder, and the list of their names and shapes. The thread that loads the model fills them;
// they are read-only afterwards.
#pragma once

#include <memory>
#include <vector>

#include "encoder/encoder_params.h"
#include "model/layers/norm.h"
#include "model/weights.h"

namespace monolith {

struct TextEncoderLayer {
  // With pre-norms: norms of the inputs of attention and of the feed-forward network. With post-norms: norms of the
  // residual stream after attention and after the feed-forward network.
  NormWeights attention_norm, ffn_norm;
  NormWeights second_norm;                   // Only with EncoderLayerParams::second_norm.
  NormWeights attention_branch, ffn_branch;  // Only with TextEncoderParams::branch_norms.
  NormWeights q_norm, k_norm;
  std::unique_ptr<Matrix> q, k, v, out;
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *out_bias = nullptr;
  // With EncoderNetwork::kFusedGated, `gate` is the first half of the rows of ffn_up and `up` the second half.
  std::unique_ptr<Matrix> gate, up, down;
  const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
  const float* buckets = nullptr;                          // Only with EncoderLayerParams::own_bias.
  std::unique_ptr<Matrix> router, expert_up, expert_down;  // Only with EncoderLayerParams::mixture.
};

struct TextEncoderWeights {
  std::unique_ptr<Matrix> embedding, positions;
  std::unique_ptr<Matrix> token_types;
  NormWeights embedding_norm, final_norm;
  std::vector<TextEncoderLayer> layers;
};

// Lists all tensors that the encoder needs and looks them up in `file`. Returns the errors of weight_slots() if a
// tensor is missing or has the wrong shape.
Result<std::vector<WeightSlot>> text_encoder_slots(const GgufFile& file, const TextEncoderParams& params,
                                                   TextEncoderWeights& weights);
// Lists all tensors that the encoder needs without looking them up, for tools that write model files.
std::vector<WantedTensor> wanted_encoder_tensors(const TextEncoderParams& params);

}  // namespace monolith
