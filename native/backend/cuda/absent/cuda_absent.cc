// In builds without nvcc: there is no CUDA backend, and it says so.
#include "backend/cuda/cuda_backend.h"

namespace monolith {
namespace {
Error absent() { return {ErrorCode::kUnsupported, "this build has no CUDA backend: nvcc was not found when it was made"}; }
}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions&) { return absent(); }
Result<std::vector<std::string>> cuda_devices() { return absent(); }

}  // namespace monolith
