// A backend's role while a model is loaded, and its memory: all that allocates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/kv_cache.h"
#include "backend/matrix.h"
#include "backend/mixture.h"
#include "backend/recurrence.h"
#include "base/result.h"

namespace monolith {

// What the scratch of matmul_heads() is sized for; n_heads 0: there is none.
struct HeadProductShape {
  int n_heads = 0;
  int64_t rows = 0, cols = 0;  // of one head, the most
};

class Loading {
 public:
  // Bytes of memory of the device's own that are free; 0: it computes in the machine's memory.
  virtual uint64_t free_memory() const { return 0; }

  // How much of free_memory() an allocation of `bytes` takes, and how much a running model of so many layers takes beside
  // its allocations (code, recorded steps). The latter is an estimate that is meant not to be too small.
  virtual size_t memory_of(size_t bytes) const { return bytes; }
  virtual size_t overhead_bytes(int n_layers) const {
    static_cast<void>(n_layers);
    return 0;
  }

  // Whether it keeps matrices in FP8, a scale for each row, if it is asked to.
  virtual bool keeps_fp8() const { return false; }
  // Whether matrix() takes files' tensors of this type.
  virtual bool keeps_type(TensorType type) const {
    static_cast<void>(type);
    return true;
  }

  // Bytes matrix()/kv_cache() will hold for this shape; the memory plan asks here.
  virtual size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const = 0;
  virtual size_t kv_cache_bytes(const KvShape& shape) const = 0;
  // Copies and repacks. Errors: kUnsupported (shape), kOutOfMemory.
  virtual Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) = 0;
  // What the system gave in small pages of a matrix comes into large ones where it can and time is left. Bytes of it that lie
  // in large ones then, as far as that was looked at; 0 where there are none, or the system does not tell.
  virtual size_t gather(const Matrix& matrix, std::chrono::steady_clock::time_point until) {
    static_cast<void>(matrix), static_cast<void>(until);
    return 0;
  }
  virtual Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) = 0;
  // `count` floats, 64-byte aligned, zeroed, owned by the backend until it is destroyed.
  virtual Result<float*> allocate(int64_t count) = 0;
  virtual void write_floats(float* to, const float* host_from, int64_t count) = 0;
  virtual void read_floats(float* host_to, const float* from, int64_t count) = 0;
  // Whether allocate() gives host memory: then its floats are read where they lie once end_step() has returned.
  virtual bool is_host_memory() const { return false; }
  // Bytes reserve() will take for these sizes; the memory plan asks here.
  virtual size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                               const MixtureShape& mixture = {}) const = 0;
  // Sizes internal scratch for the largest step of any model here. Called after loading, before the first step.
  virtual Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim,
                         const MixtureShape& mixture = {}) = 0;

  // The same for matmul_heads(), of steps of up to max_rows: after reserve(). A backend that needs nothing more takes
  // nothing.
  virtual size_t head_scratch_bytes(int max_rows, const HeadProductShape& shape) const {
    static_cast<void>(max_rows), static_cast<void>(shape);
    return 0;
  }
  virtual Status reserve_heads(int max_rows, const HeadProductShape& shape) {
    static_cast<void>(max_rows), static_cast<void>(shape);
    return {};
  }

  // Whether kv_cache() keeps keys and values so; asked before anything is loaded. kUnsupported names the setting.
  virtual Status can_keep(KvType) const { return {}; }
  // Whether kv_cache() keeps what the layers need, whatever its size; asked before anything is loaded. kUnsupported
  // names the layer and what it keeps.
  virtual Status can_keep_states(const KvShape& shape) const { return check_shape(shape); }
  // Whether it computes these and carries their state on (recurrence.h); asked before anything is loaded, so without
  // weights. kUnsupported names the operation and what of it is not computed.
  virtual Status can_compute(const Convolution&) const { return {}; }
  virtual Status can_compute(const DeltaRule&) const { return {}; }
  virtual Status can_compute(const StateSpace&) const { return {}; }
  // Whether several layers of one shape may share a slot of a page (LayerState::place).
  virtual bool packs_layers() const { return false; }
  // Whether it has the operations of several residual streams (StreamMix).
  virtual bool mixes_streams() const { return false; }
  // Whether mixture() computes such a layer; asked while loading. kUnsupported names what it does not.
  virtual Status can_mix(const Mixture&) const { return {}; }
  // Whether it multiplies the products of a matrix by a factor of each row, and the bytes these take.
  virtual bool keeps_factors() const { return false; }
  virtual size_t factor_bytes(int64_t rows) const {
    static_cast<void>(rows);
    return 0;
  }

 protected:
  ~Loading() = default;
};

}  // namespace monolith
