// The CUDA backend: the forward pass on one NVIDIA GPU (Ampere or newer). Weights, keys and values and activations
// live in its memory; a step's inputs go there in one copy before it; steps of decodes are recorded once per size and
// then replayed as CUDA graphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace monolith {

struct CudaBackendOptions {
  int device = 0;         // counted from 0
  bool exact = false;     // weights and activations in binary32 throughout: the test setting
  bool recording = true;  // steps of decodes are recorded and replayed
  bool invariant = true;  // a row's bits never depend on the rows beside it, even if instructions of two kinds differ
  bool early_launch = true;  // on Hopper kernels start while the ones before them still run, and wait themselves
  // Of NVIDIA's cuBLASLt, for wide products where `invariant` is off: "auto" is the one that is installed, if any; else
  // a path. Empty: it is not looked for.
  std::string cublaslt = {};
  bool fused = true;  // operations share kernels where they can (the same bits): off for comparison
  bool wgmma = true;  // Hopper's own matrix instructions where the device has them
};

// Errors: kUnsupported (built without CUDA, no driver, no such GPU, too old a one), kInvalidArgument (no usable
// cuBLASLt at the path given, or batch invariance with it), kOutOfMemory.
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions& options);

// Names of the GPUs this build can use, in the order of their numbers; or why there are none.
Result<std::vector<std::string>> cuda_devices();

}  // namespace monolith
