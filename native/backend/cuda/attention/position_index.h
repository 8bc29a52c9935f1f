// How rows choose the positions that they attend to: Operations::choose_positions. One kernel scores every position of
// every row, a second one chooses, a block to a row.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

struct PositionChoice {
  const RowList* rows;
  PositionIndex index;
  KvView keys;
  KvType type;
  ChosenScores scores;
  int32_t* chosen;  // [n_rows][most]
};
void choose_positions(Runtime& runtime, const PositionChoice& choice);

}  // namespace monolith::cuda
