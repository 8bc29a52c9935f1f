// How long a context and how many KV pages a model gets: one rule for loading and for inspecting.
// Pure functions, apart from choose_limits(), which looks at the machine's memory.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "base/result.h"
#include "model/model.h"

namespace monolith {

struct PageBudget {
  int max_context = 0;     // longest sequence wanted; 0 = the file's own, as far as memory allows
  uint64_t kv_bytes = 0;   // bytes of the page pool; 0 = by the rule below
  uint64_t memory = 0;     // machine_memory().total, or what a device has left beside the weights; 0 = unknown
  bool is_device = false;  // `memory` is a device's own
  // on a processor: bytes that nothing has taken or planned, in addition to what the model takes without its pool
  uint64_t free = 0;
  KvLayout layout = {};
  int rows = 1;  // of one sequence that a step computes
};

struct PageChoice {
  int context = 0;    // positions one sequence may have; never more than the file's own
  int64_t pages = 0;  // enough for one such sequence
};

// Upper bound of a pool without a configured size. It is large, so that prompts of returning users stay cached.
inline constexpr uint64_t kMaxDefaultKvBytes = uint64_t{8} << 30;

// The rule, with `page_bytes` from a MemoryPlan:
//   kv_bytes given     The pool has that many bytes. The context is the one asked for, or the file's, cut to what the pool holds.
//   kv_bytes 0         The pool has room for 4 full contexts (in layers with a window: for what such a sequence holds there at one
//                      time), but takes at most a quarter of `memory`. A context without a configured size (0) is cut to fit that
//                      quarter once; a context that was asked for may take up to half of `memory`, and is cut only there.
//                      If a quarter of `free`, at most kMaxDefaultKvBytes, is more, the pool has that many bytes.
//   On a device the memory serves nothing else: three quarters of it instead of a quarter, nine tenths instead of half, and
//   room for as many contexts as fit, up to 256.
// Errors: kInvalidArgument if not even one page fits, or kv_bytes exceeds memory.
Result<PageChoice> choose_pages(int file_context, size_t page_bytes, const PageBudget& budget);

// An operator may raise the batch and the sequences while the model runs: up to so many times what was
// configured, as far as the buffers for them take no more than this.
inline constexpr int kHeadroom = 4;
inline constexpr size_t kHeadroomBytes = size_t{128} << 20;

// The same for a file: `limits` with max_context and n_pages filled in, and with headroom for rows. A layer that guesses
// is left out where the file has none, or none that can be computed. `head`: as Model::plan has it. Errors: also those of
// Model::plan.
Result<ModelLimits> choose_limits(const GgufFile& file, const Backend& backend, ModelLimits limits, int max_context,
                                  uint64_t kv_bytes, const GgufFile* head = nullptr);

}  // namespace monolith
