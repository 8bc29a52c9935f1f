// The MLA block (LatentParams): x += scale * W_o W_v attention(W_k q, latents). Each head has its own W_k and W_v. A
// position's latent vector consists of norm(W_a h) and a part with RoPE that all heads share.
//
// Queries are mapped to the latent space during prefill too, although prefill would take fewer operations if keys and
// values were expanded for each head. The two methods round differently, and a token's result must not depend on how
// its prompt was split into chunks.
#pragma once

#include "model/kv_layout.h"
#include "model/layers/layer_block.h"

namespace monolith {

class LatentAttention final : public LayerBlock {
 public:
  explicit LatentAttention(const LayerContext& context)
      : params_(context.params),
        layer_(context.layer),
        weights_(context.weights.latent_attention),
        operations_(context.operations),
        buffers_(context.activations),
        residual_(context),
        kv_layer_(context.kv_layer),
        index_layer_(index_layer(context.params, context.index)),
        table_(context.table),
        cache_(context.cache) {}

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }

 private:
  void project(StepRows& rows) const;
  RopeParams angles() const;
  void store(const StepRows& rows) const;
  void choose(const StepRows& rows) const;
  const float* leave_logit_rows(StepRows& rows) const;

  const HyperParams& params_;
  const LayerParams& layer_;
  const LatentAttentionWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  const int kv_layer_, index_layer_, table_;
  KvCache& cache_;
};

}  // namespace monolith
