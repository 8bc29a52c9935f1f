// Products of each head's part of a row with a matrix of its own: Operations::matmul_heads. Heads are groups of columns
// as experts are (mixture/grouped.h), of which every row has all: their parts are gathered head by head, one launch
// multiplies, and results go back to their rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/matmul.h"

namespace monolith::cuda {

// Owned and used by the engine's thread. Only reserve() allocates.
class CudaHeads {
 public:
  explicit CudaHeads(Runtime& runtime) : runtime_(runtime) {}

  // Bytes of reserve(); 0 without heads.
  static size_t bytes_for(int max_rows, const HeadProductShape& shape);
  // Columns of the products: what the scratch of products must hold, `cols` values each.
  static int64_t most_columns(int max_rows, const HeadProductShape& shape);
  // Errors: kInvalidArgument (out of range), kOutOfMemory.
  Status reserve(int max_rows, const HeadProductShape& shape);

  // No more heads, rows and cols than reserved for; more rows of activations are taken in passes.
  void run(const MatmulContext& context, const HeadProducts& products, int n_rows);

 private:
  Runtime& runtime_;
  HeadProductShape shape_;
  int at_once_ = 0;  // rows of activations
  unsigned char* memory_ = nullptr;
};

}  // namespace monolith::cuda
