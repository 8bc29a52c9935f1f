// The backends of a build with CUDA, real or emulated.
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/registry/registry.h"

namespace monolith {

std::span<const BackendKind> backend_kinds() {
  static const BackendKind kKinds[] = {cuda_backend_kind(), cpu_backend_kind()};
  return kKinds;
}

}  // namespace monolith
