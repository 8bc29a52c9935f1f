// What this processor has: instruction sets that both it and the operating system support, and cores.
// Pure functions of the machine; any thread.
#pragma once

#include <string_view>

#include "backend/cpu/cpu_backend.h"
#include "base/result.h"

namespace monolith {

// True if code for `isa` may run here.
bool cpu_has(CpuIsa isa);
// True if vdpbf16ps may run here (CPUID leaf 7.1, EAX bit 5), in addition to CpuIsa::kAvx512.
bool cpu_has_avx512_bf16();
// True on an AMD processor of family 19h that has AVX-512: a Zen 4.
bool cpu_is_zen4();

// "auto" or empty: the best available. Errors: kInvalidArgument, names what there is.
Result<CpuIsa> choose_cpu_isa(std::string_view name);

// Threads that can compute at full speed: physical cores this process may run on, limited by the CPU quota of its control
// groups. At least 1.
int usable_cores();

}  // namespace monolith
