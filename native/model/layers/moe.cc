#include "model/layers/moe.h"

#include <algorithm>
#include <cmath>

#include "model/layers/feed_forward.h"

namespace monolith {

Mixture mixture_of(const HyperParams& params, const LayerParams& layer, const ExpertWeights& experts) {
  Router router = params.experts.router;
  router.bias = experts.choice_bias;
  router.expert_scales = experts.expert_scales;
  MixtureShape shape = mixture_shape(params);
  shape.n_ff = params.experts.n_ff;
  return {.shape = shape,
          .gate = experts.all.gate.get(),
          .up = experts.all.up.get(),
          .down = experts.all.down.get(),
          .gate_bias = experts.all.gate_bias,
          .up_bias = experts.all.up_bias,
          .down_bias = experts.all.down_bias,
          .activation = {params.activation, layer.expert_limit, params.limits_input},
          .router = router,
          .by_token = {.of_token = experts.of_token.empty() ? nullptr : experts.of_token.data()},
          .apply_router_weight_on_input = params.experts.apply_router_weight_on_input};
}

Mixture ExpertMixture::chunk_mixture() const {
  const ExpertParams& experts = params_.experts;
  Mixture mixture = this->mixture();
  mixture.shape.n_experts = experts.count / experts.experts_per_chunk;
  mixture.shape.n_used = std::min(experts.used, mixture.shape.n_experts);
  mixture.shape.n_ff = experts.n_ff_chunk;
  mixture.gate = weights_.experts.chunks.gate.get();
  mixture.up = weights_.experts.chunks.up.get();
  mixture.down = weights_.experts.chunks.down.get();
  mixture.router.experts_per_chunk = experts.experts_per_chunk;
  mixture.by_token = {};
  return mixture;
}

void ExpertMixture::run(StepRows& rows, bool) const {
  const ExpertParams& experts = params_.experts;
  const ExpertWeights& own = weights_.experts;
  const Activations& to = buffers_;
  const bool mixture_alone = layer_.mixture();
  const float* const x = mixture_alone ? residual_.read(rows, weights_.ffn_norm) : rows.early;
  const float* const routed = experts.early_router ? rows.early : x;
  float* const out = residual_.target(rows);
  const MatmulTarget routing[] = {
      {.weight = own.router.get(),
       .out = to.router,
       .out_stride = experts.count,
       .bias = own.router_bias,
       .never_fast = true},
      {.weight = own.shared_gate.get(), .out = to.shared_gate, .out_stride = 1, .never_fast = true}};
  operations_.matmul({routing, experts.shared_gate ? size_t{2} : size_t{1}}, routed, rows.count);
  const auto shared_network = [&](float* result, bool add, InputUse use) {
    run_gated_mlp({.weights = weights_.network,
                   .n_ff = experts.n_ff_shared,
                   .x = x,
                   .rows = rows.count,
                   .out = result,
                   .add_to_out = add,
                   .use = use});
  };
  const bool shared_apart = experts.shared_gate || experts.shared_scale != 1.0f;
  if (shared_apart) shared_network(to.shared, false, InputUse::kAgain);
  Mixture mixture = this->mixture();
  mixture.by_token.tokens = rows.tokens.data();
  mixture.by_token.rows = rows.all ? nullptr : rows.logit_rows.data();
  if (experts.latent > 0) {
    const MatmulTarget down{own.to_latent.get(), to.expert_in, experts.latent};
    operations_.matmul({&down, 1}, x, rows.count);
    operations_.mixture(mixture, to.router, to.expert_in, rows.count, to.expert_out, false);
    const MatmulTarget up{own.from_latent.get(), out, params_.n_embd, nullptr, residual_.is_direct()};
    operations_.matmul({&up, 1}, to.expert_out, rows.count, InputUse::kLast);
  } else if (experts.experts_per_chunk > 0) {
    operations_.mixture(mixture, to.router, x, rows.count, to.shared, false);
    operations_.mixture(chunk_mixture(), to.router, to.shared, rows.count, to.expert_out, false);
    operations_.add_rows(to.shared, to.expert_out, experts.chunk_scale, nullptr, rows.count, params_.n_embd);
    if (residual_.is_direct())
      operations_.add_rows(out, to.shared, 1.0f, nullptr, rows.count, params_.n_embd);
    else
      operations_.copy_rows(to.shared, params_.n_embd, rows.count, params_.n_embd, out);
  } else {
    operations_.mixture(mixture, to.router, x, rows.count, out, residual_.is_direct());
  }
  if (shared_apart) {
    operations_.add_rows(out, to.shared, experts.shared_scale, experts.shared_gate ? to.shared_gate : nullptr,
                         rows.count, params_.n_embd);
  } else if (experts.n_ff_shared > 0) {
    shared_network(out, true, residual_.last_use());
  }
  residual_.add(weights_.ffn_post_norm, rows);
}

void NetworkAndExperts::run(StepRows& rows, bool) const {
  const ExpertWeights& own = weights_.experts;
  const Activations& to = buffers_;
  const int64_t n_embd = params_.n_embd;
  run_gated_mlp({.weights = weights_.network,
                 .n_ff = layer_.n_ff,
                 .x = residual_.read(rows, weights_.ffn_norm),
                 .rows = rows.count,
                 .out = to.branch,
                 .add_to_out = false,
                 .use = InputUse::kLast});
  apply_norm(params_, own.network_post_norm, operations_, to.branch, rows.count, n_embd, to.branch);

  operations_.rms_norm(rows.x, own.router_scale, params_.norm_eps, rows.count, n_embd, to.normed);
  operations_.scale(to.normed, rows.count, n_embd, 1.0f / std::sqrt(static_cast<float>(n_embd)));
  const MatmulTarget routing{
      .weight = own.router.get(), .out = to.router, .out_stride = params_.experts.count, .never_fast = true};
  operations_.matmul({&routing, 1}, to.normed, rows.count, InputUse::kLast);

  const float* const x = residual_.read(rows, own.norm);
  operations_.mixture(mixture(), to.router, x, rows.count, to.shared, false);
  apply_norm(params_, own.post_norm, operations_, to.shared, rows.count, n_embd, to.shared);
  operations_.add_rows(to.branch, to.shared, 1.0f, nullptr, rows.count, n_embd);
  residual_.add(weights_.ffn_post_norm, rows);
}

}  // namespace monolith
