// Chooses a model's maximum context length and the number of its KV pages. Loading a model and inspecting a file use
// the same rule.
// All functions are pure, except choose_limits(), which reads the machine's memory.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "base/result.h"
#include "model/model.h"

namespace monolith {

struct PageBudget {
  // Configured maximum sequence length in tokens; 0 = the length that the file declares, reduced to what fits in
  // memory.
  int max_context = 0;
  uint64_t kv_bytes = 0;  // Configured size of the page pool in bytes; 0 = chosen by choose_pages().
  // Total bytes: machine_memory().total, or on a device the memory that remains after the weights are loaded; 0 =
  // unknown.
  uint64_t memory = 0;
  bool is_device = false;  // True if `memory` is device memory.
  // CPU only: bytes of available machine memory, less the model's weights and activations and all memory claimed by
  // other loads.
  uint64_t free = 0;
  KvLayout layout = {};
  int rows = 1;  // Maximum tokens of one sequence in one step.
};

struct PageChoice {
  int context = 0;    // Maximum positions of one sequence; never more than the file declares.
  int64_t pages = 0;  // At least enough for one sequence of `context` positions.
};

// Upper bound on the size of the page pool if the size is not configured. The bound is large, so that the prompts of
// returning users stay cached.
inline constexpr uint64_t kMaxDefaultKvBytes = uint64_t{8} << 30;

// Chooses the context length and the number of pages. `page_bytes` comes from a MemoryPlan.
// - kv_bytes > 0: the pool has that many bytes. The context length is the configured length or the file's, limited to
//   the positions that fit in the pool.
// - kv_bytes = 0: the pool holds 4 full contexts but takes at most a quarter of `memory`. For sliding-window layers, a
//   full context counts as only the pages that one sequence holds at a time. If no context length is configured (0),
//   the context is shortened until one sequence fits into that quarter. A configured context may take up to half of
//   `memory` and is shortened only beyond that. If a quarter of `free`, capped at kMaxDefaultKvBytes, is larger, the
//   pool has that size instead.
// - On a device, no other program needs the memory: the pool takes three quarters instead of a quarter, nine tenths
//   instead of half, and holds up to 256 contexts.
// Errors: kInvalidArgument if not even one page fits, or if kv_bytes exceeds `memory`.
Result<PageChoice> choose_pages(int file_context, size_t page_bytes, const PageBudget& budget);

// Operators may raise max_batch_tokens and max_sequences while the model runs, up to kHeadroom times the configured
// values. The headroom is smaller if the additional activation buffers would exceed kHeadroomBytes.
inline constexpr int kHeadroom = 4;
inline constexpr size_t kHeadroomBytes = size_t{128} << 20;

// Chooses the limits for loading `file`: returns `limits` with max_context, n_pages and n_slots filled in and headroom
// added. The MTP layer is disabled if the file does not contain an MTP layer that this build can compute. `head` is the
// draft head's file, as for Model::plan(). Returns kOutOfMemory or the errors of choose_pages() and Model::plan().
Result<ModelLimits> choose_limits(const GgufFile& file, const Backend& backend, ModelLimits limits, int max_context,
                                  uint64_t kv_bytes, const GgufFile* head = nullptr);

}  // namespace monolith
