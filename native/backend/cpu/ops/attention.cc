// Splits attention into tasks: which queries share a pass over the pages, and which thread computes them. None of this
// affects the results. ops/attention-inl.h defines the order of arithmetic.
//
// The queries of a segment that use the same KV head are numbered row by row, head by head, and split into tiles of
// kTileQueries. A task is one (segment, KV head, tile). A single long sequence in decode yields only a few large tasks,
// so most threads would wait for the last one. Such tasks are therefore split further, into runs of spans of positions.
// The states of these runs are kept and merged in a second pass, in the same order in which a single thread would have
// merged them. The spans of a run are processed in ascending order, so that data is used right after it has been
// prefetched.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/latents.h"
#include "backend/cpu/ops/pieces.h"

namespace monolith {
namespace {

// Target number of tasks per thread. A segment is split into runs of spans if its tasks are larger than an equal share
// of the step's work. The segment is then split into about this many tasks per thread. On Zen 5, twice as many tasks
// were 3 to 6% slower, because each run starts with cold caches.
constexpr int kPiecesPerThread = 4;
// Number of parts in which the queries of a segment and KV head are merged. This lets threads share the merging even if
// all query heads use the same KV head.
constexpr int64_t kMergeParts = 8;
// Number of floats of state that one thread merges in about the time it takes to start a parallel section.
constexpr int64_t kMergedFloats = 16 * 1024;
constexpr int64_t kWhole = -1;

int spans_of(int64_t positions) { return static_cast<int>((positions + kAttentionSpan - 1) / kAttentionSpan); }

struct Attention {
  const OpKernels& kernels;
  std::span<const Segment> segments;
  const float* q;
  int64_t q_stride;
  const CpuKvCache::Layer& layer;
  KvType type;
  int group;  // Query heads per KV head.
  AttentionParams params;
  float* out;
  int64_t out_stride;

  int64_t state_floats() const { return attention_state_floats(layer.value_dim); }
  int64_t queries(const Segment& segment) const { return int64_t{segment.n_tokens} * group; }
  int64_t tiles(const Segment& segment) const { return (queries(segment) + kTileQueries - 1) / kTileQueries; }
  // Returns the scale for the scores of a query at `position`.
  float scale(int position) const {
    if (params.temperature_scale == 0.0f) return params.scale;
    const int periods = (position + params.temperature_offset) / params.temperature_length;
    return static_cast<float>(params.scale * (1.0 + params.temperature_scale * std::log(1.0 + periods)));
  }
  // Returns the first position to which a query at `position` attends.
  int start(int position) const {
    if (params.chunked) return position - position % params.window;
    return params.window > 0 ? std::max(0, position - params.window + 1) : 0;
  }
  // The segment's tokens attend to spans first_span() .. first_span() + spans() - 1.
  int first_span(const Segment& segment) const { return start(segment.first_position) / kAttentionSpan; }
  int spans(const Segment& segment) const {
    return spans_of(segment.seen_by(segment.first_position + segment.n_tokens - 1)) - first_span(segment);
  }
  // For a segment that is split, returns the number of spans per task.
  int run_of_spans(const Segment& segment, int threads) const {
    const int64_t pieces = tiles(segment) * layer.n_kv_heads;
    const int64_t runs = std::max<int64_t>(1, (int64_t{threads} * kPiecesPerThread + pieces - 1) / pieces);
    return static_cast<int>(std::max<int64_t>(1, spans(segment) / runs));
  }
  // Returns the number of query-key pairs in the segment's largest task.
  int64_t products(const Segment& segment) const {
    const int last = segment.first_position + segment.n_tokens - 1;
    return std::min<int64_t>(kTileQueries, queries(segment)) * (segment.seen_by(last) - start(last));
  }

  // Adds the attention sink for query `index` to its state's sum of weights. Weights are relative to the largest score.
  // If the sink's score is far above all others, the values are therefore multiplied by practically 0.
  void add_sink(float* state, int kv_head, int64_t index) const {
    if (params.sinks == nullptr) return;
    const int64_t top = round_up_to_lanes(layer.value_dim);
    float weight = params.sinks[int64_t{kv_head} * group + index % group];
    kernels.logits.exp(&weight, 1, state[top], &weight);
    state[top + 1] += weight;
  }

  // Returns the offset, in floats, of query `index` of (segment, kv_head) in the queries, or of its result in the
  // results. Rows are `stride` floats apart.
  int64_t offset(const Segment& segment, int kv_head, int64_t index, int64_t stride, int head_dim) const {
    const int64_t row = segment.first_row + index / group;
    return row * stride + (int64_t{kv_head} * group + index % group) * head_dim;
  }
  const float* query(const Segment& segment, int kv_head, int64_t index) const {
    return q + offset(segment, kv_head, index, q_stride, layer.key_dim);
  }
  // Writes the result of query `index` from its state.
  void finish(const Segment& segment, int kv_head, int64_t index, float* state) const {
    float* const to = out + offset(segment, kv_head, index, out_stride, layer.value_dim);
    add_sink(state, kv_head, index);
    kernels.attention_finish(state, layer.value_dim, to);
    if (rotates()) kernels.rotate_hadamard(to, layer.value_dim);
  }
  // Keys and values of packed types are stored rotated, so queries and results must also be rotated. Latents are not
  // rotated.
  bool rotates() const { return is_packed(type) && !layer.latents; }
};

// An attention tile in a thread's scratch memory, with packed and scaled queries and their starts and limits.
class Tile {
 public:
  Tile(const Attention& a, const Segment& segment, int kv_head, int64_t first_query, float* memory)
      : attention_(a), segment_(segment), kv_head_(kv_head), first_query_(first_query) {
    const CpuKvCache::Layer& layer = a.layer;
    const int key_dim = layer.key_dim;
    const int64_t padded_dim = round_up_to_lanes(key_dim);
    float* packed = memory;
    float* rows = packed + kTileQueries * packed_query_floats(key_dim);
    // Latents of 8 bits or fewer are converted to 16-bit integers for each tile.
    const bool packs = is_packed(a.type), as_bytes = packs || a.type == KvType::kQ8_0;
    const bool as_whole_numbers = layer.whole_numbers || (layer.latents && as_bytes);
    const int64_t key_stride = layer.latents ? layer.value_stride : layer.key_stride;
    float* scores = rows + (layer.latents || as_whole_numbers ? latent_scratch_floats(key_dim)
                            : packs                           ? unpacked_floats(key_dim, layer.value_dim)
                                                              : 0);
    states_ = scores + kTileQueries * kScoreStride;
    next_ = states_ + kTileQueries * a.state_floats();
    const int n = static_cast<int>(std::min<int64_t>(kTileQueries, a.queries(segment) - first_query));
    const auto position = [&](int i) { return segment.first_position + static_cast<int>((first_query + i) / a.group); };
    for (int i = 0; i < n; ++i) {
      limits_[i] = segment.seen_by(position(i));
      starts_[i] = a.start(position(i));
      if (a.params.max_alibi_bias > 0)
        slopes_[i] =
            alibi_slope(a.params.max_alibi_bias, kv_head * a.group + static_cast<int>((first_query + i) % a.group),
                        a.group * layer.n_kv_heads);
    }
    for (int i = 0; i < n; ++i) {
      const float* from = a.query(segment, kv_head, first_query + i);
      if (a.rotates()) {
        std::memcpy(scores, from, static_cast<size_t>(key_dim) * sizeof(float));
        a.kernels.rotate_hadamard(scores, key_dim);
        from = scores;
      }
      const float scale = a.scale(position(i));
      if (as_whole_numbers) {
        auto* const numbers = reinterpret_cast<int16_t*>(packed);
        const int n_blocks = latent_blocks(key_dim);
        float* const steps = reinterpret_cast<float*>(numbers + kTileQueries * key_stride) + i * n_blocks;
        for (int b = 0; b < n_blocks; ++b) {
          const int first = b * kLatentBlock, count = std::min(kLatentBlock, key_dim - first);
          steps[b] =
              scale * a.kernels.pack_latents(from + first, count, kMaxLatentQuery, numbers + i * key_stride + first);
        }
      } else if (layer.latents) {
        float* to = packed + i * padded_dim;
        for (int64_t d = 0; d < key_dim; ++d) to[d] = from[d] * scale;
        std::fill(to + key_dim, to + padded_dim, 0.0f);
      } else if (as_bytes) {
        a.kernels.pack_query_q8(from, key_dim, scale, packs ? packed_zero(a.type) : 128, i, n, packed);
      } else {
        for (int64_t d = 0; d < key_dim; ++d) packed[d * n + i] = from[d] * scale;
      }
    }
    const CpuKvCache::Pages& keys = layer.latents ? layer.values : layer.keys;
    tile_ = {.n_queries = n,
             .key_dim = key_dim,
             .value_dim = layer.value_dim,
             .starts = starts_,
             .limits = limits_,
             .q = packed,
             .q_stride = layer.latents ? static_cast<int>(padded_dim) : n,
             .pages = segment.pages,
             .keys = keys.of_head(kv_head),
             .values = layer.values.of_head(kv_head),
             .key_page_bytes = keys.page_stride,
             .value_page_bytes = layer.values.page_stride,
             .value_stride = layer.value_stride,
             .type = a.type,
             .soft_cap = a.params.soft_cap,
             .scores = scores,
             .rows = layer.latents || as_whole_numbers ? rows : nullptr,
             .key_stride = as_whole_numbers ? key_stride : 0,
             .slopes = a.params.max_alibi_bias > 0 ? slopes_ : nullptr,
             .unpacked = !packs          ? nullptr
                         : layer.latents ? reinterpret_cast<std::byte*>(scores) - unpacked_page_bytes(key_dim)
                                         : reinterpret_cast<std::byte*>(rows)};
  }

  // Computes all spans in order and writes the result.
  void whole() {
    const Attention& a = attention_;
    const int first_span = starts_[0] / kAttentionSpan;
    const int n_spans = spans_of(limits_[tile_.n_queries - 1]);
    a.kernels.attention_span(tile_, first_span, states_);
    for (int span = first_span + 1; span < n_spans; ++span) {
      a.kernels.attention_span(tile_, span, next_);
      a.kernels.attention_merge_tile(tile_, span, states_, next_);
    }
    for (int i = 0; i < tile_.n_queries; ++i)
      a.finish(segment_, kv_head_, first_query_ + i, states_ + i * a.state_floats());
  }

  // Computes the states of each span in [first_span, end_span) and stores them `partial_stride` floats apart, to be
  // merged later.
  void some_spans(int first_span, int end_span, float* partials, int64_t partial_stride) {
    const int first = std::max(first_span, starts_[0] / kAttentionSpan);
    const int end = std::min(end_span, spans_of(limits_[tile_.n_queries - 1]));
    for (int span = first; span < end; ++span) {
      attention_.kernels.attention_span(tile_, span, states_);
      // The states are copied only once they are complete. The cache lines of `partials` may still be in the cache of
      // the core that merged the previous states, and copying last keeps the next span from waiting for them.
      std::memcpy(partials + (span - first_span) * partial_stride, states_,
                  tile_.n_queries * attention_.state_floats() * sizeof(float));
    }
  }

 private:
  const Attention& attention_;
  const Segment& segment_;
  int kv_head_;
  int64_t first_query_;
  float* states_;
  float* next_;
  int starts_[kTileQueries];
  int limits_[kTileQueries];
  float slopes_[kTileQueries];
  AttentionTile tile_;
};

// Merges the states of the queries of part `part` of kMergeParts.
void merge_partials(const Attention& a, const Segment& segment, int kv_head, int64_t part, const float* partials,
                    float* state) {
  const int64_t n_queries = a.queries(segment), state_floats = a.state_floats();
  for (int64_t i = part * n_queries / kMergeParts; i < (part + 1) * n_queries / kMergeParts; ++i) {
    const int position = segment.first_position + static_cast<int>(i / a.group);
    const int first_kept = a.first_span(segment);
    const int first = a.start(position) / kAttentionSpan - first_kept;
    const int end = spans_of(segment.seen_by(position)) - first_kept;
    std::memcpy(state, partials + (first * n_queries + i) * state_floats,
                static_cast<size_t>(state_floats) * sizeof(float));
    a.kernels.attention_merge(state, partials + ((first + 1) * n_queries + i) * state_floats, n_queries * state_floats,
                              end - first - 1, a.layer.value_dim);
    a.finish(segment, kv_head, i, state);
  }
}

// Returns the index of the segment that contains task `piece`. `first` contains the number of each segment's first
// task, ascending, followed by the total number of tasks.
size_t segment_of(const std::vector<int64_t>& first, size_t n_segments, int64_t piece) {
  return static_cast<size_t>(std::upper_bound(first.begin(), first.begin() + n_segments, piece) - first.begin()) - 1;
}

}  // namespace

void CpuBackend::attention(const AttentionCall& call) {
  const auto& cache = static_cast<const CpuKvCache&>(call.cache);
  const AttentionParams& params = call.params;
  const CpuKvCache::Layer& own = cache.layer(call.layer);
  const KvType type = cache.shape.type;
  if (params.block > 0) return attend_to_blocks(call);
  if (params.chosen == nullptr) return attend(call, own);
  // A segment's tokens that see at most most_chosen positions attend to all of them. For each later token, the selected
  // latents are gathered in order of position, and the token attends to them as if they were a separate sequence.
  assert(own.latents && params.temperature_scale == 0.0f && params.window == 0);
  const int most = params.most_chosen;
  std::vector<Segment>& seeing_all = ops_scratch_.seeing_all_;
  seeing_all.clear();
  for (const Segment& segment : call.segments) {
    Segment some = segment;
    some.n_tokens = std::clamp(most - segment.first_position, 0, segment.n_tokens);
    if (some.n_tokens > 0) seeing_all.push_back(some);
  }
  AttentionCall part = call;
  part.segments = seeing_all;
  if (!seeing_all.empty()) attend(part, own);
  const CpuKvCache::Chosen& chosen = cache.chosen();
  const CpuKvCache::Layer gathered = chosen.gathered(own);
  for (const Segment& segment : call.segments)
    for (int i = std::clamp(most - segment.first_position, 0, segment.n_tokens); i < segment.n_tokens; ++i) {
      const int row = segment.first_row + i;
      const auto* positions = reinterpret_cast<const int32_t*>(params.chosen) + int64_t{row} * most;
      pool_.parallel_for(most, kGatheredAlone, [&](int64_t begin, int64_t end, int) {
        for (int64_t at = begin; at < end; ++at)
          copy_latents(own, type, segment.pages[positions[at] / kPageTokens], positions[at] % kPageTokens, gathered,
                       at);
      });
      const Segment alone{row, 1, most - 1, chosen.in_order.data()};
      part.segments = {&alone, 1};
      attend(part, gathered);
    }
}

void CpuBackend::attend(const AttentionCall& call, const CpuKvCache::Layer& own) {
  const int n_kv_heads = own.n_kv_heads;
  const std::span<const Segment> segments = call.segments;
  assert(call.n_heads % n_kv_heads == 0 && std::max(own.key_dim, own.value_dim) <= ops_scratch_.max_head_dim_);
  assert(pool_.size() <= ops_scratch_.threads_ && segments.size() < ops_scratch_.first_piece_.size());
  const Attention a = {.kernels = ops_,
                       .segments = segments,
                       .q = call.q,
                       .q_stride = call.q_stride,
                       .layer = own,
                       .type = call.cache.shape.type,
                       .group = call.n_heads / n_kv_heads,
                       .params = call.params,
                       .out = call.out,
                       .out_stride = call.out_stride};
  const size_t n_segments = segments.size();
  std::vector<int64_t>& first_piece = ops_scratch_.first_piece_;
  std::vector<int64_t>& first_partial = ops_scratch_.first_partial_;  // kWhole if the segment is not split into spans.
  std::vector<int32_t>& split = ops_scratch_.split_segments_;
  split.clear();

  int64_t products = 0;  // Query-key pairs over all heads. The values take the same number of multiplications again.
  for (const Segment& segment : segments) products += a.products(segment) * n_kv_heads * a.tiles(segment);
  const bool alone = products * (own.key_dim + own.value_dim) <= kProductsAlone;
  int64_t pieces = 0, partial = 0, merged_floats = 0;
  for (size_t s = 0; s < n_segments; ++s) {
    const Segment& segment = segments[s];
    const int64_t floats = a.queries(segment) * n_kv_heads * a.spans(segment) * a.state_floats();
    const bool cut = !alone && pool_.size() > 1 && a.spans(segment) > 1 &&
                     a.products(segment) * kPiecesPerThread * pool_.size() > products &&
                     partial + floats <= ops_scratch_.partial_floats_;
    first_piece[s] = pieces;
    first_partial[s] = cut ? partial : kWhole;
    const int run = a.run_of_spans(segment, pool_.size());
    pieces += a.tiles(segment) * n_kv_heads * (cut ? (a.spans(segment) + run - 1) / run : 1);
    if (!cut) continue;
    split.push_back(static_cast<int32_t>(s));
    partial += floats;
    merged_floats = std::max(merged_floats, floats / n_kv_heads);
  }

  pool_.parallel_for(pieces, alone ? pieces : 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t p = begin; p < end; ++p) {
      // Later tiles of a prompt attend to more positions. Tiles are therefore started in descending order, so that the
      // longest tasks start first.
      const int64_t index = pieces - 1 - p;
      const size_t s = segment_of(first_piece, n_segments, index);
      const Segment& segment = segments[s];
      const bool whole = first_partial[s] == kWhole;
      const int64_t local = index - first_piece[s];
      const int n_spans = a.spans(segment), run = a.run_of_spans(segment, pool_.size());
      const int n_runs = whole ? 1 : (n_spans + run - 1) / run;
      const int first_span = static_cast<int>(local % n_runs) * run;
      const int kv_head = static_cast<int>(local / n_runs % n_kv_heads);
      const int64_t first_query = local / n_runs / n_kv_heads * kTileQueries;
      assert(first_query / kTileQueries < a.tiles(segment));
      Tile tile(a, segment, kv_head, first_query, ops_scratch_.tile(thread));
      if (whole) {
        tile.whole();
        continue;
      }
      const int64_t n_queries = a.queries(segment);
      const int64_t slot = (int64_t{kv_head} * n_spans + first_span) * n_queries + first_query;
      const int first_kept = a.first_span(segment);
      tile.some_spans(first_kept + first_span, first_kept + std::min(first_span + run, n_spans),
                      ops_scratch_.partials_ + first_partial[s] + slot * a.state_floats(),
                      n_queries * a.state_floats());
    }
  });
  if (split.empty()) return;
  const int64_t grain = std::max<int64_t>(1, kMergedFloats * kMergeParts / merged_floats);
  pool_.parallel_for(static_cast<int64_t>(split.size()) * n_kv_heads * kMergeParts, grain,
                     [&](int64_t begin, int64_t end, int thread) {
                       for (int64_t p = begin; p < end; ++p) {
                         const auto at = static_cast<size_t>(p / kMergeParts / n_kv_heads);
                         const auto s = static_cast<size_t>(split[at]);
                         const int kv_head = static_cast<int>(p / kMergeParts % n_kv_heads);
                         const int64_t floats = a.queries(segments[s]) * a.spans(segments[s]) * a.state_floats();
                         merge_partials(a, segments[s], kv_head, p % kMergeParts,
                                        ops_scratch_.partials_ + first_partial[s] + kv_head * floats,
                                        ops_scratch_.tile(thread));
                       }
                     });
}

}  // namespace monolith
