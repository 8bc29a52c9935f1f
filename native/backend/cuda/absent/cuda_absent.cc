// In builds without the CUDA backend: it says so, and how to get it.
#include "backend/cuda/cuda_backend.h"

namespace monolith {
namespace {
Error absent() {
  return {ErrorCode::kUnsupported,
          "this build has no CUDA backend: there was no NVIDIA GPU or no nvcc when it was made; MONOLITH_BUILD_CUDA=1 "
          "npm start builds it"};
}
}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions&) { return absent(); }
Result<std::vector<std::string>> cuda_devices() { return absent(); }

}  // namespace monolith
