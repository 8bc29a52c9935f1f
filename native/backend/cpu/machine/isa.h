// Detects the processor's capabilities: the instruction sets that both the processor and the operating system support,
// and the number of cores. The results depend only on the machine. Safe to call from any thread.
#pragma once

#include <string_view>

#include "backend/cpu/cpu_backend.h"
#include "base/result.h"

namespace monolith {

// Whether code compiled for `isa` can run on this processor.
bool cpu_has(CpuIsa isa);
// Whether, in addition to CpuIsa::kAvx512, vdpbf16ps can run on this processor (CPUID leaf 7.1, EAX bit 5).
bool cpu_has_avx512_bf16();
// Whether the processor has AMX with INT8 and BF16, but the operating system does not let this process use it.
bool cpu_is_denied_amx();
// Whether this is a Zen 4 processor: AMD family 19h with AVX-512.
bool cpu_is_zen4();

// Returns the instruction set with this name. "auto" or an empty name means the best available one. An unknown name
// fails with kInvalidArgument and a message that lists the available instruction sets.
Result<CpuIsa> choose_cpu_isa(std::string_view name);

// Number of threads that can compute at full speed: the physical cores on which this process may run, limited by its
// cgroups' CPU quota. At least 1.
int usable_cores();

}  // namespace monolith
