// Layers with recurrent state (backend/recurrence.h). Segments whose state may depend on another segment of the same
// step form a chain (slot_chains.h). A chain is processed in order by one block for some channels, or for some columns
// of a head. Chains, and the blocks of a chain, are independent of each other. The state slots are read from the step's
// tables, so a captured CUDA graph uses the right slots in every step.
//
// Tokens are processed one after the other, and the sums of a token have a fixed order. The bits therefore do not
// depend on how a prompt is split into chunks or on the rest of the batch. The convolution has the same bits as on the
// CPU; the delta rule and the state space sum in a different order.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// Maximum size of the state dimension over which sums are computed; limited by the registers of a warp.
inline constexpr int kMaxStateDims = 256;
inline constexpr int kMaxTimeMixColumns = 128;  // Maximum TimeMix::head_dim; limited by the registers of a thread.

// Implement BackendMemory::supports for recurrent layers.
Status check_recurrence(const Convolution& convolution);
Status check_recurrence(const DeltaRule& rule);
Status check_recurrence(const StateSpace& space);
Status check_recurrence(const TimeMix& mix);

// Implements Operations::convolve, delta_rule, state_space, difference_from_previous, shifted_inputs and time_mix.
// `rows` is the device copy of the segment list.
void convolve(Runtime& runtime, const Convolution& convolution, const RowList& rows, const LayerSlots& state, float* x,
              int64_t stride);
void delta_rule(Runtime& runtime, const DeltaRule& rule, const RowList& rows, const LayerSlots& state,
                const DeltaInputs& inputs, float* out);
void state_space(Runtime& runtime, const StateSpace& space, const RowList& rows, const LayerSlots& state,
                 const StateSpaceInputs& inputs, float* out);
void difference_from_previous(Runtime& runtime, const RowList& rows, const LayerSlots& state, const float* x,
                              int64_t dim, float* difference);
void shifted_inputs(Runtime& runtime, std::span<const ShiftedInput> inputs, const float* x, const float* difference,
                    int n_rows, int64_t dim);
void time_mix(Runtime& runtime, const TimeMix& mix, const RowList& rows, const LayerSlots& state,
              const TimeMixInputs& inputs, float* out);

}  // namespace monolith::cuda
