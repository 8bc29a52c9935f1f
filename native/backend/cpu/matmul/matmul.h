// Matrices on the CPU and the driver of their products: packs the input, cuts the outputs into pieces,
// hands them to the threads. The kernels are in this folder, the layout and arithmetic in strips.h.
//
// Threads: the engine thread calls. Nothing allocates except CpuMatrix::create and MatmulScratch::reserve.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine/mapping.h"
#include "backend/cpu/matmul/kernels.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace monolith {

class CpuMatrix final : public Matrix {
 public:
  // Bytes create() will hold; 0 if the shape is not supported, as create() would say.
  static size_t bytes_for(TensorType stored, int64_t rows, int64_t cols);
  // What the factors of so many rows take beside.
  static size_t factor_bytes(int64_t rows) {
    return static_cast<size_t>((rows + kStripRows - 1) / kStripRows * kStripRows) * sizeof(float);
  }
  // Repacks `source` as `stored`: its own type, or F32. Errors: kUnsupported (type, shape), kInvalidArgument
  // (data too short), kOutOfMemory.
  static Result<std::unique_ptr<CpuMatrix>> create(const MatrixSource& source, TensorType stored, ThreadPool& pool);

  const StripLayout& layout() const { return layout_; }
  int64_t n_strips() const { return (rows + kStripRows - 1) / kStripRows; }
  const std::byte* strip(int64_t index) const { return memory_.data() + static_cast<size_t>(index) * layout_.records; }
  const std::byte* halves(int64_t strip) const {
    return memory_.data() + static_cast<size_t>(n_strips()) * layout_.records +
           static_cast<size_t>(strip) * layout_.halves;
  }
  // Of the rows of a strip, or null.
  const float* factors(int64_t strip) const {
    return factors_.empty() ? nullptr : factors_.data() + strip * kStripRows;
  }
  // Loading::gather().
  size_t gather(std::chrono::steady_clock::time_point until) const { return memory_.gather(until); }
  // Row `row` as floats, the bits dequantize() gives, times its factor.
  void dequantize_row(int64_t row, float* out) const;

 private:
  CpuMatrix() = default;
  StripLayout layout_{};
  Mapping memory_;
  std::vector<float> factors_;  // of whole strips; of all rows or of none
};

// Packed activations, one area per kind: the targets of one call may want different kinds.
class MatmulScratch {
 public:
  // For products of up to max_rows rows of up to max_cols values. Errors: kOutOfMemory.
  Status reserve(int max_rows, int64_t max_cols);
  static size_t bytes_for(int max_rows, int64_t max_cols);
  std::byte* lines(ActivationKind kind) const { return areas_[static_cast<int>(kind)].data(); }
  bool holds(int64_t rows, int64_t cols) const { return rows <= max_rows_ && cols <= max_cols_; }
  bool fits(ActivationKind kind, int64_t lines) const { return lines <= lines_per_row(kind, max_cols_) * max_rows_; }

 private:
  int64_t max_rows_ = 0, max_cols_ = 0;
  Mapping areas_[kActivationKinds];
};

// Backend::matmul. All targets' weights are CpuMatrix of equal cols; x is [n_rows][cols] and must not overlap
// any target's out. The scratch must hold the product (asserted).
void cpu_matmul(const MatmulKernels& kernels, ThreadPool& pool, const MatmulScratch& scratch,
                std::span<const MatmulTarget> targets, const float* x, int n_rows);
// Backend::matmul_heads. The scratch must hold the product: n_rows rows of as many columns as all heads have, each
// head's rounded up to 32 (asserted).
void cpu_matmul_heads(const MatmulKernels& kernels, ThreadPool& pool, const MatmulScratch& scratch,
                      const HeadProducts& products, int n_rows);

// The kernels for an instruction set of this processor, BF16 instructions included where it has them.
const MatmulKernels& matmul_kernels(CpuIsa isa);

}  // namespace monolith
