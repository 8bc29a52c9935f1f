// Inputs of products with quantized weights: 8-bit numbers in fragments B of the tensor cores' m16n8k32, converted
// once per call. Scratch is allocated by reserve() alone; used by the engine's thread.
//
// Of 32 values with largest magnitude amax: scale = amax / 127, a = round(x * (127 / amax)) to nearest, ties to even.
// Where amax is no finite number, scale is NaN and all a are 0; where it is below 2^-100, scale and all a are 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/language.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/product_input.h"

namespace monolith::cuda {

// 32 k of 8 columns (rows of the input). Blocks lie [columns / 8][k / 32], k up to a multiple of kChunk (zeros past the
// input's own). What columns past the input's have is left as it was: each output is of its own column alone.
struct Int8Block {
  Words2 codes[32];  // lane 4 g + t: column g, k 4 t.. and 16 + 4 t..
  struct Pair {      // of columns 2 t and 2 t + 1
    float scale[2];
    float sums[2];  // -(scale * sum of a)
  } columns[4];
  float half_sums[4][2][2];  // [t][half][column]: the same of each half of 16 k
};
static_assert(sizeof(Int8Block) == 384);

class Int8Activations {
 public:
  explicit Int8Activations(Runtime& runtime) : runtime_(runtime) {}
  static size_t bytes_for(int64_t max_rows, int64_t max_cols);
  Status reserve(int64_t max_rows, int64_t max_cols);
  // `x` [n_rows][cols], device, within what was reserved; cols a multiple of 32. `source`, device, [n_rows]: which row
  // of x each is, -1: none, its column is left as it was; null: all in order.
  const Int8Block* quantize(const float* x, int n_rows, int64_t cols, const int32_t* source = nullptr) const;

  // Where rows of `cols` values go that another kernel writes in this form.
  ProductInput input(int64_t cols) const;
  const Int8Block* blocks() const { return blocks_; }  // of what was converted last

 private:
  Runtime& runtime_;
  size_t bytes_ = 0;
  Int8Block* blocks_ = nullptr;
};

}  // namespace monolith::cuda
