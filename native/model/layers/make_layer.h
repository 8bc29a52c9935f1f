// Puts a layer's parts together: the one place that knows all kinds.
#pragma once

#include <memory>
#include <vector>

#include "backend/loading.h"
#include "base/result.h"
#include "model/layers/layer_part.h"

namespace monolith {

// In the order they run. kUnsupported names what this build or the backend does not compute.
Result<std::vector<std::unique_ptr<LayerPart>>> make_layer(const LayerContext& context, const Loading& backend);

}  // namespace monolith
