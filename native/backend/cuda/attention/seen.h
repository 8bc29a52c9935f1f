// Visible positions and query temperature of a token, as defined by AttentionParams. Device code.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/language.h"

namespace monolith::cuda {

// Returns the first position visible to the token at `position`. It never decreases as the position increases.
MONOLITH_DEVICE int first_seen(int position, const AttentionParams& params) {
  if (params.window <= 0) return 0;
  if (params.chunked) return position - position % params.window;
  return position >= params.window ? position - params.window + 1 : 0;
}

// Returns a query's temperature factor, which is applied in addition to the scale.
MONOLITH_DEVICE float temperature(int position, const AttentionParams& params) {
  if (params.temperature_scale == 0.0f) return 1.0f;
  const int periods = (position + params.temperature_offset) / params.temperature_length;
  return fmaf(params.temperature_scale, logf(1.0f + static_cast<float>(periods)), 1.0f);
}

}  // namespace monolith::cuda
