// Scalar math functions of the forward pass for use in kernels.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/language.h"

namespace monolith::cuda {

MONOLITH_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Applies the activation to one value. For kClampedSilu, applies only the part that concerns the gate.
MONOLITH_DEVICE float activate(Activation activation, float x) {
  if (activation == Activation::kSigmoid) return sigmoid(x);
  if (activation == Activation::kIdentity) return x;
  if (activation == Activation::kRelu) return x < 0 ? 0.0f : x;
  if (activation == Activation::kSilu) return x / (1.0f + expf(-x));
  if (activation == Activation::kClampedSilu) {
    const float least = 7.0f < x ? 7.0f : x;
    return least / (1.0f + expf(-1.702f * least));
  }
  if (activation == Activation::kQuickGelu) return x / (1.0f + expf(-1.702f * x));
  if (activation == Activation::kReluSquared) {
    const float positive = x < 0 ? 0.0f : x;
    return positive * positive;
  }
  const float u = 0.7978845608f * fmaf(0.044715f * x * x, x, x);
  return x / (1.0f + expf(-2.0f * u));
}

// Returns one hidden value of a gated MLP, as defined by Activation.
MONOLITH_DEVICE float gated_value(Activation activation, float gate, float up) {
  if (activation == Activation::kClampedSilu) {
    const float least = 7.0f < up ? 7.0f : up;
    up = (least < -7.0f ? -7.0f : least) + 1.0f;
  }
  return activate(activation, gate) * up;
}

MONOLITH_DEVICE float gated_value(const Gating& gating, float gate, float up) {
  if (gating.limit > 0 && gating.limits_input) {
    const float least = gating.limit < up ? gating.limit : up;
    return activate(gating.activation, gating.limit < gate ? gating.limit : gate) *
           (least < -gating.limit ? -gating.limit : least);
  }
  if (gating.limit > 0) {
    const float activated = activate(gating.activation, gate), least = gating.limit < up ? gating.limit : up;
    return (gating.limit < activated ? gating.limit : activated) * (least < -gating.limit ? -gating.limit : least);
  }
  return gated_value(gating.activation, gate, up);
}

// Returns exp(x) with an error of at most 1 unit in the last place, with the same bits as the CPU backend's
// exponential() (cpu/ops/rows-inl.h explains the constants). The result is zero for x below -86.6 and infinity for x
// above 88.72. NaN stays NaN.
MONOLITH_DEVICE float exponential(float x) {
  const float shifted = fmaf(x, 0x1.715476p+0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  const float r = fmaf(n, -0x1.7f7d1cp-20f, fmaf(n, -0x1.62e4p-1f, x));
  float q = 0x1.6a2352p-10f;
  q = fmaf(q, r, 0x1.123a6cp-7f);
  q = fmaf(q, r, 0x1.5558f4p-5f);
  q = fmaf(q, r, 0x1.55549p-3f);
  q = fmaf(q, r, 0x1.fffffcp-2f);
  const float e = fmaf(r * r, q, r) + 1.0f;
  const float result = (e + e) * as_float((as_bits(shifted) << 23) + (126u << 23));
  if (0x1.62e42ep+6f < x) return INFINITY;
  return x < -86.6f ? 0.0f : result;
}

// Returns log(1 + e^x), with the same bits as the CPU backend's softplus() (cpu/ops/recurrence-inl.h explains the
// series).
MONOLITH_DEVICE float softplus(float x) {
  const float t = exponential(0.0f < x ? 0.0f - x : x), s = t / (t + 2.0f), square = s * s;
  float series = 2.0f / 17;
  MONOLITH_UNROLL
  for (int denominator = 15; denominator > 0; denominator -= 2)
    series = fmaf(series, square, 2.0f / static_cast<float>(denominator));
  return fmaf(series, s, 0.0f < x ? x : 0.0f);
}

}  // namespace monolith::cuda
