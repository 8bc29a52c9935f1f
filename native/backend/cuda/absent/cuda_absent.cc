// Replaces the CUDA backend in builds without CUDA. Every call returns an error that explains how to build the backend.
#include "backend/cuda/cuda_backend.h"

namespace monolith {
namespace {
Error absent() {
  return {ErrorCode::kUnsupported,
          "this build has no CUDA backend: no NVIDIA GPU or no nvcc was found when it was built. "
          "MONOLITH_BUILD_CUDA=1 npm start builds it"};
}
}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions&) { return absent(); }
Result<std::vector<std::string>> cuda_devices() { return absent(); }

}  // namespace monolith
