// Splits RWKV's operations into tasks: the token shift by elements, time mixing by heads. A task processes all segments
// in order, because a segment may continue from a slot that an earlier one has written.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"

namespace monolith {

void CpuBackend::difference_from_previous(std::span<const Segment> segments, const LayerSlots& state, const float* x,
                                          int64_t dim, float* difference) {
  constexpr int64_t kTogether = 1024;
  static constexpr float kZeros[kTogether] = {};
  pool_.parallel_runs((dim + kTogether - 1) / kTogether, [&](int64_t piece, int) {
    const int64_t first = piece * kTogether, n = std::min(kTogether, dim - first);
    for (const Segment& segment : segments) {
      const float* previous = segment.state_from == kNoSlot ? kZeros : state.of(segment.state_from) + first;
      for (int64_t row = segment.first_row; row < segment.first_row + segment.n_tokens; ++row) {
        const float* const own = x + row * dim + first;
        ops_.subtract(previous, own, n, difference + row * dim + first);
        previous = own;
      }
      std::memcpy(state.of(segment.state_to) + first, previous, static_cast<size_t>(n) * sizeof(float));
    }
  });
}

void CpuBackend::shifted_inputs(std::span<const ShiftedInput> inputs, const float* x, const float* difference,
                                RowCount rows, int64_t dim) {
  pool_.parallel_for(rows.value(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (const ShiftedInput& input : inputs)
        ops_.shifted_input(x + row * dim, difference + row * dim, input.mu,
                           input.shift != nullptr ? input.shift + row * dim : nullptr, dim, input.out + row * dim);
  });
}

void CpuBackend::time_mix(const TimeMix& mix, std::span<const Segment> segments, const LayerSlots& state,
                          const TimeMixInputs& inputs, float* out) {
  assert(mix.head_dim % kLanes == 0 && mix.head_dim <= kMaxTimeMixDim);
  const int64_t width = mix.width(), of_head = int64_t{mix.head_dim} * mix.head_dim;
  pool_.parallel_runs(mix.n_heads, [&](int64_t head, int) {
    const int64_t first = head * mix.head_dim;
    for (const Segment& segment : segments) {
      float* const to = state.of(segment.state_to) + head * of_head;
      if (segment.state_from == kNoSlot)
        std::fill_n(to, of_head, 0.0f);
      else if (segment.state_from != segment.state_to)
        std::copy_n(state.of(segment.state_from) + head * of_head, of_head, to);
      const int64_t at = segment.first_row * width + first;
      const auto part = [](const float* all, int64_t offset) { return all != nullptr ? all + offset : nullptr; };
      ops_.time_mix({.n_rows = segment.n_tokens,
                     .head_dim = mix.head_dim,
                     .norm_eps = mix.norm_eps,
                     .inputs = {.r = inputs.r + at,
                                .k = inputs.k + at,
                                .v = inputs.v + at,
                                .decay = inputs.decay + at,
                                .gate = inputs.gate + at,
                                .rate = part(inputs.rate, at),
                                .first_v = part(inputs.first_v, at),
                                .value_mix = part(inputs.value_mix, at)},
                     .stride = width,
                     .decay_bias = mix.decay_bias + first,
                     .bonus = mix.bonus + first,
                     .norm_weight = mix.norm_weight + first,
                     .norm_bias = mix.norm_bias + first,
                     .rate_bias = part(mix.rate_bias, first),
                     .value_bias = part(mix.value_bias, first),
                     .key_scale = part(mix.key_scale, first),
                     .key_rate = part(mix.key_rate, first),
                     .out = out + at,
                     .state = to},
                    mix.delta);
    }
  });
}

}  // namespace monolith
