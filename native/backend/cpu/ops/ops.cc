#include "backend/cpu/ops/ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/machine/isa.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/pieces.h"

namespace monolith {
namespace {

// Lower bound on a sum of squares that is used as a divisor. Prevents a division by zero for a vector of zeros.
constexpr float kMinSquares = 1e-30f;

#if defined(__x86_64__)
OpKernels with_amx(Arithmetic arithmetic) {
  OpKernels kernels = op_kernels_avx512();
  use_amx_attention(kernels, arithmetic);
  return kernels;
}
#endif

}  // namespace

const OpKernels& op_kernels(CpuIsa isa, [[maybe_unused]] Arithmetic arithmetic) {
  switch (isa) {
#if defined(__x86_64__)
    case CpuIsa::kAmx: {
      static const OpKernels kernels[] = {with_amx(Arithmetic::kProduction), with_amx(Arithmetic::kFast)};
      return kernels[arithmetic == Arithmetic::kFast ? 1 : 0];
    }
    case CpuIsa::kAvx512: return op_kernels_avx512();
    case CpuIsa::kAvxVnni:  // Only matmuls use the 8-bit dot product.
    case CpuIsa::kAvx2: return op_kernels_avx2();
#elif defined(__aarch64__)
    case CpuIsa::kNeonI8mm:  // These kernels do not use the 8-bit matrix product.
    case CpuIsa::kNeon: return op_kernels_neon();
#endif
    default: return op_kernels_plain();
  }
}

const LogitOps& logit_ops(CpuIsa isa) { return op_kernels(isa).logits; }

const LogitOps& logit_ops() {
  static const CpuIsa best = available_cpu_isas().back();
  return logit_ops(best);
}

void CpuBackend::rms_norm(const float* x, const float* weight, float eps, RowCount rows, int64_t dim, float* out) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) ops_.rms_norm(x + row * dim, weight, eps, dim, out + row * dim);
  });
}

void CpuBackend::rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, RowCount rows,
                                int n_heads, int head_dim) {
  pool_.parallel_for(rows.value(), rows_per_piece(int64_t{n_heads} * head_dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int head = 0; head < n_heads; ++head) {
        float* at = x + row * row_stride + int64_t{head} * head_dim;
        ops_.rms_norm(at, weight, eps, head_dim, at);
      }
  });
}

void CpuBackend::rms_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) {
  pool_.parallel_for(int64_t{rows.value()} * n_groups, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      ops_.rms_norm(x + i * dim, weight + i % n_groups * dim, eps, dim, x + i * dim);
  });
}

void CpuBackend::layer_norm(const float* x, const float* weight, const float* bias, float eps, RowCount rows,
                            int64_t dim, float* out) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) ops_.layer_norm(x + row * dim, weight, bias, eps, dim, out + row * dim);
  });
}

void CpuBackend::layer_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) {
  pool_.parallel_for(int64_t{rows.value()} * n_groups, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      ops_.layer_norm(x + i * dim, weight + i % n_groups * dim, nullptr, eps, dim, x + i * dim);
  });
}

void CpuBackend::add_bias(float* x, const float* bias, RowCount rows, int64_t dim) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) ops_.add_scaled(x + row * dim, bias, 1.0f, nullptr, dim);
  });
}

void CpuBackend::gated(const Gating& gating, const float* gate, const float* up, RowCount rows, int64_t dim,
                       float* out) {
  pool_.parallel_for(rows.value() * dim, kElementsPerPiece / 4, [&](int64_t begin, int64_t end, int) {
    ops_.gated(gating, gate + begin, up + begin, end - begin, out + begin);
  });
}

void CpuBackend::gate_heads(HeadGate kind, float* x, const float* gate, RowCount rows, int n_heads, int head_dim) {
  pool_.parallel_for(rows.value(), rows_per_piece(int64_t{n_heads} * head_dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin * n_heads; head < end * n_heads; ++head) {
      float factor = gate[head];
      if (kind == HeadGate::kSoftplus) {
        const float no_bias = 0.0f;
        ops_.softplus(&factor, &no_bias, 1);
      } else {
        factor = -factor;
        ops_.logits.exp(&factor, 1, 0.0f, &factor);
        factor = 1.0f / (1.0f + factor);
      }
      ops_.scale(x + head * head_dim, head_dim, factor);
    }
  });
}

void CpuBackend::scale_columns(float* x, const float* factors, RowCount rows, int64_t dim) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) ops_.multiply(x + row * dim, factors, dim);
  });
}

void CpuBackend::add_weighted(float* x, const float* y, const float* weights, int64_t weight_stride, float offset,
                              RowCount rows, int64_t dim) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      ops_.add_scaled(x + row * dim, y + row * dim, weights[row * weight_stride] + offset, nullptr, dim);
  });
}

void CpuBackend::rescale_to_norm(float* x, const float* y, RowCount rows, int64_t dim) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float wanted = ops_.squares(y + row * dim, dim), found = ops_.squares(x + row * dim, dim);
      ops_.scale(x + row * dim, dim, std::sqrt(wanted) / std::sqrt(std::max(found, kMinSquares)));
    }
  });
}

void CpuBackend::gaussian_topk(float* x, float deviations, RowCount rows, int64_t dim) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) ops_.gaussian_topk(x + row * dim, deviations, dim);
  });
}

void CpuBackend::copy_rows(const float* x, int64_t x_stride, RowCount rows, int64_t dim, float* out) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      std::memcpy(out + row * dim, x + row * x_stride, static_cast<size_t>(dim) * sizeof(float));
  });
}

void CpuBackend::activate(Activation activation, float* x, RowCount rows, int64_t dim) {
  const auto kernel = ops_.plain(activation);
  pool_.parallel_for(rows.value() * dim, kElementsPerPiece / 4,
                     [&](int64_t begin, int64_t end, int) { kernel(x + begin, end - begin); });
}

void CpuBackend::xielu(const Xielu& params, float* x, RowCount rows, int64_t dim) {
  pool_.parallel_for(rows.value() * dim, kElementsPerPiece / 4,
                     [&](int64_t begin, int64_t end, int) { ops_.xielu(params, x + begin, end - begin); });
}

void CpuBackend::scale(float* x, RowCount rows, int64_t dim, float factor) {
  pool_.parallel_for(rows.value() * dim, kElementsPerPiece,
                     [&](int64_t begin, int64_t end, int) { ops_.scale(x + begin, end - begin, factor); });
}

void CpuBackend::soft_cap(float* x, RowCount rows, int64_t dim, float cap) {
  pool_.parallel_for(rows.value() * dim, kElementsPerPiece / 4,
                     [&](int64_t begin, int64_t end, int) { ops_.soft_cap(x + begin, end - begin, cap); });
}

void CpuBackend::clamp(float* x, RowCount rows, int64_t dim, float limit) {
  pool_.parallel_for(rows.value() * dim, kElementsPerPiece, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) x[i] = std::min(std::max(x[i], -limit), limit);
  });
}

void CpuBackend::add_rows(float* x, const float* y, float factor, const float* gate, RowCount rows, int64_t dim) {
  pool_.parallel_for(rows.value(), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      ops_.add_scaled(x + row * dim, y + row * dim, factor, gate ? gate + row : nullptr, dim);
  });
}

void CpuBackend::gather_rows(const float* x, std::span<const int32_t> rows, int64_t dim, float* out) {
  pool_.parallel_for(static_cast<int64_t>(rows.size()), rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(out + i * dim, x + rows[i] * dim, static_cast<size_t>(dim) * sizeof(float));
  });
}

}  // namespace monolith
