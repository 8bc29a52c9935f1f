#include "backend/cuda/matmul.h"

#include <array>

#include "backend/cuda/quant_pack.h"
#include "backend/cuda/quant_product.h"

namespace monolith::cuda {
namespace {

constexpr size_t kMostAtOnce = 8;   // targets that share a conversion of their input

const CudaMatrix& matrix_of(const MatmulTarget& target) { return static_cast<const CudaMatrix&>(*target.weight); }
QuantWeight quant_weight(const CudaMatrix& matrix) {
  return {quant_layout(matrix.type, matrix.rows, matrix.cols), static_cast<const unsigned char*>(matrix.data())};
}

}  // namespace

void matmul(Runtime& runtime, const Int8Activations& int8, std::span<const MatmulTarget> targets, const float* x, int n_rows) {
  if (n_rows == 0) return;
  std::array<MatmulTarget, kMostAtOnce> quantized{};
  std::array<QuantWeight, kMostAtOnce> weights{};
  size_t n_quantized = 0;
  const auto multiply_quantized = [&] {
    quant_matmul(runtime, int8, std::span(quantized).first(n_quantized), std::span(weights).first(n_quantized), x, n_rows);
    n_quantized = 0;
  };
  for (const MatmulTarget& target : targets) {
    if (matrix_of(target).format() == Format::kF32) {
      matmul_f32(runtime, target, x, n_rows);
      continue;
    }
    if (n_quantized == kMostAtOnce) multiply_quantized();
    quantized[n_quantized] = target;
    weights[n_quantized++] = quant_weight(matrix_of(target));
  }
  multiply_quantized();
}

void embed(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out) {
  if (n_rows == 0) return;
  if (table.format() == Format::kF32) return embed_f32(runtime, table, tokens, n_rows, out);
  const QuantWeight weight = quant_weight(table);
  embed_quantized(runtime, weight.layout, weight.data, tokens, n_rows, out);
}

}  // namespace monolith::cuda
