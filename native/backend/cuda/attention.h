// Causal attention over paged keys and values.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/kv_cache.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// The simplest form, which serves what no other kernel does and which the others are tested against: one warp per row
// and query head, position after position. Arguments as Backend::attention.
void attention_plain(Runtime& runtime, const RowList& rows, const float* q, int64_t q_stride, int n_heads,
                     const KvView& cache, KvType type, const AttentionParams& params, float* out, int64_t out_stride);

}  // namespace monolith::cuda
