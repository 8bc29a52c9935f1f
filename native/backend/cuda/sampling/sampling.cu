// Sampling with one block per row of logits. The passes over a row are:
// - Find the largest logit.
// - If top_k or top_p applies, build a histogram of counts or weights over the distance from the largest logit, and
//   fetch the tokens in the bin that contains the cutoff. If that bin has too many tokens, which happens with equal
//   logits, narrow it down with further histograms over ever finer parts of the logits and then of the token ids.
// - Sum the weights of the remaining tokens in tiles.
// - Draw a tile and then a token of that tile.
#include <limits>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/sampling/sampling.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBins = 2048;
constexpr int kMaxFetched = 2048;  // Maximum number of tokens that are sorted.
constexpr int kTile = 1024;
static_assert(kBins == 2 * kThreads && kMaxFetched == 2 * kThreads && kTile == kThreads);
static_assert(kMaxSampled <= kTile * kThreads);
constexpr uint64_t kNothing = ~uint64_t{0};

struct Bins {
  uint32_t low[kBins], high[kBins];  // The sums of the bins, in two halves.
  uint32_t count[kBins];
};

struct Shared {
  union {
    Bins bins;
    uint64_t tiles[kThreads];
  };
  uint64_t keys[kMaxFetched];
  uint64_t of_warp[kWarps];
  uint64_t passed;  // Results of one thread that all threads need.
  uint32_t number, count;
};

MONOLITH_DEVICE float never() { return -std::numeric_limits<float>::infinity(); }

// exp(x) for x <= 0 in quanta of 2^-34, with the same operations as engine/sampling/sampler_kernels-inl.h. Results
// below 2^-35 are zero. Most logits of a row are in that range, so the function returns early for them.
MONOLITH_DEVICE float quantized_exp(float x) {
  if (!(x >= -24.5f)) return 0.0f;  // The bound corresponds to 2^-35.3. The comparison is also false for NaN.
  constexpr float kRound = 12582912.0f;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float w = p * as_float((as_bits(shifted) << 23) + (127u << 23));
  constexpr float kSmall = 1.0f / 2048;
  return w < kSmall ? (w + kSmall) - kSmall : w;
}

MONOLITH_DEVICE uint64_t quanta_of(float weight) { return static_cast<uint64_t>(weight * 17179869184.0f); }

// The logits of a row, with masked tokens at -infinity.
struct Row {
  const float* logits;
  const uint64_t* mask;  // Null allows all tokens.
  int n;
  MONOLITH_DEVICE float at(int id) const {
    return mask && (mask[id / 64] >> (id % 64) & 1) == 0 ? never() : logits[id];
  }
};

struct Scale {
  float max, inverse_temperature;
  MONOLITH_DEVICE float weight(float logit) const { return quantized_exp((logit - max) * inverse_temperature); }
};

// A cutoff: keeps the best tokens up to and including (logit, id).
struct Cut {
  float logit;
  int32_t id;
  MONOLITH_DEVICE bool keeps(float other, int32_t other_id) const {
    return other > logit || (other == logit && other_id <= id);
  }
};
MONOLITH_DEVICE Cut no_cut() { return {never(), std::numeric_limits<int32_t>::max()}; }

// rank_of() and key_of() map tokens to integers that are smaller for better tokens. A token with a larger logit is
// better; among equal logits, the smaller id is better. +0 and -0 are equal.
MONOLITH_DEVICE uint32_t rank_of(float logit) {
  const uint32_t bits = as_bits(logit + 0.0f);
  return (bits >> 31) != 0 ? bits : ~(bits | 0x80000000u);
}
MONOLITH_DEVICE float logit_of(uint32_t rank) { return as_float((rank >> 31) != 0 ? rank : ~rank & 0x7fffffffu); }
MONOLITH_DEVICE uint64_t key_of(float logit, int id) {
  return uint64_t{rank_of(logit)} << 32 | static_cast<uint32_t>(id);
}
MONOLITH_DEVICE float logit_of_key(uint64_t key) { return logit_of(static_cast<uint32_t>(key >> 32)); }
MONOLITH_DEVICE int id_of_key(uint64_t key) { return static_cast<int>(static_cast<uint32_t>(key)); }

// --- block-wide operations ---
//
// All threads of the block must call each of these functions. When a function returns, `shared` may be reused.

MONOLITH_DEVICE uint64_t block_min(uint64_t value, Shared& shared) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint64_t other = __shfl_xor_sync(kWholeWarp, value, distance);
    value = other < value ? other : value;
  }
  if (lane_id() == 0) shared.of_warp[warp_id()] = value;
  __syncthreads();
  for (int i = 0; i < kWarps; ++i) value = shared.of_warp[i] < value ? shared.of_warp[i] : value;
  __syncthreads();
  return value;
}

// Returns the exclusive prefix sum over the block's threads. `total` receives the sum over all threads.
MONOLITH_DEVICE uint64_t block_sum_before(uint64_t value, uint64_t& total, Shared& shared) {
  uint64_t sum = value;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const uint64_t before = __shfl_up_sync(kWholeWarp, sum, distance);
    if (lane_id() >= distance) sum += before;
  }
  if (lane_id() == kWarp - 1) shared.of_warp[warp_id()] = sum;
  __syncthreads();
  uint64_t before = 0;
  total = 0;
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp_id()) before += shared.of_warp[i];
    total += shared.of_warp[i];
  }
  __syncthreads();
  return before + sum - value;
}

// Calls f(id, logit) for all logits [n], divided among the threads, four at a time if the logits are aligned.
template <typename F>
MONOLITH_DEVICE void for_each(const float* logits, int n, F&& f) {
  const int t = static_cast<int>(threadIdx.x);
  if (reinterpret_cast<uintptr_t>(logits) % sizeof(Floats4) != 0) {
    for (int id = t; id < n; id += kThreads) f(id, logits[id]);
    return;
  }
  const auto* const fours = reinterpret_cast<const Floats4*>(logits);
  for (int i = t; i < n / 4; i += kThreads) {
    const Floats4 x = fours[i];
    f(4 * i, x.x);
    f(4 * i + 1, x.y);
    f(4 * i + 2, x.z);
    f(4 * i + 3, x.w);
  }
  for (int id = n / 4 * 4 + t; id < n; id += kThreads) f(id, logits[id]);
}

template <typename F>
MONOLITH_DEVICE void for_each(const Row& row, F&& f) {
  if (!row.mask) return for_each(row.logits, row.n, f);
  for_each(row.logits, row.n,
           [&](int id, float logit) { f(id, (row.mask[id / 64] >> (id % 64) & 1) != 0 ? logit : never()); });
}

// Returns the key of the best token. Sets `finite` to whether all logits are finite, including the logits of tokens
// that are not allowed.
MONOLITH_DEVICE uint64_t find_best(const Row& row, bool& finite, Shared& shared) {
  uint64_t best = kNothing;
  bool bad = false;
  for_each(row.logits, row.n, [&](int id, float logit) {
    bad |= !(logit - logit == 0.0f);
    const bool allowed = !row.mask || (row.mask[id / 64] >> (id % 64) & 1) != 0;
    const uint64_t key = key_of(allowed ? logit : never(), id);
    best = key < best ? key : best;
  });
  finite = block_min(bad ? 0 : 1, shared) == 1;
  return block_min(best, shared);
}

// Applies bias, bans and penalties to the task's logits and writes the result to the task's `adjusted` row. Returns
// false if a logit is not finite.
MONOLITH_DEVICE bool adjust(const DeviceTask& task, int n_vocab, Shared& shared) {
  const int t = static_cast<int>(threadIdx.x);
  float* const row = task.adjusted;
  bool bad = false;
  for_each(task.logits, n_vocab, [&](int id, float logit) {
    bad |= !(logit - logit == 0.0f);
    row[id] = logit;
  });
  if (block_min(bad ? 0 : 1, shared) == 0) return false;
  const auto add = [&](int i) {
    const TokenBias entry = task.bias[i];
    row[entry.token] = entry.bias <= kBanBias ? never() : row[entry.token] + entry.bias;
  };
  if (task.bias_repeats != 0) {
    for (int i = 0; t == 0 && i < task.n_bias; ++i) add(i);
  } else {
    for (int i = t; i < task.n_bias; i += kThreads) add(i);
  }
  __syncthreads();
  for (int i = t; i < task.n_banned; i += kThreads) row[task.banned[i]] = never();
  __syncthreads();
  for (int i = t; i < task.n_used; i += kThreads) {
    const UsedToken used = task.used[i];
    float logit = row[used.token];
    logit = logit > 0 ? logit / task.repetition_penalty : logit * task.repetition_penalty;
    if (used.generated > 0)
      logit -= task.frequency_penalty * static_cast<float>(used.generated) + task.presence_penalty;
    row[used.token] = logit;
  }
  __syncthreads();
  return true;
}

// --- selection -----------------------------------------------------------------------------------

// The part of a row to which the selection has been narrowed down: one bin for each level so far.
struct Part {
  int level = 0;
  int distance = 0;                  // The bin of level 0.
  uint32_t rank = 0, rank_mask = 0;  // The bins of levels 1 to 3.
  uint32_t id = 0, id_mask = 0;      // The bins of levels 4 and 5.

  // The bin does not decrease as the logit decreases. The last bin contains all distances of about 25 or more, at which
  // weights are 0.
  static MONOLITH_DEVICE int distance_of(float logit, const Scale& scale) {
    const float distance = (scale.max - logit) * scale.inverse_temperature * (kBins / 25.0f);
    return static_cast<int>(distance < kBins - 1 ? distance : kBins - 1);
  }
  // Returns -1 if the token is not in this part.
  MONOLITH_DEVICE int bin_of(float logit, int token, const Scale& scale) const {
    const int own = distance_of(logit, scale);
    if (level == 0) return own;
    const uint32_t rank_here = rank_of(logit);
    if (own != distance || (rank_here & rank_mask) != rank) return -1;
    const auto number = static_cast<uint32_t>(token);
    switch (level) {
      case 1: return static_cast<int>(rank_here >> 21);
      case 2: return static_cast<int>(rank_here >> 10 & 2047u);
      case 3: return static_cast<int>(rank_here & 1023u);
      default: break;
    }
    if ((number & id_mask) != id) return -1;
    return static_cast<int>(level == 4 ? number >> 11 : number & 2047u);
  }
  MONOLITH_DEVICE void enter(int bin) {
    const auto digit = static_cast<uint32_t>(bin);
    switch (level++) {
      case 0: distance = bin; break;
      case 1: rank = digit << 21, rank_mask = 2047u << 21; break;
      case 2: rank |= digit << 10, rank_mask |= 2047u << 10; break;
      case 3: rank |= digit, rank_mask |= 1023u; break;
      default: id = digit << 11, id_mask = ~2047u; break;
    }
  }
};
static_assert(kMaxSampled <= 1 << 22, "levels 4 and 5 distinguish 2^22 ids");

// Sorts the first `n` keys of shared.keys.
MONOLITH_DEVICE void sort_keys(int n, Shared& shared) {
  const int t = static_cast<int>(threadIdx.x);
  int size = 2;
  while (size < n) size *= 2;
  for (int i = n + t; i < size; i += kThreads) shared.keys[i] = kNothing;
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      if (t < size / 2) {
        const int i = t / distance * (2 * distance) + t % distance;
        const bool ascending = (i & run) == 0;
        const uint64_t a = shared.keys[i], b = shared.keys[i + distance];
        if ((a > b) == ascending) {
          shared.keys[i] = b;
          shared.keys[i + distance] = a;
        }
      }
      __syncthreads();
    }
  }
}

// Adds `value` to bin `bin`. The sums may be read only after all threads have added their values.
MONOLITH_DEVICE void add_to(Bins& bins, int bin, uint64_t value) {
  const auto low = static_cast<uint32_t>(value);
  const uint32_t before = atomicAdd(&bins.low[bin], low);
  const uint32_t high = static_cast<uint32_t>(value >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) atomicAdd(&bins.high[bin], high);
}

// Adds up the tokens kept by `outer`, from best to worst, and returns the token at which the total reaches a threshold.
// Without kWeighted, each token counts as 1 and the threshold is `wanted`. With kWeighted, each token counts as its
// weight, and the threshold is the fraction `share` of the total weight, but at least one quantum.
template <bool kWeighted>
MONOLITH_DEVICE Cut select(const Row& row, const Scale& scale, const Cut& outer, int wanted, float share,
                           Shared& shared) {
  const int t = static_cast<int>(threadIdx.x);
  const auto worth = [&](float logit) { return kWeighted ? quanta_of(scale.weight(logit)) : uint64_t{1}; };
  Part part;
  uint64_t mark = static_cast<uint64_t>(wanted), passed = 0;
  for (;;) {
    for (int i = t; i < kBins; i += kThreads) shared.bins.low[i] = shared.bins.high[i] = shared.bins.count[i] = 0;
    __syncthreads();
    uint32_t far = 0;  // Most tokens fall into the last bin, so each thread counts them separately to avoid contention.
    for_each(row, [&](int id, float logit) {
      if (!outer.keeps(logit, id)) return;
      const uint64_t value = worth(logit);
      if (value == 0) return;
      const int bin = part.bin_of(logit, id, scale);
      if (bin < 0) return;
      if (!kWeighted && bin == kBins - 1) {
        ++far;
        return;
      }
      if (kWeighted) add_to(shared.bins, bin, value);
      atomicAdd(&shared.bins.count[bin], 1u);
    });
    if (far != 0) atomicAdd(&shared.bins.count[kBins - 1], far);
    __syncthreads();
    // Finds the bin in which the total reaches the threshold. Each thread checks two bins.
    const auto sum_of = [&](int bin) {
      if (!kWeighted) return uint64_t{shared.bins.count[bin]};
      return uint64_t{shared.bins.high[bin]} << 32 | shared.bins.low[bin];
    };
    const uint64_t first = sum_of(2 * t), second = sum_of(2 * t + 1);
    uint64_t total;
    uint64_t before = passed + block_sum_before(first + second, total, shared);
    if (kWeighted && part.level == 0) {
      mark = static_cast<uint64_t>(ceil(static_cast<double>(share) * static_cast<double>(total)));
      if (mark == 0) mark = 1;
    }
    if (before < mark && mark <= before + first + second) {
      const bool in_first = mark <= before + first;
      const int bin = in_first ? 2 * t : 2 * t + 1;
      shared.number = static_cast<uint32_t>(bin);
      shared.passed = in_first ? before : before + first;
      shared.count = shared.bins.count[bin];
    }
    __syncthreads();
    const int bin = static_cast<int>(shared.number);
    const uint32_t count = shared.count;
    passed = shared.passed;
    __syncthreads();
    if (count > static_cast<uint32_t>(kMaxFetched)) {
      part.enter(bin);
      continue;
    }
    if (t == 0) shared.number = 0;
    __syncthreads();
    for_each(row, [&](int id, float logit) {
      if (!outer.keeps(logit, id) || worth(logit) == 0 || part.bin_of(logit, id, scale) != bin) return;
      shared.keys[atomicAdd(&shared.number, 1u)] = key_of(logit, id);
    });
    __syncthreads();
    const int n = static_cast<int>(count);
    sort_keys(n, shared);
    const auto worth_at = [&](int i) { return i < n ? worth(logit_of_key(shared.keys[i])) : uint64_t{0}; };
    const uint64_t a = worth_at(2 * t), b = worth_at(2 * t + 1);
    before = passed + block_sum_before(a + b, total, shared);
    if (before < mark && mark <= before + a + b) shared.passed = shared.keys[mark <= before + a ? 2 * t : 2 * t + 1];
    __syncthreads();
    const uint64_t last = shared.passed;
    __syncthreads();
    return {logit_of_key(last), id_of_key(last)};
  }
}

// --- drawing a token ------------------------------------------------------------------------------

MONOLITH_DEVICE uint64_t high_of_product(uint64_t a, uint64_t b) {
  const uint64_t a_low = a & 0xffffffffu, a_high = a >> 32, b_low = b & 0xffffffffu, b_high = b >> 32;
  const uint64_t low = a_low * b_low, middle = a_high * b_low + (low >> 32);
  const uint64_t other = a_low * b_high + (middle & 0xffffffffu);
  return a_high * b_high + (middle >> 32) + (other >> 32);
}

// Draws one of those tokens kept by `cut` whose weight is at least `least`, with probability proportional to its
// weight.
MONOLITH_DEVICE int draw(const Row& row, const Scale& scale, const Cut& cut, float least, uint64_t random,
                         Shared& shared) {
  const int t = static_cast<int>(threadIdx.x);
  const auto quanta_at = [&](int id) {
    if (id >= row.n) return uint64_t{0};
    const float logit = row.at(id);
    if (!cut.keeps(logit, id)) return uint64_t{0};
    const float weight = scale.weight(logit);
    return weight >= least ? quanta_of(weight) : uint64_t{0};
  };
  const int n_tiles = (row.n + kTile - 1) / kTile;
  for (int tile = warp_id(); tile < n_tiles; tile += kWarps) {
    uint64_t sum = 0;
    for (int i = 0; i < kTile; i += kWarp) sum += quanta_at(tile * kTile + i + lane_id());
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, distance);
    if (lane_id() == 0) shared.tiles[tile] = sum;
  }
  __syncthreads();
  // Finds the drawn tile, with one thread per tile, and then the drawn token, with one thread per token.
  uint64_t total;
  const uint64_t own = t < n_tiles ? shared.tiles[t] : 0;
  uint64_t before = block_sum_before(own, total, shared);
  const uint64_t chosen = high_of_product(random, total);
  if (before <= chosen && chosen < before + own) {
    shared.number = static_cast<uint32_t>(t);
    shared.passed = before;
  }
  __syncthreads();
  const int id = static_cast<int>(shared.number) * kTile + t;
  const uint64_t passed = shared.passed;
  __syncthreads();
  const uint64_t value = quanta_at(id);
  before = passed + block_sum_before(value, total, shared);
  if (before <= chosen && chosen < before + value) shared.number = static_cast<uint32_t>(id);
  __syncthreads();
  const auto token = static_cast<int>(shared.number);
  __syncthreads();
  return token;
}

MONOLITH_DEVICE int choose(const Row& row, const DeviceTask& task, uint64_t best, Shared& shared) {
  if (task.greedy != 0) return id_of_key(best);
  const Scale scale{logit_of_key(best), task.inverse_temperature};
  Cut cut = no_cut();
  if (task.top_k < row.n) cut = select<false>(row, scale, cut, task.top_k, 0, shared);
  if (task.top_p < 1.0f) cut = select<true>(row, scale, cut, 0, task.top_p, shared);
  return draw(row, scale, cut, task.min_p, task.random, shared);
}

// Computes the logprob results of a row whose best token is `best`.
MONOLITH_DEVICE void find_logprobs(const Row& row, uint64_t best, int n_top, DeviceResult& result, Shared& shared) {
  const Scale scale{logit_of_key(best), 1.0f};
  uint64_t own = 0, own_finite = 0, total, n_finite;
  for_each(row, [&](int, float logit) {
    own += quanta_of(scale.weight(logit));
    own_finite += logit != never() ? 1 : 0;
  });
  block_sum_before(own, total, shared);
  block_sum_before(own_finite, n_finite, shared);
  const int t = static_cast<int>(threadIdx.x);
  const int n = n_top < static_cast<int>(n_finite) ? n_top : static_cast<int>(n_finite);
  if (t == 0) {
    result.max = scale.max;
    result.quanta = total;
    result.n_top = n;
  }
  if (n == 0) return;
  const Cut cut = select<false>(row, scale, no_cut(), n, 0, shared);
  if (t == 0) shared.number = 0;
  __syncthreads();
  for_each(row, [&](int id, float logit) {
    if (cut.keeps(logit, id)) shared.keys[atomicAdd(&shared.number, 1u)] = key_of(logit, id);
  });
  __syncthreads();
  sort_keys(n, shared);
  if (t < n) {
    result.tops[t] = id_of_key(shared.keys[t]);
    result.top_logits[t] = logit_of_key(shared.keys[t]);
  }
}

__global__ void __launch_bounds__(kThreads) sample_kernel(const DeviceTask* tasks, int n_vocab, DeviceResult* results) {
  start_after_inputs();
  Shared& shared = shared_memory<Shared>();
  const DeviceTask task = tasks[blockIdx.x];
  DeviceResult& result = results[blockIdx.x];
  const auto answer = [&](int token) {
    if (threadIdx.x == 0) result.token = token;
  };
  Row row{task.logits, task.mask, n_vocab};
  bool finite = true, ignored;
  if (task.adjusted) {
    finite = adjust(task, n_vocab, shared);
    row.logits = task.adjusted;
  }
  if (!finite) return answer(-1);
  uint64_t best = find_best(row, task.adjusted ? ignored : finite, shared);
  if (!finite) return answer(-1);
  if (logit_of_key(best) == never()) {
    if (!task.mask) return answer(-1);
    row.logits = task.logits;  // All allowed tokens are banned, so bans are ignored.
    best = find_best(row, ignored, shared);
  }
  const int token = task.only >= 0 ? task.only : choose(row, task, best, shared);
  answer(token);
  if (task.n_top < 0) return;
  if (threadIdx.x == 0) result.logit = row.logits[token];
  find_logprobs(row, best, task.n_top, result, shared);
}

}  // namespace

void sample(Runtime& runtime, const DeviceTask* tasks, int n_tasks, int n_vocab, DeviceResult* results) {
  if (n_tasks <= 0) return;
  launch(runtime, sample_kernel, dim3{static_cast<unsigned>(n_tasks), 1, 1}, kThreads, sizeof(Shared), tasks, n_vocab,
         results);
}

}  // namespace monolith::cuda
