// Replays the vision vectors' sequences of tokens and image embeddings on the CUDA backend (in the emulator). There is
// one pair of models for each kind of attention and positions: bidirectional spans, M-RoPE, and embeddings added after
// the first layers. Prompts are computed whole, in chunks, and a second time from the prefix cache.
#include "backend/cuda/cuda_backend.h"
#include "support/vision_sequences.h"

namespace monolith::testing {
namespace {

// Runs only a single sequence, and only the first tokens of its response, because the emulator is slow.
void check_pair(const std::string& name, bool in_pieces) {
  const auto pair = read_pair(name);
  if (!pair) return check::skip("vision vectors not found");
  for (const bool exact : {true, false}) {
    auto backend = make_cuda_backend({.exact = exact});
    REQUIRE(backend.ok());
    run_pair(*pair, std::move(*backend),
             {.how = exact ? "exact" : "production",
              .exact = exact,
              .rows = in_pieces ? 20 : 512,
              .sequences_limit = 1,
              .most_tokens = 4});
  }
}

TEST(vision_sequences_cuda_with_bidirectional_spans) { check_pair("gemma3", false); }
TEST(vision_sequences_cuda_with_mrope) { check_pair("qwen25vl", true); }
TEST(vision_sequences_cuda_with_deepstack) { check_pair("qwen3vl", true); }

}  // namespace
}  // namespace monolith::testing
