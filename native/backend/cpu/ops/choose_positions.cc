// Sparse-attention indexer: scores all keys and selects the best positions, or blocks of positions, for each token.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/latents.h"
#include "backend/cpu/ops/pieces.h"

namespace monolith {

void CpuBackend::select_positions(const SparseIndexer& index, std::span<const Segment> segments,
                                  const KvCache& kv_cache, float* chosen) {
  const auto& cache = static_cast<const CpuKvCache&>(kv_cache);
  const CpuKvCache::Layer& keys = cache.layer(index.layer);
  const CpuKvCache::Chosen& room = cache.chosen();
  assert(keys.latents && keys.key_dim % kLanes == 0 && index.most <= cache.shape.most_chosen);
  const int dim = keys.key_dim;
  for (const Segment& segment : segments)
    for (int i = std::clamp((index.most + 1) * index.block - 1 - segment.first_position, 0, segment.n_tokens);
         i < segment.n_tokens; ++i) {
      const int64_t row = segment.first_row + i;
      const int n = (segment.first_position + i + 1) / index.block, n_pages = (n + kPageTokens - 1) / kPageTokens;
      const float* const q = index.q + row * index.n_heads * dim;
      const float* const weights = index.weights + row * index.n_heads;
      // If keys represent blocks, a page holds only a few of them. In this case, the keys of several pages are gathered
      // in `into`.
      const auto page_at = [&](int64_t page, float* into) -> const std::byte* {
        if (index.block == 1)
          return keys.values.data + static_cast<size_t>(segment.pages[page]) * keys.values.page_stride;
        CpuKvCache::Layer together = keys;
        together.page_rows = kPageTokens;
        together.values.data = reinterpret_cast<std::byte*>(into);
        const int64_t first = page * kPageTokens;
        for (int64_t at = 0; at < std::min<int64_t>(kPageTokens, n - first); ++at)
          copy_latents(keys, cache.shape.type, segment.pages[page_of_block(first + at, index.block)],
                       static_cast<int>((first + at) % keys.page_rows), together, at);
        return together.values.data;
      };
      const int64_t grain = std::max<int64_t>(1, kProductsAlone / (int64_t{kPageTokens} * index.n_heads * dim));
      pool_.parallel_for(n_pages, grain, [&](int64_t begin, int64_t end, int thread) {
        float* const memory = ops_scratch_.tile(thread);
        float* const gathered = memory + kTileQueries * kScoreStride + int64_t{kPageTokens} * dim;
        for (int64_t page = begin; page < end; ++page) {
          const std::byte* const own = page_at(page, gathered);
          const std::byte* const next =
              index.block == 1 ? page_at(std::min<int64_t>(page + 1, n_pages - 1), nullptr) : own;
          for (int head = 0; head < index.n_heads; head += kTileQueries) {
            const AttentionTile tile{
                .n_queries = std::min(kTileQueries, index.n_heads - head),
                .key_dim = dim,
                .value_dim = dim,
                .starts = nullptr,
                .limits = nullptr,
                .q = q + int64_t{head} * dim,
                .q_stride = dim,
                .pages = nullptr,
                .keys = nullptr,
                .values = nullptr,
                .key_page_bytes = 0,
                .value_page_bytes = 0,
                .value_stride = keys.value_stride,
                .type = cache.shape.type,
                .soft_cap = 0.0f,
                .scores = memory,
                .rows = memory + kTileQueries * kScoreStride,
                .unpacked = is_packed(cache.shape.type)
                                ? reinterpret_cast<std::byte*>(gathered + int64_t{kPageTokens} * dim)
                                : nullptr};
            ops_.index_page(tile, own, next, weights + head, head == 0, room.scores + page * kPageTokens);
          }
        }
      });
      std::iota(room.order, room.order + n, 0);
      // A position's score is exactly zero if its dot product is not positive for any head. This is common, so the last
      // of the selected positions are often tied with others. Among tied positions, the bounded heap selects the same
      // ones as llama.cpp does, and its choice depends only on the row.
      std::partial_sort(room.order, room.order + index.most, room.order + n,
                        [&](int32_t a, int32_t b) { return room.scores[a] > room.scores[b]; });
      std::sort(room.order, room.order + index.most);
      std::copy_n(room.order, index.most, reinterpret_cast<int32_t*>(chosen) + row * index.most);
    }
}

}  // namespace monolith
