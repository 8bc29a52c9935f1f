// Large GEMMs with bfloat16 weights through cuBLASLt (cublaslt.h), used if batch invariance is off and the library is
// available. The library cannot read the weights' fragment order (dense.h). Before each product, weights are therefore
// unpacked row by row into scratch memory of limited size, as many rows at a time as fit. Engine thread only.
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

// Minimum number of columns for which cuBLASLt is faster than the kernels of dense.h. Unpacking moves 4 bytes per
// weight, which takes 0.93 ps at 4.3 TB/s. The matmul takes 2 operations per weight and column, which is 2.5 fs at the
// library's 790 TFLOP/s. Kernels that reach a fraction r of that speed lose 2.5 fs * (1 / r - 1) per column and weight.
// The break-even is at 370 / (1 / r - 1) columns: 860 for r = 70 % and 1,500 for r = 80 %, independent of the matrix.
inline constexpr int64_t kLibraryColumns = 1024;
bool library_serves(Format format, int64_t rows, int64_t cols, int64_t columns);

class DenseLibrary {
 public:
  // Maximum number of bytes of unpacked weights. Larger matrices are unpacked and multiplied in parts.
  static constexpr size_t kWeightBytes = size_t{128} << 20;

  // `path` has the same meaning as in CublasLt::open(). Allocates `weight_bytes` bytes and the library's workspace
  // before a model's memory is planned. Returns kOutOfMemory or the errors of CublasLt::open().
  static Result<std::unique_ptr<DenseLibrary>> open(Runtime& runtime, const std::string& path,
                                                    size_t weight_bytes = kWeightBytes);
  ~DenseLibrary();
  DenseLibrary(const DenseLibrary&) = delete;
  DenseLibrary& operator=(const DenseLibrary&) = delete;

  // Converts activations row by row into scratch.activations(). Call before multiply() with the same `x`.
  void convert(const DenseScratch& scratch, const float* x, int64_t cols, int64_t n_columns);
  // Computes the target's rows, starting with row 0, and returns the number of rows computed. If the library fails,
  // this number is less than the target's number of rows and a multiple of kDenseTileRows, and the caller must compute
  // the remaining rows.
  int64_t multiply(const DenseScratch& scratch, const MatmulTarget& target, int64_t n_columns);

  std::string version() const { return library_->version(); }
  int64_t failures() const { return library_->failures(); }

 private:
  DenseLibrary(Runtime& runtime, size_t weight_bytes) : runtime_(runtime), weight_bytes_(weight_bytes) {}

  Runtime& runtime_;
  size_t weight_bytes_;
  void* memory_ = nullptr;  // The workspace, followed by unpacked weights.
  std::unique_ptr<CublasLt> library_;
};

// Unpacks `n_rows` rows of packed `weights`, starting at `first_row` (both multiples of 16), to [n_rows][stride] with
// stride = 64 dense_blocks(cols). Values beyond cols are zero.
void unpack_dense(Runtime& runtime, const void* weights, int64_t cols, int64_t first_row, int64_t n_rows, void* out);
// Converts activations to bfloat16 in the same row layout.
void convert_rows(Runtime& runtime, const float* x, int64_t cols, int64_t n_columns, void* out);
// out[column][row] += bias[row].
void add_bias(Runtime& runtime, float* out, int64_t stride, const float* bias, int64_t rows, int64_t n_columns);

}  // namespace monolith::cuda
