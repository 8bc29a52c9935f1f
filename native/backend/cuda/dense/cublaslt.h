// NVIDIA's cuBLASLt, loaded at run time if it is installed: GEMMs of bfloat16 matrices with float32 results. Its
// summation order depends on the number of columns, so it is used only when batch invariance is off (dense/library.h).
// Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/dense/cublaslt_abi.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

class CublasLt {
 public:
  // Size of the library's device workspace for matmuls, as NVIDIA recommends for Hopper.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  // Maximum number of cached matmul shapes.
  static constexpr size_t kMaxShapes = 64;

  // Loads the library from `path`, or version 13 or 12 from the dynamic loader's search path if `path` is empty.
  // Verifies it with a small test matmul. `workspace` is device memory of kWorkspaceBytes bytes. The library stays
  // loaded until the process ends. Errors: kUnsupported; the message names what is missing or has failed.
  static Result<std::unique_ptr<CublasLt>> open(Runtime& runtime, const std::string& path, void* workspace);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  std::string version() const;  // For example "13.0.2".

  // out[column][row] = (add ? out[column][row] : 0) + sum over k of weights[row][k] * x[column][k]. Weights and x are
  // row-major bfloat16, aligned to 256 bytes; k is a multiple of 64.
  struct Product {
    int64_t rows, columns, k, out_stride;
    const void* weights;
    const void* x;
    float* out;
    bool add;
  };
  // Submits the matmul to the stream. If the library cannot compute it, returns false without doing anything. A shape
  // for which the library failed is not retried while it is in the cache.
  bool multiply(const Product& product);

  int64_t failures() const { return failures_; }  // Number of failed calls and of shapes without an algorithm.

 private:
  // A cached matmul shape and the library's algorithm for it.
  struct Shape {
    int64_t rows, columns, k, out_stride;
    int alignment;  // Alignment of the outputs in bytes.
    bool usable;
    uint64_t used;  // Value of calls_ at the last use (LRU).
    cublaslt::MatrixLayout a, b, d;
    cublaslt::Algorithm algorithm;
  };

  CublasLt(Runtime& runtime, const cublaslt::Functions& functions, void* workspace)
      : runtime_(runtime), functions_(functions), workspace_(workspace) {}
  Status start();
  Status try_product();
  Shape& shape_of(const Product& product);
  void prepare(Shape& shape);
  void forget(Shape& shape);

  Runtime& runtime_;
  cublaslt::Functions functions_;
  void* workspace_;
  cublaslt::Handle handle_ = nullptr;
  cublaslt::MatmulDesc desc_ = nullptr;
  cublaslt::MatmulPreference preference_ = nullptr;
  std::vector<Shape> shapes_;
  uint64_t calls_ = 0;
  int64_t failures_ = 0;
};

}  // namespace monolith::cuda
