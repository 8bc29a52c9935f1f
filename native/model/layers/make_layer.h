// Assembles the blocks of a layer. This is the only module that refers to all kinds of blocks.
#pragma once

#include <memory>
#include <vector>

#include "backend/loading.h"
#include "base/result.h"
#include "model/layers/layer_block.h"

namespace monolith {

// Returns the blocks in execution order. A kUnsupported error names the feature that the engine or the backend does not
// support.
Result<std::vector<std::unique_ptr<LayerBlock>>> make_layer(const LayerContext& context, const BackendMemory& backend);

}  // namespace monolith
