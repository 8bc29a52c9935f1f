// The backends of a build without CUDA.
#include "backend/cpu/cpu_backend.h"
#include "backend/registry/registry.h"

namespace monolith {
namespace {

Result<std::vector<std::string>> no_cuda() {
  return Error{ErrorCode::kUnsupported,
               "this build has no CUDA backend: no NVIDIA GPU or no nvcc was found when it was built. "
               "MONOLITH_BUILD_CUDA=1 npm start builds it"};
}

}  // namespace

std::span<const BackendKind> backend_kinds() {
  static const BackendKind kKinds[] = {
      {.name = "cuda", .has_devices = true, .probe = no_cuda, .create = nullptr},
      cpu_backend_kind(),
  };
  return kKinds;
}

}  // namespace monolith
