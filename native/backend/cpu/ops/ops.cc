#include "backend/cpu/ops/ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/ops/kernels.h"

namespace monolith {
namespace {

// Minimum elements per task. With fewer, waking another thread costs more than it saves.
constexpr int64_t kElementsPerPiece = 16384;

// Lower bound of the sum of squares that is divided by. A vector of zeros has no norm to rescale.
constexpr float kMinSquares = 1e-30f;

int64_t rows_per_piece(int64_t dim) { return std::max<int64_t>(1, kElementsPerPiece / dim); }

}  // namespace

const OpKernels& op_kernels(CpuIsa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case CpuIsa::kAmx:
    case CpuIsa::kAvx512: return op_kernels_avx512();
    case CpuIsa::kAvx2: return op_kernels_avx2();
#elif defined(__aarch64__)
    case CpuIsa::kNeonI8mm:
    case CpuIsa::kNeon: return op_kernels_neon();
#endif
    default: return op_kernels_plain();
  }
}

const CpuOps& cpu_ops(CpuIsa isa, Arithmetic arithmetic) {
  static const CpuOps plain(op_kernels(CpuIsa::kPlain)), avx2(op_kernels(CpuIsa::kAvx2)),
      avx512(op_kernels(CpuIsa::kAvx512)), neon(op_kernels(CpuIsa::kNeon));
#if defined(__x86_64__)
  static const OpKernels fast_kernels = [] {
    OpKernels kernels = op_kernels(CpuIsa::kAmx);
    use_fast_attention(kernels);
    return kernels;
  }();
  static const CpuOps fast(fast_kernels);
  if (isa == CpuIsa::kAmx && arithmetic == Arithmetic::kFast) return fast;
#endif
  static_cast<void>(arithmetic);
  switch (isa) {
    case CpuIsa::kPlain: return plain;
    case CpuIsa::kAvx2: return avx2;
    case CpuIsa::kAmx:  // Without kFast, only matmuls use the tile unit.
    case CpuIsa::kAvx512: return avx512;
    case CpuIsa::kNeon:
    case CpuIsa::kNeonI8mm: return neon;  // The neon kernels do not use the 8-bit matrix product.
  }
  return plain;
}

const LogitOps& logit_ops(CpuIsa isa) { return op_kernels(isa).logits; }

const LogitOps& logit_ops() {
  static const CpuIsa best = available_cpu_isas().back();
  return logit_ops(best);
}

void CpuOps::rms_norm(ThreadPool& pool, const float* x, const float* weight, float eps, int n_rows, int64_t dim,
                      float* out) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernels_->rms_norm(x + row * dim, weight, eps, dim, out + row * dim);
  });
}

void CpuOps::rms_norm_heads(ThreadPool& pool, float* x, int64_t row_stride, const float* weight, float eps, int n_rows,
                            int n_heads, int head_dim) const {
  pool.parallel_for(n_rows, rows_per_piece(int64_t{n_heads} * head_dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int head = 0; head < n_heads; ++head) {
        float* at = x + row * row_stride + int64_t{head} * head_dim;
        kernels_->rms_norm(at, weight, eps, head_dim, at);
      }
  });
}

void CpuOps::rms_norm_groups(ThreadPool& pool, float* x, const float* weight, float eps, int n_rows, int n_groups,
                             int64_t dim) const {
  pool.parallel_for(int64_t{n_rows} * n_groups, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      kernels_->rms_norm(x + i * dim, weight + i % n_groups * dim, eps, dim, x + i * dim);
  });
}

void CpuOps::layer_norm(ThreadPool& pool, const float* x, const float* weight, const float* bias, float eps, int n_rows,
                        int64_t dim, float* out) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      kernels_->layer_norm(x + row * dim, weight, bias, eps, dim, out + row * dim);
  });
}

void CpuOps::layer_norm_groups(ThreadPool& pool, float* x, const float* weight, float eps, int n_rows, int n_groups,
                               int64_t dim) const {
  pool.parallel_for(int64_t{n_rows} * n_groups, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      kernels_->layer_norm(x + i * dim, weight + i % n_groups * dim, nullptr, eps, dim, x + i * dim);
  });
}

void CpuOps::add_bias(ThreadPool& pool, float* x, const float* bias, int n_rows, int64_t dim) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernels_->add_scaled(x + row * dim, bias, 1.0f, nullptr, dim);
  });
}

void CpuOps::gated(ThreadPool& pool, const Gating& gating, const float* gate, const float* up, int n_rows, int64_t dim,
                   float* out) const {
  pool.parallel_for(n_rows * dim, kElementsPerPiece / 4, [&](int64_t begin, int64_t end, int) {
    kernels_->gated(gating, gate + begin, up + begin, end - begin, out + begin);
  });
}

void CpuOps::gate_heads(ThreadPool& pool, float* x, const float* gate, int n_rows, int n_heads, int head_dim) const {
  pool.parallel_for(n_rows, rows_per_piece(int64_t{n_heads} * head_dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin * n_heads; head < end * n_heads; ++head) {
      float e = -gate[head];
      kernels_->logits.exp(&e, 1, 0.0f, &e);
      kernels_->scale(x + head * head_dim, head_dim, 1.0f / (1.0f + e));
    }
  });
}

void CpuOps::scale_columns(ThreadPool& pool, float* x, const float* factors, int n_rows, int64_t dim) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernels_->multiply(x + row * dim, factors, dim);
  });
}

void CpuOps::add_weighted(ThreadPool& pool, float* x, const float* y, const float* weights, int64_t weight_stride,
                          float offset, int n_rows, int64_t dim) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      kernels_->add_scaled(x + row * dim, y + row * dim, weights[row * weight_stride] + offset, nullptr, dim);
  });
}

void CpuOps::rescale_to_norm(ThreadPool& pool, float* x, const float* y, int n_rows, int64_t dim) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float wanted = kernels_->squares(y + row * dim, dim), found = kernels_->squares(x + row * dim, dim);
      kernels_->scale(x + row * dim, dim, std::sqrt(wanted) / std::sqrt(std::max(found, kMinSquares)));
    }
  });
}

void CpuOps::gaussian_topk(ThreadPool& pool, float* x, float deviations, int n_rows, int64_t dim) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernels_->gaussian_topk(x + row * dim, deviations, dim);
  });
}

void CpuOps::copy_rows(ThreadPool& pool, const float* x, int64_t x_stride, int n_rows, int64_t dim, float* out) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      std::memcpy(out + row * dim, x + row * x_stride, static_cast<size_t>(dim) * sizeof(float));
  });
}

void CpuOps::activate(ThreadPool& pool, Activation activation, float* x, int64_t count) const {
  const auto kernel = kernels_->plain(activation);
  pool.parallel_for(count, kElementsPerPiece / 4,
                    [&](int64_t begin, int64_t end, int) { kernel(x + begin, end - begin); });
}

void CpuOps::xielu(ThreadPool& pool, const Xielu& params, float* x, int64_t count) const {
  pool.parallel_for(count, kElementsPerPiece / 4,
                    [&](int64_t begin, int64_t end, int) { kernels_->xielu(params, x + begin, end - begin); });
}

void CpuOps::scale(ThreadPool& pool, float* x, int64_t count, float factor) const {
  pool.parallel_for(count, kElementsPerPiece,
                    [&](int64_t begin, int64_t end, int) { kernels_->scale(x + begin, end - begin, factor); });
}

void CpuOps::soft_cap(ThreadPool& pool, float* x, int64_t count, float cap) const {
  pool.parallel_for(count, kElementsPerPiece / 4,
                    [&](int64_t begin, int64_t end, int) { kernels_->soft_cap(x + begin, end - begin, cap); });
}

void CpuOps::add_rows(ThreadPool& pool, float* x, const float* y, float factor, const float* gate, int n_rows,
                      int64_t dim) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      kernels_->add_scaled(x + row * dim, y + row * dim, factor, gate ? gate + row : nullptr, dim);
  });
}

void CpuOps::gather_rows(ThreadPool& pool, const float* x, const int32_t* rows, int n_rows, int64_t dim,
                         float* out) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(out + i * dim, x + rows[i] * dim, static_cast<size_t>(dim) * sizeof(float));
  });
}

}  // namespace monolith
