// Compressed attention (BlockPool, BlockRows, AttentionParams::block): pools blocks of positions into rows, stores
// these rows, and attends to them in addition to a sliding window.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/latents.h"

namespace monolith {
namespace {

// Number of elements of a row that one task processes. It processes them in all rows.
constexpr int64_t kPooledNumbers = 128;
// Initial value of the largest score. No weight is ever computed relative to this value. It is finite so that
// differences from it are also finite.
constexpr float kNoScore = -1e30f;

// A range of elements of a block that is being filled.
struct Pooled {
  float* top;     // Largest score so far.
  float* sum;     // Sum of weights relative to `top`.
  float* values;  // Weighted sum of values.
  int64_t n;

  void clear() const {
    std::fill_n(top, n, kNoScore);
    std::fill_n(sum, n, 0.0f);
    std::fill_n(values, n, 0.0f);
  }
  void copy(const Pooled& from) const {
    std::copy_n(from.top, n, top);
    std::copy_n(from.sum, n, sum);
    std::copy_n(from.values, n, values);
  }
  void add(const OpKernels& kernels, const float* value, const float* score, const float* bias) const {
    float kept[kPooledNumbers], added[kPooledNumbers];
    for (int64_t i = 0; i < n; ++i) {
      const float own = score[i] + bias[i], largest = std::max(top[i], own);
      kept[i] = top[i] - largest;
      added[i] = own - largest;
      top[i] = largest;
    }
    kernels.logits.exp(kept, n, 0.0f, kept);
    kernels.logits.exp(added, n, 0.0f, added);
    for (int64_t i = 0; i < n; ++i) {
      sum[i] = sum[i] * kept[i] + added[i];
      values[i] = values[i] * kept[i] + added[i] * value[i];
    }
  }
};

}  // namespace

void CpuBackend::pool_blocks(const BlockPool& blocks, std::span<const Segment> segments, const LayerSlots& state,
                             const float* values, const float* scores, float* out) {
  const int64_t dim = blocks.dim, width = blocks.width();
  pool_.parallel_for((dim + kPooledNumbers - 1) / kPooledNumbers, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece * kPooledNumbers, n = std::min(kPooledNumbers, dim - first);
      const auto pooled = [&](int32_t slot, int which) {
        float* const at = state.of(slot) + which * 3 * dim + first;
        return Pooled{at, at + dim, at + 2 * dim, n};
      };
      const int parts = blocks.overlap ? 2 : 1;
      const int64_t own_at = first + (blocks.overlap ? dim : 0);
      for (const Segment& segment : segments) {
        for (int part = 0; part < parts; ++part) {
          if (segment.state_from == kNoSlot)
            pooled(segment.state_to, part).clear();
          else if (segment.state_from != segment.state_to)
            pooled(segment.state_to, part).copy(pooled(segment.state_from, part));
        }
        const Pooled own = pooled(segment.state_to, 0), next = pooled(segment.state_to, parts - 1);
        for (int i = 0; i < segment.n_tokens; ++i) {
          const int64_t row = segment.first_row + i;
          const int phase = (segment.first_position + i) % blocks.block;
          const float* const bias = blocks.bias + phase * width;
          own.add(ops_, values + row * width + own_at, scores + row * width + own_at, bias + own_at);
          if (blocks.overlap) next.add(ops_, values + row * width + first, scores + row * width + first, bias + first);
          if (phase + 1 < blocks.block) continue;
          float* const to = out + row * dim + first;
          for (int64_t d = 0; d < n; ++d) to[d] = own.values[d] / own.sum[d];
          if (blocks.overlap) own.copy(next);
          next.clear();
        }
      }
    }
  });
}

void CpuBackend::store_blocks(const BlockRows& blocks, std::span<const Segment> segments, float* rows,
                              KvCache& kv_cache) {
  auto& cache = static_cast<CpuKvCache&>(kv_cache);
  const CpuKvCache::Layer& own = cache.layer(blocks.layer);
  const RopeParams& rope = blocks.rope;
  constexpr int kMaxRotated = 1024;
  assert(own.latents && rope.n_dims % 2 == 0 && rope.n_dims <= std::min(own.key_dim, kMaxRotated));
  for (const Segment& segment : segments) {
    const int64_t first = segment.first_position / blocks.block;
    // Number of blocks that are completed in this segment.
    const int64_t n = (segment.first_position + segment.n_tokens) / blocks.block - first;
    pool_.parallel_for(n, 8, [&](int64_t begin, int64_t end, int) {
      float factors[2 * kMaxRotated];
      for (int64_t index = first + begin; index < first + end; ++index) {
        const int64_t position = (index + 1) * blocks.block - 1;
        float* const row = rows + (segment.first_row + position - segment.first_position) * own.key_dim;
        ops_.rms_norm(row, blocks.norm, blocks.eps, own.key_dim, row);
        if (rope.n_dims > 0) {
          const auto turns = static_cast<int32_t>(index * blocks.block);
          rope_factors(rope, {turns, turns, turns}, factors, factors + rope.n_dims);
          ops_.rotate(row + own.key_dim - rope.n_dims, factors, factors + rope.n_dims, rope.n_dims, rope.style);
        }
        store_latents(ops_, own, cache.shape.type, segment.pages[page_of_block(index, blocks.block)],
                      static_cast<int>(index % own.page_rows), row);
      }
    });
  }
}

// Processes each token separately. The rows that the token attends to are gathered in order, with the window first, and
// the token attends to them as if they were a separate sequence.
void CpuBackend::attend_to_blocks(const AttentionCall& call) {
  const auto& cache = static_cast<const CpuKvCache&>(call.cache);
  const AttentionParams& params = call.params;
  const CpuKvCache::Layer& own = cache.layer(call.layer);
  const CpuKvCache::Layer& kept = cache.layer(params.block_layer);
  const KvType type = cache.shape.type;
  assert(own.latents && kept.latents && own.key_dim == kept.key_dim && params.window > 0);
  assert(params.temperature_scale == 0.0f && !params.chunked);
  const CpuKvCache::Chosen& room = cache.chosen();
  const CpuKvCache::Layer gathered = room.gathered(own);
  AttentionCall alone = call;
  alone.params.window = alone.params.block = 0;
  alone.params.chosen = nullptr;
  for (const Segment& segment : call.segments)
    for (int i = 0; i < segment.n_tokens; ++i) {
      const int row = segment.first_row + i, position = segment.first_position + i;
      const int first = std::max(0, position - params.window + 1), n_near = position + 1 - first;
      const int n_blocks = (position + 1) / params.block;
      const bool choose = params.most_chosen > 0 && n_blocks > params.most_chosen;
      const int n = n_near + (choose ? params.most_chosen : n_blocks);
      assert(n <= cache.shape.most_chosen);
      const auto* const chosen = reinterpret_cast<const int32_t*>(params.chosen) + int64_t{row} * params.most_chosen;
      pool_.parallel_for(n, kGatheredAlone, [&](int64_t begin, int64_t end, int) {
        for (int64_t at = begin; at < end; ++at) {
          if (at < n_near) {
            const int64_t near = first + at;
            copy_latents(own, type, segment.pages[near / kPageTokens], static_cast<int>(near % kPageTokens), gathered,
                         at);
          } else {
            const int64_t index = choose ? chosen[at - n_near] : at - n_near;
            copy_latents(kept, type, segment.pages[page_of_block(index, params.block)],
                         static_cast<int>(index % kept.page_rows), gathered, at);
          }
        }
      });
      const Segment view{row, 1, n - 1, room.in_order.data()};
      alone.segments = {&view, 1};
      attend(alone, gathered);
    }
}

}  // namespace monolith
