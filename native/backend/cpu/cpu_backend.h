// The CPU backend: kernels chosen once at construction from what the processor has, or forced.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace monolith {

enum class CpuIsa : uint8_t {
  kPlain,
  kAvx2,      // AVX2, FMA, F16C
  kAvx512,    // F, BW, VL, DQ, VNNI; BF16 if present
  kNeon,      // AArch64 with the 8-bit dot product (FEAT_DotProd)
  kNeonI8mm,  // and the 8-bit matrix product (FEAT_I8MM)
};

std::string_view cpu_isa_name(CpuIsa isa);  // "plain", "avx2", "avx512", "neon", "neon_i8mm"
std::vector<CpuIsa> available_cpu_isas();   // what this processor runs, plain first

enum class Arithmetic : uint8_t {
  kProduction,  // activations rounded to 8 bits for quantized weights, to BF16 for BF16 weights where the ISA does
  kExact,       // weights dequantized to F32, activations unrounded: the test setting
};

struct CpuBackendOptions {
  int threads = 0;                // 0 = one per core
  std::string_view isa = "auto";  // or a name above; unavailable → kInvalidArgument
  Arithmetic arithmetic = Arithmetic::kProduction;
};

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace monolith
