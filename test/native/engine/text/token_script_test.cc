// Walking alternatives of token sequences: what may come next at each point, and where it ends.
#include "engine/text/token_script.h"

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

TEST(token_script_tells_which_one_was_completed) {
  const Alternatives alternatives = {{1, 2, 3}, {1, 2, 4, 5}, {1, 6}, {7}};
  TokenScript script;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    script.start(alternatives);
    for (const TokenId token : alternatives[i]) script.advance(token);
    CHECK(!script.active());
    CHECK_EQ(script.completed(), i);
  }
}

TEST(token_script_narrows_to_what_agrees) {
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

TEST(token_script_ends_with_the_first_that_is_complete) {
  const Alternatives alternatives = {{1}, {1, 2}};
  TokenScript script;
  script.start(alternatives);
  CHECK(next_of(script) == (Tokens{1}));
  script.advance(1);
  CHECK(!script.active());
}

TEST(token_script_begins_where_something_is_written) {
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
