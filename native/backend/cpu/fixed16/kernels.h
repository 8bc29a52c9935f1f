// Arithmetic in 16-bit integers that count by shared steps ("fixed point"), for vision towers whose files hold 16 bits or
// fewer: half of the instructions that floats take, with an error of the order of rounding to F16. Only processors that
// multiply pairs of 16-bit integers into 32-bit sums in one instruction (vpdpwssd) have it; the others compute in floats.
//
//   number   x = step * i, where step = max |x| / most over up to 256 numbers of one row, i rounded to nearest even
//   product  sum over blocks of 256 columns, ascending: step of the row * (step of the weights * integer sum)
//   sums     are exact: bounds below keep them within 32 bits whatever the numbers are
//
// A row's bits depend on no other row. A block that holds NaN or infinity has the step NaN and the integers 0.
//
// This header is compiled into files with different instruction sets: no inline function that could be emitted out of
// line. Kernels touch nothing but their tile, and may run on any number of threads at once.
#pragma once

#include <cstdint>

namespace monolith {

inline constexpr int kFixed16Block = 256;   // numbers that share a step, and the distance between packed rows
inline constexpr int kFixed16Lanes = 32;    // outputs of a panel of weights; positions of a group of keys
inline constexpr int kFixed16Rows = 12;     // rows of a product's tile, at most
inline constexpr int kFixed16Queries = 24;  // queries of an attention tile, at most
inline constexpr int kFixed16MostHead = kFixed16Block;  // dimensions of a head, at most
// Scores of a query lie so far apart: spreads cache sets.
inline constexpr int kFixed16ScoreStride = kFixed16Block + 16;

// Largest integers. Of a product's row: its products with one lane's weights of a block sum up to less than 2^31, as
// fixed16_weight_step() bounds the weights' sum.
inline constexpr int kFixed16Most = 8191;
// Of values: a query's weights of 256 positions sum up to kFixed16WeightSum at most, and half a unit each for rounding.
inline constexpr int kFixed16MostValue = 4095;
inline constexpr int kFixed16MostWeight = 32767;
inline constexpr float kFixed16WeightSum = 0x7fffffff / kFixed16MostValue - kFixed16Block;

// 2^-100: below it a block counts as zeros.
inline constexpr uint32_t kFixed16SmallestBits = 27u << 23;

// Up to 12 rows times one panel of weights, over one block of columns: out[row][lane] += their products, or, in the first
// block, is the bias and what was there before if so asked, plus their products.
struct Fixed16Tile {
  const int16_t* weights;     // [pairs][kFixed16Lanes][2]
  const float* weight_steps;  // [kFixed16Lanes]
  const int16_t* x;           // [n_rows][kFixed16Block]
  const float* x_steps;       // [n_rows]
  int pairs;                  // of columns
  int n_rows;                 // 1 .. kFixed16Rows
  int n_lanes;                // 1 .. kFixed16Lanes
  float* out;
  int64_t out_stride;
  bool first;
  bool add_to_out;
  const float* bias;  // of lane 0, or null
};

// Up to 24 queries of one head over all positions they see. Softmax block by block of 256 absolute positions, relative to
// the largest score so far; in a block the weights times the values' steps are rounded to integers of one step.
struct Fixed16Attention {
  int n_queries, head_dim;
  int64_t value_lanes;    // head_dim rounded up to 16
  const int16_t* q;       // [n_queries][kFixed16Block]
  const float* q_steps;   // times the scale of scores and log2(e)
  const int32_t* starts;  // query i sees positions starts[i] .. limits[i] - 1, at least one; both ascend
  const int32_t* limits;
  const int16_t* keys;       // [groups of kFixed16Lanes positions][pairs of dimensions][kFixed16Lanes][2]
  const float* key_steps;    // [positions]
  const int16_t* values;     // [pairs of positions][value_lanes][2]
  const float* value_steps;  // [positions]
  // Scratch.
  int32_t* scores;   // [kFixed16Queries][kFixed16ScoreStride]
  int16_t* weights;  // [kFixed16Queries][kFixed16Block]
  float* sums;       // [kFixed16Queries][value_lanes]
  float* out;
  int64_t out_stride;
};

struct Fixed16Kernels {
  // 1 .. kFixed16Block numbers to as many integers, |i| <= most, and a zero behind an odd count. Returns the step.
  float (*pack)(const float* x, int count, int most, int16_t* to);
  void (*multiply)(const Fixed16Tile& tile);
  void (*attend)(const Fixed16Attention& tile);
};

#if defined(__x86_64__)
extern const Fixed16Kernels kAvx512Fixed16;
#endif

}  // namespace monolith
