// Mixtures of experts: Backend::mixture. Rows choose their experts on the device, (row, expert) pairs become slots in
// the order of experts (grouped.h), and each of the three products is one launch over all experts in use. A row's
// result is the sum over its own slots in the order of its own choice, so no other row has a part in it: where a slot
// lies among its expert's may differ from run to run, what is computed in it does not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/grouped.h"
#include "backend/cuda/matmul.h"

namespace monolith::cuda {

// Owned and used by the engine's thread. Only reserve() allocates.
class CudaMixture {
 public:
  explicit CudaMixture(Runtime& runtime) : runtime_(runtime) {}

  // Bytes of reserve(); 0 without experts.
  static size_t bytes_for(int max_rows, const MixtureShape& shape);
  // Columns that a product of a step's slots can have: what the scratch of products must hold.
  static int64_t most_columns(int max_rows, const MixtureShape& shape);
  // Errors: kInvalidArgument (sizes out of range, more experts used than there are), kUnsupported (another shape than
  // before), kOutOfMemory.
  Status reserve(int max_rows, const MixtureShape& shape);

  // Backend::can_mix.
  static Status check(const Mixture& mixture);

  // Backend::mixture; the shape must be the one reserved for.
  void run(const MatmulContext& context, const Mixture& mixture, const float* router_logits, const float* x, int n_rows,
           float* out, bool add_to_out);

 private:
  Runtime& runtime_;
  MixtureShape shape_;
  int max_rows_ = 0;
  unsigned char* memory_ = nullptr;
  // Parts of it.
  float* gate_ = nullptr;   // [slot][n_ff]
  float* up_ = nullptr;   // [slot][n_ff]
  float* result_ = nullptr;   // [slot][n_embd]
  float* weights_ = nullptr;   // [row][n_used]
  int32_t* chosen_ = nullptr;   // [row][n_used] experts, the largest logit first
  int32_t* place_ = nullptr;   // [row][n_used] which of its expert's slots, then which slot
  int32_t* source_ = nullptr;   // [slot]
  int32_t* count_ = nullptr;   // [n_experts]
  int32_t* first_slot_ = nullptr;   // [n_experts + 1]
  ColumnTile* tiles_ = nullptr;
  int32_t* n_tiles_ = nullptr;
};

}  // namespace monolith::cuda
