// Fixed-point arithmetic: 16-bit integers with a shared scale, called the step, for vision encoders whose weights have
// at most 16 bits. It requires half as many instructions as float arithmetic, and its error is of the same order as the
// error of rounding to F16. It requires an instruction that accumulates products of 16-bit pairs into 32-bit sums
// (vpdpwssd). Other processors use float arithmetic.
//
//   number   x = step * i, where step = max |x| / most over up to 256 numbers of one row, i rounded to nearest even
//   matmul   sum over blocks of 256 columns, ascending: step of the row * (step of the weights * integer sum)
//   sums     are exact: the bounds below keep them within 32 bits for any input
//
// A row's bits do not depend on other rows. If a block contains NaN or infinity, its step is NaN and all of its
// integers are 0. This header is included in files compiled for different instruction sets, so it must not define
// inline functions that could be emitted out of line. Kernels access only their tile and may run on any number of
// threads concurrently.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {

inline constexpr int kFixed16Block = 256;     // Numbers that share a step; also the distance between packed rows.
inline constexpr int kFixed16Lanes = 32;      // Outputs per panel of weights, and positions per group of keys.
inline constexpr int kFixed16Rows = 12;       // Maximum number of rows in a matmul tile without a tile unit.
inline constexpr int kFixed16UnitRows = 256;  // Likewise, with a tile unit. Their blocks fit into the L2 cache.
inline constexpr int kFixed16Queries = 24;    // Maximum number of queries in an attention tile.
inline constexpr int kFixed16MostHead = kFixed16Block;  // Maximum head size.
// Distance between the scores of consecutive queries, in elements. The padding spreads the scores over the cache sets.
inline constexpr int kFixed16ScoreStride = kFixed16Block + 16;

// Largest integer magnitude of an activation. Together with the bound on the weights (weight_step() in products.cc), it
// keeps the sum of a block's products with one lane of weights below 2^31.
inline constexpr int kFixed16Most = 8191;
// Largest integer magnitude of an element of V. The attention weights of a query for 256 positions sum to at most
// kFixed16WeightSum, plus at most half a unit of rounding error per weight.
inline constexpr int kFixed16MostValue = 4095;
inline constexpr int kFixed16MostWeight = 32767;
inline constexpr float kFixed16WeightSum = 0x7fffffff / kFixed16MostValue - kFixed16Block;

// Bit pattern of 2^-100. A block whose largest magnitude is below this counts as all zeros.
inline constexpr uint32_t kFixed16SmallestBits = 27u << 23;

// Bytes of one block of one panel of weights, expanded by Fixed16TileKernels::expand().
inline constexpr int64_t kFixed16PanelBytes = int64_t{kFixed16Block} * kFixed16Lanes * 2;

// Multiplies rows by one panel of weights, over one block of columns, and adds the products to out[row][lane]. The
// first block starts from the bias, plus the previous contents if add_to_out is set.
struct Fixed16Tile {
  const int16_t* weights;     // Shape [pairs][kFixed16Lanes][2].
  const std::byte* expanded;  // The same weights, expanded; null without a tile unit.
  const float* weight_steps;  // Shape [kFixed16Lanes].
  const int16_t* x;           // Shape [n_rows][kFixed16Block]. With a tile unit, each row has been split.
  const float* x_steps;       // Shape [n_rows].
  int pairs;                  // Pairs of columns.
  int n_rows;                 // 1 to kFixed16Rows, or with a tile unit, to kFixed16UnitRows.
  int n_lanes;                // 1 to kFixed16Lanes.
  float* out;
  int64_t out_stride;
  bool first;
  bool add_to_out;
  const float* bias;  // Bias for lane 0 and the lanes after it, or null.
};

// Attention of up to 24 queries of one head over all positions to which they attend. Softmax proceeds in blocks of 256
// absolute positions, relative to the largest score so far. In each block, the weights times the values' steps are
// rounded to integers with a common step.
struct Fixed16Attention {
  int n_queries, head_dim;
  int64_t value_lanes;   // head_dim rounded up to a multiple of 16.
  const int16_t* q;      // Shape [n_queries][kFixed16Block].
  const float* q_steps;  // Steps of the queries, multiplied by the attention scale and log2(e).
  // Query i attends to positions starts[i] .. limits[i] - 1, which is at least one position. Both arrays are ascending.
  const int32_t* starts;
  const int32_t* limits;
  const int16_t* keys;       // Shape [groups of kFixed16Lanes positions][pairs of dimensions][kFixed16Lanes][2].
  const float* key_steps;    // Shape [positions].
  const int16_t* values;     // Shape [pairs of positions][value_lanes][2].
  const float* value_steps;  // Shape [positions].
  // Scratch memory.
  int32_t* scores;   // Shape [kFixed16Queries][kFixed16ScoreStride].
  int16_t* weights;  // Shape [kFixed16Queries][kFixed16Block].
  float* sums;       // Shape [kFixed16Queries][value_lanes].
  float* out;
  int64_t out_stride;
};

// The matmul kernels for a tile unit (tiles-inl.h). Produces the same bits as Fixed16Kernels::multiply().
struct Fixed16TileKernels {
  // Splits a packed row of one block (`count` integers, padded to an even number) into bytes, in place: the upper bytes
  // first, and the lower bytes starting at byte kFixed16Block.
  void (*split)(int16_t* row, int count);
  // Expands one block of one panel of weights, shape [pairs][kFixed16Lanes][2], to kFixed16PanelBytes bytes at `to`.
  void (*expand)(const int16_t* weights, int pairs, std::byte* to);
  void (*multiply)(const Fixed16Tile& tile);
};

struct Fixed16Kernels {
  // Converts 1 to kFixed16Block floats to integers with |i| <= most, and appends a zero if the count is odd. Returns
  // the step.
  float (*pack)(const float* x, int count, int most, int16_t* to);
  void (*multiply)(const Fixed16Tile& tile);
  void (*attend)(const Fixed16Attention& tile);
  const Fixed16TileKernels* tiles = nullptr;  // Null without a tile unit.
};

#if defined(__x86_64__)
extern const Fixed16Kernels kAvx512Fixed16;
extern const Fixed16TileKernels kAmxFixed16;
#endif

}  // namespace monolith
