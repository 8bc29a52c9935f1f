// Tests how a predicted text is followed, from its start and after edits, and which of its tokens count as matched.
#include "engine/speculation/predicted_text.h"

#include <numeric>

#include "check.h"

namespace monolith {
namespace {

std::vector<TokenId> sequence(TokenId from, int n) {
  std::vector<TokenId> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// Simulates an output that has followed the predicted text token by token so far.
struct Output {
  explicit Output(std::vector<TokenId> predicted) : words(std::move(predicted)), text(words) {}
  void add(const std::vector<TokenId>& more) {
    for (const TokenId token : more) {
      tokens.push_back(token);
      text.follow(tokens);
    }
  }
  std::vector<TokenId> next() const { return {text.next().begin(), text.next().end()}; }

  const std::vector<TokenId> words;
  std::vector<TokenId> tokens;
  PredictedText text;
};

TEST(prediction_is_followed_from_its_start) {
  Output output(sequence(10, 5));
  CHECK(output.next() == sequence(10, 5));
  output.add({10});
  CHECK(output.next() == sequence(11, 4));
  output.add({11, 12, 13, 14});
  CHECK(output.next().empty());
  CHECK_EQ(output.text.n_matched(), 5);
  output.add({7, 8, 9});
  CHECK(output.next().empty());
  CHECK_EQ(output.text.n_matched(), 5);
}

TEST(prediction_is_found_again_after_an_edit) {
  Output output(sequence(10, 30));
  output.add({10, 11, 12});
  output.add({99});  // Replaces 13.
  CHECK(output.next().empty());
  output.add({14, 15});
  CHECK(output.next().empty());  // Two equal tokens are too few.
  output.add({16});
  CHECK(output.next() == sequence(17, 23));
  CHECK_EQ(output.text.n_matched(), 6);
  output.add({17, 25, 26, 27});  // Leaves out 18 to 24.
  CHECK(output.next() == sequence(28, 12));
  CHECK_EQ(output.text.n_matched(), 10);
}

TEST(prediction_is_found_at_an_earlier_position_and_counts_each_token_once) {
  Output output(sequence(10, 10));
  output.add(sequence(10, 10));
  output.add({10, 11, 12});
  CHECK(output.next() == sequence(13, 7));
  output.add({13});
  CHECK_EQ(output.text.n_matched(), 10);
}

// If a word occurs several times in the predicted text, the next occurrence is used, not the first or the last one.
TEST(prediction_with_repetitions_is_followed_in_order) {
  std::vector<TokenId> words;
  for (TokenId block = 0; block < 4; ++block)
    for (const TokenId token : {1, 2, 3, 100 + block}) words.push_back(token);
  Output output(words);
  output.add({1, 2, 3, 100, 1, 2, 3, 50});
  output.add({1, 2, 3});
  CHECK(output.next().front() == 102);
}

TEST(short_and_distant_predictions_are_not_found) {
  Output brief({5, 6});
  brief.add({5, 9, 5, 6});
  CHECK(brief.next().empty());
  CHECK_EQ(brief.text.n_matched(), 1);

  std::vector<TokenId> words(2 * PredictedText::kMaxSearch, 1);
  words.insert(words.end(), {2, 3, 4, 5});
  Output distant(words);
  distant.add({2, 3, 4});
  CHECK(distant.next().empty());
  CHECK_EQ(distant.text.n_matched(), 0);
}

}  // namespace
}  // namespace monolith
