// Kernels of the sparse attention indexer: scoring positions and selecting the top k.
//
// Selection: a radix histogram of the scores' bits finds the smallest selected score. If exactly k positions reach that
// score, they are selected, in any order. If more positions reach it, ties are resolved exactly as std::partial_sort
// resolves them, with a heap that takes positions in order. A single thread runs the same heap algorithm, because the
// choice among equal scores depends on its whole history. Scores are often exactly zero, so ties are common in short
// contexts.
#include "backend/cuda/attention/position_index.h"

#include <stdexcept>
#include <string>

#include "backend/cuda/attention/kv_bytes.h"
#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

constexpr int kScoreWarps = 4, kScoreThreads = kScoreWarps * kWarp;
constexpr int kUnitPages = 8;  // Pages that a block scores per unit of work.

// Parameters of both kernels. The scores of rows first_row .. first_row + n_rows - 1 are adjacent in memory.
struct Choice {
  const DeviceSegment* segments;
  const int32_t* segment_of_row;
  const int32_t* pages;
  SparseIndexer index;
  KvView keys;
  float* scores;
  int64_t stride;
  int32_t* chosen;
  int32_t first_row, n_rows;
};

// Returns the number of keys that a token may select from: the positions up to its own, or the complete blocks of these
// positions.
MONOLITH_DEVICE int keys_of(const Choice& choice, const DeviceSegment& segment, int row) {
  return (segment.first_position + row - segment.first_row + 1) / choice.index.block;
}

// Returns dimension d of key `at`, or 0 beyond the last key. A block's key is stored in the page of the block's last
// position.
template <KvType type>
MONOLITH_DEVICE float key_number(const Choice& choice, const DeviceSegment& segment, int at, int n, int d) {
  if (at >= n) return 0;
  const int page = ((at + 1) * choice.index.block - 1) / kPageTokens;
  const unsigned char* const own = choice.keys.data + choice.pages[segment.first_page + page] * choice.keys.page_bytes;
  return kept_value<type>(own, at % choice.keys.page_rows, d, choice.keys.head_dim);
}

struct ScoreShared {
  float keys[kPageTokens][kMaxLatentDims + 1];  // The padding makes rows start in different banks.
  float sums[kScoreWarps][kPageTokens];
};

// Scores positions. A warp computes every fourth head, and a lane computes half of the dimensions for one position of a
// page. Heads are summed in ascending order within a warp, and the sums of the warps are added in order.
template <KvType type>
__global__ void __launch_bounds__(kScoreThreads) score_kernel(const __grid_constant__ Choice choice) {
  start_after_inputs();
  auto& shared = shared_memory<ScoreShared>();
  const int dim = choice.keys.head_dim, lane = lane_id(), slot = lane % kPageTokens;
  const int half = (dim + 1) / 2, begin = lane / kPageTokens * half, end = begin + half < dim ? begin + half : dim;
  const int64_t units = (choice.stride / kPageTokens + kUnitPages - 1) / kUnitPages;
  for (int64_t unit = blockIdx.x; unit < units * choice.n_rows; unit += gridDim.x) {
    const int of_piece = static_cast<int>(unit / units), row = choice.first_row + of_piece;
    const DeviceSegment segment = choice.segments[choice.segment_of_row[row]];
    const int n = keys_of(choice, segment, row), first_page = static_cast<int>(unit % units) * kUnitPages;
    if (n <= choice.index.most) continue;  // The token sees no more positions than it may select.
    const float* const q = choice.index.q + static_cast<int64_t>(row) * choice.index.n_heads * dim;
    const float* const weights = choice.index.weights + static_cast<int64_t>(row) * choice.index.n_heads;
    for (int page = first_page; page < first_page + kUnitPages && page * kPageTokens < n; ++page) {
      __syncthreads();  // All warps have read the previous page.
      for (int i = static_cast<int>(threadIdx.x); i < kPageTokens * dim; i += kScoreThreads)
        shared.keys[i / dim][i % dim] = key_number<type>(choice, segment, page * kPageTokens + i / dim, n, i % dim);
      __syncthreads();
      float sum = 0;
      for (int head = warp_id(); head < choice.index.n_heads; head += kScoreWarps) {
        float product = 0;
        for (int d = begin; d < end; ++d) product = fmaf(q[head * dim + d], shared.keys[slot][d], product);
        product += __shfl_xor_sync(kWholeWarp, product, kPageTokens);
        sum = fmaf(weights[head], product <= 0 ? 0.0f : product, sum);  // NaN passes through.
      }
      if (lane < kPageTokens) shared.sums[warp_id()][slot] = sum;
      __syncthreads();
      const int thread = static_cast<int>(threadIdx.x);
      if (thread >= kPageTokens) continue;
      float score = 0;
      for (int warp = 0; warp < kScoreWarps; ++warp) score += shared.sums[warp][thread];
      // NaN becomes -infinity, so it is never selected before a number. Adding 0.0 turns -0 into +0.
      choice.scores[of_piece * choice.stride + page * kPageTokens + thread] = score == score ? score + 0.0f : -INFINITY;
    }
  }
}

constexpr int kThreads = 512, kWarps = kThreads / kWarp, kBins = 256;

struct ChooseShared {
  uint32_t bins[kBins];
  int32_t of_warp[kWarps];
  uint32_t least;   // The bits determined so far of the smallest selected score.
  int32_t wanted;   // Number of positions to select among those whose scores start with these bits.
  int32_t reached;  // Number of positions that reach the smallest selected score.
  int32_t heap[kMaxChosen];
};

// Maps a score to an integer with the same ordering.
MONOLITH_DEVICE uint32_t key_of(float score) {
  const uint32_t bits = as_bits(score);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// The heap of libstdc++'s std::partial_sort with the order "a before b if a's score is larger". Its top is the smallest
// selected score.
struct Heap {
  int32_t* at;
  const float* scores;
  int n;

  MONOLITH_DEVICE bool before(int32_t a, int32_t b) const { return scores[a] > scores[b]; }
  // Inserts `value` at `hole`, whose subtrees are heaps.
  MONOLITH_DEVICE void put(int hole, int32_t value) const {
    const int top = hole;
    int child = hole;
    while (child < (n - 1) / 2) {
      child = 2 * (child + 1);
      if (before(at[child], at[child - 1])) --child;
      at[hole] = at[child];
      hole = child;
    }
    if (n % 2 == 0 && child == (n - 2) / 2) {
      child = 2 * (child + 1);
      at[hole] = at[child - 1];
      hole = child - 1;
    }
    for (int parent = (hole - 1) / 2; hole > top && before(at[parent], value); parent = (hole - 1) / 2) {
      at[hole] = at[parent];
      hole = parent;
    }
    at[hole] = value;
  }
  MONOLITH_DEVICE void choose(int n_positions) const {
    for (int i = 0; i < n; ++i) at[i] = i;
    for (int parent = (n - 2) / 2; n > 1 && parent >= 0; --parent) put(parent, at[parent]);
    for (int i = n; i < n_positions; ++i)
      if (before(i, at[0])) put(0, i);
  }
};

// Returns the exclusive prefix sum of `own` over the threads of the block.
MONOLITH_DEVICE int count_before(int own, ChooseShared& shared) {
  int sum = own;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int other = __shfl_up_sync(kWholeWarp, sum, static_cast<unsigned>(distance));
    if (lane_id() >= distance) sum += other;
  }
  if (lane_id() == kWarp - 1) shared.of_warp[warp_id()] = sum;
  __syncthreads();
  int before = sum - own;
  for (int warp = 0; warp < warp_id(); ++warp) before += shared.of_warp[warp];
  return before;
}

__global__ void __launch_bounds__(kThreads) choose_kernel(const __grid_constant__ Choice choice) {
  start_after_inputs();
  auto& shared = shared_memory<ChooseShared>();
  const int row = choice.first_row + static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int n = keys_of(choice, choice.segments[choice.segment_of_row[row]], row), most = choice.index.most;
  if (n <= most) return;
  float* const scores = choice.scores + static_cast<int64_t>(blockIdx.x) * choice.stride;
  if (thread == 0) {
    shared.least = 0;
    shared.wanted = most;
    shared.reached = 0;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {  // Determines eight more bits of the smallest selected score.
    for (int bin = thread; bin < kBins; bin += kThreads) shared.bins[bin] = 0;
    __syncthreads();
    const uint32_t known = shared.least, mask = shift == 24 ? 0u : ~0u << (shift + 8);
    for (int i = thread; i < n; i += kThreads)
      if (const uint32_t key = key_of(scores[i]); (key & mask) == known)
        atomicAdd(&shared.bins[key >> shift & 255u], 1u);
    __syncthreads();
    if (thread == 0) {
      int bin = kBins - 1;
      for (; bin > 0 && static_cast<int32_t>(shared.bins[bin]) < shared.wanted; --bin)
        shared.wanted -= static_cast<int32_t>(shared.bins[bin]);
      shared.least = known | static_cast<uint32_t>(bin) << shift;
      if (shift == 0) shared.reached = most - shared.wanted + static_cast<int32_t>(shared.bins[bin]);
    }
    __syncthreads();
  }
  const uint32_t least = shared.least;
  const bool by_heap = shared.reached > most;
  if (by_heap && thread == 0) {
    const Heap heap{shared.heap, scores, most};
    heap.choose(n);
    for (int i = 0; i < most; ++i) scores[heap.at[i]] = NAN;  // NaN marks selected positions, because no score is NaN.
  }
  __syncthreads();
  const auto is_chosen = [&](int i) { return by_heap ? scores[i] != scores[i] : key_of(scores[i]) >= least; };
  const int each = (n + kThreads - 1) / kThreads, begin = thread * each, end = begin + each < n ? begin + each : n;
  int count = 0;
  for (int i = begin; i < end; ++i) count += is_chosen(i) ? 1 : 0;
  int32_t* to = choice.chosen + static_cast<int64_t>(row) * most + count_before(count, shared);
  for (int i = begin; i < end; ++i)
    if (is_chosen(i)) *to++ = i;
}

}  // namespace

void select_positions(Runtime& runtime, const PositionChoice& choice) {
  const RowList& rows = *choice.rows;
  if (choice.index.most > kMaxChosen)
    throw std::runtime_error("the sparse attention indexer selects " + std::to_string(choice.index.most) +
                             " positions, more than the limit of " + std::to_string(kMaxChosen) +
                             " of the CUDA backend");
  const auto score = choice.type == KvType::kF32    ? score_kernel<KvType::kF32>
                     : choice.type == KvType::kF16  ? score_kernel<KvType::kF16>
                     : choice.type == KvType::kQ8_0 ? score_kernel<KvType::kQ8_0>
                                                    : score_kernel<KvType::kFp8>;
  const auto blocks = 4 * static_cast<unsigned>(runtime.device().multiprocessors);
  for (int first = 0; first < rows.n_rows; first += choice.scores.rows) {
    const int n = rows.n_rows - first < choice.scores.rows ? rows.n_rows - first : choice.scores.rows;
    const Choice work{rows.segments,      rows.segment_of_row,     rows.pages,    choice.index, choice.keys,
                      choice.scores.data, choice.scores.positions, choice.chosen, first,        n};
    launch(runtime, score, dim3{blocks, 1, 1}, kScoreThreads, sizeof(ScoreShared), work);
    launch(runtime, choose_kernel, dim3{static_cast<unsigned>(n), 1, 1}, kThreads, sizeof(ChooseShared), work);
  }
}

}  // namespace monolith::cuda
