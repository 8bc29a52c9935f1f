// RWKV's blocks (TimeMix in backend/recurrence.h). Both blocks mix a token's normalized input with that of the previous
// token.
#pragma once

#include "model/layers/layer_block.h"

namespace monolith {

class TimeMixer final : public LayerBlock {
 public:
  explicit TimeMixer(const LayerContext& context);

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }

 private:
  // One of the buffers in Activations::shifted or Activations::projected.
  float* shifted(int input) const { return buffers_.shifted + input * buffer_floats_; }
  float* projected(int input) const { return buffers_.projected + input * buffer_floats_; }
  void project_delta(RowCount rows, const float* x, TimeMixInputs& inputs) const;  // RWKV 7.
  void project(RowCount rows, const float* x) const;                               // RWKV 6.
  // out = up f(down x), where f is the activation: tanh, a sigmoid or none.
  enum class Inner : uint8_t { kTanh, kSigmoid, kNone };
  void project_low(const LowRankWeights& weights, Inner inner, const float* x, RowCount rows, float* out) const;

  const HyperParams& params_;
  const RwkvParams& rwkv_;
  const TimeMixWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  const bool is_first_;  // Whether this is the layer that computes TimeMixInputs::first_v.
  const int64_t buffer_floats_;
  TimeMix mix_;
  LayerSlots state_, previous_;
};

class ChannelMixer final : public LayerBlock {
 public:
  explicit ChannelMixer(const LayerContext& context);

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }

 private:
  const HyperParams& params_;
  const LayerParams& layer_;
  const NormWeights& norm_;
  const ChannelMixWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  const int64_t buffer_floats_;
  LayerSlots previous_;
};

}  // namespace monolith
