// Size and layout of a sequence's recurrent state in its slot (backend/recurrence.h). The functions are pure and are
// used both for loading and for planning.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace monolith {

class BackendMemory;
struct HyperParams;
struct LayerParams;

// Returns the number of floats that a layer stores, or 0 if the layer has no recurrent state.
int64_t recurrent_floats(const HyperParams& params, const LayerParams& layer);

// Returns the offset of each layer's state in a slot, followed by the slot's total size. All values are numbers of
// floats.
std::vector<int64_t> recurrent_places(const HyperParams& params);

// Checks that the backend supports the recurrent operations of all layers. A kUnsupported error names the layer and the
// operation.
Status can_carry_on(const HyperParams& params, const BackendMemory& backend);

}  // namespace monolith
