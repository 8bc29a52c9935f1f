// Tests that background sequences yield to all other sequences, and that they advance if no other sequence needs the
// engine.
#include "scheduler_bench.h"

namespace monolith {
namespace {

bool is_in(const StepPlan& plan, const Request& request) {
  return std::ranges::any_of(plan.items, [&](const StepPlan::Item& item) { return item.sequence == &only(request); });
}

TEST(other_requests_are_admitted_before_waiting_background_requests) {
  Bench bench(200, 64, 1);
  bench.add(prompt_of(8), 1, 4);
  bench.step();
  // The background requests were submitted first, and in the fair order the next turn would be organization 2's.
  Request& own = bench.add_background(prompt_of(8, 100), 1, 4);
  Request& foreign = bench.add_background(prompt_of(8, 200), 2, 4);
  Request& first = bench.add(prompt_of(8, 300), 1, 4);
  Request& second = bench.add(prompt_of(8, 400), 1, 4);
  while (only(first).generated() == 0 || only(second).generated() == 0) {
    bench.step();
    CHECK_EQ(only(own).generated() + only(foreign).generated(), 0);
  }
  while (bench.works()) bench.step();
  CHECK_EQ(only(own).generated(), 4);
  CHECK_EQ(only(foreign).generated(), 4);
}

TEST(a_request_gets_the_slot_of_a_background_sequence_in_the_next_step) {
  for (const uint64_t organization : {1, 2}) {
    Bench bench(200, 64, 3);
    // Organization 1 already has a slot, so it is not entitled to another slot.
    Request& decoding = bench.add(prompt_of(8), 1, 60);
    Request& old = bench.add_background(prompt_of(8, 100), 1, 60);
    Request& young = bench.add_background(prompt_of(8, 200), 1, 60);
    bench.step();
    bench.step();
    CHECK_EQ(bench.scheduler.running().size(), size_t{3});
    Request& request = bench.add(prompt_of(8, 300), organization, 60);
    bench.step();
    CHECK_EQ(only(request).generated(), 1);
    CHECK(only(young).state == SequenceState::kPreempted);
    CHECK(only(old).state == SequenceState::kRunning);
    CHECK(only(decoding).state == SequenceState::kRunning);
    while (bench.works()) bench.step();
    CHECK_EQ(only(young).generated(), 60);
  }
}

TEST(a_request_gets_the_pages_of_background_sequences_that_share_them) {
  Bench bench(16, 64, 8);  // 16 pages hold 256 tokens.
  // The four choices share the pages of their prompt, so preempting only some of them does not free these pages.
  bench.add_background(prompt_of(150), 1, 60, 4);
  for (int i = 0; i < 4; ++i) bench.step();
  CHECK_EQ(bench.scheduler.running().size(), size_t{4});
  Request& request = bench.add(prompt_of(200, 500), 1, 20);
  bench.step();
  CHECK(only(request).state == SequenceState::kRunning);
  CHECK_EQ(bench.scheduler.running().size(), size_t{1});
  while (bench.works()) bench.step();
  CHECK_EQ(only(request).generated(), 20);
  for (const auto& choice : bench.requests[0]->choices) CHECK_EQ(choice->generated(), 60);
}

TEST(background_sequences_are_preempted_first_for_lack_of_pages) {
  Bench bench(16, 64, 4);
  Request& background = bench.add_background(prompt_of(90), 1, 100);
  bench.step();
  bench.step();
  Request& request = bench.add(prompt_of(90, 500), 2, 100);  // Younger than `background`.
  bool preempted = false;
  while (bench.works()) {
    bench.step();
    CHECK(only(request).state != SequenceState::kPreempted);
    preempted |= only(background).state == SequenceState::kPreempted;
  }
  CHECK(preempted);
  CHECK_EQ(only(background).generated(), 100);
}

TEST(background_prompts_get_no_tokens_while_another_prompt_is_computed) {
  Bench bench(400, 64, 8);
  Request& decoding = bench.add_background(prompt_of(8), 3, 200);
  bench.step();
  Request& old = bench.add_background(prompt_of(500), 1, 5);
  bench.step();
  CHECK(is_in(bench.step(), old));
  Request& request = bench.add(prompt_of(400, 300), 2, 5);
  Request& young = bench.add_background(prompt_of(20, 700), 4, 5);
  while (only(request).generated() == 0) {
    const StepPlan& plan = bench.step();
    CHECK(!is_in(plan, old));
    CHECK(!is_in(plan, young));
    CHECK(is_in(plan, request));
    if (!plan.first_tokens) CHECK(is_in(plan, decoding));  // Background decodes continue.
  }
  // Once the request decodes, the background prompts get tokens again.
  CHECK(is_in(bench.step(), old));
  while (bench.works()) bench.step();
  CHECK_EQ(only(old).generated(), 5);
  CHECK_EQ(only(young).generated(), 5);
}

TEST(a_request_that_cannot_start_does_not_let_background_requests_pass_a_prompt) {
  Bench bench(400, 64, 8);
  bench.add(prompt_of(8), 1, 100);
  bench.step();
  Request& unready = bench.add(prompt_of(8, 100), 1, 5);
  unready.inputs_ready = false;
  Request& background = bench.add_background(prompt_of(8, 200), 1, 5);
  Request& request = bench.add(prompt_of(70, 300), 2, 5);
  while (only(request).generated() == 0) {
    bench.step();
    CHECK(only(background).state == SequenceState::kWaiting);
  }
  // A waiting request that cannot start yet does not delay background requests.
  bench.step();
  CHECK(only(background).state == SequenceState::kRunning);
  unready.inputs_ready = true;
  while (bench.works()) bench.step();
  CHECK_EQ(only(background).generated(), 5);
}

TEST(background_sequences_do_not_count_as_slots_of_their_organization) {
  // The first token of an organization's only normal request is computed in a step without decode tokens, even if the
  // organization has background requests.
  Bench bench(400, 64, 8);
  for (int i = 0; i < 4; ++i) bench.add_background(prompt_of(8, 100 * i), 1, 100);
  bench.add(prompt_of(8, 500), 2, 100);
  for (int i = 0; i < 8; ++i) bench.step();
  Request& request = bench.add(prompt_of(40, 600), 1, 20);
  const StepPlan& plan = bench.step();
  if (!plan.first_tokens) CHECK(bench.step().first_tokens);
  CHECK_EQ(only(request).generated(), 1);
}

TEST(background_sequences_use_the_whole_engine_if_nothing_else_runs) {
  Bench bench(400, 64, 4);
  std::vector<Request*> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(&bench.add_background(prompt_of(64, 100 * i), 1 + i % 2, 10));
  CHECK_EQ(bench.step().n_rows, 64);
  for (int i = 0; i < 5; ++i) bench.step();
  CHECK_EQ(bench.scheduler.running().size(), size_t{4});
  while (bench.works()) bench.step();
  for (const Request* request : requests) CHECK_EQ(only(*request).generated(), 10);
}

TEST(organizations_take_turns_in_the_background) {
  Bench bench(400, 64, 1);
  Request& running = bench.add_background(prompt_of(8), 1, 3);
  bench.step();
  Request& second = bench.add_background(prompt_of(8, 100), 1, 3);
  Request& third = bench.add_background(prompt_of(8, 200), 1, 3);
  Request& other = bench.add_background(prompt_of(8, 300), 2, 3);
  while (only(running).state != SequenceState::kEnded) {
    bench.step();
    CHECK(only(running).state != SequenceState::kPreempted);  // Background requests have no entitlements.
  }
  while (only(other).generated() == 0) bench.step();
  CHECK_EQ(only(third).generated(), 0);
  while (bench.works()) bench.step();
  CHECK_EQ(only(second).generated(), 3);
}

}  // namespace
}  // namespace monolith
