#include "engine/embedding/encoder_budget.h"

#include <algorithm>
#include <string>

#include "base/machine_memory.h"

namespace monolith {

Result<std::unique_ptr<Backend>> encoder_backend(std::unique_ptr<Backend> backend, const BackendOptions& options) {
  if (backend->is_host_memory() || options.device != "auto") return backend;
  BackendOptions cpu = options;
  cpu.device = "cpu";
  return make_backend(cpu);
}

Result<EncoderBudget> plan_encoder(const GgufFile& file, Backend& backend, int max_context, uint64_t available) {
  auto plan = TextEncoder::plan(file, backend, max_context);
  if (!plan) return plan.error();
  const auto fits = [&](const MemoryPlan& candidate) { return available == 0 || candidate.total() <= available; };
  if (fits(*plan)) return EncoderBudget{max_context, *plan};
  auto params = TextEncoderParams::read(file, max_context);
  if (!params) return params.error();
  // Searches for the longest text length that fits, in multiples of kBatchRows. A smaller length would hardly save
  // memory, because the working memory always has room for kBatchRows rows.
  constexpr int kUnit = TextEncoder::kBatchRows;
  int fitting = 0, too_large = max_context > 0 ? 0 : (params->max_tokens + kUnit - 1) / kUnit;
  EncoderBudget budget;
  while (too_large - fitting > 1) {
    const int middle = fitting + (too_large - fitting) / 2;
    plan = TextEncoder::plan(file, backend, middle * kUnit);
    if (!plan) return plan.error();
    if (fits(*plan)) {
      fitting = middle;
      budget = {middle * kUnit, *plan};
    } else {
      too_large = middle;
    }
  }
  if (fitting > 0) return budget;
  return Error{ErrorCode::kOutOfMemory,
               "the encoder takes " + std::to_string(plan->total()) + " bytes for texts of " +
                   std::to_string(max_context > 0 ? params->max_tokens : std::min(kUnit, params->max_tokens)) +
                   " tokens, but only " + std::to_string(available) + " bytes of memory are available"};
}

uint64_t memory_for_encoder() {
  const MachineMemory machine = machine_memory();
  if (machine.total == 0) return 0;
  const uint64_t claimed = MemoryClaim::all();
  return machine.available > claimed ? machine.available - claimed : 1;
}

}  // namespace monolith
