// The backend interface, through which the forward pass is computed. The CPU and CUDA backends implement it in five
// roles, and each user includes only the roles that it needs. Kernels never see requests.
//
//   role             header               purpose                       used by
//   BackendMemory    loading.h            memory, matrices, caches      model loading and memory planning
//   StepControl      steps.h              begin, end and wait           the model and the engine loop
//   Operations       operations.h         the forward pass              the model's layers
//   HostThreads      host_threads.h       threads for host work         the host sampler
//   DeviceSampling   device_sampling.h    sampling on the device        the sampler
//
// Some backends also implement EncoderOperations (encoder_operations.h), the operations of vision encoders.
//
// Pointers of type `float*` point into memory that the backend allocated (BackendMemory::allocate): host memory on the
// CPU, device memory with CUDA. Only read_floats() and arguments marked "host" use host memory on all backends.
//
// Batch invariance is part of the contract. The floating-point operations that compute an output row, and their order,
// depend only on that row's own inputs and, for attention, on its absolute position. They never depend on other rows in
// the same call, on how a sequence was split into segments, or on the number of threads. Arithmetic::kFast guarantees
// only the last of these three.
//
// Threads: only one thread (the engine thread) calls a backend at a time. After construction, only functions documented
// to do so allocate memory.
#pragma once

#include <string>

#include "backend/device_sampling.h"
#include "backend/host_threads.h"
#include "backend/loading.h"
#include "backend/operations.h"
#include "backend/steps.h"

namespace monolith {

class EncoderOperations;

// How a backend computes matmuls. The enumerators have the same order as the values of the option `arithmetic`.
enum class Arithmetic : uint8_t {
  // Activations are rounded to 8 bits for quantized weights, and to BF16 for BF16 weights if the instruction set
  // supports BF16. For GPUs, see backend/cuda.
  kProduction,
  // Matmuls of many rows with quantized or BF16 weights round weights and activations to BF16, and attention uses pairs
  // of BF16 numbers. An output's bits depend on the number of rows computed together. Only on CPUs with AMX.
  kFast,
  kExact,  // For tests: weights are dequantized to F32 and activations are not rounded.
};

struct BackendInfo {
  std::string name;  // "cpu" or "cuda".
  std::string isa;   // Kernel set in use: "plain", "avx2", "avx512", ...
  int threads;
  std::string amx_problem = {};  // Why AMX is disabled although the CPU has it; otherwise empty.
};

class Backend : public BackendMemory, public StepControl, public Operations, public HostThreads, public DeviceSampling {
 public:
  virtual ~Backend() = default;
  virtual BackendInfo info() const = 0;
  // Returns a message for operators about the backend's current state, or an empty string. May be called from any
  // thread at any time.
  virtual std::string note() const { return {}; }
  // Null if the backend does not support vision encoders.
  virtual EncoderOperations* encoders() { return nullptr; }
};

}  // namespace monolith
