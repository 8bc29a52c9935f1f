// State spaces: who computes what, on which thread. As in ops/recurrence.cc a piece is some columns of a head, and takes
// all segments in their order.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/ops.h"

namespace monolith {

void CpuOps::state_space(ThreadPool& pool, const StateSpace& space, std::span<const Segment> segments,
                         const LayerSlots& state, const StateSpaceInputs& inputs, float* out) const {
  assert(space.n_heads % space.n_groups == 0);
  if (segments.empty()) return;
  const int64_t n_heads = space.n_heads, head_dim = space.head_dim;
  const int64_t n_rows = segments.back().first_row + segments.back().n_tokens;
  pool.parallel_for(n_rows, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernels_->softplus(inputs.step + row * n_heads, space.step_bias, n_heads);
  });
  const int64_t block_floats = int64_t{space.state_dim} * kLanes, n_blocks = space.blocks();
  const int64_t together = kernels_->delta_blocks, per_head = (n_blocks + together - 1) / together;
  pool.parallel_for(n_heads * per_head, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t head = piece / per_head, first = piece % per_head * together;
      const int64_t blocks = std::min(together, n_blocks - first), column = first * kLanes;
      const int64_t at = (head * n_blocks + first) * block_floats;
      const int64_t group_at = int64_t{space.group(static_cast<int>(head))} * space.state_dim;
      const auto bytes = static_cast<size_t>(blocks * block_floats) * sizeof(float);
      for (const Segment& segment : segments) {
        float* const to = state.of(segment.state_to) + at;
        if (segment.state_from == kNoSlot) std::memset(to, 0, bytes);
        else if (segment.state_from != segment.state_to) std::memcpy(to, state.of(segment.state_from) + at, bytes);
        const int64_t row = segment.first_row;
        kernels_->state_space({.n_rows = segment.n_tokens,
                               .state_dim = space.state_dim,
                               .n_columns = static_cast<int>(std::min(blocks * kLanes, head_dim - column)),
                               .x = inputs.x + row * inputs.stride + head * head_dim + column,
                               .b = inputs.b + row * inputs.stride + group_at,
                               .c = inputs.c + row * inputs.stride + group_at,
                               .stride = inputs.stride,
                               .step = inputs.step + row * n_heads + head,
                               .step_stride = n_heads,
                               .rate = space.rate[head],
                               .skip = space.skip[head],
                               .out = out + row * space.width() + head * head_dim + column,
                               .out_stride = space.width(),
                               .state = to});
      }
    }
  });
}

}  // namespace monolith
