// Causal attention over paged keys and values: which kernel serves what.
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
  kPlain,  // one position after the other, in binary32
  kWalk,   // on tensor cores: attention/walk.h
};
AttentionForm attention_form(KvType type, int head_dim, int64_t q_stride, int64_t out_stride);

// How the query heads of one KV head and a tile's tokens are shared out to the warps of a block: each warp has 16
// tokens of one query head.
struct TileShare {
  int heads;  // query heads of a block
  int warps_per_head;
  int tokens;            // of a block
  int blocks_per_tile;   // along the tokens
  int blocks_per_group;  // along the query heads
};
TileShare tile_share(int group, int warps);

// Room for partial results. Engine thread; reserve() allocates.
class AttentionScratch {
 public:
  explicit AttentionScratch(Runtime& runtime) : runtime_(runtime) {}
  // `max_cols`: no fewer than the query heads' dimensions together.
  static size_t bytes_for(int64_t max_cols);
  Status reserve(int64_t max_cols);
  float* sums(int slot_values) const { return values_ + int64_t{kMostSlots} * slot_values; }
  float* values() const { return values_; }

 private:
  Runtime& runtime_;
  int64_t max_cols_ = 0;
  float* values_ = nullptr;  // [slot][query head][dimension], then [slot][query head]: largest score, sum of weights
};

// What all kernels take. Pointers are device memory; as Backend::attention.
struct AttentionCall {
  const RowList* rows;
  const float* q;
  int64_t q_stride;
  int n_heads;
  KvView cache;
  AttentionParams params;
  float* out;
  int64_t out_stride;
  // Where rows go that products alone read; kFloats: to `out`, which is the place for sums otherwise. attention_input().
  ProductInput input = {};
};

// Whether the walk serves this call: its kernels know keys and values of one size.
bool walks(const AttentionCall& call, KvType type);

// Whether results can be written in this form. Forms with a scale for a whole row cannot be: a row's heads come from
// different blocks, and none of them knows the row's largest value.
bool attention_input(InputForm form, KvType type, int head_dim, int n_heads, int64_t q_stride, int64_t out_stride);

void attention(Runtime& runtime, const AttentionScratch& scratch, const AttentionCall& call, KvType type);

// The simplest form, which serves what no other kernel does and which the others are tested against: one warp per row
// and query head, position after position.
void attention_plain(Runtime& runtime, const AttentionCall& call, KvType type);
// Latents: attention/latents.h.
// The items of `rows`, and adding up those that are split; by type of pages.
void attention_items_f16(Runtime& runtime, const AttentionScratch& scratch, const AttentionCall& call);
void attention_items_fp8(Runtime& runtime, const AttentionScratch& scratch, const AttentionCall& call);
void attention_items_q8_0(Runtime& runtime, const AttentionScratch& scratch, const AttentionCall& call);
// The tiles of `rows`.
void attention_tiles_f16(Runtime& runtime, const AttentionCall& call);
void attention_tiles_fp8(Runtime& runtime, const AttentionCall& call);
void attention_tiles_q8_0(Runtime& runtime, const AttentionCall& call);

}  // namespace monolith::cuda
