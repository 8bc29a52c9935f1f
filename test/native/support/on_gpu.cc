// Runs tests written for the emulator on the real backend. This file is linked in place of the emulator, with the same
// test objects. Without a usable GPU, every test is skipped and the reason is printed.
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "backend/registry/registry.h"
#include "emulator/emulator.h"
#include "emulator/runtime_emulated.h"
#include "check.h"

// Does nothing, because a GPU chooses the order of its threads itself.
void monolith::cuda::emulator::set_order(Order) {}
// A GPU has no launch counter.
uint64_t monolith::cuda::emulator::launches() { return 0; }
// A GPU ignores injected faults.
monolith::cuda::Faults& monolith::cuda::faults() {
  static Faults wanted;
  return wanted;
}

namespace {

std::string missing_gpu() {
  const auto devices = monolith::cuda_backend_kind().probe();
  return devices ? "" : devices.error().message;
}
[[maybe_unused]] const bool asked = check::needs(missing_gpu);

}  // namespace
