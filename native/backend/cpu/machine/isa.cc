#include "backend/cpu/machine/isa.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#endif

#include "backend/cpu/machine/topology.h"
#include "base/control_group.h"

namespace monolith {
namespace {

struct Features {
  bool avx2 = false;      // AVX2, FMA and F16C.
  bool avx_vnni = false;  // AVX-VNNI, in addition to `avx2`.
  bool avx512 = false;    // AVX-512 F, BW, VL, DQ and VNNI.
  bool avx512_bf16 = false;
  bool amx = false;  // AMX with INT8 and BF16, in addition to avx512_bf16.
  bool amx_denied = false;
  bool zen4 = false;
  bool neon = false;       // 8-bit dot product. Every AArch64 processor has basic NEON vectors.
  bool neon_i8mm = false;  // 8-bit matrix product, in addition to `neon`.
};

#if defined(__x86_64__)
// Requests the kernel's permission for this process to use the tile registers, which are not part of a thread's state
// by default (Documentation/arch/x86/xstate.rst in Linux's sources).
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

Features read_features() {
  Features features;
#if defined(__x86_64__)
  // CPUID bits are documented in the Intel SDM, volume 2, and XCR0 in volume 1, section 13.3.
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  const bool fma = c & 1u << 12, f16c = c & 1u << 29, osxsave = c & 1u << 27, avx = c & 1u << 28;
  if (!osxsave || !avx) return features;
  uint32_t xcr0, xcr0_high;
  asm volatile("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
  const bool ymm_saved = (xcr0 & 0x06) == 0x06, zmm_saved = (xcr0 & 0xe6) == 0xe6;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  const unsigned leaves = a;
  const unsigned amx_bf16_tile_int8 = 1u << 22 | 1u << 24 | 1u << 25;
  const bool tiles_saved = (xcr0 & 0x60000) == 0x60000, amx = (d & amx_bf16_tile_int8) == amx_bf16_tile_int8;
  features.avx2 = ymm_saved && fma && f16c && (b & 1u << 5);
  const unsigned f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  features.avx512 = features.avx2 && zmm_saved && (b & f_dq_bw_vl) == f_dq_bw_vl && (c & 1u << 11);
  if (leaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    features.avx_vnni = features.avx2 && (a & 1u << 4);
    features.avx512_bf16 = features.avx512 && (a & 1u << 5);
  }
  features.amx = features.avx512_bf16 && amx && tiles_saved && may_use_tiles();
  features.amx_denied = amx && !features.amx;
  // Family and vendor are documented in AMD's APM, volume 3, CPUID Fn0000_0000 and Fn0000_0001.
  char vendor[12];
  if (!__get_cpuid(0, &a, &b, &c, &d)) return features;
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  const unsigned base = a >> 8 & 15, family = base == 15 ? base + (a >> 20 & 255) : base;
  features.zen4 = features.avx512 && family == 0x19 && std::memcmp(vendor, "AuthenticAMD", sizeof vendor) == 0;
#elif defined(__aarch64__) && defined(__linux__)
  // The bits are defined in Linux's arch/arm64/include/uapi/asm/hwcap.h. They are written as numbers because older
  // headers lack them. Besides the dot products, the compiler flags for the kernel files permit everything in ARMv8.2:
  // CRC32, atomics, rounding multiplications.
  constexpr unsigned long kArmV82 = 1ul << 7 | 1ul << 8 | 1ul << 12, kDotProduct = 1ul << 20, kI8mm = 1ul << 13;
  constexpr unsigned long kNeeded = kArmV82 | kDotProduct;
  features.neon = (getauxval(AT_HWCAP) & kNeeded) == kNeeded;
  features.neon_i8mm = features.neon && (getauxval(AT_HWCAP2) & kI8mm);
#endif
  return features;
}

const Features& features() {
  static const Features found = read_features();
  return found;
}

}  // namespace

std::string_view cpu_isa_name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPlain: return "plain";
    case CpuIsa::kAvx2: return "avx2";
    case CpuIsa::kAvxVnni: return "avx_vnni";
    case CpuIsa::kAvx512: return "avx512";
    case CpuIsa::kAmx: return "amx";
    case CpuIsa::kNeon: return "neon";
    case CpuIsa::kNeonI8mm: return "neon_i8mm";
  }
  return "unknown";
}

bool cpu_has(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPlain: return true;
    case CpuIsa::kAvx2: return features().avx2;
    case CpuIsa::kAvxVnni: return features().avx_vnni;
    case CpuIsa::kAvx512: return features().avx512;
    case CpuIsa::kAmx: return features().amx;
    case CpuIsa::kNeon: return features().neon;
    case CpuIsa::kNeonI8mm: return features().neon_i8mm;
  }
  return false;
}

bool cpu_has_avx512_bf16() { return features().avx512_bf16; }
bool cpu_is_denied_amx() { return features().amx_denied; }
bool cpu_is_zen4() { return features().zen4; }

std::vector<CpuIsa> available_cpu_isas() {
  std::vector<CpuIsa> available;
  for (CpuIsa isa : {CpuIsa::kPlain, CpuIsa::kAvx2, CpuIsa::kAvxVnni, CpuIsa::kAvx512, CpuIsa::kAmx, CpuIsa::kNeon,
                     CpuIsa::kNeonI8mm})
    if (cpu_has(isa)) available.push_back(isa);
  return available;
}

Result<CpuIsa> choose_cpu_isa(std::string_view name) {
  const std::vector<CpuIsa> available = available_cpu_isas();
  if (name.empty() || name == "auto") return available.back();
  std::string names;
  for (CpuIsa isa : available) {
    if (name == cpu_isa_name(isa)) return isa;
    names += ", ";
    names += cpu_isa_name(isa);
  }
  return Error{ErrorCode::kInvalidArgument,
               "instruction set \"" + std::string(name) + "\" is not available; expected one of: auto" + names};
}

int usable_cores() {
  // With a cgroup quota of two CPUs, more than two threads gain nothing: the kernel would suspend all of them for the
  // remainder of each period. The hyper-threads of a core share its vector units, so each core counts once.
  const auto cores = static_cast<int>(read_topology(allowed_cpus()).cores.size());
  const int all = cores > 0 ? cores : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, std::min(all, group_limits().processors));
}

}  // namespace monolith
