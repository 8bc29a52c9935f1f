// MoE layers (Backend::mixture). Tokens are routed on the device, and (token, expert) pairs become slots in the order
// of experts (routing.h, grouped.h). Each product with the experts' matrices is one launch for all experts in use. A
// token's result is the sum over its own slots, in descending order of expert preference, so it does not depend on
// other tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/moe/routing.h"

namespace monolith::cuda {

// Owned and used by the engine thread. Only reserve() allocates.
class CudaMixture {
 public:
  explicit CudaMixture(Runtime& runtime) : runtime_(runtime) {}

  // Returns the number of bytes that reserve() allocates; 0 if there are no experts.
  static size_t bytes_for(int max_rows, const MixtureShape& shape);
  // Returns the maximum number of columns of a product over a step's slots, for which the matmul scratch memory must be
  // reserved.
  static int64_t most_columns(int max_rows, const MixtureShape& shape);
  // Errors: kInvalidArgument (sizes out of range, or more experts per token than experts in total), kUnsupported (a
  // different shape than before), kOutOfMemory.
  Status reserve(int max_rows, const MixtureShape& shape);

  // Implements BackendMemory::supports for Mixture.
  static Status check(const Mixture& mixture);

  // Maximum number of experts per token in models that select experts by token id (TokenExperts).
  static constexpr int kMaxByToken = 16;
  // Returns the experts of each token for models that select experts by token id, in host memory with shape
  // [n_rows][n_used]; empty if the router selects them. Valid until the next call.
  std::span<const int32_t> experts_of_tokens(const Mixture& mixture, int n_rows);

  // Implements Backend::mixture for the reserved shape. `given` is the device copy of experts_of_tokens(); null if the
  // router selects the experts.
  void run(const MatmulContext& context, const Mixture& mixture, const float* router_logits, const float* x, int n_rows,
           float* out, bool add_to_out, const int32_t* given = nullptr);

 private:
  // Addresses of the arrays within `memory`. If `memory` is null, only the total size is computed.
  struct Scratch {
    Scratch(unsigned char* memory, int max_rows, const MixtureShape& shape);
    float* gate;    // Shape [slot][n_ff].
    float* up;      // Shape [slot][n_ff].
    float* result;  // Shape [slot][n_embd].
    Routing routing;
    size_t bytes;
  };
  // For each token, sums the results of its experts.
  void combine(const Mixture& mixture, const Scratch& parts, int n_rows, float* out, bool add_to_out);

  Runtime& runtime_;
  MixtureShape shape_;
  int max_rows_ = 0;
  unsigned char* memory_ = nullptr;
  std::vector<int32_t> by_token_;
};

}  // namespace monolith::cuda
