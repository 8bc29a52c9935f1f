// Batched matmul with one matrix per head (Operations::batched_matmul). Heads are groups of columns, like experts
// (moe/grouped.h), except that every token uses all heads. Inputs are gathered head by head and multiplied in one
// grouped launch; the results are scattered back to their tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/matmul.h"

namespace monolith::cuda {

// Owned and used by the engine thread. Only reserve() allocates.
class CudaHeads {
 public:
  explicit CudaHeads(Runtime& runtime) : runtime_(runtime) {}

  // Returns the number of bytes that reserve() allocates; 0 if there are no heads.
  static size_t bytes_for(int max_rows, const HeadProductShape& shape);
  // Returns the number of columns, of HeadProductShape::cols values each, for which the matmul scratch memory must be
  // reserved.
  static int64_t most_columns(int max_rows, const HeadProductShape& shape);
  // Errors: kInvalidArgument (sizes out of range), kOutOfMemory.
  Status reserve(int max_rows, const HeadProductShape& shape);

  // The numbers of heads, rows and columns must not exceed those of the shape passed to reserve(). Tokens beyond the
  // reserved number are processed in several passes.
  void run(const MatmulContext& context, const BatchedMatmul& products, int n_rows);

 private:
  Runtime& runtime_;
  HeadProductShape shape_;
  int at_once_ = 0;  // Tokens per pass.
  unsigned char* memory_ = nullptr;
};

}  // namespace monolith::cuda
