#include "engine/sampling/sampler_kernels.h"

#include <cstring>
#include <initializer_list>

namespace monolith {

extern const SamplerKernels kSamplerKernels_plain;
#if defined(__x86_64__)
extern const SamplerKernels kSamplerKernels_avx2;
extern const SamplerKernels kSamplerKernels_avx512;
#endif

const SamplerKernels* sampler_kernels_named(const char* name) {
  if (std::strcmp(name, "plain") == 0) return &kSamplerKernels_plain;
#if defined(__x86_64__)
  // Must match the instruction set flags with which CMakeLists.txt compiles these files.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (std::strcmp(name, "avx2") == 0 && avx2) return &kSamplerKernels_avx2;
  if (std::strcmp(name, "avx512") == 0 && avx2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vnni")) {
    return &kSamplerKernels_avx512;
  }
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
