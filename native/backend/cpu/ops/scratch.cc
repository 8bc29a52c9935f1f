#include "backend/cpu/ops/ops.h"

#include <algorithm>
#include <string>

#include "backend/cpu/ops/kernels.h"

namespace monolith {

// Size of each region in floats, rounded up to whole cache lines.
struct OpsScratch::Sizes {
  int64_t tile, tiles, partials, rope;
  int64_t bytes() const { return (tiles + partials + kRopeTables * rope) * static_cast<int64_t>(sizeof(float)); }
};

OpsScratch::Sizes OpsScratch::sizes_for(int threads, int max_rows, int64_t max_cols, int max_context,
                                        int max_head_dim) {
  const int64_t spans = (int64_t{max_context} + kAttentionSpan - 1) / kAttentionSpan;
  Sizes sizes;
  // A tile needs memory for packed queries, scores, the states so far, the states of the next span before they are
  // merged, and latents.
  sizes.tile =
      kTileQueries * (packed_query_floats(max_head_dim) + kScoreStride + 2 * attention_state_floats(max_head_dim)) +
      latent_scratch_floats(max_head_dim);
  sizes.tiles = threads * sizes.tile;
  // Attention is split over positions if a sequence is long compared with the rest of the step. This reserves states
  // for split_rows rows, all heads (at most max_cols floats, and twice that if heads are tiny) and all spans.
  const int64_t split_rows = std::min<int64_t>(max_rows, std::max(8, threads));
  sizes.partials = threads == 1 || spans == 1 ? 0 : split_rows * spans * 2 * round_up_to_lanes(max_cols);
  sizes.rope = int64_t{max_rows} * 2 * round_up_to_lanes(max_head_dim);
  return sizes;
}

size_t OpsScratch::bytes_for(int threads, int max_rows, int64_t max_cols, int max_context, int max_head_dim) {
  return static_cast<size_t>(sizes_for(threads, max_rows, max_cols, max_context, max_head_dim).bytes());
}

Status OpsScratch::reserve(int threads, int max_rows, int64_t max_cols, int max_context, int max_head_dim) {
  constexpr int64_t kMax = int64_t{1} << 24;  // Keeps all size computations far from overflow.
  if (threads < 1 || threads > 4096 || max_rows < 1 || max_rows > 65536 || max_cols < 1 || max_cols > kMax ||
      max_context < 1 || max_context > kMax || max_head_dim < 1 || max_head_dim > kMaxHeadDim)
    return Error{ErrorCode::kInvalidArgument,
                 "cannot reserve working memory for " + std::to_string(threads) + " threads, " +
                     std::to_string(max_rows) + " rows, " + std::to_string(max_cols) + " columns, " +
                     std::to_string(max_context) + " positions, head size " + std::to_string(max_head_dim)};
  const Sizes sizes = sizes_for(threads, max_rows, max_cols, max_context, max_head_dim);
  Result<Mapping> memory = Mapping::create(static_cast<size_t>(sizes.bytes()));
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  threads_ = threads;
  max_rows_ = max_rows;
  max_head_dim_ = max_head_dim;
  tile_floats_ = sizes.tile;
  partial_floats_ = sizes.partials;
  tiles_ = reinterpret_cast<float*>(memory_.data());
  partials_ = tiles_ + sizes.tiles;
  first_piece_.assign(max_rows + 1, 0);
  first_partial_.assign(max_rows + 1, 0);
  split_segments_.reserve(max_rows);
  seeing_all_.reserve(max_rows);
  for (int i = 0; i < kRopeTables; ++i) {
    rope_[i] = {};
    rope_[i].factors = partials_ + sizes.partials + i * sizes.rope;
    rope_[i].positions.assign(max_rows, RopeTable::kNotComputed);
    rope_[i].frequency.assign(max_head_dim / 2 + 1, 0.0f);
    rope_[i].axes.assign(max_head_dim / 2 + 1, 0);
  }
  next_rope_ = 0;
  return {};
}

}  // namespace monolith
