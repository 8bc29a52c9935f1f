#include "backend/cuda/pending.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/rows.h"

namespace monolith::cuda {
namespace {

// What an operation leaves.
struct Result {
  const float* rows = nullptr;   // null: nothing
  int n_rows = 0;
  int64_t dim = 0;
};
Result result_of(const PendingNorm& norm) { return {norm.out, norm.n_rows, norm.dim}; }
Result result_of(const PendingGate& gate) { return {gate.out, gate.n_rows, gate.dim}; }
Result result_of(const PendingAttention& attention) {
  const AttentionCall& call = attention.call;
  return {call.out, attention.rows.n_rows, int64_t{call.n_heads} * call.cache.head_dim};
}
Result result_of(std::monostate) { return {}; }

// Whether a kernel writes it in a form, and in binary32 as well if that is wanted.
bool writes(const PendingNorm& norm, InputForm, bool) { return norm_form(norm.dim) == NormForm::kQuads; }
bool writes(const PendingGate& gate, InputForm, bool) { return gate.dim % 4 == 0; }
bool writes(const PendingAttention& attention, InputForm form, bool keeps) {
  const AttentionCall& call = attention.call;
  return !keeps &&
         attention_input(form, attention.type, call.cache.head_dim, call.n_heads, call.q_stride, call.out_stride);
}
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

void Pending::hold(const PendingOperation& operation) {
  flush();
  operation_ = operation;
  if (!enabled_) flush();
}

void Pending::flush() { run({}, true); }

void Pending::matmul(const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x, int n_rows,
                     InputUse use) {
  const Fusion fusion =
      reads_floats(context, targets, n_rows) ? Fusion{} : fusion_for(operation_, targets, x, n_rows, use);
  if (fusion.form == InputForm::kFloats) flush();
  else run(input_of(context, fusion.form, n_rows, targets[0].weight->cols), fusion.keeps);
  cuda::matmul(runtime_, context, targets, x, n_rows, fusion.form);
}

void Pending::run(const ProductInput& input, bool keeps) {
  const PendingOperation operation = std::exchange(operation_, {});
  if (const auto* norm = std::get_if<PendingNorm>(&operation)) {
    rms_norm(runtime_, norm->x, norm->weight, norm->eps, norm->n_rows, norm->dim, keeps ? norm->out : nullptr, input);
  } else if (const auto* gate = std::get_if<PendingGate>(&operation)) {
    gated_input(runtime_, gate->activation, gate->gate, gate->up, gate->n_rows, gate->dim,
                keeps ? gate->out : nullptr, input);
  } else if (const auto* held = std::get_if<PendingAttention>(&operation)) {
    AttentionCall call = held->call;
    call.rows = &held->rows;
    call.input = input;
    attention(runtime_, *held->scratch, call, held->type);
  }
}

}  // namespace monolith::cuda
