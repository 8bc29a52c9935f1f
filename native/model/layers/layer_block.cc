#include "model/layers/layer_block.h"

#include "model/layers/streams.h"

namespace monolith {

const float* leave_logit_rows(StepRows& rows, const HyperParams& params, Operations& operations,
                              const Activations& buffers, const float* mixed, int64_t dim) {
  const int n = static_cast<int>(rows.logit_rows.size());
  if (n == rows.count.value()) return mixed;
  if (n > 0) {
    operations.gather_rows(mixed, rows.logit_rows, dim, buffers.last_q);
    operations.gather_rows(rows.x, rows.logit_rows, params.n_embd, buffers.last_x);
    if (const StreamMixParams& mix = params.stream_mix; mix.n_streams > 0) {
      operations.gather_rows(rows.streams, rows.logit_rows, mix.n_streams * params.n_embd, buffers.last_streams);
      operations.gather_rows(rows.stream_numbers, rows.logit_rows, mix.mix(false).numbers(),
                             buffers.last_stream_numbers);
    }
    if (params.parallel_residual)
      operations.gather_rows(rows.normed, rows.logit_rows, params.n_embd, buffers.last_normed);
  }
  rows.normed = buffers.last_normed;
  rows.streams = buffers.last_streams;
  rows.stream_numbers = buffers.last_stream_numbers;
  rows.x = buffers.last_x;
  rows.count = RowCount::fixed(n);
  rows.all = false;
  return buffers.last_q;
}

const float* Residual::read(StepRows& rows, const NormWeights& norm) const {
  if (params_.stream_mix.n_streams > 0)
    read_mixed(params_, mix_, false, operations_, buffers_, rows.streams, rows.count, rows.stream_numbers, rows.x);
  if (!params_.pre_norm) return rows.x;
  if (beside_) return rows.normed;
  apply_norm(params_, norm, operations_, rows.x, rows.count, params_.n_embd, buffers_.normed);
  rows.normed = buffers_.normed;
  return rows.normed;
}

void Residual::add(const NormWeights& post_norm, const StepRows& rows) const {
  if (is_direct()) return;
  float* const branch = buffers_.branch;
  if (params_.stream_mix.n_streams > 0)
    return operations_.write_streams(params_.stream_mix.mix(false), rows.stream_numbers, branch, rows.count,
                                     params_.n_embd, rows.streams);
  if (params_.post_norm) apply_norm(params_, post_norm, operations_, branch, rows.count, params_.n_embd, branch);
  operations_.add_rows(rows.x, branch, params_.residual_scale, nullptr, rows.count, params_.n_embd);
}

}  // namespace monolith
