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
  const int64_t n_heads = space.n_heads, head_dim = space.head_dim;
  const int64_t n_rows = segments.back().first_row + segments.back().n_tokens;
  pool_.parallel_for(n_rows, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) ops_.softplus(inputs.step + row * n_heads, space.step_bias, n_heads);
  });
  for_state_blocks(pool_, ops_, n_heads, head_dim, space.state_dim, segments, state,
                   [&](const StateBlocks& blocks, const Segment& segment) {
                     const int64_t head = blocks.head, row = segment.first_row;
                     const int64_t group_at = int64_t{space.group(static_cast<int>(head))} * space.state_dim;
                     ops_.state_space({.n_rows = segment.n_tokens,
                                       .state_dim = space.state_dim,
                                       .n_columns = blocks.n_columns,
                                       .x = inputs.x + row * inputs.stride + head * head_dim + blocks.first_column,
                                       .b = inputs.b + row * inputs.stride + group_at,
                                       .c = inputs.c + row * inputs.stride + group_at,
                                       .stride = inputs.stride,
                                       .step = inputs.step + row * n_heads + head,
                                       .step_stride = n_heads,
                                       .rate = space.rate[head],
                                       .skip = space.skip[head],
                                       .out = out + row * space.width() + head * head_dim + blocks.first_column,
                                       .out_stride = space.width(),
                                       .state = blocks.state});
                   });
}

}  // namespace monolith
