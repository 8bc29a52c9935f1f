// The state spaces of Mamba-2 and Mamba. As in the delta rule (delta_rule.cu), each warp of a block keeps 16 columns of
// a head's state in registers. The block prepares B, C, x and step once for all its warps.
#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/mathematics.h"
#include "backend/cuda/recurrence/recurrence.h"
#include "backend/cuda/recurrence/state_block.h"

namespace monolith::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp, kColumns = kWarps * kBlockColumns;
constexpr int kTogether = 8;  // Tokens per group.

template <int kEach, bool kChannelSteps>
struct Rows {
  static constexpr int dims = StateBlock<kEach>::dims;
  float b[kTogether][dims], c[kTogether][dims];  // Zeros beyond the state dimension.
  float x[kTogether][kColumns];
  // With kChannelSteps, each column has its own step. Otherwise, each token has one step and one decay.
  float step[kTogether][kChannelSteps ? kColumns : 4], decay[kTogether];
};

// Prepares one token (`row`) for the other warps, using one warp. `column` is the first column that the thread block
// computes.
template <int kEach, bool kChannelSteps>
MONOLITH_DEVICE void prepare(const StateSpace& space, const StateSpaceInputs& inputs, int64_t row, int head, int column,
                             int at, Rows<kEach, kChannelSteps>& shared) {
  const int lane = lane_id(), dim = space.state_dim;
  const int64_t group_at = row * inputs.group_stride + static_cast<int64_t>(space.group(head)) * dim;
  for (int d = lane; d < StateBlock<kEach>::dims; d += kWarp) {
    shared.b[at][d] = d < dim ? inputs.b[group_at + d] : 0.0f;
    shared.c[at][d] = d < dim ? inputs.c[group_at + d] : 0.0f;
  }
  const int64_t x_at = row * inputs.stride + static_cast<int64_t>(head) * space.head_dim + column;
  for (int i = lane; i < kColumns; i += kWarp)
    shared.x[at][i] = column + i < space.head_dim ? inputs.x[x_at + i] : 0.0f;
  if constexpr (kChannelSteps) {
    for (int i = lane; i < kColumns; i += kWarp) {
      const int channel = column + i;
      shared.step[at][i] = channel < space.head_dim
                               ? softplus(inputs.step[row * space.head_dim + channel] + space.step_bias[channel])
                               : 0.0f;
    }
    return;
  }
  if (lane != 0) return;
  const float step = softplus(inputs.step[row * space.n_heads + head] + space.step_bias[head]);
  shared.step[at][0] = step;
  shared.decay[at] = exponential(step * space.rate[head]);
}

// The rates of a warp's columns, [state_dim][head_dim] in memory. `column` is the lane's first column.
template <int kEach>
MONOLITH_DEVICE void load_rates(const StateSpace& space, int column, StateBlock<kEach>& rates) {
  MONOLITH_UNROLL
  for (int j = 0; j < kEach; ++j) {
    const int d = lane_id() / 4 + kSlices * j;
    const float* const row = space.rate + static_cast<int64_t>(d) * space.head_dim + column;
    const auto rate = [&](int i) { return d < space.state_dim && column + i < space.head_dim ? row[i] : 0.0f; };
    rates.at[j] = {rate(0), rate(1), rate(2), rate(3)};
  }
}

// Computes the result of one token and updates the state, using one warp. `n` is the number of the warp's columns.
// `rates` is used only with kChannelSteps. With kChannelSteps, `skip` has one value per column, otherwise a single
// value.
template <int kEach, bool kChannelSteps>
MONOLITH_DEVICE void carry_on(const Rows<kEach, kChannelSteps>& shared, int at, const StateBlock<kEach>& rates,
                              StateBlock<kEach>& state, const float* skip, int n, float* out) {
  const int lane = lane_id(), slice = lane / 4, first = warp_id() * kBlockColumns + lane % 4 * 4;
  const Floats4 x = *reinterpret_cast<const Floats4*>(&shared.x[at][first]);
  const Floats4 steps = kChannelSteps
                            ? *reinterpret_cast<const Floats4*>(&shared.step[at][kChannelSteps ? first : 0])
                            : Floats4{shared.step[at][0], shared.step[at][0], shared.step[at][0], shared.step[at][0]};
  const Floats4 change = {x.x * steps.x, x.y * steps.y, x.z * steps.z, x.w * steps.w};
  Floats4 sums[2] = {};  // Partial sums over even and odd j.
  MONOLITH_UNROLL
  for (int j = 0; j < kEach; ++j) {
    const int d = slice + kSlices * j;
    Floats4 kept;
    if constexpr (kChannelSteps) {
      const Floats4& s = state.at[j];
      const Floats4& rate = rates.at[j];
      kept = {s.x * exponential(steps.x * rate.x), s.y * exponential(steps.y * rate.y),
              s.z * exponential(steps.z * rate.z), s.w * exponential(steps.w * rate.w)};
    } else {
      kept = times(state.at[j], shared.decay[at]);
    }
    state.at[j] = plus_times(kept, shared.b[at][d], change);
    sums[j % 2] = plus_times(sums[j % 2], shared.c[at][d], state.at[j]);
  }
  const float sum = sum_slices(plus(sums[0], sums[1]));
  const int in_warp = lane % 4 * 4 + sum_column();
  if (lane < 16 && in_warp < n)
    out[in_warp] = fmaf(shared.x[at][warp_id() * kBlockColumns + in_warp], skip[kChannelSteps ? in_warp : 0], sum);
}

template <int kEach, bool kChannelSteps>
__global__ void __launch_bounds__(kThreads)
    state_space_kernel(StateSpace space, const DeviceSegment* segments, int groups, LayerSlots slots,
                       StateSpaceInputs inputs, float* out) {
  start_after_inputs();
  auto& shared = shared_memory<Rows<kEach, kChannelSteps>>();
  const int units = space.n_heads * groups, unit = static_cast<int>(blockIdx.x) % units;
  const int head = unit / groups, warp = warp_id();
  const int blocks = static_cast<int>(space.blocks()), block = unit % groups * kWarps + warp;
  const int column = unit % groups * kColumns, own_column = block * kBlockColumns;
  const int n = space.head_dim - own_column < kBlockColumns ? space.head_dim - own_column : kBlockColumns;
  const int64_t place = (static_cast<int64_t>(head) * blocks + block) * space.state_dim * kBlockColumns;
  const float* const skip = space.skip + (kChannelSteps ? own_column : head);
  StateBlock<kEach> state, rates;
  if constexpr (kChannelSteps) load_rates(space, own_column + lane_id() % 4 * 4, rates);
  for (ChainWalk walk(segments, static_cast<int>(blockIdx.x) / units); walk.more; walk.advance()) {
    const DeviceSegment& own = walk.own;
    if (block < blocks && !walk.holds()) {
      if (own.state_from == kNoSlot)
        state.clear();
      else
        state.load(slots.of(own.state_from) + place, space.state_dim);
    }
    for (int first = 0; first < own.n_tokens; first += kTogether) {
      const int together = own.n_tokens - first < kTogether ? own.n_tokens - first : kTogether;
      const int64_t row = own.first_row + first;
      __syncthreads();  // All warps have read the previous tokens.
      for (int i = warp; i < together; i += kWarps) prepare(space, inputs, row + i, head, column, i, shared);
      __syncthreads();
      if (block >= blocks) continue;
      float* const to = out + row * space.width() + static_cast<int64_t>(head) * space.head_dim + own_column;
      for (int i = 0; i < together; ++i) carry_on(shared, i, rates, state, skip, n, to + i * space.width());
    }
    if (block < blocks && own.state_to != kNoSlot) state.store(slots.of(own.state_to) + place, space.state_dim);
  }
}

template <int kEach, bool kChannelSteps>
void launch_space(Runtime& runtime, const StateSpace& space, const RowList& rows, const LayerSlots& state,
                  const StateSpaceInputs& inputs, float* out) {
  const int groups = static_cast<int>((space.blocks() + kWarps - 1) / kWarps);
  const auto units = static_cast<unsigned>(space.n_heads * groups);
  launch(runtime, state_space_kernel<kEach, kChannelSteps>, dim3{units * static_cast<unsigned>(rows.n_segments), 1, 1},
         kThreads, sizeof(Rows<kEach, kChannelSteps>), space, rows.segments, groups, state, inputs, out);
}

template <bool kChannelSteps>
auto launch_for(int state_dim) {
  return state_dim <= 16    ? launch_space<2, kChannelSteps>
         : state_dim <= 64  ? launch_space<8, kChannelSteps>
         : state_dim <= 128 ? launch_space<16, kChannelSteps>
                            : launch_space<kMaxStateDims / kSlices, kChannelSteps>;
}

}  // namespace

void state_space(Runtime& runtime, const StateSpace& space, const RowList& rows, const LayerSlots& state,
                 const StateSpaceInputs& inputs, float* out) {
  if (rows.n_segments == 0) return;
  const auto kernel = space.channel_steps ? launch_for<true>(space.state_dim) : launch_for<false>(space.state_dim);
  kernel(runtime, space, rows, state, inputs, out);
}

}  // namespace monolith::cuda
