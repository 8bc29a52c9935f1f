// The CPU backend. Its kernels are chosen once, at construction: for the requested instruction set, or for the best one
// that the processor supports.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace monolith {

struct BackendKind;

enum class CpuIsa : uint8_t {
  kPlain,
  kAvx2,      // Requires AVX2, FMA and F16C.
  kAvxVnni,   // Requires the 8-bit dot product in 256-bit vectors (AVX-VNNI) in addition.
  kAvx512,    // Requires AVX-512 F, BW, VL, DQ and VNNI. Uses BF16 if present.
  kAmx,       // Requires AVX-512 with BF16, and AMX with INT8 and BF16 (Sapphire Rapids and later).
  kNeon,      // Requires AArch64 with the 8-bit dot product (FEAT_DotProd).
  kNeonI8mm,  // Requires the 8-bit matrix product (FEAT_I8MM) in addition.
};

std::string_view cpu_isa_name(CpuIsa isa);  // As in --isa: "plain", "avx2", ...
std::vector<CpuIsa> available_cpu_isas();   // Instruction sets that this processor supports, plain first.

struct CpuBackendOptions {
  int threads = 0;  // 0 = one thread per core.
  // "auto" or a name from cpu_isa_name(). Naming an instruction set that is not available is an error
  // (kInvalidArgument).
  std::string_view isa = "auto";
  Arithmetic arithmetic = Arithmetic::kProduction;
};

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options);
BackendKind cpu_backend_kind();  // For backend_kinds().

}  // namespace monolith
