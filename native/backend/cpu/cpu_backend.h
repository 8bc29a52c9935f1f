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
  kAvx512,    // Requires AVX-512 F, BW, VL, DQ and VNNI. Uses BF16 if present.
  kNeon,      // Requires AArch64 with the 8-bit dot product (FEAT_DotProd).
  kNeonI8mm,  // Requires the 8-bit matrix product (FEAT_I8MM) in addition.
};

std::string_view cpu_isa_name(CpuIsa isa);  // "plain", "avx2", "avx512", "neon" or "neon_i8mm".
std::vector<CpuIsa> available_cpu_isas();   // Instruction sets that this processor supports, plain first.

enum class Arithmetic : uint8_t {
  // Activations are rounded to 8 bits for quantized weights, and to BF16 for BF16 weights if the instruction set
  // supports BF16.
  kProduction,
  kExact,  // For tests: weights are dequantized to F32 and activations are not rounded.
};

struct CpuBackendOptions {
  int threads = 0;  // 0 = one thread per core.
  // "auto" or a name from cpu_isa_name(). An instruction set that is not available is an error (kInvalidArgument).
  std::string_view isa = "auto";
  Arithmetic arithmetic = Arithmetic::kProduction;
};

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options);
BackendKind cpu_backend_kind();  // For backend_kinds().

}  // namespace monolith
