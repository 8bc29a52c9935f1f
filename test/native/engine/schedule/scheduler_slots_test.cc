// Tests recurrent state in the scheduler: which slots a sequence uses, and which snapshots are kept. Every sequence
// resumes from the state of its own prefix, regardless of which sequences share its slots.
#include "scheduler_bench.h"

namespace monolith {
namespace {

// Runs steps until no sequence has anything to compute.
int run_all(Bench& bench, int most = 5000) {
  int n = 0;
  for (; n < most && bench.works(); ++n) bench.step();
  CHECK(n < most);
  return n;
}

TEST(an_equal_prompt_resumes_from_the_last_snapshot) {
  Bench bench(64, 256, 4, true, {}, 8);  // A snapshot every 64 tokens.
  Request& first = bench.add(prompt_of(203), 1, 3);
  bench.step();
  CHECK_EQ(only(first).generated(), 1);
  CHECK_EQ(bench.cache.slots().snapshots(), 3);  // At 64, 128 and 192, which is also the last page boundary.
  run_all(bench);
  const uint64_t cached = bench.scheduler.cached_tokens();
  Request& second = bench.add(prompt_of(203), 1, 3);
  bench.step();
  CHECK_EQ(bench.scheduler.cached_tokens() - cached, uint64_t{192});
  CHECK_EQ(only(second).generated(), 1);
  run_all(bench);
  // Another organization cannot use the snapshots.
  bench.add(prompt_of(203), 2, 3);
  bench.step();
  CHECK_EQ(bench.scheduler.cached_tokens() - cached, uint64_t{192});
  run_all(bench);
}

TEST(a_prefix_without_a_snapshot_is_recomputed) {
  Bench bench(64, 256, 4, true, {}, 8, 128);
  bench.add(prompt_of(120), 1, 1);
  run_all(bench);
  // The pages of the first prompt are cached up to position 112, where its only snapshot is. The second prompt differs
  // from position 100, so it cannot use this snapshot.
  std::vector<TokenId> other = prompt_of(120);
  for (size_t i = 100; i < other.size(); ++i) other[i] = 999;
  const uint64_t cached = bench.scheduler.cached_tokens();
  bench.add(other, 1, 1);
  run_all(bench);
  CHECK_EQ(bench.scheduler.cached_tokens(), cached);
}

TEST(the_next_turn_resumes_from_the_snapshot_of_a_response) {
  Bench bench(64, 256, 4, true, {}, 8, 1024);
  Request& turn = bench.add(prompt_of(40), 1, 50);
  run_all(bench);
  // One snapshot is taken after the first 32 tokens of the prompt, the other after 80 of the 89 computed tokens.
  CHECK_EQ(bench.cache.slots().snapshots(), 2);
  std::vector<TokenId> next = only(turn).tokens;
  next.push_back(5), next.push_back(6);
  const uint64_t cached = bench.scheduler.cached_tokens();
  bench.add(next, 1, 4);
  run_all(bench);
  CHECK_EQ(bench.scheduler.cached_tokens() - cached, uint64_t{80});
}

// A snapshot within a response is taken only if a slot is free.
TEST(a_response_leaves_a_snapshot_only_in_a_free_slot) {
  const auto cached_of_next_turn = [](int n_slots) {
    Bench bench(64, 256, 1, true, {}, n_slots, 1024);
    Request& turn = bench.add(prompt_of(40), 1, 50);
    run_all(bench);
    std::vector<TokenId> next = only(turn).tokens;
    next.push_back(5);
    bench.add(next, 1, 4);
    run_all(bench);
    return bench.scheduler.cached_tokens();
  };
  CHECK_EQ(cached_of_next_turn(3), uint64_t{80});
  CHECK_EQ(cached_of_next_turn(2), uint64_t{32});  // The snapshot of the prompt is kept.
}

TEST(without_the_prefix_cache_no_snapshot_is_kept) {
  Bench bench(64, 256, 4, false, {}, 8);
  bench.add(prompt_of(203), 1, 30);
  run_all(bench);
  CHECK_EQ(bench.cache.slots().snapshots(), 0);
  CHECK_EQ(bench.cache.slots().free(), 8);
}

TEST(snapshots_are_evicted_with_their_pages_and_when_slots_are_needed) {
  Bench bench(16, 256, 4, true, {}, 3, 64);  // 256 tokens; two sequences may run.
  CHECK_EQ(bench.scheduler.max_sequences(), 2);
  for (int i = 0; i < 12; ++i) {
    bench.add(prompt_of(150, 100 * i), 1, 20);
    run_all(bench);
    CHECK(bench.cache.slots().snapshots() >= 1);
  }
  CHECK_EQ(bench.cache.available(), 16);
  CHECK_EQ(bench.cache.slots().available(), 3);
}

TEST(forks_resume_from_one_slot_with_a_minimum_of_slots) {
  for (const int n_slots : {5, 6, 16}) {
    Bench bench(64, 64, 4, true, {}, n_slots);
    Request& request = bench.add(prompt_of(50), 1, 40, 4);
    run_all(bench);
    CHECK_EQ(request.choices.size(), size_t{4});
    for (const auto& choice : request.choices) CHECK_EQ(choice->generated(), 40);
    CHECK_EQ(bench.cache.slots().available(), n_slots);
  }
}

TEST(all_slots_but_one_can_run_sequences) {
  Bench bench(200, 64, 16, true, {}, 4);
  std::vector<Request*> requests;
  for (int i = 0; i < 9; ++i) requests.push_back(&bench.add(prompt_of(30, 100 * i), 1, 20));
  while (bench.works()) {
    bench.step();
    CHECK(bench.scheduler.running().size() <= 3);
  }
  for (const Request* request : requests) CHECK_EQ(only(*request).generated(), 20);
}

TEST(a_sequence_drops_its_snapshot_rather_than_wait) {
  Bench bench(64, 64, 4, true, {}, 3);
  bench.add(prompt_of(33), 1, 20);
  bench.add(prompt_of(33, 500), 1, 20);
  bench.step();
  CHECK_EQ(bench.cache.slots().snapshots(), 2);  // Both prompts stopped at 32, and one slot is left.
  CHECK_EQ(bench.step().items.size(), size_t{2});
  CHECK_EQ(bench.cache.slots().snapshots(), 1);
}

TEST(a_preempted_sequence_restarts_at_its_deepest_snapshot) {
  Bench bench(16, 64, 4, true, {}, 8, 32);  // 256 tokens.
  Request& old = bench.add(prompt_of(100), 1, 100);
  Request& young = bench.add(prompt_of(60, 300), 1, 60);
  bool preempted = false;
  for (int i = 0; i < 1000 && bench.works(); ++i) {
    bench.step();
    preempted |= only(young).state == SequenceState::kPreempted;
    if (only(young).state == SequenceState::kPreempted) CHECK_EQ(only(young).kv.slot, kNoSlot);
  }
  CHECK(preempted);
  CHECK_EQ(only(old).generated(), 100);
  CHECK_EQ(only(young).generated(), 60);
}

TEST(rejected_draft_tokens_leave_the_state_unchanged) {
  for (const int n_slots : {2, 3, 9}) {
    Bench bench(64, 64, 2, true, {}, n_slots);
    bench.most_drafts = 5;
    Request& one = bench.add(prompt_of(30), 1, 200);
    Request& other = bench.add(prompt_of(20, 300), 1, 150, 2);
    const int n = run_all(bench);
    CHECK_EQ(only(one).generated(), 200);
    CHECK_EQ(only(other).generated(), 150);
    if (n_slots == 9) CHECK(n < 320);  // Some draft tokens were accepted.
    CHECK_EQ(bench.cache.slots().available(), n_slots);
  }
}

TEST(scheduler_random_load_with_recurrent_state) {
  check_random_load({}, 40, true);
  check_random_load({.full = 1, .windowed = 1, .window = 37}, 20, true);
}

}  // namespace
}  // namespace monolith
