// Wide products of bfloat16 weights by cuBLASLt (cublaslt.h), where batch invariance is switched off and the library is
// there. Weights lie in the order of fragments (dense.h), which it does not know: before each product they are written
// row by row to scratch of bounded size, so many rows at once as fit. The engine's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/dense/cublaslt.h"
#include "backend/cuda/dense/dense.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/matrix.h"

namespace monolith::cuda {

// Whether the library serves a product of `columns` columns better than the kernels of dense.h. Writing the weights out
// moves 4 bytes a number, at 4.3 TB/s 0.93 ps; a column takes 2 operations a number, at the library's 790 TFLOP/s
// 2.5 fs. Kernels that reach the share r of that lose 2.5 fs (1 / r - 1) a column and number: even at
// 370 / (1 / r - 1) columns, that is 860 for 70 %, 1,500 for 80 %. Independent of the matrix.
inline constexpr int64_t kLibraryColumns = 1024;
bool library_serves(Format format, int64_t rows, int64_t cols, int64_t columns);

class DenseLibrary {
 public:
  // Bytes of weights written out at once.
  static constexpr size_t kWeightBytes = size_t{128} << 20;

  // `path` as CublasLt::open(). Allocates `weight_bytes` and the library's workspace: what is free afterwards is what a
  // model is planned with. Errors: its own, kOutOfMemory.
  static Result<std::unique_ptr<DenseLibrary>> open(Runtime& runtime, const std::string& path,
                                                    size_t weight_bytes = kWeightBytes);
  ~DenseLibrary();
  DenseLibrary(const DenseLibrary&) = delete;
  DenseLibrary& operator=(const DenseLibrary&) = delete;

  // Activations, row by row, to scratch.activations(): before multiply() of the same `x`.
  void convert(const DenseScratch& scratch, const float* x, int64_t cols, int64_t n_columns);
  // Computes the target's rows from the first on. Returns how many: all of them unless the library could not, then a
  // multiple of kDenseTileRows whose rest is somebody else's.
  int64_t multiply(const DenseScratch& scratch, const MatmulTarget& target, int64_t n_columns);

  std::string version() const { return library_->version(); }
  int64_t failures() const { return library_->failures(); }

 private:
  DenseLibrary(Runtime& runtime, size_t weight_bytes) : runtime_(runtime), weight_bytes_(weight_bytes) {}

  Runtime& runtime_;
  size_t weight_bytes_;
  void* memory_ = nullptr;  // the workspace, then weights
  std::unique_ptr<CublasLt> library_;
};

// Weights row by row: `n_rows` rows from `first_row` on, both multiples of 16, of packed `weights` to
// [n_rows][stride], stride = 64 dense_blocks(cols), zeros beyond cols.
void unpack_dense(Runtime& runtime, const void* weights, int64_t cols, int64_t first_row, int64_t n_rows, void* out);
// Activations to bfloat16, likewise.
void convert_rows(Runtime& runtime, const float* x, int64_t cols, int64_t n_columns, void* out);
// out[column][row] += bias[row].
void add_bias(Runtime& runtime, float* out, int64_t stride, const float* bias, int64_t rows, int64_t n_columns);

}  // namespace monolith::cuda
