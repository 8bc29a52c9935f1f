// Test cases for the operations of recurrent layers: random inputs, expected results in double precision, state slots,
// and ways to split a sequence. Shared by the tests of all backends.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/kv_cache.h"
#include "backend/recurrence.h"
#include "check.h"
#include "support/random_floats.h"

namespace monolith::testing {

void check_near(const std::vector<float>& got, const std::vector<double>& expected, double tolerance,
                const std::string& what);

double sigmoid(double x);

// The state slots of one layer, filled with a huge value so that a read from an unwritten slot is noticed.
struct Slots {
  explicit Slots(int64_t floats, int n = 6)
      : memory(static_cast<size_t>(floats * n), 1e30f), view{memory.data(), floats} {}
  std::vector<float> memory;
  LayerSlots view;
};

// Splits a sequence of `n_rows` tokens into segments at the positions in `cuts`. Each segment continues from the
// previous segment's slot. If `apart` is set, each segment writes its state to a different slot.
std::vector<Segment> pieces(int n_rows, std::vector<int> cuts, bool apart, const int32_t* pages = nullptr);

struct DeltaShape {
  int key_heads, value_heads, key_dim, value_dim;
  bool tiled, channels;
};
inline constexpr DeltaShape kDeltaShapes[] = {
    {2, 4, 16, 16, true, false},  {2, 4, 16, 16, false, false}, {4, 4, 32, 32, true, true},
    {1, 3, 20, 40, false, false}, {2, 2, 7, 9, true, true},     {2, 2, 128, 128, true, false},
};

// All inputs to one delta rule.
struct DeltaCase {
  DeltaCase(const DeltaShape& shape, int rows, uint32_t seed = 1);
  std::vector<double> expected() const;

  DeltaRule rule;
  int n_rows, keys = 0;
  int64_t stride = 0;
  std::vector<float> x, decay, beta, bias, rate;
};

// All inputs to one state-space recurrence.
struct StateSpaceCase {
  StateSpaceCase(int heads, int groups, int head_dim, int state_dim, int rows, bool channel_steps = false);
  std::vector<double> expected() const;

  StateSpace space;
  int n_rows;
  int64_t stride = 0;
  std::vector<float> x, step, bias, rate, skip;
};

// All inputs to RWKV's time mixing. If `first_layer` is true, the case is RWKV 7 without TimeMixInputs::first_v.
struct TimeMixCase {
  TimeMixCase(bool delta, int heads, int head_dim, int rows, bool first_layer = false);
  std::vector<double> expected() const;

  TimeMix mix;
  int n_rows;
  bool first_layer;
  std::vector<float> r, k, v, decay, gate, rate, first_v, value_mix;
  std::vector<float> decay_bias, bonus, norm_weight, norm_bias, rate_bias, value_bias, key_scale, key_rate;
};

// Inputs to a causal convolution.
struct ConvolutionCase {
  ConvolutionCase(int n_channels, int conv_kernel_size, bool plain, int rows);
  // Returns the whole output buffer, including the floats between the rows, which must be unchanged.
  std::vector<double> expected() const;

  Convolution convolution;
  int n_rows;
  int64_t stride;
  std::vector<float> x, weight, bias;
};

}  // namespace monolith::testing
