#include "backend/cuda/grouped.h"

#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256;

// One block: the experts a run each, so that tiles are in the order of experts.
__global__ void __launch_bounds__(kThreads) cut_kernel(ColumnGroups groups, int width) {
  start_after_inputs();
  auto& begins = shared_memory<int32_t[kThreads + 1]>();
  const int thread = static_cast<int>(threadIdx.x);
  const int run = (groups.n_experts + kThreads - 1) / kThreads;
  const int first = thread * run;
  const int last = first + run < groups.n_experts ? first + run : groups.n_experts;
  int32_t n = 0;
  for (int expert = first; expert < last; ++expert) n += (groups.count[expert] + width - 1) / width;
  begins[thread + 1] = n;
  __syncthreads();
  if (thread == 0) {
    begins[0] = 0;
    for (int i = 1; i <= kThreads; ++i) begins[i] += begins[i - 1];
    *groups.n_tiles = begins[kThreads];
  }
  __syncthreads();
  ColumnTile* to = groups.tiles + begins[thread];
  for (int expert = first; expert < last; ++expert)
    for (int32_t at = 0; at < groups.count[expert]; at += width) {
      const int32_t left = groups.count[expert] - at;
      *to++ = {groups.first_slot[expert] + at, left < width ? left : width, expert};
    }
}

}  // namespace

void cut_tiles(Runtime& runtime, const ColumnGroups& groups, int width) {
  launch(runtime, cut_kernel, dim3{1, 1, 1}, kThreads, sizeof(int32_t[kThreads + 1]), groups, width);
}

}  // namespace monolith::cuda
