// The sparse-attention indexer (Operations::select_positions). One kernel scores every position for every token. A
// second kernel, with one block per token, selects the top k positions.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

struct PositionChoice {
  const RowList* rows;
  SparseIndexer index;
  KvView keys;
  KvType type;
  ChosenScores scores;
  int32_t* chosen;  // Shape [n_rows][most].
};
void select_positions(Runtime& runtime, const PositionChoice& choice);

}  // namespace monolith::cuda
