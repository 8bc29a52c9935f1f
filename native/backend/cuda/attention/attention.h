// Causal attention over the paged KV cache: selects the kernel for each call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/matmul/product_input.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

enum class AttentionForm : uint8_t {
  kPlain,  // One position after the other, in float32.
  kWalk,   // On tensor cores, see attention/walk.h.
};
AttentionForm attention_form(KvType type, int head_dim, int64_t q_stride, int64_t out_stride);

// How the query heads of one KV head and the tokens of a tile are divided among the warps of a block. Each warp
// computes 16 tokens of one query head.
struct TileShare {
  int heads;  // Query heads per block.
  int warps_per_head;
  int tokens;            // Tokens per block.
  int blocks_per_tile;   // Blocks along the tokens of a tile.
  int blocks_per_group;  // Blocks along the query heads of one KV head.
};
TileShare tile_share(int group, int warps);

// Scratch memory for partial attention results. Used by the engine thread; only reserve() allocates.
class AttentionScratch {
 public:
  explicit AttentionScratch(Runtime& runtime) : runtime_(runtime) {}
  // `max_cols` must be at least the number of query heads times the head dimension.
  static size_t bytes_for(int64_t max_cols);
  Status reserve(int64_t max_cols);
  float* sums(int slot_values) const { return values_ + int64_t{kMaxSlots} * slot_values; }
  float* values() const { return values_; }

 private:
  Runtime& runtime_;
  int64_t max_cols_ = 0;
  // Layout: [slot][query head][dimension], followed by [slot][query head] pairs of largest score and sum of weights.
  float* values_ = nullptr;
};

// Parameters common to all attention kernels, as in Backend::attention. Pointers point to device memory.
struct AttentionLaunch {
  const RowList* rows;
  const float* q;
  int64_t q_stride;
  int n_heads;
  KvView cache;
  AttentionParams params;
  float* out;
  int64_t out_stride;
  // Destination of rows that only matmuls read, in the matmul's input format (see attention_input()). With kFloats the
  // rows go to `out`; otherwise `out` is scratch memory for partial sums.
  ProductInput input = {};
};

// Returns whether the tensor-core kernels can compute this call. They require keys and values of the same size.
bool walks(const AttentionLaunch& call, KvType type);

// Returns whether attention can write its result in this matmul input format. Formats with one scale per row are not
// possible: a row's heads are computed by different blocks, so no block has the row's largest value.
bool attention_input(InputForm form, KvType type, int head_dim, int n_heads, int64_t q_stride, int64_t out_stride);

void attention(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call, KvType type);

// The simplest kernel: one warp per token and query head processes one position after another. It is used for calls
// that no other kernel supports, and as the reference in the other kernels' tests.
void attention_plain(Runtime& runtime, const AttentionLaunch& call, KvType type);
// attention_latents(), for MLA latents, is declared in attention/latents.h.
// The functions below compute the work items of `rows` and merge the partial results of split tokens. There is one
// function per KV cache type.
void attention_items_f16(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call);
void attention_items_fp8(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call);
void attention_items_q8_0(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call);
// These functions compute the attention tiles of `rows`. There is one function per KV cache type.
void attention_tiles_f16(Runtime& runtime, const AttentionLaunch& call);
void attention_tiles_fp8(Runtime& runtime, const AttentionLaunch& call);
void attention_tiles_q8_0(Runtime& runtime, const AttentionLaunch& call);

}  // namespace monolith::cuda
