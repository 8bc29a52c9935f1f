// Tests prompt lookup without a draft model: where it finds repeated text, how many draft tokens it considers
// worthwhile, and how step costs are measured.
#include "engine/speculation/speculation.h"

#include <numeric>
#include <random>

#include "check.h"

namespace monolith {
namespace {

std::vector<TokenId> drafted(PromptLookup& lookup, const std::vector<TokenId>& tokens, size_t n) {
  const PromptLookup::Match match = lookup.find(tokens);
  std::vector<TokenId> out(match.length > 0 ? n : 0);
  if (!out.empty()) PromptLookup::copy(tokens, match, out);
  return out;
}

TEST(prompt_lookup_finds_the_most_recent_match) {
  PromptLookup lookup(100);
  std::vector<TokenId> tokens = {1, 2, 3, 4, 5};
  CHECK(drafted(lookup, tokens, 3).empty());
  for (const TokenId token : {9, 1, 2}) tokens.push_back(token);
  CHECK(drafted(lookup, tokens, 3).empty());  // Two matching tokens are too few.
  tokens.push_back(3);
  CHECK(drafted(lookup, tokens, 3) == std::vector<TokenId>({4, 5, 9}));
  tokens.insert(tokens.end(), {7, 1, 2, 3});
  CHECK(drafted(lookup, tokens, 1) == std::vector<TokenId>({7}));
  CHECK_EQ(lookup.find(tokens).length, 3);
}

TEST(prompt_lookup_continues_a_repeating_text) {
  PromptLookup lookup(100);
  std::vector<TokenId> tokens;
  for (int i = 0; i < 21; ++i) tokens.push_back(i % 3);
  CHECK(drafted(lookup, tokens, 8) == std::vector<TokenId>({0, 1, 2, 0, 1, 2, 0, 1}));
  CHECK_EQ(lookup.find(tokens).length, PromptLookup::kLongestMatch);
  std::vector<TokenId> same(20, 5);
  PromptLookup other(100);
  CHECK(drafted(other, same, 4) == std::vector<TokenId>(4, 5));
}

// Compares prompt lookup with a search through the whole text. The lookup finds only real matches and, if its table is
// large enough, all of them.
TEST(prompt_lookup_random) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<TokenId> tokens;
    PromptLookup lookup(1 << 20);
    int found = 0, there = 0;
    while (tokens.size() < 3000) {
      for (uint32_t i = random() % 5 + 1; i > 0; --i) tokens.push_back(static_cast<TokenId>(random() % 12));
      const PromptLookup::Match match = lookup.find(tokens);
      const auto alike = [&](size_t next) {
        size_t n = 0;
        while (n < next && n < size_t{PromptLookup::kLongestMatch} &&
               tokens[next - 1 - n] == tokens[tokens.size() - 1 - n])
          ++n;
        return static_cast<int>(n);
      };
      size_t newest = tokens.size() - 1;
      while (newest > 0 && alike(newest) < PromptLookup::kGram) --newest;
      there += newest > 0;
      if (match.length == 0) continue;
      ++found;
      CHECK_EQ(match.next, static_cast<int>(newest));
      CHECK_EQ(match.length, alike(newest));
    }
    CHECK(found > there * 9 / 10);
    CHECK(there > 100);
  }
}

TEST(draft_length_grows_with_acceptance_and_shrinks_without) {
  SequenceDrafts drafts(1000);
  std::vector<TokenId> tokens;
  for (int i = 0; i < 30; ++i) tokens.push_back(i % 5);
  const size_t first = drafts.draft(tokens, 0.3, SequenceDrafts::kMax).size();
  CHECK(first >= 1 && first < 6);
  for (int i = 0; i < 20; ++i) {
    drafts.record_acceptance(static_cast<int>(drafts.draft(tokens, 0.3, SequenceDrafts::kMax).size()), false);
    tokens.push_back(static_cast<TokenId>(tokens.size() % 5));
  }
  CHECK_EQ(drafts.draft(tokens, 0.3, SequenceDrafts::kMax).size(), size_t{SequenceDrafts::kMax});
  CHECK_EQ(drafts.draft(tokens, 0.3, 4).size(), size_t{4});
  CHECK(drafts.draft(tokens, 0.3, 0).empty());
  int made = 0, late = 0;
  for (int i = 0; i < 3000; ++i) {
    const size_t n = drafts.draft(tokens, 0.3, SequenceDrafts::kMax).size();
    if (n > 0) drafts.record_acceptance(0, true);
    made += n > 0;
    if (i >= 1000) late += static_cast<int>(n);
  }
  CHECK(made < 60);
  CHECK(late >= 1 && late < 10);  // Occasional attempts continue.
  // Occasionally, one draft token is tried even if its cost is so high that it cannot be worthwhile.
  CHECK(drafts.draft(tokens, 2, SequenceDrafts::kMax).size() <= 1);
}

TEST(acceptance_model_measures_the_cost_of_a_draft_token) {
  AcceptanceModel pace;
  CHECK(pace.wants_plain(1));
  CHECK(pace.price(1) < 1);
  for (int i = 0; i < 50; ++i) pace.note(1, 0, 10);
  for (int i = 0; i < 50; ++i) pace.note(4, 0, 16);
  CHECK(!pace.wants_plain(1));
  for (int i = 0; i < 60; ++i) pace.note(1, 5, 15);
  CHECK(pace.price(1) > 0.09 && pace.price(1) < 0.11);
  CHECK(pace.price(4) > 0.24 && pace.price(4) < 0.26);
  CHECK(!pace.wants_plain(1));
  for (int i = 0; i < 10; ++i) pace.note(1, 5, 15);
  CHECK(pace.wants_plain(1));  // Plain steps are repeated occasionally, so that their measured duration stays current.
  pace.note(1, 0, 10);
  CHECK(!pace.wants_plain(1));
  CHECK(pace.wants_plain(2));
}

// Outliers have no lasting effect, regardless of whether they are caused by load from other processes, a suspended
// process or the first step with a newly mapped file.
TEST(acceptance_model_recovers_from_delayed_steps) {
  AcceptanceModel pace;
  pace.note(1, 0, 1000);
  pace.note(1, 4, 14);
  CHECK(pace.wants_plain(1));
  for (int i = 0; i < 10; ++i) pace.note(1, 0, 10);
  for (int i = 0; i < 20; ++i) pace.note(1, 4, 14);
  CHECK(pace.price(1) > 0.08 && pace.price(1) < 0.12);
  pace.note(1, 4, 5000);
  CHECK(pace.price(1) < 0.25);
  for (int i = 0; i < 20; ++i) pace.note(1, 4, 14);
  CHECK(pace.price(1) < 0.12);
  pace.note(1, 0, 5000);
  CHECK(pace.price(1) > 0);  // Draft tokens still have a cost.
  pace.note(1, 4, 14);
  CHECK(pace.wants_plain(1));
  for (int i = 0; i < 8; ++i) pace.note(1, 0, 10);
  for (int i = 0; i < 20; ++i) pace.note(1, 4, 14);
  CHECK(pace.price(1) > 0.08 && pace.price(1) < 0.12);
}

}  // namespace
}  // namespace monolith
