#include "engine/kv/page_budget.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/machine_memory.h"

namespace monolith {
namespace {

constexpr int64_t kContextsWanted = 4, kContextsWantedOnDevice = 256;
constexpr int64_t kMaxPages = INT32_MAX;  // Limit on the number of pages, because page ids are 32-bit integers.

constexpr int kMaxRows = 65'536;
constexpr int kMaxLogitRows = 4'096;

// Doubles the batch limits repeatedly, up to kHeadroom times the configured values, as long as the additional
// activation buffers stay within kHeadroomBytes.
Result<ModelLimits> with_headroom(const GgufFile& file, const Backend& backend, const ModelLimits& limits,
                                  const GgufFile* head) {
  auto plan = Model::plan(file, backend, limits, head);
  if (!plan) return plan.error();
  ModelLimits roomy = limits;
  for (int factor = 2; factor <= kHeadroom; factor *= 2) {
    ModelLimits larger = limits;
    larger.max_batch_tokens = std::max(limits.max_batch_tokens, std::min(limits.max_batch_tokens * factor, kMaxRows));
    larger.max_logit_rows = std::max(limits.max_logit_rows, std::min(limits.max_logit_rows * factor, kMaxLogitRows));
    auto costs = Model::plan(file, backend, larger, head);
    if (!costs) return costs.error();
    if (costs->activation_bytes - plan->activation_bytes > kHeadroomBytes) break;
    roomy = larger;
  }
  roomy.max_logit_rows += roomy.draft_rows;
  return roomy;
}

// Sets the number of recurrent-state slots. The target is three per sequence: its current state, a snapshot in its
// output and one in its prompt. The slots take at most a quarter of device memory or a sixteenth of machine memory, but
// there are always at least two slots.
Status choose_slots(size_t slot_bytes, PageBudget& budget, ModelLimits& limits) {
  if (slot_bytes == 0) return {};
  constexpr uint64_t kMin = 2;
  const uint64_t share = budget.memory / (budget.is_device ? 4 : 16),
                 wanted = 3 * static_cast<uint64_t>(limits.max_logit_rows) + 1;
  const uint64_t slots = budget.memory == 0 ? wanted : std::clamp(share / slot_bytes, kMin, wanted);
  if (budget.memory > 0 && kMin * slot_bytes > budget.memory / 2)
    return Error{ErrorCode::kOutOfMemory, "the recurrent state of this model takes " + std::to_string(slot_bytes) +
                                              " bytes per sequence, and memory must hold at least " +
                                              std::to_string(kMin)};
  limits.n_slots = static_cast<int>(slots);
  if (budget.memory > 0) budget.memory -= slots * slot_bytes;
  budget.free -= std::min(budget.free, slots * slot_bytes);
  return {};
}

}  // namespace

Result<PageChoice> choose_pages(int file_context, size_t page_bytes, const PageBudget& budget) {
  const auto pages_in = [page_bytes](uint64_t bytes) {
    return static_cast<int64_t>(std::min<uint64_t>(bytes / std::max<size_t>(page_bytes, 1), kMaxPages));
  };
  const bool asked = budget.max_context > 0;
  const int context = asked ? std::min(budget.max_context, file_context) : file_context;
  const int64_t one = budget.layout.pages_at_once(context, budget.rows);
  const int64_t wanted = (budget.is_device ? kContextsWantedOnDevice : kContextsWanted) * one;
  int64_t pages = 0;
  uint64_t room = budget.kv_bytes;
  if (page_bytes == 0) {
    // No layer stores anything in pages, so pages serve only as node ids of the prefix cache.
    pages = std::min(wanted, kMaxPages);
  } else if (budget.kv_bytes > 0) {
    if (budget.memory > 0 && budget.kv_bytes > budget.memory) {
      return Error{ErrorCode::kInvalidArgument, "a page pool of " + std::to_string(budget.kv_bytes) +
                                                    " bytes exceeds the available memory (" +
                                                    std::to_string(budget.memory) + " bytes)"};
    }
    pages = pages_in(room);
  } else {
    room = budget.is_device ? budget.memory / 4 * 3 : budget.memory / 4;
    pages = std::min(wanted, pages_in(room));
    if (asked && pages < one) {
      room = budget.is_device ? budget.memory / 10 * 9 : budget.memory / 2;
      pages = std::min(one, pages_in(room));
    }
    if (!budget.is_device) pages = std::max(pages, pages_in(std::min(budget.free / 4, kMaxDefaultKvBytes)));
  }
  if (pages < budget.layout.tables()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the keys and values of " + std::to_string(kPageTokens) + " tokens of this model take " +
                     std::to_string(page_bytes * static_cast<size_t>(budget.layout.tables())) +
                     " bytes, more than the " + std::to_string(room) + " bytes available for the page pool"};
  }
  return PageChoice{static_cast<int>(std::min<int64_t>(context, budget.layout.positions_in(pages, budget.rows))),
                    pages};
}

Result<ModelLimits> choose_limits(const GgufFile& file, const Backend& backend, ModelLimits limits, int max_context,
                                  uint64_t kv_bytes, const GgufFile* head) {
  // If the MTP layer is missing or unsupported, the model is loaded without it.
  if (limits.mtp_layer && head == nullptr) {
    ModelLimits without = limits;
    without.mtp_layer = false;
    const auto with = HyperParams::read(file, 0, true);
    if (!with || !with->draft.used || !Model::plan(file, backend, limits))
      return choose_limits(file, backend, without, max_context, kv_bytes);
  }
  auto params = HyperParams::read(file, 0, limits.mtp_layer);
  if (!params) return params.error();
  limits.n_pages = 1;
  limits.pages_by_window = true;
  limits.max_context = params->context_length;
  auto plan = Model::plan(file, backend, limits, head);
  if (!plan) return plan.error();
  const MachineMemory machine = machine_memory();
  PageBudget budget{.max_context = max_context,
                    .kv_bytes = kv_bytes,
                    .memory = machine.total,
                    .layout = plan->layout,
                    .rows = std::min(limits.max_batch_tokens, kMinRowsAlone)};
  if (const uint64_t free_bytes = backend.free_memory(); free_bytes > 0) {
    const uint64_t taken = plan->weight_bytes + plan->activation_bytes + plan->overhead_bytes + kHeadroomBytes;
    if (taken >= free_bytes) {
      return Error{ErrorCode::kOutOfMemory, "the model takes " + std::to_string(taken) +
                                                " bytes without its KV cache, but the device has only " +
                                                std::to_string(free_bytes) + " bytes left"};
    }
    budget.memory = free_bytes - taken;
    budget.is_device = true;
  } else {
    const uint64_t taken = plan->weight_bytes + plan->activation_bytes + MemoryClaim::all();
    budget.free = machine.available - std::min(machine.available, taken);
  }
  if (Status status = choose_slots(plan->slot_bytes, budget, limits); !status) return status.error();
  auto choice = choose_pages(params->context_length, plan->page_bytes, budget);
  if (!choice) return choice.error();
  limits.max_context = choice->context;
  limits.n_pages = choice->pages;
  return with_headroom(file, backend, limits, head);
}

}  // namespace monolith
