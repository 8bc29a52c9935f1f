#include "backend/cuda/matmul.h"

namespace monolith::cuda {
namespace {

Format format_of(const MatmulTarget& target) { return static_cast<const CudaMatrix*>(target.weight)->format(); }

void multiply(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x,
              int n_rows, const ColumnGroups* groups) {
  // Neighbours of one format are one product.
  for (size_t n = 0; !targets.empty(); targets = targets.subspan(n)) {
    const Format format = format_of(targets[0]);
    for (n = 1; n < targets.size() && format_of(targets[n]) == format;) ++n;
    const auto some = targets.first(n);
    if (is_dense(format)) matmul_dense(runtime, context.dense, context.dense_device, some, x, n_rows, groups);
    else
      for (const MatmulTarget& target : some) matmul_f32(runtime, target, x, n_rows, groups);
  }
}
}  // namespace

void matmul(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x,
            int n_rows) {
  if (n_rows > 0) multiply(runtime, context, targets, x, n_rows, nullptr);
}

void matmul_grouped(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets,
                    const float* x, const ColumnGroups& groups) {
  multiply(runtime, context, targets, x, groups.n_slots, &groups);
}

void embed(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out) {
  if (is_dense(table.format())) embed_dense(runtime, table, tokens, n_rows, out);
  else embed_f32(runtime, table, tokens, n_rows, out);
}

}  // namespace monolith::cuda
