#include "backend/cpu/ops/ops.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/ops/kernels.h"

namespace monolith {
namespace {

// Elements a thread should get at a time: below this, waking another one costs more than it saves.
constexpr int64_t kElementsPerPiece = 16384;

int64_t rows_per_piece(int64_t dim) { return std::max<int64_t>(1, kElementsPerPiece / dim); }

}   // namespace

const OpKernels& op_kernels(CpuIsa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case CpuIsa::kAvx512: return op_kernels_avx512();
    case CpuIsa::kAvx2: return op_kernels_avx2();
#elif defined(__aarch64__)
    case CpuIsa::kNeonI8mm:
    case CpuIsa::kNeon: return op_kernels_neon();
#endif
    default: return op_kernels_plain();
  }
}

const CpuOps& cpu_ops(CpuIsa isa) {
  static const CpuOps plain(op_kernels(CpuIsa::kPlain)), avx2(op_kernels(CpuIsa::kAvx2)),
      avx512(op_kernels(CpuIsa::kAvx512)), neon(op_kernels(CpuIsa::kNeon));
  switch (isa) {
    case CpuIsa::kPlain: return plain;
    case CpuIsa::kAvx2: return avx2;
    case CpuIsa::kAvx512: return avx512;
    case CpuIsa::kNeon:
    case CpuIsa::kNeonI8mm: return neon;   // nothing in them multiplies bytes
  }
  return plain;
}

const LogitOps& logit_ops(CpuIsa isa) { return op_kernels(isa).logits; }

const LogitOps& logit_ops() {
  static const CpuIsa best = available_cpu_isas().back();
  return logit_ops(best);
}

void CpuOps::rms_norm(ThreadPool& pool, const float* x, const float* weight, float eps, int n_rows,
                      int64_t dim, float* out) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      kernels_->rms_norm(x + row * dim, weight, eps, dim, out + row * dim);
  });
}

void CpuOps::rms_norm_heads(ThreadPool& pool, float* x, int64_t row_stride, const float* weight,
                            float eps, int n_rows, int n_heads, int head_dim) const {
  pool.parallel_for(n_rows, rows_per_piece(int64_t{n_heads} * head_dim),
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t row = begin; row < end; ++row)
                        for (int head = 0; head < n_heads; ++head) {
                          float* at = x + row * row_stride + int64_t{head} * head_dim;
                          kernels_->rms_norm(at, weight, eps, head_dim, at);
                        }
                    });
}

void CpuOps::gated(ThreadPool& pool, Activation activation, const float* gate, const float* up,
                   int n_rows, int64_t dim, float* out) const {
  const auto kernel = kernels_->gate(activation);
  pool.parallel_for(n_rows * dim, kElementsPerPiece / 4, [&](int64_t begin, int64_t end, int) {
    kernel(gate + begin, up + begin, end - begin, out + begin);
  });
}

void CpuOps::scale(ThreadPool& pool, float* x, int64_t count, float factor) const {
  pool.parallel_for(count, kElementsPerPiece, [&](int64_t begin, int64_t end, int) {
    kernels_->scale(x + begin, end - begin, factor);
  });
}

void CpuOps::soft_cap(ThreadPool& pool, float* x, int64_t count, float cap) const {
  pool.parallel_for(count, kElementsPerPiece / 4, [&](int64_t begin, int64_t end, int) {
    kernels_->soft_cap(x + begin, end - begin, cap);
  });
}

void CpuOps::add_rows(ThreadPool& pool, float* x, const float* y, float factor, const float* gate,
                      int n_rows, int64_t dim) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      kernels_->add_scaled(x + row * dim, y + row * dim, factor, gate ? gate + row : nullptr, dim);
  });
}

void CpuOps::gather_rows(ThreadPool& pool, const float* x, const int32_t* rows, int n_rows,
                         int64_t dim, float* out) const {
  pool.parallel_for(n_rows, rows_per_piece(dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(out + i * dim, x + rows[i] * dim, static_cast<size_t>(dim) * sizeof(float));
  });
}

}   // namespace monolith
