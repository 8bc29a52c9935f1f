// The causal convolution: one thread per channel, which keeps the channel's latest inputs in registers. Tokens are
// processed in groups, because each output overwrites its input.
#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/mathematics.h"
#include "backend/cuda/recurrence/recurrence.h"
#include "backend/cuda/recurrence/state_block.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 64;
constexpr int kTogether = 16;  // Tokens per group.

template <int kTaps>
struct Filter {
  float weight[kTaps], bias;
  bool silu;
  // Applies the filter to a channel's inputs, from the oldest to the newest.
  MONOLITH_DEVICE float of(const float* inputs) const {
    float sum = bias;
    MONOLITH_UNROLL
    for (int j = 0; j < kTaps; ++j) sum = fmaf(inputs[j], weight[j], sum);
    return silu ? sum / (1.0f + exponential(0.0f - sum)) : sum;
  }
};

template <int kTaps>
__global__ void __launch_bounds__(kThreads) convolve_kernel(Convolution convolution, const DeviceSegment* segments,
                                                            int units, LayerSlots state, float* x, int64_t stride) {
  start_after_inputs();
  constexpr int kKept = kTaps - 1;
  const int channel = static_cast<int>(blockIdx.x) % units * kThreads + static_cast<int>(threadIdx.x);
  const int64_t n_channels = convolution.n_channels;
  if (channel >= n_channels) return;
  Filter<kTaps> filter;
  MONOLITH_UNROLL
  for (int j = 0; j < kTaps; ++j) filter.weight[j] = convolution.weight[static_cast<int64_t>(channel) * kTaps + j];
  filter.bias = convolution.bias ? convolution.bias[channel] : 0.0f;
  filter.silu = convolution.silu;
  float inputs[kKept + kTogether];  // The first kKept values are inputs of earlier tokens.
  for (ChainWalk walk(segments, static_cast<int>(blockIdx.x) / units); walk.more; walk.advance()) {
    const DeviceSegment& own = walk.own;
    if (!walk.holds()) {
      MONOLITH_UNROLL
      for (int j = 0; j < kKept; ++j)
        inputs[j] = own.state_from == kNoSlot ? 0.0f : state.of(own.state_from)[j * n_channels + channel];
    }
    float* at = x + own.first_row * stride + channel;
    int row = 0;
    for (; row + kTogether <= own.n_tokens; row += kTogether, at += kTogether * stride) {
      MONOLITH_UNROLL
      for (int i = 0; i < kTogether; ++i) inputs[kKept + i] = at[i * stride];
      MONOLITH_UNROLL
      for (int i = 0; i < kTogether; ++i) at[i * stride] = filter.of(inputs + i);
      MONOLITH_UNROLL
      for (int j = 0; j < kKept; ++j) inputs[j] = inputs[kTogether + j];
    }
    for (; row < own.n_tokens; ++row, at += stride) {
      inputs[kKept] = *at;
      *at = filter.of(inputs);
      MONOLITH_UNROLL
      for (int j = 0; j < kKept; ++j) inputs[j] = inputs[j + 1];
    }
    if (own.state_to == kNoSlot) continue;
    MONOLITH_UNROLL
    for (int j = 0; j < kKept; ++j) state.of(own.state_to)[j * n_channels + channel] = inputs[j];
  }
}

}  // namespace

void convolve(Runtime& runtime, const Convolution& convolution, const RowList& rows, const LayerSlots& state, float* x,
              int64_t stride) {
  if (rows.n_segments == 0) return;
  constexpr void (*kKernels[])(Convolution, const DeviceSegment*, int, LayerSlots, float*, int64_t) = {
      convolve_kernel<1>, convolve_kernel<2>, convolve_kernel<3>, convolve_kernel<4>,
      convolve_kernel<5>, convolve_kernel<6>, convolve_kernel<7>, convolve_kernel<8>};
  static_assert(std::size(kKernels) == kMaxTaps);
  const int units = (convolution.n_channels + kThreads - 1) / kThreads;
  const dim3 grid{static_cast<unsigned>(units) * static_cast<unsigned>(rows.n_segments), 1, 1};
  launch(runtime, kKernels[convolution.conv_kernel_size - 1], grid, kThreads, 0, convolution, rows.segments, units,
         state, x, stride);
}

}  // namespace monolith::cuda
