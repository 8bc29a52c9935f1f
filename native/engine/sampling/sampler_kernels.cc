#include "engine/sampling/sampler_kernels.h"

#include <cstring>
#include <initializer_list>

#include "backend/cpu/machine/isa.h"

namespace monolith {

extern const SamplerKernels kSamplerKernels_plain;
#if defined(__x86_64__)
extern const SamplerKernels kSamplerKernels_avx2;
extern const SamplerKernels kSamplerKernels_avx512;
#endif

const SamplerKernels* sampler_kernels_named(const char* name) {
  if (std::strcmp(name, "plain") == 0) return &kSamplerKernels_plain;
#if defined(__x86_64__)
  if (std::strcmp(name, "avx2") == 0 && cpu_has(CpuIsa::kAvx2)) return &kSamplerKernels_avx2;
  if (std::strcmp(name, "avx512") == 0 && cpu_has(CpuIsa::kAvx512)) return &kSamplerKernels_avx512;
#endif
  return nullptr;
}

const SamplerKernels& sampler_kernels() {
  static const SamplerKernels& best = []() -> const SamplerKernels& {
    for (const char* name : {"avx512", "avx2"})
      if (const SamplerKernels* kernels = sampler_kernels_named(name)) return *kernels;
    return kSamplerKernels_plain;
  }();
  return best;
}

}  // namespace monolith
