// The attention block of a layer: x += scale * post_norm(W_o attention(rope(qk_norm(W_qkv pre_norm(x))))).
#pragma once

#include "model/layers/layer_block.h"

namespace monolith {

class Attention final : public LayerBlock {
 public:
  explicit Attention(const LayerContext& context)
      : params_(context.params),
        layer_(context.layer),
        weights_(context.weights.attention),
        ffn_norm_(context.weights.ffn_norm),
        experts_norm_(context.weights.experts.norm),
        operations_(context.operations),
        buffers_(context.activations),
        residual_(context, context.layer.mixer == MixerKind::kAttentionAndMamba2),
        kv_layer_(context.kv_layer),
        table_(context.table),
        cache_(context.cache) {}

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }
  bool keeps() const override { return layer_.kv_of < 0; }

 private:
  void project(StepRows& rows) const;
  void store(const StepRows& rows) const;
  std::span<const Segment> segments(const StepRows& rows) const {
    return (rows.all ? rows.tables : rows.logit_tables)[static_cast<size_t>(table_)];
  }
  const float* leave_logit_rows(StepRows& rows) const;

  const HyperParams& params_;
  const LayerParams& layer_;
  const AttentionWeights& weights_;
  const NormWeights& ffn_norm_;      // For HyperParams::parallel_norm.
  const NormWeights& experts_norm_;  // For FeedForwardKind::kGatedBesideMixture.
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  const int kv_layer_, table_;
  KvCache& cache_;
};

// A matrix in place of attention: x += W_out pre_norm(x).
class LinearMixer final : public LayerBlock {
 public:
  explicit LinearMixer(const LayerContext& context)
      : weights_(context.weights.attention), operations_(context.operations), residual_(context) {}

  void run(StepRows& rows, bool last) const override;

 private:
  const AttentionWeights& weights_;
  Operations& operations_;
  const Residual residual_;
};

}  // namespace monolith
