// What layers keep of a sequence in slots (backend/recurrence.h): how much, and where in a slot. Pure functions, for
// loading and for planning alike.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace monolith {

class Loading;
struct HyperParams;
struct LayerParams;

// Floats a layer keeps; 0: it keeps none.
int64_t recurrent_floats(const HyperParams& params, const LayerParams& layer);

// Where each layer's begin in a slot, and behind them the slot's floats.
std::vector<int64_t> recurrent_places(const HyperParams& params);

// Whether a backend computes what these layers do. kUnsupported names the layer and the operation.
Status can_carry_on(const HyperParams& params, const Loading& backend);

}  // namespace monolith
