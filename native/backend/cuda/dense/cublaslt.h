// NVIDIA's cuBLASLt, loaded at run time where it is installed: products of bfloat16 matrices with binary32 results. Its
// sums are in an order of its own that depends on the number of columns, so that it serves only who does without batch
// invariance (dense/library.h). The engine's thread only.
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
  // Device memory that its products may use, as NVIDIA recommends for Hopper.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  // Shapes of products that are remembered.
  static constexpr size_t kMostShapes = 64;

  // Loads `path`, or where that is empty the library of version 13 or 12 that the dynamic loader finds, and has it
  // compute one small product, which must be right. `workspace`: kWorkspaceBytes of the device's. The library stays in
  // the process. Errors: kUnsupported, with what is missing or failed.
  static Result<std::unique_ptr<CublasLt>> open(Runtime& runtime, const std::string& path, void* workspace);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  std::string version() const;  // "13.0.2"

  // out[column][row] = (add ? out[column][row] : 0) + sum over k of weights[row][k] x[column][k]. Weights and x are
  // bfloat16, row after row, aligned to 256 bytes; k is a multiple of 64.
  struct Product {
    int64_t rows, columns, k, out_stride;
    const void* weights;
    const void* x;
    float* out;
    bool add;
  };
  // In the stream's order. False: it could not, and nothing was done; such a shape is not tried again while it is
  // remembered.
  bool multiply(const Product& product);

  int64_t failures() const { return failures_; }  // calls that failed, shapes that it has nothing for

 private:
  // A shape and what the library has for it.
  struct Shape {
    int64_t rows, columns, k, out_stride;
    int alignment;  // of outputs, in bytes
    bool usable;
    uint64_t used;  // when, in calls
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
