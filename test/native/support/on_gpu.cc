// Makes of tests written for the emulator tests of the real backend: linked in its place, with the same test objects.
// Without a GPU that this build can use every test is skipped, and the reason said.
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "emulator/emulator.h"
#include "emulator/faults.h"
#include "check.h"

// Threads of a GPU run in an order of its own.
void monolith::cuda::emulator::set_order(Order) {}
// Nobody counts them there.
uint64_t monolith::cuda::emulator::launches() { return 0; }
// Nobody reads them there.
monolith::cuda::Faults& monolith::cuda::faults() {
  static Faults wanted;
  return wanted;
}

namespace {

std::string missing_gpu() {
  const auto devices = monolith::cuda_devices();
  return devices ? "" : devices.error().message;
}
[[maybe_unused]] const bool asked = check::needs(missing_gpu);

}  // namespace
