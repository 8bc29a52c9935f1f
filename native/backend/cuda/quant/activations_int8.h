// Activations for products with quantized weights: 8-bit values in the B fragment layout of the tensor cores' m16n8k32,
// converted once per call. Only reserve() allocates scratch memory. Used by the engine thread.
//
// For 32 values with largest magnitude amax: scale = amax / 127 and a = round(x * (127 / amax)) to nearest, ties to
// even. If amax is not finite, scale is NaN and all a are 0. If amax is below 2^-100, scale and all a are 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/language.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/product_input.h"

namespace monolith::cuda {

// 32 values of k for 8 columns (rows of the input). Blocks are ordered [columns / 8][k / 32], with k zero-padded to a
// multiple of kChunk. Columns after the last one of the input are left unchanged; this is harmless, because each output
// depends only on its own column.
struct Int8Block {
  Words2 codes[32];  // Lane 4 g + t holds column g, k = 4 t .. and 16 + 4 t ..
  struct Pair {      // Columns 2 t and 2 t + 1.
    float scale[2];
    float sums[2];  // -(scale * sum of a)
  } columns[4];
  float half_sums[4][2][2];  // [t][half][column]: -(scale * sum of a) for each half of 16 values of k.
};
static_assert(sizeof(Int8Block) == 384);

class Int8Activations {
 public:
  explicit Int8Activations(Runtime& runtime) : runtime_(runtime) {}
  static size_t bytes_for(int64_t max_rows, int64_t max_cols);
  Status reserve(int64_t max_rows, int64_t max_cols);
  // Quantizes `x`, [n_rows][cols] in device memory, within the reserved size; cols is a multiple of 32. `source` is
  // null, or a device array [n_rows] with the row of x for each output column. An entry of -1 leaves that column
  // unchanged.
  const Int8Block* quantize(const float* x, int n_rows, int64_t cols, const int32_t* source = nullptr) const;

  // Returns the destination for rows of `cols` values that another kernel writes in this format.
  ProductInput input(int64_t cols) const;
  const Int8Block* blocks() const { return blocks_; }  // The most recently converted activations.

 private:
  Runtime& runtime_;
  size_t bytes_ = 0;
  Int8Block* blocks_ = nullptr;
};

}  // namespace monolith::cuda
