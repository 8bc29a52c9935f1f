// MoE routing of a step's tokens: each token's experts and weights as defined by Router (backend.h), and the slots
// (grouped.h) of all (token, expert) pairs. For equal logits, the bits are the same as on the CPU.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/moe/grouped.h"

namespace monolith::cuda {

inline constexpr int kMaxExperts = 4096, kMaxExpertGroups = 64;

// Device memory that route() fills.
struct Routing {
  int32_t* chosen;   // Experts, [row][n_used], first choice first.
  float* weights;    // Shape [row][n_used].
  int32_t* slots;    // Shape [row][n_used].
  int32_t* arrived;  // Counters, [n_experts], zero between calls.
  int32_t* source;   // Shape [n_slots]. This and the following members are those of ColumnGroups.
  int32_t* first_slot;
  int32_t* count;
  ColumnTile* tiles;
};

// Routes n_rows >= 1 tokens of an MoE layer of shape `shape`, with tiles of at most `tile_columns` columns. The order
// of an expert's slots may differ between runs, but the values computed for them do not. `given` is a device array
// [n_rows][n_used] of experts selected by token id, for which the logits determine only the weights; null if the router
// selects the experts.
ColumnGroups route(Runtime& runtime, const Router& router, const MixtureShape& shape, const float* logits, int n_rows,
                   int tile_columns, const Routing& routing, const int32_t* given = nullptr);

}  // namespace monolith::cuda
