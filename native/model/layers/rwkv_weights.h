// Weights of RWKV's time mixing and channel mixing. Vectors are in the backend's memory.
#pragma once

#include <array>
#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;
struct LayerParams;

// A low-rank projection: up f(down x).
struct LowRankWeights {
  std::unique_ptr<Matrix> down, up;
};

// Members for weights that the version does not have are null.
struct TimeMixWeights {
  static constexpr int kMaxInputs = 6;
  NormWeights norm;
  std::array<const float*, kMaxInputs> mu{};  // One vector per input, in the order of RwkvParams::inputs().
  const float* shift_mu = nullptr;            // RWKV 6: of the input that `shifts` project.
  std::array<LowRankWeights, kMaxInputs> shifts;
  std::unique_ptr<Matrix> r, k, v;
  std::unique_ptr<Matrix> gate;  // RWKV 6.
  LowRankWeights decay;
  LowRankWeights rate, value, low_gate;  // RWKV 7. The first layer has no `value`.
  // See TimeMix.
  const float* decay_bias = nullptr;
  const float* bonus = nullptr;
  const float* out_norm = nullptr;
  const float* out_norm_bias = nullptr;
  const float* rate_bias = nullptr;
  const float* value_bias = nullptr;
  const float* key_scale = nullptr;
  const float* key_rate = nullptr;
  std::unique_ptr<Matrix> output;
};

struct ChannelMixWeights {
  const float* key_mu = nullptr;
  const float* gate_mu = nullptr;  // This and the next: RWKV 6.
  std::unique_ptr<Matrix> gate;
  std::unique_ptr<Matrix> key, value;
};

// `list` is at the layer.
void list_weights(const LayerParams& layer, TimeMixWeights& weights, WeightList& list);
void list_weights(const LayerParams& layer, ChannelMixWeights& weights, WeightList& list);

}  // namespace monolith
