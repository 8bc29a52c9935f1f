#include "backend/cuda/matmul.h"

namespace monolith::cuda {

void matmul(Runtime& runtime, std::span<const MatmulTarget> targets, const float* x, int n_rows) {
  if (n_rows == 0) return;
  for (const MatmulTarget& target : targets) matmul_f32(runtime, target, x, n_rows);
}

}  // namespace monolith::cuda
