// The weights of a text encoder, and the list of their names and shapes. Filled by the thread that loads the model;
// read-only afterwards.
#pragma once

#include <memory>
#include <vector>

#include "encoder/encoder_params.h"
#include "model/layers/norm.h"
#include "model/weights.h"

namespace monolith {

struct TextEncoderLayer {
  // With pre-norms: before attention and before the feed-forward network. With post-norms: of the sums after them.
  NormWeights attention_norm, ffn_norm;
  NormWeights second_norm;                   // EncoderLayerParams::second_norm
  NormWeights attention_branch, ffn_branch;  // TextEncoderParams::branch_norms
  NormWeights q_norm, k_norm;
  std::unique_ptr<Matrix> q, k, v, out;
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *out_bias = nullptr;
  // EncoderNetwork::kFusedGated: `gate` and `up` are the two halves of ffn_up.
  std::unique_ptr<Matrix> gate, up, down;
  const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
  const float* buckets = nullptr;                          // EncoderLayerParams::own_bias
  std::unique_ptr<Matrix> router, expert_up, expert_down;  // EncoderLayerParams::mixture
};

struct TextEncoderWeights {
  std::unique_ptr<Matrix> embedding, positions;
  std::unique_ptr<Matrix> token_types;
  NormWeights embedding_norm, final_norm;
  std::vector<TextEncoderLayer> layers;
};

// Lists all tensors that the encoder needs, each found in `file` with the right shape. Errors as for weight_slots().
Result<std::vector<WeightSlot>> text_encoder_slots(const GgufFile& file, const TextEncoderParams& params,
                                                   TextEncoderWeights& weights);
// The same list without a check, for tools that write model files.
std::vector<WantedTensor> wanted_encoder_tensors(const TextEncoderParams& params);

}  // namespace monolith
