#if defined(__AVX512VNNI__)

// See ops/kernels_avx512.cc.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "attention_model.h"

#include <immintrin.h>

#include "tile_unit_model.h"

#define MONOLITH_UNROLL _Pragma("GCC unroll 16")

namespace monolith {
namespace {

#include "backend/cpu/ops/vector_avx512.h"
#include "backend/cpu/ops/rows-inl.h"
#include "backend/cpu/ops/gates-inl.h"
#include "backend/cpu/ops/attention_q8-inl.h"
#include "backend/cpu/ops/attention_packed-inl.h"
#include "backend/cpu/ops/attention_latents-inl.h"
#include "backend/cpu/ops/attention-inl.h"
#include "backend/cpu/ops/attention_integers-inl.h"
#include "backend/cpu/ops/attention_tiles-inl.h"

}  // namespace

void model_attention_span(const AttentionTile& tile, int span, float* states, bool scores) {
  const bool done = scores ? attention_span_in_tiles<ModelUnit, true>(tile, span, states)
                           : attention_span_in_tiles<ModelUnit, false>(tile, span, states);
  if (!done) op_kernels_avx512().attention_span(tile, span, states);
}

}  // namespace monolith

#endif
