// Attention over 16-bit integers with tiles (ops/attention_tiles-inl.h), running on a model of the tile unit. This
// allows its results to be tested on processors without AMX.
#pragma once

#include "backend/cpu/ops/kernels.h"

namespace monolith {

// Like OpKernels::attention_span. May be called only on processors that have CpuIsa::kAvx512. If `scores` is true,
// scores are also computed with tiles, as with Arithmetic::kFast.
void model_attention_span(const AttentionTile& tile, int span, float* states, bool scores);

}  // namespace monolith
