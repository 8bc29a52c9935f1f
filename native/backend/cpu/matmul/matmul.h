// Weight matrices on the CPU, and the matmul driver, which packs the input, splits the outputs into tasks and runs them
// on the threads. The kernels are in this directory; panels.h describes the layout and the arithmetic. Called on the
// engine thread. Only CpuMatrix::create and MatmulScratch::reserve allocate memory.
#pragma once

#include <cassert>
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
  // Number of bytes that create() allocates; 0 if the shape is not supported and create() would therefore fail.
  static size_t bytes_for(TensorType stored, int64_t rows, int64_t cols);
  // Number of additional bytes that the row factors of `rows` rows take.
  static size_t factor_bytes(int64_t rows) {
    return static_cast<size_t>((rows + kPanelRows - 1) / kPanelRows * kPanelRows) * sizeof(float);
  }
  // Repacks `source` as type `stored`, which is either the source's type or F32. Errors: kUnsupported (unsupported type
  // or shape), kInvalidArgument (data too short), kOutOfMemory.
  static Result<std::unique_ptr<CpuMatrix>> create(const MatrixSource& source, TensorType stored, ThreadPool& pool);

  const PanelLayout& layout() const { return layout_; }
  int64_t n_panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  const std::byte* panel(int64_t index) const { return memory_.data() + static_cast<size_t>(index) * layout_.records; }
  const std::byte* block_scales(int64_t panel) const {
    return memory_.data() + static_cast<size_t>(n_panels()) * layout_.records +
           static_cast<size_t>(panel) * layout_.block_scales;
  }
  // Returns the factors of a panel's rows, or null if the matrix has no row factors.
  const float* factors(int64_t panel) const {
    return factors_.empty() ? nullptr : factors_.data() + panel * kPanelRows;
  }
  // Implements BackendMemory::collapse_huge_pages().
  size_t collapse_huge_pages(const Stopped& stopped) const { return memory_.collapse_huge_pages(stopped); }
  // Writes row `row` as floats, with the same bits as dequantize(), times the row's factor.
  void dequantize_row(int64_t row, float* out) const;

 private:
  CpuMatrix() = default;
  void divide_among_nodes(const ThreadPool& pool);
  PanelLayout layout_{};
  Mapping memory_;
  std::vector<float> factors_;  // Padded to whole panels; empty if the matrix has no factors.
};

// Packed activations. There is one area per kind, because the targets of a call may need different kinds of
// activations.
class MatmulScratch {
 public:
  // Allocates memory for a matmul of up to max_rows rows with up to max_cols columns, and for expanded weights on
  // tile_threads threads. Errors: kOutOfMemory.
  Status reserve(int max_rows, int64_t max_cols, int tile_threads = 0);
  static size_t bytes_for(int max_rows, int64_t max_cols, int tile_threads = 0);
  std::byte* lines(ActivationKind kind) const { return areas_[static_cast<int>(kind)].data(); }
  // A thread's memory for multiply_tiles().
  std::byte* tiles(int thread) const {
    assert(static_cast<size_t>(thread + 1) * tile_bytes_ <= tiles_.size());
    return tiles_.data() + static_cast<size_t>(thread) * tile_bytes_;
  }
  bool holds(int64_t rows, int64_t cols) const { return rows <= max_rows_ && cols <= max_cols_; }
  bool fits(ActivationKind kind, int64_t lines) const { return lines <= lines_per_row(kind, max_cols_) * max_rows_; }

 private:
  int64_t max_rows_ = 0, max_cols_ = 0;
  Mapping areas_[kActivationKinds];
  Mapping tiles_;
  size_t tile_bytes_ = 0;  // Per thread.
};

// Implements Operations::matmul. The weights of all targets are CpuMatrix objects with the same `cols`. x is
// [n_rows][cols] and must not overlap any target's output. The scratch memory must be large enough (asserted).
void cpu_matmul(const MatmulKernels& kernels, ThreadPool& pool, const MatmulScratch& scratch,
                std::span<const MatmulTarget> targets, const float* x, int n_rows);
// Implements Operations::batched_matmul. The scratch memory must be large enough (asserted) for n_rows rows with
// n_heads * c columns, where c is the number of columns per head, rounded up to a multiple of 32.
void cpu_matmul_heads(const MatmulKernels& kernels, ThreadPool& pool, const MatmulScratch& scratch,
                      const BatchedMatmul& products, int n_rows);

// Returns the kernels for an instruction set that this processor supports, including the BF16 kernels if the processor
// has vdpbf16ps.
const MatmulKernels& matmul_kernels(CpuIsa isa, Arithmetic arithmetic = Arithmetic::kProduction);

}  // namespace monolith
