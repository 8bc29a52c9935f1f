#include "backend/cpu/machine/isa.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "backend/cpu/matmul/kernels.h"
#include "check.h"

using namespace monolith;

TEST(isa_plain_is_always_available_and_first) {
  const auto isas = available_cpu_isas();
  REQUIRE(!isas.empty());
  CHECK(isas.front() == CpuIsa::kPlain);
  for (CpuIsa isa : isas) CHECK(cpu_has(isa));
}

// /proc/cpuinfo lists the CPU features that the kernel detected and enabled, based on its own reading of CPUID or of
// the ARM feature registers. Under an emulator, the process may see the host's file, which has no feature line for the
// emulated CPU.
TEST(isa_agrees_with_the_operating_system) {
#if defined(__aarch64__)
  const std::string key = "Features";
#else
  const std::string key = "flags";
#endif
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, flags, maker;
  while (flags.empty() && std::getline(cpuinfo, line)) {
    if (line.rfind(key, 0) == 0) flags = line + " ";
    if (line.rfind("vendor_id", 0) == 0 || line.rfind("cpu family", 0) == 0) maker += line.substr(line.find(':') + 1);
  }
  if (flags.empty()) return check::skip("no " + key + " in /proc/cpuinfo");
  const auto has = [&](const char* flag) { return flags.find(std::string(" ") + flag + " ") != std::string::npos; };
  const bool avx2 = has("avx2") && has("fma") && has("f16c");
  const bool avx512 =
      avx2 && has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq") && has("avx512_vnni");
  CHECK_EQ(cpu_has(CpuIsa::kAvx2), avx2);
  CHECK_EQ(cpu_has(CpuIsa::kAvxVnni), avx2 && has("avx_vnni"));
  CHECK_EQ(cpu_has(CpuIsa::kAvx512), avx512);
  const bool bf16 = avx512 && has("avx512_bf16"), amx = has("amx_tile") && has("amx_int8") && has("amx_bf16");
  CHECK_EQ(cpu_has_avx512_bf16(), bf16);
  CHECK_EQ(cpu_has(CpuIsa::kAmx) || cpu_is_denied_amx(), amx);
  CHECK_EQ(cpu_is_zen4(), avx512 && maker == " AuthenticAMD 25");
  const bool neon = has("asimddp") && has("atomics") && has("asimdrdm") && has("crc32");
  CHECK_EQ(cpu_has(CpuIsa::kNeon), neon);
  CHECK_EQ(cpu_has(CpuIsa::kNeonI8mm), neon && has("i8mm"));
}

// A test run for a specific CPU (scripts/arm.mjs) specifies the instruction set that must be detected.
TEST(isa_equals_the_expected_one) {
  const char* announced = std::getenv("MONOLITH_TEST_ISA");
  if (announced == nullptr) return check::skip("MONOLITH_TEST_ISA is not set");
  CHECK_EQ(cpu_isa_name(available_cpu_isas().back()), announced);
}

TEST(isa_choice) {
  CHECK(*choose_cpu_isa("auto") == available_cpu_isas().back());
  CHECK(*choose_cpu_isa("") == available_cpu_isas().back());
  for (CpuIsa isa : available_cpu_isas()) {
    const auto chosen = choose_cpu_isa(cpu_isa_name(isa));
    REQUIRE(chosen.ok());
    CHECK(*chosen == isa);
  }
  const auto unknown = choose_cpu_isa("sse9");
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().code == ErrorCode::kInvalidArgument);
  CHECK(unknown.error().message.find("sse9") != std::string::npos);
  CHECK(unknown.error().message.find("plain") != std::string::npos);
}

TEST(isa_usable_cores) {
  CHECK(usable_cores() >= 1);
  CHECK(usable_cores() <= 4096);
}
