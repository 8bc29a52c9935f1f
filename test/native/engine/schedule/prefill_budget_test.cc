#include "engine/schedule/prefill_budget.h"

#include "check.h"

using monolith::PrefillBudget;

TEST(prefill_budget_learns_the_tokens_that_fit_the_target) {
  PrefillBudget pace(250);
  CHECK_EQ(pace.prompt_tokens(), PrefillBudget::kUnmeasured);
  for (int i = 0; i < 50; ++i) {
    pace.note(4, 0, 30);              // Only decodes: 30 ms.
    pace.note(4, 100, 30 + 100 * 3);  // 3 ms per prompt token.
  }
  CHECK(pace.prompt_tokens() >= 70 && pace.prompt_tokens() <= 74);  // (250 - 30) / 3.
}

TEST(prefill_budget_always_lets_prompts_advance) {
  PrefillBudget pace(10);
  pace.note(1, 0, 180);
  pace.note(1, 16, 600);
  CHECK_EQ(pace.prompt_tokens(), PrefillBudget::kMin);
}

TEST(prefill_budget_without_a_target_is_unlimited) {
  PrefillBudget pace(0);
  pace.note(0, 256, 5000);
  CHECK_EQ(pace.prompt_tokens(), PrefillBudget::kNoBound);
}

TEST(prefill_budget_does_not_shrink_with_small_steps) {
  PrefillBudget pace(250);
  for (int i = 0; i < 200; ++i) {
    pace.note(1, 0, 100);
    const int tokens = pace.prompt_tokens();
    pace.note(1, tokens, 100 + tokens * 2.0);
  }
  CHECK(pace.prompt_tokens() >= 73 && pace.prompt_tokens() <= 77);
}

TEST(prefill_budget_is_shared_with_other_work) {
  PrefillBudget pace(100);
  for (int i = 0; i < 50; ++i) pace.note(1, 0, 20);
  for (int i = 0; i < 50; ++i) pace.note(1, 40, 60);  // 1 ms per token.
  CHECK_EQ(pace.prompt_tokens(), 80);
  CHECK_EQ(pace.prompt_tokens(true), 40);
  CHECK_EQ(pace.beside_decodes(60).count(), 40);
  CHECK_EQ(pace.beside_decodes(20).count(), 80);
  CHECK_EQ(pace.beside_decodes(130).count(), 5);  // The other work continues.
}
