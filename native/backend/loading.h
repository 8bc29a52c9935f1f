// The backend's role while a model is loaded: everything that allocates memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "backend/adapter.h"
#include "backend/kv_cache.h"
#include "backend/matrix.h"
#include "backend/moe.h"
#include "backend/requirement.h"
#include "base/result.h"

namespace monolith {

// Sizes of the largest batched_matmul() call, for its scratch memory. If n_heads is 0, the model does not use
// batched_matmul().
struct HeadProductShape {
  int n_heads = 0;
  int64_t rows = 0, cols = 0;  // Maximum size of one head's matrix.
};

// Polled during long work. Returns true if the work must stop now.
using Stopped = std::function<bool()>;

class BackendMemory {
 public:
  // Returns the number of free bytes of the device's own memory, or 0 if the backend computes in host memory.
  virtual uint64_t free_memory() const { return 0; }

  // memory_of() returns how much of free_memory() an allocation of `bytes` bytes uses. overhead_bytes() estimates the
  // device memory that a running model of `n_layers` layers uses in addition to its allocations (code, CUDA graphs).
  // The estimate should err on the high side.
  virtual size_t memory_of(size_t bytes) const { return bytes; }
  virtual size_t overhead_bytes(int n_layers) const {
    static_cast<void>(n_layers);
    return 0;
  }

  // If the backend does not support the requirement, returns an error that names the missing feature: kUnsupported, or
  // kInvalidArgument if a value is out of range. May be called before anything is loaded.
  virtual Status supports(const Requirement& requirement) const = 0;

  // Return the number of bytes that matrix() and kv_cache() would allocate for these shapes. The memory plan uses these
  // numbers.
  virtual size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const = 0;
  virtual size_t kv_cache_bytes(const KvShape& shape) const = 0;
  // Copies a matrix and repacks it for the kernels. Errors: kUnsupported (unsupported shape), kOutOfMemory.
  virtual Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) = 0;
  // Copies the LoRA factors of one weight matrix. May be called from any thread, even during a step. The result may be
  // destroyed on any thread. Errors: kOutOfMemory.
  virtual Result<std::unique_ptr<AdapterMatrix>> adapter_matrix(const AdapterSource& source) = 0;
  // Moves a matrix from small memory pages to huge pages where possible, until `stopped` returns true. `stopped` is
  // called before each page. Returns the number of bytes of the matrix that are known to be in huge pages, or 0 if
  // there are no huge pages or the system does not report them. May be called from any thread, even during a step.
  virtual size_t collapse_huge_pages(const Matrix& matrix, const Stopped& stopped) {
    static_cast<void>(matrix), static_cast<void>(stopped);
    return 0;
  }
  virtual Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) = 0;
  // Allocates `count` floats, 64-byte aligned and zeroed. The backend owns them until it is destroyed.
  virtual Result<float*> allocate(int64_t count) = 0;
  virtual void write_floats(float* to, const float* host_from, int64_t count) = 0;
  virtual void read_floats(float* host_to, const float* from, int64_t count) = 0;
  // Whether allocate() returns host memory. If so, the floats can be read directly after end_step() has returned.
  virtual bool is_host_memory() const { return false; }
  // Returns the number of bytes that reserve() would allocate for these sizes. The memory plan uses this number.
  virtual size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                               const MixtureShape& mixture = {}) const = 0;
  // Allocates scratch memory for the largest step of any model on this backend. Called after loading and before the
  // first step.
  virtual Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                         const MixtureShape& mixture = {}) = 0;

  // Like scratch_bytes() and reserve(), but for batched_matmul() in steps of up to max_rows tokens. reserve_heads() is
  // called after reserve(). It does nothing on a backend that needs no additional memory.
  virtual size_t head_scratch_bytes(int max_rows, const HeadProductShape& shape) const {
    static_cast<void>(max_rows), static_cast<void>(shape);
    return 0;
  }
  virtual Status reserve_heads(int max_rows, const HeadProductShape& shape) {
    static_cast<void>(max_rows), static_cast<void>(shape);
    return {};
  }

  // Returns the number of bytes that the factors of `rows` output rows of a matrix occupy (MemoryFeature::kRowFactors).
  virtual size_t factor_bytes(int64_t rows) const {
    static_cast<void>(rows);
    return 0;
  }

 protected:
  ~BackendMemory() = default;
};

}  // namespace monolith
