// What a walk of attention (attention/walk.h) is given and what it has for itself, and how keys and values come through
// shared memory piece by piece. Device code.
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

// `piece` positions are copied at a time, `stages` pieces are in shared memory, `sharers` warps use each.
template <int dim_, int piece_, int stages_, int sharers_, KvType type_ = KvType::kF16>
struct WalkShape {
  static constexpr int dim = dim_, piece = piece_, stages = stages_, sharers = sharers_;
  static constexpr int pieces = kChunkPositions / piece;  // of a chunk
  static constexpr int tiles = dim / 8;                   // of 8 dimensions
  static constexpr int stride = dim + 8;                  // 16 bytes more than a row: rows begin in different banks
  // The sums of a group are kept in registers where there is room beside those of a chunk.
  static constexpr bool sums_in_registers = dim <= 128;
  static constexpr KvType type = type_;
  static constexpr bool bytes = is_8bit(type);
  static constexpr bool converts = bytes && sharers > 1;  // to binary16 in shared memory
  static constexpr int blocks = kv_blocks(type, dim);
  static constexpr int byte_stride = 16 * (dim / 16 | 1);  // of codes: odd, and so in different banks
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
  HalfPiece<Shape> converted;  // the one in use
};

// What one warp has for itself.
template <typename Shape>
struct WalkOwn {
  union {
    alignas(16) Words2 queries[16][Shape::stride / 4];  // four numbers each
    alignas(16) float results[8][Shape::stride];        // when the queries are done with
  };
  Floats4 sums[Shape::sums_in_registers ? 1 : Shape::tiles][kWarp];
};

// Keys and values of one KV head of a sequence, positions first .. last.
struct WalkSource {
  const unsigned char* keys;  // of page 0
  int64_t values;             // bytes from keys to values
  int64_t page_bytes;
  const int32_t* pages;
  int first, last;
};

// The rows of a warp: row r is at `position + r * step`, the first `n` of 16 are wanted.
struct WalkRows {
  const float* queries;  // row r at queries + r * query_stride
  int64_t query_stride;
  int n;
  int position, step;
  const float* sinks;  // null, or row r's is sinks[r * sink_step]
  int sink_step;
  int seen_end = 0;  // as Segment has it
  AttentionParams params;

  // The last position that the row at `at` sees.
  MONOLITH_DEVICE int last_seen(int at) const { return seen_end > at + 1 ? seen_end - 1 : at; }
};

// Where results go: row r at out + r * stride; with `sums` (r: 2 floats at sums + 2 r) they are a partial result.
// Results of whole rows go to `input` instead, if it has a form: of its row `row`, from value `first` on, and
// `row_step`, `value_step` further for each r.
struct WalkResult {
  float* out;
  int64_t stride;
  float* sums;
  ProductInput input;
  int64_t row, first;
  int32_t row_step, value_step;
};

// A row's state: the largest score, the sum of weights relative to it; and one part taken into it. Weighted sums
// become fmaf(own, kept, other * added).
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

// Takes a score without a value into a row: what its weighted sums are multiplied by.
MONOLITH_DEVICE float join_sink(float& largest, float& total, float sink) {
  return join(largest, total, sink * kLog2E, 1.0f).kept;
}
// The result: never -0, whose sign would tell which parts without weight were left out.
MONOLITH_DEVICE float finished(float sum, float total_inverse) { return fmaf(sum, total_inverse, 0.0f); }

// Positions of a chunk that are copied, in pieces.
template <typename Shape>
struct WalkPieces {
  int first, last;
  MONOLITH_DEVICE WalkPieces(const WalkSource& source, int chunk) {
    const int begin = chunk * kChunkPositions, end = begin + kChunkPositions - 1;
    first = (source.first > begin ? source.first : begin) / Shape::piece;
    last = (source.last < end ? source.last : end) / Shape::piece;
  }
};

// The copies of a walk: of each chunk its keys, then its values.
template <typename Shape>
struct WalkFeed {
  const WalkSource& source;
  WalkRing<Shape>& ring;
  int chunk, end_chunk;
  WalkPieces<Shape> pieces;
  int piece;
  bool values = false;
  int stage = 0;  // of the next piece to be used
  int thread;     // among the sharers

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

  // The next piece in the walk's order. Begins the copy of a later one.
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

  // All is used: the ring may be written anew.
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

  // A piece of a page is one run of memory. Positions that no row sees may be on no page, or hold another sequence's
  // numbers: zeros instead.
  MONOLITH_DEVICE void copy(int to) const {
    if constexpr (Shape::bytes)
      return copy_codes(to);
    else
      copy_halves(to);
  }
  MONOLITH_DEVICE void copy_halves(int to) const {
    constexpr unsigned kWords = Shape::dim / 8;  // of 16 bytes, in a row
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
  // The same of codes and their scales, which lie behind those of their page. What a page holds before the first
  // position anyone sees comes along.
  MONOLITH_DEVICE void copy_codes(int to) const {
    constexpr unsigned kWords = Shape::dim / 16, kAll = Shape::piece * kWords, kThreads = Shape::sharers * kWarp;
    const unsigned char* const data = source.keys + (values ? source.values : 0);
    const int begin = piece * Shape::piece;
    const int32_t* const own_pages = source.pages + begin / kPageTokens;
    constexpr bool kOnePage = Shape::piece == kPageTokens;
    const unsigned char* const first_page = kOnePage ? data + *own_pages * source.page_bytes : data;
    // Of the piece's pages, those that anyone sees.
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
      const unsigned at = kOnePage ? 0 : i / kScaleWords, word = i % kScaleWords;  // a word is of 8 positions
      int n = source.last + 1 - begin - static_cast<int>(at * kPageTokens + word % 2 * 8);
      n = n < 0 || !is_seen(static_cast<int>(at)) ? 0 : n > 8 ? 8 : n;
      copy_async_part(&ring.at[to].scales[at][word / 2][word % 2 * 8],
                      page_of(at, n > 0) + kPageTokens * Shape::dim + 16 * word, 2 * n);
    }
  }
};

}  // namespace monolith::cuda
