// Splits the state-space recurrence into tasks (ops/state_blocks.h).
#include <cassert>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/state_blocks.h"

namespace monolith {

void CpuBackend::state_space(const StateSpace& space, std::span<const Segment> segments, const LayerSlots& state,
                             const StateSpaceInputs& inputs, float* out) {
  assert(space.n_heads % space.n_groups == 0);
  if (segments.empty()) return;
  assert(!space.channel_steps || space.n_heads == 1);
  const int64_t n_heads = space.n_heads, head_dim = space.head_dim, n_steps = space.steps();
  const int64_t n_rows = segments.back().first_row + segments.back().n_tokens;
  pool_.parallel_for(n_rows, space.channel_steps ? 1 : 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) ops_.softplus(inputs.step + row * n_steps, space.step_bias, n_steps);
  });
  for_state_blocks(pool_, ops_, n_heads, head_dim, space.state_dim, segments, state,
                   [&](const StateBlocks& blocks, const Segment& segment) {
                     const int64_t head = blocks.head, row = segment.first_row;
                     const int64_t group_at = int64_t{space.group(static_cast<int>(head))} * space.state_dim;
                     const int64_t step_at = space.channel_steps ? blocks.first_column : head;
                     ops_.state_space({.n_rows = segment.n_tokens,
                                       .state_dim = space.state_dim,
                                       .n_columns = blocks.n_columns,
                                       .x = inputs.x + row * inputs.stride + head * head_dim + blocks.first_column,
                                       .b = inputs.b + row * inputs.group_stride + group_at,
                                       .c = inputs.c + row * inputs.group_stride + group_at,
                                       .stride = inputs.stride,
                                       .group_stride = inputs.group_stride,
                                       .step = inputs.step + row * n_steps + step_at,
                                       .step_stride = n_steps,
                                       .channel_steps = space.channel_steps,
                                       .rate = space.rate + step_at,
                                       .rate_stride = head_dim,
                                       .skip = space.skip + step_at,
                                       .out = out + row * space.width() + head * head_dim + blocks.first_column,
                                       .out_stride = space.width(),
                                       .state = blocks.state});
                   });
}

}  // namespace monolith
