// MoE routing kernels. One warp selects the experts of a token, and one block assigns slots to all (token, expert)
// pairs. Steps of few tokens do both in one launch. Integer atomics determine the order of slots, but no computed value
// depends on this order.
#include "backend/cuda/moe/routing.h"

#include "backend/cuda/device/mathematics.h"
#include "backend/cuda/device/language.h"
#include "backend/cuda/moe/grouped-inl.h"

namespace monolith::cuda {
namespace {

// Integer reductions over a warp, each a single instruction on the GPU. Every lane gets the result.
#ifdef __CUDACC__

__device__ __forceinline__ uint32_t warp_largest(uint32_t value) { return __reduce_max_sync(kWholeWarp, value); }
__device__ __forceinline__ uint32_t warp_least(uint32_t value) { return __reduce_min_sync(kWholeWarp, value); }

#else

inline uint32_t warp_largest(uint32_t value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, value, distance);
    value = value > other ? value : other;
  }
  return value;
}
inline uint32_t warp_least(uint32_t value) { return ~warp_largest(~value); }

#endif

// Inputs of expert selection.
struct Choice {
  const float* logits;  // Shape [row][n_experts].
  const float* bias;
  int32_t n_experts, n_used, groups, groups_used;
  RouterScore score;
  bool plain;  // True if the order of the logits is the order of the selection scores.
  bool normalized;
  float scale;
  const float* expert_scales;  // Optional, may be null.
  const int32_t* given;        // Experts selected by token id, [row][n_used]; null if the router selects them.
};

// The sort keys of one token's experts: a larger selection score has a larger key, and 0 marks an expert that has
// already been selected. Each lane reads and writes every 32nd key, except in the search for groups.
template <int kExperts>
struct Keys {
  uint32_t of[kExperts];
  float sums[kMaxExpertGroups];  // The sum of each group's best two scores.
};

// Returns the sort key of a value. +0 and -0 are equal, and NaN comes last.
MONOLITH_DEVICE uint32_t key_of(float value) {
  const uint32_t bits = as_bits(value == value ? value + 0.0f : -INFINITY);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
MONOLITH_DEVICE float value_of(uint32_t key) { return as_float((key >> 31) != 0 ? key & 0x7fffffffu : ~key); }

MONOLITH_DEVICE float number_or_least(float x) { return x == x ? x : -INFINITY; }
MONOLITH_DEVICE float shifted_exponential(float x, float offset) {
  return exponential(number_or_least(number_or_least(x) - offset));
}

// Sums the exponentials of a row in the same order as the CPU backend: 16 partial sums, then folded in halves.
MONOLITH_DEVICE float sum_exponentials(const float* logits, int n, float top) {
  float sum = 0;
  if (lane_id() < 16)
    for (int i = lane_id(); i < n; i += 16) sum += shifted_exponential(logits[i], top);
  for (int distance = 8; distance > 0; distance /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, distance);
  return __shfl_sync(kWholeWarp, sum, 0);
}

// Keeps only the best groups: experts of all other groups get the key of minus infinity.
template <int kExperts>
MONOLITH_DEVICE void keep_groups(const Choice& choice, Keys<kExperts>& keys) {
  const int size = choice.n_experts / choice.groups;
  __syncwarp();
  for (int group = lane_id(); group < choice.groups; group += kWarp) {
    float first = -INFINITY, second = -INFINITY;
    for (int e = group * size; e < (group + 1) * size; ++e) {
      const float value = value_of(keys.of[e]), lesser = value < first ? value : first;
      second = second < lesser ? lesser : second;
      first = first < value ? value : first;
    }
    keys.sums[group] = first + second;
  }
  __syncwarp();
  for (int e = lane_id(); e < choice.n_experts; e += kWarp) {
    const int group = e / size;
    int better = 0;  // Among equal groups, the lower index wins.
    for (int other = 0; other < choice.groups; ++other)
      better += keys.sums[other] > keys.sums[group] || (other < group && keys.sums[other] == keys.sums[group]) ? 1 : 0;
    if (better >= choice.groups_used) keys.of[e] = key_of(-INFINITY);
  }
}

// Selects the experts of one token, using one warp.
template <int kExperts>
MONOLITH_DEVICE void choose_row(const Choice& choice, int64_t row, Keys<kExperts>& keys, int32_t* chosen,
                                float* weights) {
  const int lane = lane_id(), n = choice.n_experts, n_used = choice.n_used;
  const float* const logits = choice.logits + row * n;
  const bool sigmoids = choice.score == RouterScore::kSigmoid, roots = choice.score == RouterScore::kRootSoftplus;
  float top = 0, all = 1;  // The largest logit, and the sum of all exponentials.
  if (!sigmoids && !roots) {
    uint32_t largest = 0;
    for (int e = lane; e < n; e += kWarp) {
      const uint32_t key = key_of(logits[e]);
      largest = largest > key ? largest : key;
    }
    top = value_of(warp_largest(largest));
    if (!choice.plain || !choice.normalized) all = sum_exponentials(logits, n, top);
  }
  const float share_of_all = 1.0f / all;
  const auto score_of = [&](float logit) {
    if (roots) return sqrtf(softplus(logit));
    if (sigmoids) return 1.0f / (1.0f + shifted_exponential(-logit, 0.0f));
    const float part = shifted_exponential(logit, top);
    return choice.plain ? part : part * share_of_all;
  };
  for (int e = lane; e < n; e += kWarp) {
    float by = logits[e];
    if (!choice.plain) by = score_of(by);
    if (choice.bias) by += choice.bias[e];
    keys.of[e] = key_of(by);
  }
  if (choice.groups > 1) keep_groups(choice, keys);

  uint32_t best = 0, at = 0;  // The best of this lane's experts.
  const auto look = [&] {
    best = 0;
    for (int e = lane; e < n; e += kWarp) {
      if (keys.of[e] <= best) continue;
      best = keys.of[e];
      at = static_cast<uint32_t>(e);
    }
  };
  look();
  float sum = 0;
  for (int i = 0; i < n_used; ++i) {
    const uint32_t largest = warp_largest(best);
    const auto best_one = static_cast<int32_t>(warp_least(best == largest ? at : ~0u));
    const int32_t expert = choice.given ? choice.given[row * n_used + i] : best_one;
    if (!choice.given && expert % kWarp == lane) {
      keys.of[expert] = 0;
      look();
    }
    const float weight = score_of(logits[expert]);
    sum += weight;
    if (lane == 0) {
      chosen[row * n_used + i] = expert;
      weights[row * n_used + i] = weight;
    }
  }
  if (choice.plain) {
    if (!choice.normalized) sum = all;
  } else if (!choice.normalized) {
    sum = 1;
  } else {
    constexpr float kSmallest = 0x1p-126f;  // All weights may be too small to be distinguished from 0.
    sum = sum < kSmallest ? kSmallest : sum;
  }
  const float share = choice.scale / sum;
  __syncwarp();
  for (int i = lane; i < n_used; i += kWarp) {
    float& weight = weights[row * n_used + i];
    weight *= share;
    if (choice.expert_scales) weight *= choice.expert_scales[chosen[row * n_used + i]];
  }
}

// Counts the token's experts. `slots` receives each pair's index among its expert's pairs. Runs in one warp after
// choose_row().
MONOLITH_DEVICE void arrive(int64_t row, int n_used, const int32_t* chosen, int32_t* arrived, int32_t* slots) {
  for (int i = lane_id(); i < n_used; i += kWarp)
    slots[row * n_used + i] = atomicAdd(arrived + chosen[row * n_used + i], 1);
}

struct Sizes {
  int32_t n_experts, n_used, n_pairs, n_slots, most_tiles, tile_columns;
};

MONOLITH_DEVICE void place(const Routing& routing, const Sizes& sizes, int pair) {
  const int32_t slot = routing.first_slot[routing.chosen[pair]] + routing.slots[pair];
  routing.slots[pair] = slot;
  routing.source[slot] = pair / sizes.n_used;
}

// Computes each expert's first slot, the tiles, and the unused slots, using one block.
template <int kThreads>
MONOLITH_DEVICE void arrange(const Routing& routing, const Sizes& sizes, int32_t* arrived, BlockCounts& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const Run run = run_of<kThreads>(sizes.n_experts);
  Counts own{0, 0}, total;
  for (int expert = run.first; expert < run.last; ++expert)
    own = {own.slots + slots_for(arrived[expert]), own.tiles + tiles_for(arrived[expert], sizes.tile_columns)};
  Counts at = counts_before<kThreads>(own, total, shared);
  for (int expert = run.first; expert < run.last; ++expert) {
    const int32_t count = arrived[expert], slots = slots_for(count);
    arrived[expert] = 0;
    routing.count[expert] = count;
    routing.first_slot[expert] = at.slots;
    for (int32_t i = count; i < slots; ++i) routing.source[at.slots + i] = -1;
    at.tiles += put_tiles(routing.tiles + at.tiles, at.slots, count, expert, sizes.tile_columns);
    at.slots += slots;
  }
  for (int slot = total.slots + thread; slot < sizes.n_slots; slot += kThreads) routing.source[slot] = -1;
  for (int tile = total.tiles + thread; tile < sizes.most_tiles; tile += kThreads) routing.tiles[tile] = {0, 0, 0};
}

constexpr int kFewThreads = 512, kFewWarps = kFewThreads / kWarp, kFewRows = 2 * kFewWarps, kFewExperts = 512;
struct FewShared {
  Keys<kFewExperts> keys[kFewWarps];
  int32_t arrived[kFewExperts];
  BlockCounts counts;
};

// Performs the whole routing in one block, for few tokens and experts.
__global__ void __launch_bounds__(kFewThreads)
    route_kernel(const Choice choice, const Routing routing, const Sizes sizes) {
  start_after_inputs();
  auto& shared = shared_memory<FewShared>();
  const int n_rows = sizes.n_pairs / sizes.n_used;
  for (int e = static_cast<int>(threadIdx.x); e < sizes.n_experts; e += kFewThreads) shared.arrived[e] = 0;
  __syncthreads();
  for (int row = warp_id(); row < n_rows; row += kFewWarps) {
    choose_row(choice, row, shared.keys[warp_id()], routing.chosen, routing.weights);
    arrive(row, sizes.n_used, routing.chosen, shared.arrived, routing.slots);
  }
  __syncthreads();
  arrange<kFewThreads>(routing, sizes, shared.arrived, shared.counts);
  __syncthreads();
  for (int pair = static_cast<int>(threadIdx.x); pair < sizes.n_pairs; pair += kFewThreads) place(routing, sizes, pair);
}

// One block per token.
template <int kExperts>
__global__ void __launch_bounds__(kWarp) choose_kernel(const Choice choice, const Routing routing) {
  start_after_inputs();
  auto& keys = shared_memory<Keys<kExperts>>();
  choose_row(choice, blockIdx.x, keys, routing.chosen, routing.weights);
  arrive(blockIdx.x, choice.n_used, routing.chosen, routing.arrived, routing.slots);
}

constexpr int kThreads = 1024;
constexpr int kMaxPlaced = 8 * kThreads;  // Maximum number of pairs that the arranging block places itself.
__global__ void __launch_bounds__(kThreads) arrange_kernel(const Routing routing, const Sizes sizes) {
  start_after_inputs();
  auto& shared = shared_memory<BlockCounts>();
  arrange<kThreads>(routing, sizes, routing.arrived, shared);
  if (sizes.n_pairs > kMaxPlaced) return;
  __syncthreads();
  for (int pair = static_cast<int>(threadIdx.x); pair < sizes.n_pairs; pair += kThreads) place(routing, sizes, pair);
}

constexpr int kPlaceThreads = 256;
__global__ void __launch_bounds__(kPlaceThreads) place_kernel(const Routing routing, const Sizes sizes) {
  start_after_inputs();
  const int pair = static_cast<int>(blockIdx.x) * kPlaceThreads + static_cast<int>(threadIdx.x);
  if (pair < sizes.n_pairs) place(routing, sizes, pair);
}

}  // namespace

ColumnGroups route(Runtime& runtime, const Router& router, const MixtureShape& shape, const float* logits, int n_rows,
                   int tile_columns, const Routing& routing, const int32_t* given) {
  const int n_pairs = n_rows * shape.n_used, n_experts = shape.n_experts;
  const Choice choice{.logits = logits,
                      .bias = router.bias,
                      .n_experts = n_experts,
                      .n_used = shape.n_used,
                      .groups = router.groups,
                      .groups_used = router.groups_used,
                      .score = router.score,
                      .plain = router.score == RouterScore::kSoftmax && !router.bias && router.groups == 1 && !given,
                      .normalized = router.normalized,
                      .scale = router.scale,
                      .expert_scales = router.expert_scales,
                      .given = given};
  const Sizes sizes{.n_experts = n_experts,
                    .n_used = shape.n_used,
                    .n_pairs = n_pairs,
                    .n_slots = static_cast<int32_t>(most_slots(n_pairs, n_experts)),
                    .most_tiles = static_cast<int32_t>(most_tiles(n_pairs, n_experts, tile_columns)),
                    .tile_columns = tile_columns};
  const dim3 one{1, 1, 1}, rows{static_cast<unsigned>(n_rows), 1, 1};
  if (n_rows <= kFewRows && n_experts <= kFewExperts) {
    launch(runtime, route_kernel, one, kFewThreads, sizeof(FewShared), choice, routing, sizes);
  } else {
    if (n_experts <= kFewExperts)
      launch(runtime, choose_kernel<kFewExperts>, rows, kWarp, sizeof(Keys<kFewExperts>), choice, routing);
    else
      launch(runtime, choose_kernel<kMaxExperts>, rows, kWarp, sizeof(Keys<kMaxExperts>), choice, routing);
    launch(runtime, arrange_kernel, one, kThreads, sizeof(BlockCounts), routing, sizes);
    if (n_pairs > kMaxPlaced)
      launch(runtime, place_kernel, dim3{static_cast<unsigned>((n_pairs + kPlaceThreads - 1) / kPlaceThreads), 1, 1},
             kPlaceThreads, 0, routing, sizes);
  }
  return {.source = routing.source,
          .first_slot = routing.first_slot,
          .count = routing.count,
          .tiles = routing.tiles,
          .n_slots = sizes.n_slots,
          .n_pairs = n_pairs,
          .n_experts = n_experts,
          .tile_columns = tile_columns};
}

}  // namespace monolith::cuda
