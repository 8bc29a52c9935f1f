#include "backend/cuda/moe/grouped.h"

#include "backend/cuda/moe/grouped-inl.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256;

// Runs in one block. Each thread processes a contiguous range of experts, so tiles are in the order of experts.
__global__ void __launch_bounds__(kThreads) cut_kernel(ColumnGroups groups, int width, int most) {
  start_after_inputs();
  auto& shared = shared_memory<BlockCounts>();
  const Run run = run_of<kThreads>(groups.n_experts);
  Counts own{0, 0}, total;
  for (int expert = run.first; expert < run.last; ++expert) own.tiles += tiles_for(groups.count[expert], width);
  Counts at = counts_before<kThreads>(own, total, shared);
  for (int expert = run.first; expert < run.last; ++expert)
    at.tiles += put_tiles(groups.tiles + at.tiles, groups.first_slot[expert], groups.count[expert], expert, width);
  for (int tile = total.tiles + static_cast<int>(threadIdx.x); tile < most; tile += kThreads)
    groups.tiles[tile] = {0, 0, 0};
}

}  // namespace

void cut_tiles(Runtime& runtime, const ColumnGroups& groups, int width) {
  if (width == groups.tile_columns) return;
  groups.tile_columns = width;
  launch(runtime, cut_kernel, dim3{1, 1, 1}, kThreads, sizeof(BlockCounts), groups, width,
         most_tiles(groups.n_pairs, groups.n_experts, width));
}

}  // namespace monolith::cuda
