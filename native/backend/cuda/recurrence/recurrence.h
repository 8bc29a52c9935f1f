// Layers that carry a state on from row to row (backend/recurrence.h). What may go on from another segment's state of
// the same step goes in one chain (slot_chains.h), which one block takes in order, for some channels or some columns of a
// head; chains and pieces have nothing to do with each other. Slots are read from the step's tables, so that a recorded
// step finds each time's own.
//
// Rows are taken one after the other, and what a row is summed from depends on nothing beside it: no cut of a prompt and
// no company changes a bit. The convolution gives the processor's bits; the two others sum in another order.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// Dimensions of a state that are summed over: what a warp has registers for.
inline constexpr int kMostStateDims = 256;

// As Loading::can_compute.
Status check_recurrence(const Convolution& convolution);
Status check_recurrence(const DeltaRule& rule);
Status check_recurrence(const StateSpace& space);

// As Operations has them; `rows` is the list of their segments.
void convolve(Runtime& runtime, const Convolution& convolution, const RowList& rows, const LayerSlots& state, float* x,
              int64_t stride);
void delta_rule(Runtime& runtime, const DeltaRule& rule, const RowList& rows, const LayerSlots& state,
                const DeltaInputs& inputs, float* out);
void state_space(Runtime& runtime, const StateSpace& space, const RowList& rows, const LayerSlots& state,
                 const StateSpaceInputs& inputs, float* out);

}  // namespace monolith::cuda
