// Functions of the forward pass, for one number, as kernels use them.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/language.h"

namespace monolith::cuda {

MONOLITH_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Activation, as backend.h defines it.
MONOLITH_DEVICE float activate(Activation activation, float x) {
  if (activation == Activation::kSilu) return x / (1.0f + expf(-x));
  const float u = 0.7978845608f * fmaf(0.044715f * x * x, x, x);
  return x / (1.0f + expf(-2.0f * u));
}

}  // namespace monolith::cuda
