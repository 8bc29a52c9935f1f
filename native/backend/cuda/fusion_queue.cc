#include "backend/cuda/fusion_queue.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/rows.h"

namespace monolith::cuda {
namespace {

// The output of an operation.
struct Result {
  const float* rows = nullptr;  // Null if the operation has no output that a matmul could read.
  int n_rows = 0;
  int64_t dim = 0;
};
Result result_of(const PendingNorm& norm) { return {norm.out, norm.n_rows, norm.dim}; }
Result result_of(const PendingGate& gate) { return {gate.out, gate.n_rows, gate.dim}; }
Result result_of(const PendingAttention& attention) {
  const AttentionLaunch& call = attention.call;
  return {call.out, attention.rows.n_rows, int64_t{call.n_heads} * call.cache.value_dim};
}
Result result_of(const PendingHeads&) { return {}; }
Result result_of(std::monostate) { return {}; }

// Returns whether a kernel of this operation can write its result in the given matmul input format, and, if `keeps` is
// set, also in float32.
bool writes(const PendingNorm& norm, InputForm, bool) { return norm_form(norm.dim) == NormForm::kQuads; }
bool writes(const PendingGate& gate, InputForm, bool) { return gate.dim % 4 == 0; }
bool writes(const PendingAttention& attention, InputForm form, bool keeps) {
  const AttentionLaunch& call = attention.call;
  return !keeps && walks(call, attention.type) &&
         attention_input(form, attention.type, call.cache.head_dim, call.n_heads, call.q_stride, call.out_stride);
}
bool writes(const PendingHeads&, InputForm, bool) { return false; }
bool writes(std::monostate, InputForm, bool) { return false; }

InputForm form_of(const MatmulTarget& target) {
  return input_form(static_cast<const CudaMatrix&>(*target.weight).format());
}

}  // namespace

Fusion fusion_for(const PendingOperation& operation, std::span<const MatmulTarget> targets, const float* x, int n_rows,
                  InputUse use) {
  const Result result = std::visit([](const auto& held) { return result_of(held); }, operation);
  if (!result.rows || result.rows != x || result.n_rows != n_rows || n_rows == 0 || targets.empty()) return {};
  const InputForm form = form_of(targets[0]);
  const auto reads_it = [&](const MatmulTarget& target) {
    return form_of(target) == form && target.weight->cols == result.dim;
  };
  if (form == InputForm::kFloats || !std::ranges::all_of(targets, reads_it)) return {};
  const bool keeps = use == InputUse::kAgain;
  if (!std::visit([&](const auto& held) { return writes(held, form, keeps); }, operation)) return {};
  return {form, keeps};
}

HeadNorms head_norms_for(const PendingOperation& first, const PendingOperation& second, const RopeLaunch& call,
                         int n_dims) {
  const auto* const of_q = std::get_if<PendingHeads>(&first);
  const auto* const of_k = std::get_if<PendingHeads>(&second);
  if (!of_q || !of_k || of_q->eps != of_k->eps || !of_q->weight || !of_k->weight) return {};
  const auto is = [&](const PendingHeads& norm, const float* x, int64_t stride, int n_heads) {
    return norm.x == x && norm.row_stride == stride && norm.n_heads == n_heads && norm.n_rows == call.rows->n_rows &&
           norm.head_dim == call.cache.head_dim;
  };
  if (!is(*of_q, call.q, call.q_stride, call.n_heads) || !is(*of_k, call.k, call.k_stride, call.cache.n_kv_heads) ||
      rope_form(call.cache.head_dim, n_dims, call.q_stride, call.k_stride, call.v_stride) != RopeForm::kQuads ||
      call.cache.value_dim % 4 != 0)
    return {};
  return {of_q->weight, of_k->weight, of_q->eps};
}

void FusionQueue::hold(const PendingOperation& operation) {
  const auto is_heads = [](const PendingOperation& one) { return std::holds_alternative<PendingHeads>(one); };
  if (is_heads(operation) && is_heads(operation_) && !is_heads(before_))
    before_ = std::exchange(operation_, {});
  else
    flush();
  operation_ = operation;
  if (!enabled_) flush();
}

void FusionQueue::flush() {
  run(std::exchange(before_, {}), {}, true);
  run(std::exchange(operation_, {}), {}, true);
}

HeadNorms FusionQueue::head_norms(const RopeLaunch& call, int n_dims) {
  const HeadNorms norms = head_norms_for(before_, operation_, call, n_dims);
  if (norms.q) drop();
  return norms;
}

void FusionQueue::matmul(const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x,
                         int n_rows, InputUse use) {
  const Fusion fusion =
      reads_floats(context, targets, n_rows) ? Fusion{} : fusion_for(operation_, targets, x, n_rows, use);
  if (fusion.form == InputForm::kFloats) {
    flush();
  } else {
    const ProductInput input = input_of(context, fusion.form, n_rows, targets[0].weight->cols);
    run(std::exchange(operation_, {}), input, fusion.keeps);
  }
  cuda::matmul(runtime_, context, targets, x, n_rows, fusion.form);
}

void FusionQueue::run(const PendingOperation& operation, const ProductInput& input, bool keeps) {
  if (const auto* norm = std::get_if<PendingNorm>(&operation)) {
    rms_norm(runtime_, norm->x, norm->weight, norm->eps, norm->n_rows, norm->dim, keeps ? norm->out : nullptr, input);
  } else if (const auto* gate = std::get_if<PendingGate>(&operation)) {
    gated_input(runtime_, gate->gating, gate->gate, gate->up, gate->n_rows, gate->dim, keeps ? gate->out : nullptr,
                input);
  } else if (const auto* heads = std::get_if<PendingHeads>(&operation)) {
    rms_norm_heads(runtime_, heads->x, heads->row_stride, heads->weight, heads->eps, heads->n_rows, heads->n_heads,
                   heads->head_dim);
  } else if (const auto* held = std::get_if<PendingAttention>(&operation)) {
    AttentionLaunch call = held->call;
    call.rows = &held->rows;
    call.input = input;
    attention(runtime_, *held->scratch, call, held->type);
  }
}

}  // namespace monolith::cuda
