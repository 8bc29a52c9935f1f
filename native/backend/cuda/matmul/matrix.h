// Weight matrices in device memory. How a type is packed there belongs to the kernels that read it (dense/, quant/);
// here is what all have in common.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/loader.h"

namespace monolith::cuda {

// How a matrix lies in device memory.
enum class Format : uint8_t {
  kF32,    // row-major
  kQuant,  // quant/form.h, by the type
  kBf16,   // dense.h
  kF16,
  kFp8,  // dense/fp8.h
};

class CudaMatrix final : public Matrix {
 public:
  CudaMatrix(Runtime& runtime, Format format, void* data) : runtime_(runtime), format_(format), data_(data) {}
  // The rows of `whole`, whose memory this is and stays, from `data` on.
  CudaMatrix(const CudaMatrix& whole, const void* data)
      : runtime_(whole.runtime_), format_(whole.format_), data_(const_cast<void*>(data)), owned_(false) {}
  CudaMatrix(const CudaMatrix&) = delete;
  CudaMatrix& operator=(const CudaMatrix&) = delete;
  ~CudaMatrix() override {
    if (owned_) runtime_.free(data_);
  }

  Format format() const { return format_; }
  const void* data() const { return data_; }  // device

 private:
  Runtime& runtime_;
  Format format_;
  void* data_;
  bool owned_ = true;
};

// Whether matrices of this type are kept: floats, and what has tiles (quant/form.h); with `exact` all, as floats.
bool keeps_type(TensorType type, bool exact);
// The format that weights kept as `type` take; `exact`: all in binary32.
Format format_for(TensorType type, int64_t rows, int64_t cols, bool exact);
size_t matrix_bytes(Format format, TensorType type, int64_t rows, int64_t cols);
// Uploads in pieces and packs on the device. On return the source has been read; work on the device may be left.
// Errors: kUnsupported, kOutOfMemory; kInvalidFile for FP8 of weights that are not finite.
Result<std::unique_ptr<Matrix>> make_matrix(Loader& loader, const MatrixSource& source, bool exact);
// One matrix, with a loader of its own.
Result<std::unique_ptr<Matrix>> make_matrix(Runtime& runtime, const MatrixSource& source, bool exact);

}  // namespace monolith::cuda
