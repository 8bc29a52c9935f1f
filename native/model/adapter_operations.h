// The operations of a model's layers, with LoRA adapters: adds the adapters of a step's rows to the results of matmuls.
// All other operations, and steps without adapters, go to the backend unchanged. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/forwarding_backend.h"
#include "model/adapter.h"

namespace monolith {

class AdapterOperations final : public ForwardingBackend {
 public:
  // Maximum number of adapters in one step, so that a call of add_adapters() stays within kMaxAdapterTargets.
  static constexpr size_t kMaxAtOnce = 64;
  static constexpr size_t kMaxTargets = kMaxAdapterTargets / kMaxAtOnce;  // Maximum targets of one matmul.

  AdapterOperations(Backend& backend, int max_rows);

  // Allocates scratch memory for adapters of up to this rank. Not during a step.
  Status reserve(int rank);
  // Begins a step. `adapters`: ranges of rows in ascending order. `logit_rows`: the rows that are left if a block
  // reduces the step to them. Both must stay valid until the next call.
  void begin(int n_rows, std::span<const int32_t> logit_rows, std::span<const AdapterRows> adapters);

  void matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse use) override;

 private:
  struct Group {
    const Adapter* adapter;
    size_t first, count;  // Range of the row list.
  };
  // The rows of each adapter.
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
