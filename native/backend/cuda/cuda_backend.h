// The CUDA backend runs the forward pass on one NVIDIA GPU (Ampere or newer). Weights, the KV cache and activations are
// kept in device memory. The inputs of a step are uploaded in one copy before the step. Decode steps are captured once
// per batch size and then replayed as CUDA graphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace monolith {

struct BackendKind;

struct CudaBackendOptions {
  int device = 0;         // Index of the GPU, counted from 0.
  bool exact = false;     // Keep all weights and activations in float32. For tests.
  bool recording = true;  // Capture decode steps as CUDA graphs and replay them.
  // Batch invariance: a token's bits never depend on the other tokens of the batch, even where that rules out faster
  // kernels.
  bool invariant = true;
  // Programmatic dependent launch on Hopper: a kernel starts while the previous kernel is still running, and itself
  // waits for its inputs.
  bool early_launch = true;
  // NVIDIA's cuBLASLt, used for large GEMMs when `invariant` is off. "auto" means the installed library, if there is
  // one. An empty string disables cuBLASLt. Any other value is the path of the library.
  std::string cublaslt = {};
  bool fused = true;  // Fuse operations into shared kernels where possible. The bits are the same; off for comparison.
  bool wgmma = true;  // Use Hopper's warpgroup matrix instructions (wgmma) if the device has them.
};

// Errors: kUnsupported (no driver, no such GPU, or a GPU that is too old), kInvalidArgument (no
// usable cuBLASLt at the given path, or cuBLASLt combined with batch invariance), kOutOfMemory.
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions& options);

BackendKind cuda_backend_kind();  // For backend_kinds().

}  // namespace monolith
