// The core of attention on tensor cores, device code. It defines the order of operations that all kernels follow;
// attention/work.h describes how positions are divided. One warp walks over chunks of positions with 16 query rows,
// which are either query heads of one token or tokens of one query head. Keys and values (binary16, or 8-bit codes
// expanded to it: attention/bytes.h) pass through shared memory tile by tile. The tiles are used by one warp or by all
// warps of a block; a row's result is the same either way.
//
// For each row and chunk the walk computes:
// - scores s = q k, with queries rounded to binary16 and float32 sums over ascending dimensions, in units of log 2
// - m = max s, l = sum 2^(s - m), and o = sum 2^(s - m) v, with weights rounded to binary16 and positions ascending
#pragma once

#include "backend/cuda/attention/walk_feed.h"

namespace monolith::cuda {

template <typename Shape>
MONOLITH_DEVICE void load_queries(const WalkRows& rows, Words2 (*queries)[Shape::stride / 4]) {
  constexpr int kQuads = Shape::dim / 4;
  for (int i = lane_id(); i < 16 * kQuads; i += kWarp) {
    const int row = i / kQuads, at = i % kQuads;
    Floats4 q{0, 0, 0, 0};
    if (row < rows.n) q = *reinterpret_cast<const Floats4*>(rows.queries + row * rows.query_stride + 4 * at);
    if (rows.params.temperature_scale != 0.0f) {
      const float factor = temperature(rows.position + row * rows.step, rows.params);
      q = {q.x * factor, q.y * factor, q.z * factor, q.w * factor};
    }
    if constexpr (Shape::bytes) {
      auto* const words = reinterpret_cast<uint32_t*>(queries[row]) + at / 4 * 8 + at % 4;
      words[0] = pack_halves(q.x, q.z);
      words[4] = pack_halves(q.y, q.w);
    } else {
      queries[row][at] = {pack_halves(q.x, q.y), pack_halves(q.z, q.w)};
    }
  }
}

// Computes s += queries x keys for one tile. Column j of s[i] is position 8 i + j of the tile.
template <typename Shape>
MONOLITH_DEVICE void add_scores(const Words2 (*queries)[Shape::stride / 4], const uint16_t (*keys)[Shape::stride],
                                float (*s)[4]) {
  const int lane = lane_id();
  MONOLITH_UNROLL
  for (int d = 0; d < Shape::dim; d += 16) {
    uint32_t a[4];
    load_matrices(a, &queries[lane % 16][(d + lane / 16 * 8) / 4]);
    MONOLITH_UNROLL
    for (int n = 0; n < Shape::piece / 16; ++n) {
      uint32_t b[4];
      load_matrices(b, &keys[n * 16 + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]);
      const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      mma_f16(s[2 * n], a, low);
      mma_f16(s[2 * n + 1], a, high);
    }
  }
}

// Computes o += weights x values for one tile. weights[i] are the weights of positions 16 i .. 16 i + 15.
template <typename Shape>
MONOLITH_DEVICE void add_values(const uint32_t (*weights)[4], const uint16_t (*values)[Shape::stride], float (*o)[4]) {
  const int lane = lane_id();
  MONOLITH_UNROLL
  for (int k = 0; k < Shape::piece / 16; ++k) {
    MONOLITH_UNROLL
    for (int n = 0; n < Shape::dim / 16; ++n) {
      uint32_t b[4];
      load_matrices_transposed(b, &values[k * 16 + lane % 16][n * 16 + lane / 16 * 8]);
      const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      mma_f16(o[2 * n], weights[k], low);
      mma_f16(o[2 * n + 1], weights[k], high);
    }
  }
}

// The softmax state of a lane's two rows (g and g + 8), shared by the four lanes of a quad.
struct LaneRows {
  float largest[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};
};

MONOLITH_DEVICE float quad_max(float value) {
  for (int distance = 1; distance < 4; distance *= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, value, distance);
    value = value > other ? value : other;
  }
  return value;
}
MONOLITH_DEVICE float quad_sum(float value) {
  for (int distance = 1; distance < 4; distance *= 2) value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}

// Converts the scores of one chunk to softmax weights relative to the chunk's largest score.
MONOLITH_DEVICE LaneRows weigh(float (&s)[kChunkPositions / 8][4], uint32_t (&weights)[kChunkPositions / 16][4],
                               const WalkRows& rows, int first_position, bool all_seen) {
  constexpr int kTiles = kChunkPositions / 8;
  const int g = lane_id() / 4, t = lane_id() % 4;
  const AttentionParams& params = rows.params;
  if (params.soft_cap > 0) {
    MONOLITH_UNROLL
    for (int i = 0; i < kTiles; ++i) MONOLITH_UNROLL
    for (int e = 0; e < 4; ++e) s[i][e] = params.soft_cap * tanhf(s[i][e] * params.scale / params.soft_cap) * kLog2E;
  } else {
    const float factor = params.scale * kLog2E;
    MONOLITH_UNROLL
    for (int i = 0; i < kTiles; ++i) MONOLITH_UNROLL
    for (int e = 0; e < 4; ++e) s[i][e] *= factor;
  }
  if (!all_seen) {
    MONOLITH_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int position = rows.position + (g + 8 * half) * rows.step;
      const int own_place = first_position + 2 * t;
      const int first = first_seen(position, params) - own_place, last = rows.last_seen(position) - own_place;
      MONOLITH_UNROLL
      for (int i = 0; i < kTiles; ++i) MONOLITH_UNROLL
      for (int e = 0; e < 2; ++e)
        if (8 * i + e < first || 8 * i + e > last) s[i][2 * half + e] = -INFINITY;
    }
  }
  LaneRows own;
  MONOLITH_UNROLL
  for (int half = 0; half < 2; ++half) {
    float largest = -INFINITY, total = 0;
    MONOLITH_UNROLL
    for (int i = 0; i < kTiles; ++i) MONOLITH_UNROLL
    for (int e = 2 * half; e < 2 * half + 2; ++e) largest = largest > s[i][e] ? largest : s[i][e];
    largest = quad_max(largest);
    const float base = largest == -INFINITY ? 0.0f : largest;
    MONOLITH_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      const float first = fast_exp2(s[i][2 * half] - base), second = fast_exp2(s[i][2 * half + 1] - base);
      total += first;
      total += second;
      weights[i / 2][i % 2 * 2 + half] = pack_halves(first, second);
    }
    own.largest[half] = largest;
    own.total[half] = quad_sum(total);
  }
  return own;
}

// Merges the sums of a chunk into the sums of its group.
template <typename Shape>
MONOLITH_DEVICE void add_chunk(const LaneRows& chunk, const float (&o)[Shape::tiles][4], LaneRows& group,
                               float (&sums)[Shape::sums_in_registers ? Shape::tiles : 1][4], WalkOwn<Shape>& own) {
  Joined factors[2];
  MONOLITH_UNROLL
  for (int half = 0; half < 2; ++half)
    factors[half] = join(group.largest[half], group.total[half], chunk.largest[half], chunk.total[half]);
  MONOLITH_UNROLL
  for (int i = 0; i < Shape::tiles; ++i) {
    if constexpr (Shape::sums_in_registers) {
      MONOLITH_UNROLL
      for (int e = 0; e < 4; ++e) sums[i][e] = fmaf(sums[i][e], factors[e / 2].kept, o[i][e] * factors[e / 2].added);
    } else {
      Floats4& at = own.sums[i][lane_id()];
      Floats4 sum = at;
      sum.x = fmaf(sum.x, factors[0].kept, o[i][0] * factors[0].added);
      sum.y = fmaf(sum.y, factors[0].kept, o[i][1] * factors[0].added);
      sum.z = fmaf(sum.z, factors[1].kept, o[i][2] * factors[1].added);
      sum.w = fmaf(sum.w, factors[1].kept, o[i][3] * factors[1].added);
      at = sum;
    }
  }
}

template <typename Shape>
MONOLITH_DEVICE void clear_sums(float (&sums)[Shape::sums_in_registers ? Shape::tiles : 1][4], WalkOwn<Shape>& own) {
  if constexpr (Shape::sums_in_registers) {
    MONOLITH_UNROLL
    for (int i = 0; i < Shape::tiles; ++i) MONOLITH_UNROLL
    for (int e = 0; e < 4; ++e) sums[i][e] = 0;
  } else {
    MONOLITH_UNROLL
    for (int i = 0; i < Shape::tiles; ++i) own.sums[i][lane_id()] = {0, 0, 0, 0};
  }
}

template <typename Shape>
MONOLITH_DEVICE float sum_at(const float (&sums)[Shape::sums_in_registers ? Shape::tiles : 1][4],
                             const WalkOwn<Shape>& own, int tile, int element) {
  if constexpr (Shape::sums_in_registers) {
    return sums[tile][element];
  } else {
    const Floats4& sum = own.sums[tile][lane_id()];
    return element == 0 ? sum.x : element == 1 ? sum.y : element == 2 ? sum.z : sum.w;
  }
}

// What is done with the sums of a completed group.
enum class GroupEnd : uint8_t {
  kPartial,  // The sums are a partial result.
  kFirst,    // The sums initialize the row's sums in `out`.
  kMiddle,   // The sums are added to the row's sums.
  kLast,     // The sums are added to the row's sums, and the row is complete.
  kOnly,     // The group is the whole row.
};

// Writes the results of rows r .. r + 7 in the matmul's input format. 8-bit output requires a dimension that is a
// multiple of 32.
template <typename Shape>
MONOLITH_DEVICE void convert_results(const WalkOwn<Shape>& own, int r, int n, const WalkResult& result) {
  constexpr int kQuads = Shape::dim / 4;
  __syncwarp();
  MONOLITH_NO_UNROLL
  for (int i = lane_id(); i < 8 * kQuads; i += kWarp) {
    const int at = r + i / kQuads, quad = i % kQuads;
    const bool inside = at < n;
    const Floats4 values = *reinterpret_cast<const Floats4*>(&own.results[i / kQuads][4 * quad]);
    const int64_t row = result.row + at * result.row_step, value = result.first + at * result.value_step + 4 * quad;
    if (result.input.form == InputForm::kInt8) {
      if constexpr (Shape::dim % 32 == 0)
        put_int8(static_cast<Int8Block*>(result.input.data), result.input.blocks, row, value, values, inside);
    } else if (inside) {
      put_quad<InputForm::kBf16>(result.input, row, value / 4, values, 1.0f);
    }
  }
  __syncwarp();
}

template <typename Shape>
MONOLITH_DEVICE void end_group(GroupEnd how, const LaneRows& group, LaneRows& row,
                               const float (&sums)[Shape::sums_in_registers ? Shape::tiles : 1][4], WalkOwn<Shape>& own,
                               const WalkRows& rows, const WalkResult& result) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  const bool joins = how == GroupEnd::kMiddle || how == GroupEnd::kLast;
  const bool ends = how == GroupEnd::kLast || how == GroupEnd::kOnly;
  const bool converts = ends && result.input.form != InputForm::kFloats;
  MONOLITH_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int r = g + 8 * half;
    const bool inside = r < rows.n;
    if (!inside && (!converts || 8 * half >= rows.n)) continue;  // The conversion needs the whole warp.
    Joined factors{0, 1};
    if (how == GroupEnd::kPartial) {
      if (t == 0) {
        result.sums[2 * r] = group.largest[half];
        result.sums[2 * r + 1] = group.total[half];
      }
    } else {
      factors = join(row.largest[half], row.total[half], group.largest[half], group.total[half]);
    }
    const bool sinks = ends && inside && rows.sinks != nullptr;
    float kept = 1;
    if (sinks) kept = join_sink(row.largest[half], row.total[half], rows.sinks[r * rows.sink_step]);
    const float inverse = ends ? 1.0f / row.total[half] : 0.0f;
    const int first_value = (Shape::bytes ? 4 : 2) * t;
    float* const out = result.out + r * result.stride + first_value;
    float* const to = converts ? &own.results[g][first_value] : out;
    MONOLITH_UNROLL
    for (int i = 0; i < Shape::tiles; ++i) {
      float first, second;
      if constexpr (Shape::bytes) {  // Neighboring dimensions are at the same place in two tiles.
        first = sum_at<Shape>(sums, own, i & ~1, 2 * half + i % 2);
        second = sum_at<Shape>(sums, own, i | 1, 2 * half + i % 2);
      } else {
        first = sum_at<Shape>(sums, own, i, 2 * half);
        second = sum_at<Shape>(sums, own, i, 2 * half + 1);
      }
      const int place = Shape::bytes ? i / 2 * 16 + i % 2 * 2 : 8 * i;
      if (joins && inside) {
        const FloatPair before = *reinterpret_cast<const FloatPair*>(out + place);
        first = fmaf(before.x, factors.kept, first * factors.added);
        second = fmaf(before.y, factors.kept, second * factors.added);
      }
      if (sinks) {
        first *= kept;
        second *= kept;
      }
      if (ends) {
        first = finished(first, inverse);
        second = finished(second, inverse);
      }
      *reinterpret_cast<FloatPair*>(to + place) = {first, second};
    }
    if (converts) convert_results<Shape>(own, 8 * half, rows.n, result);
  }
}

// Computes chunks [first_chunk, end_chunk) for the warp's rows. All warps that share the tiles walk over the same
// chunks and skip chunks to which only rows of other warps attend. `thread` is the index of the calling thread among
// the threads of these warps. A partial result must lie within one group.
template <typename Shape>
MONOLITH_DEVICE void walk(const WalkSource& source, int first_chunk, int end_chunk, const WalkRows& rows,
                          const WalkResult& result, WalkRing<Shape>& ring, WalkOwn<Shape>& own, int thread) {
  if (first_chunk >= end_chunk) return;
  WalkFeed<Shape> feed(source, ring, first_chunk, end_chunk, thread);
  load_queries<Shape>(rows, own.queries);
  __syncwarp();
  const int last_row = rows.n > 0 ? rows.n - 1 : 0;
  // The positions visible to all rows of the warp, and the positions visible to at least one of them.
  const int any_first = first_seen(rows.position, rows.params);
  const int all_first = first_seen(rows.position + last_row * rows.step, rows.params);
  const int all_last = rows.last_seen(rows.position), any_last = rows.last_seen(rows.position + last_row * rows.step);
  LaneRows group, row;
  float sums[Shape::sums_in_registers ? Shape::tiles : 1][4];
  clear_sums<Shape>(sums, own);
  bool begun = false;  // Whether `out` already holds sums of the row.
  bool any = false;    // Whether any chunk of the current group was computed.
  for (int chunk = first_chunk; chunk < end_chunk; ++chunk) {
    const int begin = chunk * kChunkPositions, end = begin + kChunkPositions - 1;
    const WalkPieces<Shape> pieces(source, chunk);
    const bool wanted = rows.n > 0 && begin <= any_last && end >= any_first;
    const int base = chunk * Shape::pieces;
    // Returns whether any of this warp's rows attends to the tile.
    const auto seen = [&](int piece) {
      return wanted && piece * Shape::piece <= any_last && (piece + 1) * Shape::piece > any_first;
    };
    uint32_t weights[kChunkPositions / 16][4];
    LaneRows own_chunk;
    {
      float s[kChunkPositions / 8][4];
      MONOLITH_UNROLL
      for (int i = 0; i < kChunkPositions / 8; ++i) MONOLITH_UNROLL
      for (int e = 0; e < 4; ++e) s[i][e] = 0;
      MONOLITH_UNROLL
      for (int p = 0; p < Shape::pieces; ++p) {
        if (base + p < pieces.first || base + p > pieces.last) continue;
        const auto* const keys = feed.next();
        if (seen(base + p)) add_scores<Shape>(own.queries, keys, s + p * (Shape::piece / 8));
      }
      if (wanted) own_chunk = weigh(s, weights, rows, begin, begin >= all_first && end <= all_last);
    }
    float o[Shape::tiles][4];
    MONOLITH_UNROLL
    for (int i = 0; i < Shape::tiles; ++i) MONOLITH_UNROLL
    for (int e = 0; e < 4; ++e) o[i][e] = 0;
    MONOLITH_UNROLL
    for (int p = 0; p < Shape::pieces; ++p) {
      if (base + p < pieces.first || base + p > pieces.last) continue;
      const auto* const values = feed.next();
      if (seen(base + p)) add_values<Shape>(weights + p * (Shape::piece / 16), values, o);
    }
    if (wanted) {
      add_chunk<Shape>(own_chunk, o, group, sums, own);
      any = true;
    }
    const bool last = chunk + 1 == end_chunk;
    if (!last && (chunk + 1) % kGroupChunks != 0) continue;
    // A warp whose rows attend to nothing in the remaining chunks also finishes here, because this was its last group.
    const bool done = last || end >= any_last;
    if (!any) continue;
    end_group<Shape>(result.sums ? GroupEnd::kPartial
                     : done      ? (begun ? GroupEnd::kLast : GroupEnd::kOnly)
                                 : (begun ? GroupEnd::kMiddle : GroupEnd::kFirst),
                     group, row, sums, own, rows, result);
    begun = true;
    any = false;
    group = LaneRows{};
    clear_sums<Shape>(sums, own);
  }
  feed.finish();
}

}  // namespace monolith::cuda
