#include "engine/output/repetition_guard.h"

#include <vector>

#include "check.h"

namespace monolith {
namespace {

// Returns the number of tokens after which the guard ends the response, or the total number if it does not.
size_t taken(const std::vector<TokenId>& tokens, int repeats) {
  RepetitionGuard guard(repeats);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::span<const TokenId> before = std::span(tokens).first(i);
    if (guard.completes(before, tokens[i])) return i + 1;
    guard.add(before, tokens[i]);
  }
  return tokens.size();
}

std::vector<TokenId> run(int length, int times, int prelude = 0) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < prelude; ++i) tokens.push_back(1000 + i);
  for (int i = 0; i < length * times; ++i) tokens.push_back(i % length);
  return tokens;
}

}  // namespace

TEST(three_repetitions_of_a_run_are_a_loop) {
  for (const int length : {8, 9, 20, 63, 64})
    for (const int prelude : {0, 1, 100}) {
      CHECK_EQ(taken(run(length, 6, prelude), 3), static_cast<size_t>(prelude + 3 * length));
      CHECK_EQ(taken(run(length, 6, prelude), 5), static_cast<size_t>(prelude + 5 * length));
    }
  CHECK_EQ(taken(run(64, 2), 2), size_t{128});
}

TEST(short_runs_may_repeat_more_often) {
  CHECK_EQ(taken(run(1, 100), 3), size_t{16});
  CHECK_EQ(taken(run(2, 100), 3), size_t{16});
  CHECK_EQ(taken(run(5, 100), 3), size_t{16});
  CHECK_EQ(taken(run(6, 100), 3), size_t{18});
  CHECK_EQ(taken(run(1, 15), 3), size_t{15});
  CHECK_EQ(taken(run(1, 100), 40), size_t{40});
}

TEST(text_without_a_loop_continues) {
  CHECK_EQ(taken(run(65, 6), 3), size_t{390});  // Longer than the runs that the guard checks.
  CHECK_EQ(taken(run(8, 6), 1), size_t{48});    // The guard is disabled.
  CHECK_EQ(taken(run(8, 6), 0), size_t{48});
  std::vector<TokenId> broken = run(8, 6);
  // Every other repetition differs.
  for (size_t i = 7; i < broken.size(); i += 16) broken[i] = static_cast<TokenId>(2000 + i);
  CHECK_EQ(taken(broken, 3), broken.size());
  CHECK_EQ(taken(run(8, 2), 3), size_t{16});
}

}  // namespace monolith
