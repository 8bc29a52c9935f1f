// How the rows of a step come to their experts: each row's choice and weights, as Router (backend.h) has it and with
// the processor's bits where logits are the same, and the slots (grouped.h) of all (row, expert) pairs.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/mixture/grouped.h"

namespace monolith::cuda {

inline constexpr int kMostExperts = 4096, kMostExpertGroups = 64;

// Device memory that route() fills.
struct Routing {
  int32_t* chosen;   // [row][n_used] experts, the first choice first
  float* weights;    // [row][n_used]
  int32_t* slots;    // [row][n_used]
  int32_t* arrived;  // [n_experts], 0 between calls
  int32_t* source;   // [n_slots] of ColumnGroups; likewise the rest
  int32_t* first_slot;
  int32_t* count;
  ColumnTile* tiles;
};

// Routes n_rows >= 1 rows of `shape`, with tiles of up to `tile_columns` columns. Where a slot lies among its expert's
// may differ from run to run; what is computed in it does not. `given`: device, the rows' experts, [n_rows][n_used], whose
// weights alone their logits say; null: rows choose.
ColumnGroups route(Runtime& runtime, const Router& router, const MixtureShape& shape, const float* logits, int n_rows,
                   int tile_columns, const Routing& routing, const int32_t* given = nullptr);

}  // namespace monolith::cuda
