// Mixtures of experts: Backend::mixture. Rows choose their experts on the device and (row, expert) pairs become slots
// in the order of experts (routing.h, grouped.h); the products with the experts' matrices are one launch over all
// experts in use. A row's result is the sum over its own slots in the order of its own choice: no other row has a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/mixture/routing.h"

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

  // Experts that a token has at most, where tokens have them (TokenExperts).
  static constexpr int kMostByToken = 16;
  // Host: those of each row's token, [n_rows][n_used]; empty: rows choose. Valid until the next call.
  std::span<const int32_t> experts_of_tokens(const Mixture& mixture, int n_rows);

  // Backend::mixture; the shape must be the one reserved for. `given`: device, experts_of_tokens(); null: rows choose.
  void run(const MatmulContext& context, const Mixture& mixture, const float* router_logits, const float* x, int n_rows,
           float* out, bool add_to_out, const int32_t* given = nullptr);

 private:
  // Parts of `memory`; of null it only counts.
  struct Scratch {
    Scratch(unsigned char* memory, int max_rows, const MixtureShape& shape);
    float* gate;    // [slot][n_ff]
    float* up;      // [slot][n_ff]
    float* result;  // [slot][n_embd]
    Routing routing;
    size_t bytes;
  };
  // Each row's sum over its experts' results.
  void combine(const Mixture& mixture, const Scratch& parts, int n_rows, float* out, bool add_to_out);

  Runtime& runtime_;
  MixtureShape shape_;
  int max_rows_ = 0;
  unsigned char* memory_ = nullptr;
  std::vector<int32_t> by_token_;
};

}  // namespace monolith::cuda
