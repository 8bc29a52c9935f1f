#include <cstdint>
#include <limits>

#include "engine/sampling/sampler_kernels.h"

namespace monolith {
namespace {
#include "engine/sampling/sampler_kernels-inl.h"
}  // namespace

extern const SamplerKernels kSamplerKernels_plain;
const SamplerKernels kSamplerKernels_plain{"plain", scan, weigh, distances, sum, select};

}  // namespace monolith
