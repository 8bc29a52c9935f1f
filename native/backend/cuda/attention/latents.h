// Multi-head latent attention (MLA, StateKind::kLatents): stores latent rows, each of which is both key and value for
// all heads, and attends to them. Each page is loaded into shared memory once for sixteen heads of a token.
//
// Order of operations for a token and head: positions in chunks of 128, chunks in groups of 16, as attention/work.h
// divides all attention. Within a chunk, pages are processed in order. The result therefore does not depend on the rest
// of the batch.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// Implements Operations::attention for MLA layers.
void attention_latents(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call, KvType type);

// Implements Operations::rope_and_store_latents. `factors` comes from RopeTables::prepare(); null means no rotation.
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
