// Latents (StateKind::kLatents): storing rows that are key and value of all heads, and attending to them. A page's rows
// come to shared memory once for sixteen heads of a token.
//
// The order of operations of a row and head: positions in chunks of 128 and these in groups of 16, as attention/work.h
// cuts all attention; within a chunk a page after the other. So what a row becomes depends on nothing beside it.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// Operations::attention of a layer of latents.
void attention_latents(Runtime& runtime, const AttentionScratch& scratch, const AttentionCall& call, KvType type);

// Operations::rope_and_store_latents. `factors` of RopeTables::prepare(), null: nothing rotates.
struct LatentStore {
  const RowList* rows;
  RopeStyle style;
  int n_dims;
  const float* factors;
  LatentQueries queries;
  float* latents;
  int64_t stride;
  KvView cache;
  KvType type;
};
void store_latents(Runtime& runtime, const LatentStore& store);

}  // namespace monolith::cuda
