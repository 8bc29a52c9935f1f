// RWKV: the token shift, with one thread per element or channel, and time mixing, with one block per head. Each
// thread keeps the state row of one element of v in registers.
#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/mathematics.h"
#include "backend/cuda/recurrence/recurrence.h"
#include "backend/cuda/recurrence/state_block.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    difference_kernel(const DeviceSegment* segments, int units, LayerSlots state, const float* x, int64_t dim,
                      float* difference) {
  start_after_inputs();
  const int64_t channel = static_cast<int64_t>(blockIdx.x) % units * kThreads + static_cast<int>(threadIdx.x);
  if (channel >= dim) return;
  float previous = 0;
  for (ChainWalk walk(segments, static_cast<int>(blockIdx.x) / units); walk.more; walk.advance()) {
    const DeviceSegment& own = walk.own;
    if (!walk.holds()) previous = own.state_from == kNoSlot ? 0.0f : state.of(own.state_from)[channel];
    for (int row = own.first_row; row < own.first_row + own.n_tokens; ++row) {
      const float value = x[row * dim + channel];
      difference[row * dim + channel] = previous - value;
      previous = value;
    }
    if (own.state_to != kNoSlot) state.of(own.state_to)[channel] = previous;
  }
}

__global__ void __launch_bounds__(kThreads)
    shifted_input_kernel(ShiftedInput input, const float* x, const float* difference, int64_t count, int64_t dim) {
  start_after_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= count) return;
  const float mu = input.mu[i % dim];
  input.out[i] = fmaf(difference[i], input.shift != nullptr ? mu + input.shift[i] : mu, x[i]);
}

template <int kDim>
struct Shared {
  float r[kDim], w[kDim], k[kDim], minus_n[kDim], removed[kDim];
  float of_warp[3][kDim / kWarp];
};

// Returns to every thread the sum of `value` over all threads of the block. `which` selects the memory for the sum.
// Each sum of a row uses its own memory, so that a row needs no further synchronization.
template <int kDim>
MONOLITH_DEVICE float sum_of_threads(float value, int which, Shared<kDim>& shared) {
  value = warp_sum(value);
  if (lane_id() == 0) shared.of_warp[which][warp_id()] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kDim / kWarp; ++i) sum += shared.of_warp[which][i];
  return sum;
}

// Processes one head. Threads beyond the head's dimensions only participate in sums.
template <int kDim, bool kDelta>
__global__ void __launch_bounds__(kDim)
    time_mix_kernel(TimeMix mix, const DeviceSegment* segments, LayerSlots slots, TimeMixInputs inputs, float* out) {
  start_after_inputs();
  auto& shared = shared_memory<Shared<kDim>>();
  const int head = static_cast<int>(blockIdx.x) % mix.n_heads, dim = mix.head_dim, i = static_cast<int>(threadIdx.x);
  const bool active = i < dim;
  const int64_t width = mix.width(), column = static_cast<int64_t>(head) * dim + (active ? i : 0);
  const int64_t place = static_cast<int64_t>(head) * dim * dim + static_cast<int64_t>(i / 16) * dim * 16 + i % 16;
  const auto weight = [&](const float* all) { return active ? all[column] : 0.0f; };
  const float decay_bias = weight(mix.decay_bias), bonus_weight = weight(mix.bonus);
  float state[kDim];
  for (ChainWalk walk(segments, static_cast<int>(blockIdx.x) / mix.n_heads); walk.more; walk.advance()) {
    const DeviceSegment& own = walk.own;
    if (!walk.holds()) {
      const float* const from = own.state_from == kNoSlot ? nullptr : slots.of(own.state_from) + place;
      MONOLITH_UNROLL
      for (int j = 0; j < kDim; ++j) state[j] = active && from != nullptr && j < dim ? from[j * 16] : 0.0f;
    }
    for (int row = own.first_row; row < own.first_row + own.n_tokens; ++row) {
      const int64_t at = row * width + column;
      const auto input = [&](const float* all) { return active ? all[at] : 0.0f; };
      const float r = input(inputs.r), decay = input(inputs.decay) + decay_bias;
      float k = input(inputs.k), v = input(inputs.v), n = 0, rate = 0;
      float w;
      if constexpr (kDelta) {
        w = exponential(-0.606531f * sigmoid(decay));
        rate = sigmoid(input(inputs.rate) + weight(mix.rate_bias));
        n = k * weight(mix.key_scale);
        k = fmaf(k * (rate - 1.0f), weight(mix.key_rate), k);
        if (inputs.first_v != nullptr) {
          const float share = sigmoid(input(inputs.value_mix) + weight(mix.value_bias));
          v = fmaf(input(inputs.first_v) - v, share, v);
        }
      } else {
        w = exponential(-exponential(decay));
      }
      __syncthreads();  // All threads have finished the previous row.
      if constexpr (kDelta) {
        const float length = sqrtf(sum_of_threads(n * n, 0, shared));
        n *= 1.0f / (length > 1e-12f ? length : 1e-12f);
        shared.minus_n[i] = -n;
        shared.removed[i] = n * rate;
      }
      shared.r[i] = r;
      shared.w[i] = w;
      shared.k[i] = k;
      const float bonus = sum_of_threads(r * bonus_weight * k, 1, shared);  // Synchronizes.
      float removal = 0, sum = 0;
      if constexpr (kDelta) {
        MONOLITH_UNROLL
        for (int j = 0; j < kDim; ++j) removal = fmaf(shared.minus_n[j], state[j], removal);
      }
      MONOLITH_UNROLL
      for (int j = 0; j < kDim; ++j) {
        if constexpr (!kDelta) sum = fmaf(shared.r[j], state[j], sum);
        state[j] = fmaf(shared.k[j], v, state[j] * shared.w[j]);
        if constexpr (kDelta) {
          state[j] = fmaf(shared.removed[j], removal, state[j]);
          sum = fmaf(shared.r[j], state[j], sum);
        }
      }
      if constexpr (!kDelta) sum = fmaf(bonus, v, sum);
      const float mean = sum_of_threads(active ? sum : 0.0f, 2, shared) / static_cast<float>(dim);
      const float distance = active ? sum - mean : 0.0f;
      const float variance = sum_of_threads(distance * distance, 0, shared) / static_cast<float>(dim);
      if (!active) continue;
      float y = fmaf(distance / sqrtf(variance + mix.norm_eps), mix.norm_weight[column], mix.norm_bias[column]);
      if constexpr (kDelta) y = fmaf(bonus, v, y);
      const float gate = inputs.gate[at];
      out[at] = y * (kDelta ? gate : gate * sigmoid(gate));
    }
    if (active && own.state_to != kNoSlot) {
      float* const to = slots.of(own.state_to) + place;
      MONOLITH_UNROLL
      for (int j = 0; j < kDim; ++j)
        if (j < dim) to[j * 16] = state[j];
    }
  }
}

template <int kDim>
void launch_mix(Runtime& runtime, const TimeMix& mix, const RowList& rows, const LayerSlots& state,
                const TimeMixInputs& inputs, float* out) {
  const dim3 grid{static_cast<unsigned>(mix.n_heads) * static_cast<unsigned>(rows.n_segments), 1, 1};
  const auto kernel = mix.delta ? time_mix_kernel<kDim, true> : time_mix_kernel<kDim, false>;
  launch(runtime, kernel, grid, kDim, sizeof(Shared<kDim>), mix, rows.segments, state, inputs, out);
}

}  // namespace

void difference_from_previous(Runtime& runtime, const RowList& rows, const LayerSlots& state, const float* x,
                              int64_t dim, float* difference) {
  if (rows.n_segments == 0) return;
  const auto units = static_cast<int>((dim + kThreads - 1) / kThreads);
  const dim3 grid{static_cast<unsigned>(units) * static_cast<unsigned>(rows.n_segments), 1, 1};
  launch(runtime, difference_kernel, grid, kThreads, 0, rows.segments, units, state, x, dim, difference);
}

void shifted_inputs(Runtime& runtime, std::span<const ShiftedInput> inputs, const float* x, const float* difference,
                    int n_rows, int64_t dim) {
  const int64_t count = n_rows * dim;
  if (count == 0) return;
  const dim3 grid{static_cast<unsigned>((count + kThreads - 1) / kThreads), 1, 1};
  for (const ShiftedInput& input : inputs)
    launch(runtime, shifted_input_kernel, grid, kThreads, 0, input, x, difference, count, dim);
}

void time_mix(Runtime& runtime, const TimeMix& mix, const RowList& rows, const LayerSlots& state,
              const TimeMixInputs& inputs, float* out) {
  if (rows.n_segments == 0) return;
  const auto run = mix.head_dim <= 64 ? launch_mix<64> : launch_mix<kMaxTimeMixColumns>;
  run(runtime, mix, rows, state, inputs, out);
}

}  // namespace monolith::cuda
