// Tests that a CUDA graph captured with fewer tokens than it has rows computes all its rows when it is replayed. Covers
// one architecture for each kind of norm, in exact and in production arithmetic. cuda_networks_test.cc tests the other
// architectures.
#include <optional>

#include "backend/cuda/graph_replays.h"
#include "check.h"
#include "model/all_cases.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

void check_case(Case one, bool exact, std::optional<TensorType> type = {}) {
  if (!exact) quantize(one.model, type);
  const ParsedModel parsed(one.model);
  REQUIRE(parsed.file != nullptr);
  check_replays(one.name + (exact ? "" : ", quantized"), *parsed.file, exact);
}

}  // namespace

TEST(cuda_graphs_compute_tokens_that_were_padding_during_the_capture) {
  // Architectures with RMS norms of the row, of each head and of all heads; norms before and after a block, or only
  // after it; LayerNorms with and without bias (StableLM 2 12B and Command R+, which also have one norm per head);
  // norms of recurrent layers.
  for (const Case& one : {llama_like("llama", false), qwen3moe(), olmoe(), gemma2(), olmo2(false), norms_apart(true),
                          norms_apart(false), qwen35(), mamba2(), kimi_linear()})
    check_case(one, true);
}

// Covers products with inputs in 16 and 8 bits, into which norms and gates are fused.
TEST(cuda_graphs_compute_tokens_that_were_padding_in_production_arithmetic) {
  for (const Case& one : {llama_like("llama", false), qwen3moe(), olmoe(), norms_apart(true), norms_apart(false)}) {
    check_case(one, false);
    check_case(one, false, TensorType::kBF16);
  }
}
