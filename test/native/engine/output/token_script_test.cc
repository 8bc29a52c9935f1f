// Follows alternative token sequences: which tokens may come next at each position, and where a sequence is complete.
#include "engine/output/token_script.h"

#include "check.h"

namespace monolith {
namespace {

using Alternatives = std::vector<std::vector<TokenId>>;
using Tokens = std::vector<TokenId>;

Tokens next_of(const TokenScript& script) {
  Tokens tokens = {99};
  script.next(tokens);
  return tokens;
}

TEST(forced_sequence_reports_the_completed_alternative) {
  const Alternatives alternatives = {{1, 2, 3}, {1, 2, 4, 5}, {1, 6}, {7}};
  TokenScript script;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    script.start(alternatives);
    for (const TokenId token : alternatives[i]) script.advance(token);
    CHECK(!script.active());
    CHECK_EQ(script.completed(), i);
  }
}

TEST(forced_sequence_narrows_to_the_matching_alternatives) {
  const Alternatives alternatives = {{1, 2, 3}, {1, 2, 4, 5}, {1, 6}, {7}};
  TokenScript script;
  CHECK(!script.active());
  CHECK(next_of(script).empty());
  script.start(alternatives);
  CHECK(next_of(script) == (Tokens{1, 7}));
  script.advance(1);
  CHECK(next_of(script) == (Tokens{2, 6}));
  script.advance(2);
  CHECK(next_of(script) == (Tokens{3, 4}));
  script.advance(4);
  CHECK(next_of(script) == (Tokens{5}));
  script.advance(5);
  CHECK(!script.active());
  script.start(alternatives);
  script.advance(7);
  CHECK(!script.active());
}

TEST(forced_sequence_ends_with_the_first_complete_alternative) {
  const Alternatives alternatives = {{1}, {1, 2}};
  TokenScript script;
  script.start(alternatives);
  CHECK(next_of(script) == (Tokens{1}));
  script.advance(1);
  CHECK(!script.active());
}

TEST(forced_sequence_can_start_after_written_tokens) {
  const Alternatives alternatives = {{1, 2, 3}};
  TokenScript script;
  script.start(alternatives, 2);
  CHECK(next_of(script) == (Tokens{3}));
  script.start(alternatives, 3);
  CHECK(!script.active());
  script.start({});
  CHECK(!script.active());
}

}  // namespace
}  // namespace monolith
