// Tests the penalty counts and the maximum length of a new request.
#include "engine/sequence.h"

#include <string>
#include <vector>

#include "check.h"

namespace monolith {
namespace {

// The repetition penalty also counts prompt tokens, whereas the other penalties count only generated tokens. Embedding
// rows do not count as tokens.
TEST(the_repetition_penalty_counts_prompt_tokens) {
  const auto counted = [](float repetition, float frequency) {
    GenerationRequest request;
    request.prompt = {1, 2, 3, 4, 5};
    request.max_tokens = 10;
    request.sampling.repetition_penalty = repetition;
    request.sampling.frequency_penalty = frequency;
    request.spans = {{.first = 1, .n_rows = 2, .hash = {1, 1}, .rows = {}, .bidirectional = false}};
    const Request made(1, nullptr, request, 1000, 100);
    std::string tokens;
    made.choices[0]->allocate();
    for (const UsedToken& used : made.choices[0]->counts.entries()) tokens += static_cast<char>('0' + used.token);
    return tokens;
  };
  CHECK_EQ(counted(2, 0), std::string("145"));
  CHECK_EQ(counted(1, 1), std::string());
}

// No more tokens are generated than fit in the context.
TEST(the_maximum_length_is_bounded_by_the_context) {
  GenerationRequest request;
  request.prompt = std::vector<TokenId>(30, 1);
  request.max_tokens = 20;
  CHECK_EQ(Request(1, nullptr, request, 1000, 51).max_length, 50);
  CHECK_EQ(Request(1, nullptr, request, 1000, 40).max_length, 40);
}

}  // namespace
}  // namespace monolith
