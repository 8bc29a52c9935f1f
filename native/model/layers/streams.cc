#include "model/layers/streams.h"

#include <numbers>

#include "model/layers/per_layer_input.h"

namespace monolith {
namespace {

// Computes tanh(W_router (norm(x) / n_embd)), with shape [tokens][count], and stores after it in memory its product
// with the matrix `products`, with shape [tokens][products.rows]. Returns the product.
const float* coefficients(const LayerContext& context, const Matrix& products, const float* x, RowCount rows) {
  const HyperParams& p = context.params;
  const StreamWeights& weights = context.weights.streams;
  Operations& operations = context.operations;
  float* const normed = context.activations.normed;
  float* const routed = context.activations.mixing;
  float* const out = routed + int64_t{context.max_rows} * p.streams.count;
  operations.rms_norm(x, weights.router_norm, p.norm_eps, rows, p.n_embd, normed);
  operations.scale(normed, rows, p.n_embd, 1.0f / static_cast<float>(p.n_embd));
  const MatmulTarget routing{
      .weight = weights.router.get(), .out = routed, .out_stride = p.streams.count, .never_fast = true};
  operations.matmul({&routing, 1}, normed, rows, InputUse::kLast);
  operations.soft_cap(routed, rows, p.streams.count, 1.0f);
  const MatmulTarget target{&products, out, products.rows};
  operations.matmul({&target, 1}, routed, rows, InputUse::kLast);
  return out;
}

float* stream(float* streams, const HyperParams& p, int64_t max_rows, int index) {
  return streams + index * max_rows * p.n_embd;
}

}  // namespace

void open_streams(const HyperParams& p, const StreamProjections& weights, Operations& operations,
                  const Activations& activations, RowCount rows, int max_rows) {
  const float* const x = activations.x;
  operations.copy_rows(x, p.n_embd, rows, p.n_embd, activations.streams);
  for (int i = 1; i < p.streams.count; ++i) {
    float* const other = stream(activations.streams, p, max_rows, i);
    const MatmulTarget target{weights.to[static_cast<size_t>(i - 1)].get(), other, p.n_embd};
    operations.matmul({&target, 1}, x, rows);
    operations.rescale_to_norm(other, x, rows, p.n_embd);
  }
}

void close_streams(const HyperParams& p, const StreamProjections& weights, Operations& operations,
                   const Activations& activations, RowCount rows, int max_rows) {
  float* const x = activations.x;
  float* const branch = activations.branch;
  const float* const first = activations.streams;
  operations.copy_rows(first, p.n_embd, rows, p.n_embd, x);
  for (int i = 1; i < p.streams.count; ++i) {
    const MatmulTarget target{weights.from[static_cast<size_t>(i - 1)].get(), branch, p.n_embd};
    operations.matmul({&target, 1}, stream(activations.streams, p, max_rows, i), rows);
    operations.rescale_to_norm(branch, first, rows, p.n_embd);
    operations.add_rows(x, branch, 1.0f, nullptr, rows, p.n_embd);
  }
  operations.scale(x, rows, p.n_embd, 1.0f / static_cast<float>(p.streams.count));
}

void PredictStreams::run(StepRows& rows, bool) const {
  const HyperParams& p = context_.params;
  const int n = p.streams.count;
  float* const streams = context_.activations.streams;
  float* const predicted = context_.activations.predicted;
  const float* const weights = coefficients(context_, *context_.weights.streams.predict, streams, rows.count);
  for (int s = 0; s < n; ++s) {
    float* const to = stream(predicted, p, context_.max_rows, s);
    context_.operations.copy_rows(stream(streams, p, context_.max_rows, s), p.n_embd, rows.count, p.n_embd, to);
    for (int j = 0; j < n; ++j)
      context_.operations.add_weighted(to, stream(streams, p, context_.max_rows, j), weights + s * n + j, n * n, 0.0f,
                                       rows.count, p.n_embd);
  }
  context_.operations.copy_rows(predicted, p.n_embd, rows.count, p.n_embd, rows.x);
}

void Laurel::run(StepRows& rows, bool) const {
  const HyperParams& p = context_.params;
  const StreamWeights& weights = context_.weights.streams;
  const Activations& to = context_.activations;
  Operations& operations = context_.operations;
  apply_norm(p, context_.weights.attention.norm, operations, rows.x, rows.count, p.n_embd, to.normed);
  const MatmulTarget down{weights.laurel_down.get(), to.laurel_inner, p.streams.laurel_rank};
  operations.matmul({&down, 1}, to.normed, rows.count);
  const MatmulTarget up{weights.laurel_up.get(), to.laurel, p.n_embd};
  operations.matmul({&up, 1}, to.laurel_inner, rows.count, InputUse::kLast);
  apply_norm(p, weights.laurel_post_norm, operations, to.laurel, rows.count, p.n_embd, to.laurel);
  operations.add_rows(to.laurel, to.normed, 1.0f, nullptr, rows.count, p.n_embd);
}

void JoinLaurel::run(StepRows& rows, bool) const {
  const HyperParams& p = context_.params;
  context_.operations.add_rows(rows.x, context_.activations.laurel, 1.0f, nullptr, rows.count, p.n_embd);
  context_.operations.scale(rows.x, rows.count, p.n_embd, static_cast<float>(1.0 / std::numbers::sqrt2));
}

void CorrectStreams::run(StepRows& rows, bool) const {
  const HyperParams& p = context_.params;
  const Activations& to = context_.activations;
  Operations& operations = context_.operations;
  const int n = p.streams.count;
  const float* const weights = coefficients(context_, *context_.weights.streams.correct, rows.x, rows.count);
  // The difference between the layer's output and the predicted stream.
  operations.add_rows(rows.x, to.predicted, -1.0f, nullptr, rows.count, p.n_embd);
  for (int s = 0; s < n; ++s) {
    float* const own = stream(to.streams, p, context_.max_rows, s);
    operations.copy_rows(stream(to.predicted, p, context_.max_rows, s), p.n_embd, rows.count, p.n_embd, own);
    operations.add_weighted(own, rows.x, weights + s, n, 1.0f, rows.count, p.n_embd);
  }
  operations.copy_rows(to.streams, p.n_embd, rows.count, p.n_embd, rows.x);
  operations.scale_columns(rows.x, context_.weights.streams.correct_scale, rows.count, p.n_embd);
  run_per_layer_input(context_, rows, rows.x);
  for (int s = 1; s < n; ++s)
    operations.add_rows(stream(to.streams, p, context_.max_rows, s), to.branch, 1.0f, nullptr, rows.count, p.n_embd);
}

void open_mixed_streams(const HyperParams& params, Operations& operations, const Activations& activations,
                        const std::vector<int32_t>& repeated, RowCount rows) {
  const auto n = static_cast<size_t>(rows.value() * params.stream_mix.n_streams);
  operations.gather_rows(activations.x, std::span(repeated).first(n), params.n_embd, activations.streams);
}

void read_mixed(const HyperParams& params, const StreamMixWeights& weights, bool reads_only, Operations& operations,
                const Activations& activations, const float* streams, RowCount rows, float* numbers, float* x) {
  HyperConnections mix = params.stream_mix.mix(reads_only);
  mix.scale = weights.scale;
  mix.base = weights.base;
  float* const normed = activations.predicted;
  operations.rms_norm(streams, nullptr, params.norm_eps, rows, int64_t{mix.n_streams} * params.n_embd, normed);
  const MatmulTarget target{
      .weight = weights.numbers.get(), .out = numbers, .out_stride = mix.numbers(), .never_fast = true};
  operations.matmul({&target, 1}, normed, rows, InputUse::kLast);
  operations.hyper_connection_weights(mix, numbers, rows);
  operations.read_streams(mix, numbers, streams, rows, params.n_embd, x);
}

}  // namespace monolith
