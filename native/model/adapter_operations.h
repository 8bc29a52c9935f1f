// Wraps a backend's operations for the layers of a model. After each matmul, adds the LoRA adapters of the step's
// tokens to the result. All other operations, and steps without adapters, go to the backend unchanged. Engine thread
// only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/forwarding_backend.h"
#include "model/adapter.h"

namespace monolith {

class AdapterOperations final : public ForwardingBackend {
 public:
  // Maximum number of adapters in one step, and maximum number of targets in one matmul. Their product must not exceed
  // kMaxAdapterTargets.
  static constexpr size_t kMaxAtOnce = 64;
  static constexpr size_t kMaxTargets = kMaxAdapterTargets / kMaxAtOnce;

  AdapterOperations(Backend& backend, int max_rows);

  // Allocates scratch memory for adapters of up to this rank. Must not be called during a step.
  Status reserve(int rank);
  // Must be called before each step of `n_rows` tokens. `adapters`: ranges of tokens in ascending order; the adapters
  // must stay alive until the step ends. `logit_rows`: ascending indices of the tokens with logits. The last layer may
  // reduce the step to these tokens.
  void begin(int n_rows, std::span<const int32_t> logit_rows, std::span<const AdapterRows> adapters);

  void matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse use) override;

 private:
  struct Group {
    const Adapter* adapter;
    size_t first, count;  // Range in Grouping::rows.
  };
  // The rows that use each adapter.
  struct Grouping {
    std::vector<int32_t> rows;
    std::vector<Group> groups;
  };
  static void group(std::span<const AdapterRows> adapters, std::span<const int32_t> logit_rows, Grouping& to);

  const int max_rows_;
  int n_rows_ = 0, n_logit_rows_ = 0;
  Grouping all_, logits_;
  std::vector<AdapterTarget> targets_;
  float* scratch_ = nullptr;
  int reserved_rank_ = 0;
};

}  // namespace monolith
