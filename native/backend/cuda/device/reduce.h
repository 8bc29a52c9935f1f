// Integer reductions over a warp, each a single instruction on the GPU. Every lane gets the result.
#pragma once

#include "backend/cuda/device/language.h"

namespace monolith::cuda {

#ifdef __CUDACC__

__device__ __forceinline__ uint32_t warp_largest(uint32_t value) { return __reduce_max_sync(kWholeWarp, value); }
__device__ __forceinline__ uint32_t warp_least(uint32_t value) { return __reduce_min_sync(kWholeWarp, value); }

#else

inline uint32_t warp_largest(uint32_t value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, value, distance);
    value = value > other ? value : other;
  }
  return value;
}
inline uint32_t warp_least(uint32_t value) { return ~warp_largest(~value); }

#endif

}  // namespace monolith::cuda
