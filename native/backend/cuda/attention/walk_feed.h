// The inputs and the per-warp state of the attention walk (attention/walk.h), and the pipeline that brings keys and
// values through shared memory tile by tile. Device code.
#pragma once

#include <type_traits>

#include "backend/backend.h"
#include "backend/cuda/attention/bytes.h"
#include "backend/cuda/attention/seen.h"
#include "backend/cuda/attention/work.h"
#include "backend/cuda/device/tensor.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/matmul/product_input-inl.h"

namespace monolith::cuda {

// Compile-time shape of the attention walk. `piece` positions are copied per tile, `stages` tiles are in shared memory,
// and `sharers` warps use each tile.
template <int dim_, int piece_, int stages_, int sharers_, KvType type_ = KvType::kF16>
struct WalkShape {
  static constexpr int dim = dim_, piece = piece_, stages = stages_, sharers = sharers_;
  static constexpr int pieces = kChunkPositions / piece;  // Tiles per chunk.
  static constexpr int tiles = dim / 8;                   // Accumulator tiles of 8 dimensions.
  static constexpr int stride = dim + 8;  // Each row is padded by 16 bytes so that rows start in different banks.
  // The sums of a group are kept in registers if they fit there together with the sums of a chunk.
  static constexpr bool sums_in_registers = dim <= 128;
  static constexpr KvType type = type_;
  static constexpr bool bytes = is_8bit(type);
  static constexpr bool converts = bytes && sharers > 1;  // Whether tiles are expanded to binary16 in shared memory.
  static constexpr int blocks = kv_blocks(type, dim);
  // Row stride of the codes: an odd multiple of 16 bytes, so that rows start in different banks.
  static constexpr int byte_stride = 16 * (dim / 16 | 1);
};

template <typename Shape>
using WalkPiece = std::conditional_t<Shape::bytes, BytePiece<Shape>, HalfPiece<Shape>>;

template <typename Shape, bool converts = Shape::converts>
struct WalkRing {
  WalkPiece<Shape> at[Shape::stages];
};
template <typename Shape>
struct WalkRing<Shape, true> {
  WalkPiece<Shape> at[Shape::stages];
  HalfPiece<Shape> converted;  // The expanded form of the current tile.
};

// Shared memory of one warp.
template <typename Shape>
struct WalkOwn {
  union {
    alignas(16) Words2 queries[16][Shape::stride / 4];  // Four values per element.
    alignas(16) float results[8][Shape::stride];        // Used after the queries are no longer needed.
  };
  Floats4 sums[Shape::sums_in_registers ? 1 : Shape::tiles][kWarp];
};

// The keys and values of one KV head of a sequence, at positions first .. last.
struct WalkSource {
  const unsigned char* keys;  // Keys of page 0.
  int64_t values;             // Byte offset from keys to values.
  int64_t page_bytes;
  const int32_t* pages;
  int first, last;
};

// The query rows of a warp: row r is at position `position + r * step`. Only the first `n` of the 16 rows are used.
struct WalkRows {
  const float* queries;  // Row r starts at queries + r * query_stride.
  int64_t query_stride;
  int n;
  int position, step;
  const float* sinks;  // Null, or the sink of row r is sinks[r * sink_step].
  int sink_step;
  int seen_end = 0;  // Same meaning as in Segment.
  AttentionParams params;

  // Returns the last position visible to the row at position `at`.
  MONOLITH_DEVICE int last_seen(int at) const { return seen_end > at + 1 ? seen_end - 1 : at; }
};

// Destination of the results: row r goes to out + r * stride. With `sums` the results are partial, and sums + 2 r
// receives two floats for row r. If `input` has a format, the results of complete rows go to `input` instead: row r
// goes to matmul input row `row` + r * row_step, starting at value `first` + r * value_step.
struct WalkResult {
  float* out;
  int64_t stride;
  float* sums;
  ProductInput input;
  int64_t row, first;
  int32_t row_step, value_step;
};

// Merges a partial result into the softmax state of a row: its largest score, and the sum of weights relative to that
// score. The caller must merge each weighted sum as fmaf(own, kept, other * added).
struct Joined {
  float kept, added;
};
MONOLITH_DEVICE Joined join(float& largest, float& total, float other_largest, float other_total) {
  const float now = largest > other_largest ? largest : other_largest;
  const float base = now == -INFINITY ? 0.0f : now;
  const Joined factors{fast_exp2(largest - base), fast_exp2(other_largest - base)};
  total = fmaf(total, factors.kept, other_total * factors.added);
  largest = now;
  return factors;
}
inline constexpr float kLog2E = 1.4426950408889634f;

// Adds an attention sink, a score without a value, to the state of a row. Returns the factor by which the weighted sums
// must be multiplied.
MONOLITH_DEVICE float join_sink(float& largest, float& total, float sink) {
  return join(largest, total, sink * kLog2E, 1.0f).kept;
}
// Normalizes a result. Never returns -0, because the sign of zero would depend on which zero-weight parts were skipped.
MONOLITH_DEVICE float finished(float sum, float total_inverse) { return fmaf(sum, total_inverse, 0.0f); }

// The range of tiles of a chunk that are copied.
template <typename Shape>
struct WalkPieces {
  int first, last;
  MONOLITH_DEVICE WalkPieces(const WalkSource& source, int chunk) {
    const int begin = chunk * kChunkPositions, end = begin + kChunkPositions - 1;
    first = (source.first > begin ? source.first : begin) / Shape::piece;
    last = (source.last < end ? source.last : end) / Shape::piece;
  }
};

// The copy pipeline of a walk: for each chunk first the keys, then the values.
template <typename Shape>
struct WalkFeed {
  const WalkSource& source;
  WalkRing<Shape>& ring;
  int chunk, end_chunk;
  WalkPieces<Shape> pieces;
  int piece;
  bool values = false;
  int stage = 0;  // Stage of the next tile to be used.
  int thread;     // Index of this thread among the sharing warps.

  MONOLITH_DEVICE WalkFeed(const WalkSource& source_, WalkRing<Shape>& ring_, int first_chunk, int end_chunk_,
                           int thread_)
      : source(source_),
        ring(ring_),
        chunk(first_chunk),
        end_chunk(end_chunk_),
        pieces(source_, first_chunk),
        piece(pieces.first),
        thread(thread_) {
    for (int i = 0; i < Shape::stages - 1; ++i) begin(i);
  }

  MONOLITH_DEVICE void wait_sharers() const {
    if constexpr (Shape::sharers == 1)
      __syncwarp();
    else
      __syncthreads();
  }

  // Returns the next tile in the order of the walk, and starts to copy a later tile.
  MONOLITH_DEVICE auto next() {
    copies_wait<Shape::stages - 2>();
    wait_sharers();
    begin(stage == 0 ? Shape::stages - 1 : stage - 1);
    const auto own = stage;
    stage = stage + 1 == Shape::stages ? 0 : stage + 1;
    if constexpr (Shape::converts) {
      expand_piece<Shape>(ring.at[own], ring.converted, thread);
      wait_sharers();
      return static_cast<const uint16_t(*)[Shape::stride]>(ring.converted.at);
    } else if constexpr (Shape::bytes) {
      return static_cast<const BytePiece<Shape>*>(&ring.at[own]);
    } else {
      return static_cast<const uint16_t(*)[Shape::stride]>(ring.at[own].at);
    }
  }

  // Waits until all tiles have been used, so that the ring may be overwritten.
  MONOLITH_DEVICE void finish() const {
    copies_wait<0>();
    wait_sharers();
  }

  MONOLITH_DEVICE void begin(int to) {
    if (chunk < end_chunk) {
      copy(to);
      if (++piece > pieces.last) {
        if (values) pieces = WalkPieces<Shape>(source, ++chunk);
        values = !values;
        piece = pieces.first;
      }
    }
    copies_commit();
  }

  // Copies one tile. The part of a tile that lies in one page is contiguous in memory. A position that no row attends
  // to may have no page, or its page may hold another sequence's values; zeros are stored for such positions.
  MONOLITH_DEVICE void copy(int to) const {
    if constexpr (Shape::bytes)
      return copy_codes(to);
    else
      copy_halves(to);
  }
  MONOLITH_DEVICE void copy_halves(int to) const {
    constexpr unsigned kWords = Shape::dim / 8;  // 16-byte words per row.
    constexpr unsigned kAll = Shape::piece * kWords, kThreads = Shape::sharers * kWarp;
    const unsigned char* const data = source.keys + (values ? source.values : 0);
    const int begin = piece * Shape::piece;
    const int32_t* const own_pages = source.pages + begin / kPageTokens;
    const unsigned char* only_page = data;
    if (Shape::piece == kPageTokens) only_page += *own_pages * source.page_bytes;
    MONOLITH_UNROLL
    for (unsigned k = 0; k < (kAll + kThreads - 1) / kThreads; ++k) {
      const unsigned i = static_cast<unsigned>(thread) + k * kThreads;
      if (kAll % kThreads != 0 && i >= kAll) break;
      const unsigned row = i / kWords, word = i % kWords;
      const int position = begin + static_cast<int>(row);
      const bool valid = position >= source.first && position <= source.last;
      const unsigned char* from = only_page + 16 * i;
      if (Shape::piece > kPageTokens && valid) {
        const int64_t page = own_pages[row / kPageTokens];
        from = data + page * source.page_bytes + 16 * (i - row / kPageTokens * kPageTokens * kWords);
      }
      copy_async(&ring.at[to].at[row][word * 8], from, valid);
    }
  }
  // Copies the codes and scales of one 8-bit tile. The scales follow the codes of their page. The contents of the pages
  // before the first visible position are copied, too.
  MONOLITH_DEVICE void copy_codes(int to) const {
    constexpr unsigned kWords = Shape::dim / 16, kAll = Shape::piece * kWords, kThreads = Shape::sharers * kWarp;
    const unsigned char* const data = source.keys + (values ? source.values : 0);
    const int begin = piece * Shape::piece;
    const int32_t* const own_pages = source.pages + begin / kPageTokens;
    constexpr bool kOnePage = Shape::piece == kPageTokens;
    const unsigned char* const first_page = kOnePage ? data + *own_pages * source.page_bytes : data;
    // Returns the address of a page of the tile, or of the first page if no row attends to that page.
    const auto page_of = [&](unsigned at, bool valid) {
      return kOnePage || !valid ? first_page : data + own_pages[at] * source.page_bytes;
    };
    const auto is_seen = [&](int at) { return kOnePage || begin + (at + 1) * kPageTokens > source.first; };
    MONOLITH_UNROLL
    for (unsigned k = 0; k < (kAll + kThreads - 1) / kThreads; ++k) {
      const unsigned i = static_cast<unsigned>(thread) + k * kThreads;
      if (kAll % kThreads != 0 && i >= kAll) break;
      const unsigned row = i / kWords, word = i % kWords, at = kOnePage ? 0 : row / kPageTokens;
      const bool valid = begin + static_cast<int>(row) <= source.last && is_seen(static_cast<int>(at));
      copy_async(&ring.at[to].codes[row][16 * word], page_of(at, valid) + 16 * (i - at * kPageTokens * kWords), valid);
    }
    constexpr unsigned kScaleWords = 2 * Shape::blocks, kScales = Shape::piece / kPageTokens * kScaleWords;
    MONOLITH_UNROLL
    for (unsigned k = 0; k < (kScales + kThreads - 1) / kThreads; ++k) {
      const unsigned i = static_cast<unsigned>(thread) + k * kThreads;
      if (i >= kScales) break;
      // One word holds the scales of 8 positions.
      const unsigned at = kOnePage ? 0 : i / kScaleWords, word = i % kScaleWords;
      int n = source.last + 1 - begin - static_cast<int>(at * kPageTokens + word % 2 * 8);
      n = n < 0 || !is_seen(static_cast<int>(at)) ? 0 : n > 8 ? 8 : n;
      copy_async_part(&ring.at[to].scales[at][word / 2][word % 2 * 8],
                      page_of(at, n > 0) + kPageTokens * Shape::dim + 16 * word, 2 * n);
    }
  }
};

}  // namespace monolith::cuda
