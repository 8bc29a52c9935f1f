// The gated delta rule. Each warp of a block keeps 16 columns of a head's state in registers, from a segment's first
// token to its last. The block prepares q, k, decay and beta for a group of tokens at a time, once for all its warps.
#include <type_traits>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/mathematics.h"
#include "backend/cuda/recurrence/recurrence.h"
#include "backend/cuda/recurrence/state_block.h"

namespace monolith::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp, kColumns = kWarps * kBlockColumns;
constexpr int kTogether = 8;  // Tokens per group.

template <int kEach, bool kChannelDecay>
struct Rows {
  static constexpr int dims = StateBlock<kEach>::dims;
  // q and k after normalization, with zeros beyond the key dimension.
  float q[kTogether][dims], k[kTogether][dims];
  float decay[kTogether][kChannelDecay ? dims : 1];
  float v[kTogether][kColumns];
  float qk[kTogether], beta[kTogether];
};

MONOLITH_DEVICE float decay_of(float x, float bias, float rate) { return exponential(rate * softplus(x + bias)); }

// Prepares one token (`row`) for the other warps, using one warp. `column` is the first column that the thread block
// computes.
template <int kEach, bool kChannelDecay>
MONOLITH_DEVICE void prepare(const DeltaRule& rule, const DeltaInputs& inputs, int64_t row, int head, int column,
                             int at, Rows<kEach, kChannelDecay>& shared) {
  constexpr int kDims = StateBlock<kEach>::dims, kPieces = (kDims + kWarp - 1) / kWarp;
  const int lane = lane_id(), dim = rule.key_dim;
  const int64_t key_at = row * inputs.stride + static_cast<int64_t>(rule.key_head(head)) * dim;
  float q[kPieces], k[kPieces], qq = 0, kk = 0, qk = 0;
  MONOLITH_UNROLL
  for (int i = 0; i < kPieces; ++i) {
    const int d = lane + i * kWarp;
    q[i] = d < dim ? inputs.q[key_at + d] : 0.0f;
    k[i] = d < dim ? inputs.k[key_at + d] : 0.0f;
    qq = fmaf(q[i], q[i], qq);
    kk = fmaf(k[i], k[i], kk);
  }
  const float q_length = sqrtf(warp_sum(qq)), k_length = sqrtf(warp_sum(kk)), eps = rule.norm_eps;
  const float q_scale = 1.0f / sqrtf(static_cast<float>(dim)) / (q_length > eps ? q_length : eps);
  const float k_scale = 1.0f / (k_length > eps ? k_length : eps);
  MONOLITH_UNROLL
  for (int i = 0; i < kPieces; ++i) {
    const int d = lane + i * kWarp;
    q[i] *= q_scale;
    k[i] *= k_scale;
    qk = fmaf(q[i], k[i], qk);
    if (d >= kDims) continue;
    shared.q[at][d] = q[i];
    shared.k[at][d] = k[i];
    if constexpr (kChannelDecay) {
      const int64_t own = static_cast<int64_t>(head) * dim + d;
      shared.decay[at][d] =
          d < dim ? decay_of(inputs.decay[row * rule.decays() + own], rule.decay_bias[own], rule.rate[head]) : 0.0f;
    }
  }
  qk = warp_sum(qk);
  for (int i = lane; i < kColumns; i += kWarp)
    shared.v[at][i] = column + i < rule.value_dim
                          ? inputs.v[row * inputs.stride + static_cast<int64_t>(head) * rule.value_dim + column + i]
                          : 0.0f;
  if (lane != 0) return;
  const int64_t of_row = row * rule.n_value_heads + head;
  shared.qk[at] = qk;
  shared.beta[at] = 1.0f / (1.0f + exponential(0.0f - inputs.beta[of_row]));
  if constexpr (!kChannelDecay)
    shared.decay[at][0] = decay_of(inputs.decay[of_row], rule.decay_bias[head], rule.rate[head]);
}

// Computes the result of one token and updates the state, using one warp. With S' = decay S + k d^T and d = beta (v - k
// (decay S)), the result q S' equals q (decay S) + (q k) d, so both sums run over the same values. `n` is the number of
// the warp's columns.
template <int kEach, bool kChannelDecay>
MONOLITH_DEVICE void carry_on(const Rows<kEach, kChannelDecay>& shared, int at, StateBlock<kEach>& state, int n,
                              float* out) {
  const int lane = lane_id(), slice = lane / 4, first = warp_id() * kBlockColumns + lane % 4 * 4;
  Floats4 ks[2] = {}, qs[2] = {};  // Partial sums over even and odd j.
  MONOLITH_UNROLL
  for (int j = 0; j < kEach; ++j) {
    const int d = slice + kSlices * j;
    state.at[j] = times(state.at[j], shared.decay[at][kChannelDecay ? d : 0]);
    ks[j % 2] = plus_times(ks[j % 2], shared.k[at][d], state.at[j]);
    qs[j % 2] = plus_times(qs[j % 2], shared.q[at][d], state.at[j]);
  }
  // Lanes below 16 get a sum with k, the other lanes a sum with q.
  const float sum = sum_slices(plus(ks[0], ks[1]), plus(qs[0], qs[1]));
  const int column = sum_column();
  const float own = shared.beta[at] * (shared.v[at][first + column] - sum);
  const int quad = lane % 4;
  const Floats4 change{__shfl_sync(kWholeWarp, own, quad), __shfl_sync(kWholeWarp, own, quad + 4),
                       __shfl_sync(kWholeWarp, own, quad + 8), __shfl_sync(kWholeWarp, own, quad + 12)};
  const float of_column = column == 0 ? change.x : column == 1 ? change.y : column == 2 ? change.z : change.w;
  const int in_warp = quad * 4 + column;
  if (lane >= 16 && in_warp < n) out[in_warp] = fmaf(shared.qk[at], of_column, sum);
  MONOLITH_UNROLL
  for (int j = 0; j < kEach; ++j) state.at[j] = plus_times(state.at[j], shared.k[at][slice + kSlices * j], change);
}

template <int kEach, bool kChannelDecay>
__global__ void __launch_bounds__(kThreads) delta_kernel(DeltaRule rule, const DeviceSegment* segments, int groups,
                                                         LayerSlots slots, DeltaInputs inputs, float* out) {
  start_after_inputs();
  auto& shared = shared_memory<Rows<kEach, kChannelDecay>>();
  const int units = rule.n_value_heads * groups, unit = static_cast<int>(blockIdx.x) % units;
  const int head = unit / groups, warp = warp_id();
  const int blocks = static_cast<int>(rule.value_blocks()), block = unit % groups * kWarps + warp;
  const int column = unit % groups * kColumns, own_column = block * kBlockColumns;
  const int n = rule.value_dim - own_column < kBlockColumns ? rule.value_dim - own_column : kBlockColumns;
  const int64_t place = (static_cast<int64_t>(head) * blocks + block) * rule.key_dim * kBlockColumns;
  StateBlock<kEach> state;
  for (ChainWalk walk(segments, static_cast<int>(blockIdx.x) / units); walk.more; walk.advance()) {
    const DeviceSegment& own = walk.own;
    if (block < blocks && !walk.holds()) {
      if (own.state_from == kNoSlot)
        state.clear();
      else
        state.load(slots.of(own.state_from) + place, rule.key_dim);
    }
    for (int first = 0; first < own.n_tokens; first += kTogether) {
      const int together = own.n_tokens - first < kTogether ? own.n_tokens - first : kTogether;
      const int64_t row = own.first_row + first;
      __syncthreads();  // All warps have read the previous tokens.
      for (int i = warp; i < together; i += kWarps) prepare(rule, inputs, row + i, head, column, i, shared);
      __syncthreads();
      if (block >= blocks) continue;
      float* const to = out + (row * rule.n_value_heads + head) * rule.value_dim + own_column;
      for (int i = 0; i < together; ++i)
        carry_on(shared, i, state, n, to + static_cast<int64_t>(i) * rule.n_value_heads * rule.value_dim);
    }
    if (block < blocks && own.state_to != kNoSlot) state.store(slots.of(own.state_to) + place, rule.key_dim);
  }
}

template <int kEach, bool kChannelDecay>
void launch_delta(Runtime& runtime, const DeltaRule& rule, const RowList& rows, const LayerSlots& state,
                  const DeltaInputs& inputs, float* out) {
  const int groups = static_cast<int>((rule.value_blocks() + kWarps - 1) / kWarps);
  const auto units = static_cast<unsigned>(rule.n_value_heads * groups);
  launch(runtime, delta_kernel<kEach, kChannelDecay>, dim3{units * static_cast<unsigned>(rows.n_segments), 1, 1},
         kThreads, sizeof(Rows<kEach, kChannelDecay>), rule, rows.segments, groups, state, inputs, out);
}

template <bool kChannelDecay>
void launch_by_keys(Runtime& runtime, const DeltaRule& rule, const RowList& rows, const LayerSlots& state,
                    const DeltaInputs& inputs, float* out) {
  const auto kernel = rule.key_dim <= 16    ? launch_delta<2, kChannelDecay>
                      : rule.key_dim <= 64  ? launch_delta<8, kChannelDecay>
                      : rule.key_dim <= 128 ? launch_delta<16, kChannelDecay>
                                            : launch_delta<kMaxStateDims / kSlices, kChannelDecay>;
  kernel(runtime, rule, rows, state, inputs, out);
}

}  // namespace

void delta_rule(Runtime& runtime, const DeltaRule& rule, const RowList& rows, const LayerSlots& state,
                const DeltaInputs& inputs, float* out) {
  if (rows.n_segments == 0) return;
  (rule.channel_decay ? launch_by_keys<true> : launch_by_keys<false>)(runtime, rule, rows, state, inputs, out);
}

}  // namespace monolith::cuda
