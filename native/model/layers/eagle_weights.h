// What an EAGLE-3 head needs of its file (eagle_head.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/matrix.h"
#include "model/eagle_params.h"
#include "model/layers/layer_weights.h"

namespace monolith {

class WeightList;

struct EagleWeights {
  const float* sources_norm = nullptr;  // EagleParams::norm_before_fc
  std::unique_ptr<Matrix> fusion;       // of the rows read of the model, side by side
  const float* token_norm = nullptr;
  const float* hidden_norm = nullptr;
  LayerWeights layer;  // whose attention reads both, side by side
  NormWeights head_norm;
  std::unique_ptr<Matrix> embedding;  // null: the model's
  std::unique_ptr<Matrix> head;       // likewise
  std::vector<int32_t> tokens;        // that its logits are of; empty: all
};

void list_weights(const EagleParams& params, EagleWeights& weights, WeightList& list);

}  // namespace monolith
