#include "engine/memory/page_budget.h"

#include "check.h"

namespace monolith {
namespace {

constexpr uint64_t kMiB = 1 << 20;

PageChoice choose(int file_context, size_t page_bytes, const PageBudget& budget) {
  const auto choice = choose_pages(file_context, page_bytes, budget);
  return choice ? *choice : PageChoice{};
}

}  // namespace

TEST(without_a_budget_there_is_room_for_four_contexts_of_the_file) {
  const PageChoice choice = choose(2048, 1000, {.memory = 1024 * kMiB});
  CHECK_EQ(choice.context, 2048);
  CHECK_EQ(choice.pages, 4 * 128);
  // A context that is no multiple of a page takes a whole last page.
  CHECK_EQ(choose(2049, 1000, {.memory = 1024 * kMiB}).pages, 4 * 129);
}

TEST(an_unasked_context_is_cut_to_a_quarter_of_memory) {
  const PageChoice choice = choose(131072, kMiB, {.memory = 1024 * kMiB});
  CHECK_EQ(choice.pages, 256);
  CHECK_EQ(choice.context, 256 * kPageTokens);
}

TEST(an_asked_context_may_take_half_of_memory) {
  PageChoice choice = choose(131072, kMiB, {.max_context = 6000, .memory = 1024 * kMiB});
  CHECK_EQ(choice.context, 6000);
  CHECK_EQ(choice.pages, 375);
  choice = choose(131072, kMiB, {.max_context = 100000, .memory = 1024 * kMiB});
  CHECK_EQ(choice.pages, 512);
  CHECK_EQ(choice.context, 512 * kPageTokens);
}

TEST(an_asked_context_is_never_longer_than_the_files) {
  CHECK_EQ(choose(2048, 1000, {.max_context = 8192, .memory = 1024 * kMiB}).context, 2048);
  CHECK_EQ(choose(2048, 1000, {.max_context = 100, .memory = 1024 * kMiB}).context, 100);
}

TEST(a_given_budget_is_used_whole) {
  const PageChoice choice = choose(2048, 1000, {.kv_bytes = 50'999});
  CHECK_EQ(choice.pages, 50);
  CHECK_EQ(choice.context, 800);
  CHECK_EQ(choose(2048, 1000, {.max_context = 64, .kv_bytes = 50'999}).context, 64);
}

TEST(pages_without_memory_are_as_many_as_contexts_want) {
  for (const uint64_t kv_bytes : {uint64_t{0}, uint64_t{1} << 40}) {
    const PageChoice choice = choose(2048, 0, {.kv_bytes = kv_bytes, .memory = uint64_t{1} << 41});
    CHECK_EQ(choice.context, 2048);
    CHECK_EQ(choice.pages, 4 * 128);
  }
}

TEST(a_budget_below_one_page_is_refused) {
  const auto choice = choose_pages(2048, 4096, {.kv_bytes = 4095});
  REQUIRE(!choice.ok());
  CHECK(choice.error().code == ErrorCode::kInvalidArgument);
  CHECK(choice.error().message.find("4095") != std::string::npos);
  CHECK(!choose_pages(2048, 4096, {.memory = 0}).ok());
}

TEST(a_budget_beyond_memory_is_refused) {
  const auto choice = choose_pages(2048, 4096, {.kv_bytes = 2 * kMiB, .memory = kMiB});
  REQUIRE(!choice.ok());
  CHECK(choice.error().message.find("2097152") != std::string::npos);
}

TEST(physical_memory_is_known) { CHECK(physical_memory() > kMiB); }

}  // namespace monolith
