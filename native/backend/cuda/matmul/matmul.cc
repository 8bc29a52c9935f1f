#include "backend/cuda/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cuda/quant/pack.h"
#include "backend/cuda/quant/product.h"

namespace monolith::cuda {
namespace {

// Maximum number of targets with quantized weights per call, all of which share one conversion of the input.
constexpr size_t kMaxAtOnce = 8;

const CudaMatrix& matrix_of(const MatmulTarget& target) { return static_cast<const CudaMatrix&>(*target.weight); }

QuantWeight quant_weight(const CudaMatrix& matrix) {
  return {quant_layout(matrix.type, matrix.rows, matrix.cols), static_cast<const unsigned char*>(matrix.data())};
}

void matmul_quantized(Runtime& runtime, const Int8Activations& int8, std::span<const MatmulTarget> targets,
                      const float* x, int n_rows, const ColumnGroups* groups, bool converted) {
  for (; !targets.empty(); targets = targets.subspan(std::min(targets.size(), kMaxAtOnce))) {
    const auto some = targets.first(std::min(targets.size(), kMaxAtOnce));
    std::array<QuantWeight, kMaxAtOnce> weights{};
    for (size_t i = 0; i < some.size(); ++i) weights[i] = quant_weight(matrix_of(some[i]));
    quant_matmul(runtime, int8, some, std::span(weights).first(some.size()), x, n_rows, {}, groups, converted);
    converted = true;
  }
}

bool library_computes(const MatmulContext& context, const CudaMatrix& matrix, int64_t n_columns) {
  return context.library && library_serves(matrix.format(), matrix.rows, matrix.cols, n_columns);
}

// Multiplies with cuBLASLt. If the library cannot compute all rows, the backend's own kernels compute the remaining
// ones.
void multiply_by_library(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets,
                         const float* x, int64_t n_columns) {
  const CudaMatrix& first = matrix_of(targets[0]);
  bool converted = false;
  for (const MatmulTarget& target : targets) {
    if (!converted) context.library->convert(context.dense, x, first.cols, n_columns);
    const int64_t done = context.library->multiply(context.dense, target, n_columns);
    const CudaMatrix& matrix = matrix_of(target);
    // The backend's own kernels overwrite the activations that were converted for cuBLASLt with the same activations in
    // their own layout.
    converted = done == matrix.rows;
    if (converted) continue;
    CudaMatrix rest(matrix, static_cast<const unsigned char*>(matrix.data()) + dense_bytes(done, matrix.cols));
    rest.rows = matrix.rows - done, rest.cols = matrix.cols, rest.type = matrix.type;
    const MatmulTarget left{&rest, target.out + done, target.out_stride, target.bias ? target.bias + done : nullptr,
                            target.add_to_out};
    matmul_dense(runtime, context.dense, context.dense_device, {&left, 1}, x, n_columns);
  }
}

void multiply(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x,
              int n_rows, const ColumnGroups* groups, InputForm ready) {
  // The two 16-bit input formats share one buffer.
  InputForm ready_16 = ready == InputForm::kInt8 ? InputForm::kFloats : ready;
  bool ready_8 = ready == InputForm::kInt8;
  // Adjacent targets with the same weight format are computed together.
  for (size_t n = 0; !targets.empty(); targets = targets.subspan(n)) {
    const Format format = matrix_of(targets[0]).format();
    for (n = 1; n < targets.size() && matrix_of(targets[n]).format() == format;) ++n;
    const auto some = targets.first(n);
    if (is_dense(format)) {
      if (!groups && library_computes(context, matrix_of(some[0]), n_rows)) {
        multiply_by_library(runtime, context, some, x, n_rows);
        ready_16 = InputForm::kFloats;  // The library's layout overwrote the converted activations.
      } else {
        const bool converted = std::exchange(ready_16, input_form(format)) == input_form(format);
        matmul_dense(runtime, context.dense, context.dense_device, some, x, n_rows, groups, converted);
      }
    } else if (format == Format::kQuant) {
      matmul_quantized(runtime, context.int8, some, x, n_rows, groups, std::exchange(ready_8, true));
    } else {
      for (const MatmulTarget& target : some) matmul_f32(runtime, target, x, n_rows, groups);
    }
  }
}

}  // namespace

void matmul(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x,
            int n_rows, InputForm ready) {
  if (n_rows > 0) multiply(runtime, context, targets, x, n_rows, nullptr, ready);
}

bool reads_floats(const MatmulContext& context, std::span<const MatmulTarget> targets, int n_rows) {
  return std::ranges::any_of(
      targets, [&](const MatmulTarget& target) { return library_computes(context, matrix_of(target), n_rows); });
}

ProductInput input_of(const MatmulContext& context, InputForm form, int n_rows, int64_t cols) {
  switch (form) {
    case InputForm::kBf16:
    case InputForm::kF16: return dense_input(context.dense, form, n_rows, cols);
    case InputForm::kInt8: return context.int8.input(cols);
    case InputForm::kFloats: break;
  }
  return {};
}

void matmul_grouped(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets,
                    const float* x, const ColumnGroups& groups, InputForm ready) {
  multiply(runtime, context, targets, x, groups.n_slots, &groups, ready);
}

int grouped_tile_columns(const Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets,
                         int n_pairs, int n_experts) {
  const CudaMatrix& first = matrix_of(targets[0]);
  if (is_dense(first.format())) {  // Must match the plan that matmul_dense() makes for its first launch.
    std::array<DenseRows, kMaxDenseTargets> matrices{};
    size_t n = 0;
    for (; n < std::min(targets.size(), matrices.size()) && matrix_of(targets[n]).format() == first.format(); ++n) {
      const int64_t rows = targets[n].weight->rows / n_experts;
      matrices[n] = {rows, dense_segments(rows, first.cols)};
    }
    return plan_dense(context.dense_device, {std::span(matrices).first(n), n_pairs, n_experts}).tile_columns;
  }
  if (first.format() == Format::kF32) return kF32TileColumns;
  int64_t rows = 0;
  for (const MatmulTarget& target : targets) rows += target.weight->type == first.type ? target.weight->rows : 0;
  const auto columns = static_cast<int>(columns_of_group(n_pairs, n_experts));
  return tile_size(quant_kernel_for(rows, columns, runtime.device().multiprocessors)).columns;
}

void embed(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out) {
  if (n_rows == 0) return;
  if (is_dense(table.format())) return embed_dense(runtime, table, tokens, n_rows, out);
  if (table.format() == Format::kF32) return embed_f32(runtime, table, tokens, n_rows, out);
  const QuantWeight weight = quant_weight(table);
  embed_quantized(runtime, weight.layout, weight.data, tokens, n_rows, out);
}

}  // namespace monolith::cuda
