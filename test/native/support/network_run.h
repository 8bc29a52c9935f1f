// Loads a small model with a backend and computes its logits for a few tokens. For tests only.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "model/transformer.h"
#include "support/tiny_model.h"

namespace monolith::testing {

inline constexpr ModelLimits kNetworkLimits = {
    .max_batch_tokens = 40, .max_logit_rows = 40, .max_context = 96, .n_pages = 6, .kv_type = KvType::kF32};

std::vector<int32_t> some_tokens(int n);

struct Loaded {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> model;  // Null if the test has failed.
};

Loaded load_network(const GgufFile& file, Result<std::unique_ptr<Backend>> backend,
                    const ModelLimits& limits = kNetworkLimits);
Loaded load_network(const GgufFile& file, const CpuBackendOptions& options);

// Returns the logits at every position. If `first` is not 0, the first chunk has `first` tokens; all other chunks have
// `piece` tokens. With every chunk, the recurrent state moves to another slot.
std::vector<float> run_network(Transformer& model, const std::vector<int32_t>& tokens, int piece, int first = 0);

}  // namespace monolith::testing
