// Weight matrices in device memory. The packed layout of each type is documented with the kernels that read it (dense/,
// quant/); this file contains the code shared by all types.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/loader.h"

namespace monolith::cuda {

// The layout of a matrix in device memory.
enum class Format : uint8_t {
  kF32,    // Row-major.
  kQuant,  // Layout by type, see quant/form.h.
  kBf16,   // See dense/dense.h.
  kF16,
  kFp8,  // See dense/fp8.h.
};

class CudaMatrix final : public Matrix {
 public:
  CudaMatrix(Runtime& runtime, Format format, void* data) : runtime_(runtime), format_(format), data_(data) {}
  // A view of the rows of `whole` that start at `data`. `whole` keeps ownership of the memory.
  CudaMatrix(const CudaMatrix& whole, const void* data)
      : runtime_(whole.runtime_), format_(whole.format_), data_(const_cast<void*>(data)), owned_(false) {}
  CudaMatrix(const CudaMatrix&) = delete;
  CudaMatrix& operator=(const CudaMatrix&) = delete;
  ~CudaMatrix() override {
    if (owned_) runtime_.free(data_);
  }

  Format format() const { return format_; }
  const void* data() const { return data_; }  // Device memory.

 private:
  Runtime& runtime_;
  Format format_;
  void* data_;
  bool owned_ = true;
};

// Returns whether matrices of this type are supported: float types and the quantized types of quant/form.h. If `exact`
// is set, all types are supported, because weights are converted to float32.
bool keeps_type(TensorType type, bool exact);
// Returns the device format for weights of type `type`. If `exact` is set, all weights are stored as float32.
Format format_for(TensorType type, int64_t rows, int64_t cols, bool exact);
size_t matrix_bytes(Format format, TensorType type, int64_t rows, int64_t cols);
// Uploads a matrix in chunks and packs it on the device. When the function returns, the source has been read
// completely, but the device may still be working. Errors: kUnsupported, kOutOfMemory, and kInvalidFile for FP8
// conversion of non-finite weights.
Result<std::unique_ptr<Matrix>> make_matrix(Loader& loader, const MatrixSource& source, bool exact);
// Uploads a single matrix with a temporary loader.
Result<std::unique_ptr<Matrix>> make_matrix(Runtime& runtime, const MatrixSource& source, bool exact);

}  // namespace monolith::cuda
