// Tests the scheduler without a model. The execution of plans is simulated, and every guarantee in scheduler.h is
// checked.
#include <chrono>
#include <cstring>
#include <map>
#include <set>

#include "engine/allocation_hook.h"
#include "scheduler_bench.h"

namespace monolith {
namespace {

TEST(waiting_requests_take_memory_for_their_prompts_only) {
  constexpr int kContext = 128 * 1024, kWaiting = 512;
  Bench bench(64, 32, 1);
  GenerationRequest params;
  params.prompt = prompt_of(100);
  params.max_tokens = kContext;
  params.sampling.repetition_penalty = 1.1f;
  std::vector<std::unique_ptr<Request>> requests;
  testing::allocated_bytes = 0;
  testing::counting = true;
  for (RequestId id = 1; id <= kWaiting; ++id) {
    requests.push_back(std::make_unique<Request>(id, bench.channel, params, 128'000, kContext));
    bench.scheduler.add(*requests.back()->choices[0]);
  }
  testing::counting = false;
  CHECK_EQ(bench.scheduler.waiting(), size_t{kWaiting});
  CHECK(testing::allocated_bytes < int64_t{kWaiting} * 8192);
  bench.scheduler.plan();
  const Sequence& admitted = only(*requests.front());
  CHECK(admitted.state == SequenceState::kRunning);
  CHECK(admitted.tokens.capacity() >= size_t{kContext} && admitted.counts.entries().size() == 100);
  for (const auto& request : requests) bench.scheduler.remove(*request->choices[0]);
}

TEST(scheduler_chunks_a_prompt_and_keeps_decodes_running) {
  Bench bench(64, 32, 8);
  Request& decoder = bench.add(prompt_of(5), 1, 100);
  bench.step();
  CHECK_EQ(only(decoder).generated(), 1);
  Request& longer = bench.add(prompt_of(300, 500));
  for (int i = 0; i < 9; ++i) {
    const int before = only(decoder).generated();
    const StepPlan& plan = bench.step();
    CHECK_EQ(only(decoder).generated(), before + 1);  // One token in every step.
    CHECK_EQ(plan.n_rows, 32);                        // The token budget is used fully and not exceeded.
  }
  CHECK_EQ(only(longer).kv.n_computed, 9 * 31);
  bench.step();
  CHECK_EQ(only(longer).generated(), 1);
}

TEST(scheduler_lets_short_prompts_pass_a_long_one_that_still_advances) {
  Bench bench(200, 64, 8);
  Request& longer = bench.add(prompt_of(2000));
  bench.step();
  CHECK_EQ(only(longer).kv.n_computed, 64);  // Alone, it receives the whole step.
  Request& brief = bench.add(prompt_of(20, 500), 2);
  bench.step();
  CHECK_EQ(only(brief).generated(), 1);
  CHECK_EQ(only(longer).kv.n_computed, 64 + 44);
  for (int i = 0; i < 3; ++i) bench.add(prompt_of(500, 100 * i), 2);
  const int before = only(longer).kv.n_computed;
  bench.step();
  CHECK(only(longer).kv.n_computed >= before + 32);  // Half of the tokens that the decodes leave, rounded up.
}

TEST(scheduler_does_not_starve_prompts_by_decodes) {
  Bench bench(64, 8, 64);
  CHECK_EQ(bench.scheduler.max_sequences(), 6);  // Two of eight tokens per step are reserved for prompts.
  for (int i = 0; i < 10; ++i) bench.add(prompt_of(1, i), 1, 20);
  for (int i = 0; i < 20; ++i) {
    bench.step();
    CHECK(bench.scheduler.running().size() <= 6);
  }
}

TEST(scheduler_admits_organizations_in_turn) {
  Bench bench(64, 8, 1);  // One sequence at a time.
  std::map<const Request*, char> names;
  for (int i = 0; i < 4; ++i) names[&bench.add(prompt_of(3, i), 1, 1)] = 'a';
  for (int i = 0; i < 2; ++i) names[&bench.add(prompt_of(3, i), 2, 1)] = 'b';
  names[&bench.add(prompt_of(3), 3, 1)] = 'c';
  std::string order;
  std::vector<const Request*> of_a;
  for (int i = 0; i < 7; ++i) {
    const StepPlan& plan = bench.step();
    REQUIRE(plan.items.size() == 1);
    const Request* request = &plan.items[0].sequence->request;
    order += names[request];
    if (names[request] == 'a') of_a.push_back(request);
  }
  CHECK_EQ(order, std::string("abcabaa"));
  for (size_t i = 1; i < of_a.size(); ++i) CHECK(of_a[i - 1]->id < of_a[i]->id);
}

// Returns the number of running sequences of one organization.
int slots_of(const Bench& bench, uint64_t organization) {
  int n = 0;
  for (const ScheduledSequence* sequence : bench.scheduler.running())
    n += sequence->request.params.organization == organization;
  return n;
}

TEST(scheduler_assigns_slots_to_choices_in_turn) {
  Bench bench(400, 64, 8);
  for (int i = 0; i < 5; ++i) bench.add(prompt_of(20, i), 1, 10 + i, 8);  // Forty sequences of one organization.
  bench.step();
  bench.step();
  CHECK_EQ(slots_of(bench, 1), 8);
  CHECK_EQ(bench.scheduler.waiting(), size_t{4});  // The other prompts start only when slots become free.
  Request& brief = bench.add(prompt_of(20, 700), 2, 3);
  Request& several = bench.add(prompt_of(20, 800), 3, 12, 4);
  for (int i = 0; i < 12; ++i) bench.step();
  CHECK_EQ(only(brief).generated(), 3);  // It gets the first slots that become free.
  CHECK_EQ(several.choices.size(), size_t{4});
  CHECK(slots_of(bench, 3) >= 3);
  CHECK(slots_of(bench, 1) <= 4);
  for (int i = 0; i < 400; ++i) bench.step(i % 16 == 0);
  for (const auto& request : bench.requests)
    for (const auto& choice : request->choices) CHECK_EQ(choice->generated(), request->params.max_tokens);
  CHECK_EQ(bench.cache.available(), 400);
}

// To admit a waiting request, the scheduler preempts as few sequences as possible, and none if preemption would not
// free enough pages. Pages that a sequence shares with others do not count, because preempting it does not free them.
TEST(scheduler_preempts_as_few_sequences_as_possible) {
  // Expected number of preempted sequences for each number of free pages.
  struct Case {
    KvLayout layout;
    int n_held, n_prompt;
    std::vector<std::pair<int, uint64_t>> displaced;
  };
  const std::vector<Case> cases = {
      // Three choices share 20 pages, and each has one additional page. For each choice, one page is reserved for its
      // next token.
      {{}, 23, 160, {{13, 0}, {12, 1}, {11, 1}, {10, 2}, {9, 2}}},
      // The choices share 20 full pages and three window pages for each of the two sliding-window layers. Each choice
      // also has one full page and two window pages that it does not share.
      {{.full = 1, .windowed = 2, .window = 40}, 35, 64, {{21, 0}, {20, 1}, {15, 1}, {14, 2}, {9, 2}}},
  };
  for (const Case& one : cases) {
    const auto claim = [&](int n_left, bool is_admitted, uint64_t displaced) {
      Bench bench(one.n_held + n_left, 64, 8, true, one.layout);
      bench.add(prompt_of(320), 1, 50, 3);
      for (int i = 0; i < 8; ++i) bench.step();
      CHECK_EQ(bench.cache.available(), int64_t{n_left});
      const Request& request = bench.add(prompt_of(one.n_prompt, 500), 2, 5);
      bench.step();
      CHECK_EQ(only(request).state == SequenceState::kRunning, is_admitted);
      CHECK_EQ(bench.scheduler.preemptions(), displaced);
    };
    for (const auto& [n_left, displaced] : one.displaced) claim(n_left, true, displaced);
    claim(one.displaced.back().first - 1, false, 0);
  }
}

// When organizations take turns, a waiting fork counts as one slot, like a request with one choice.
TEST(scheduler_counts_a_waiting_fork_as_one_slot) {
  Bench bench(64, 16, 1);
  bench.add(prompt_of(3), 1, 2, 5);
  for (int i = 0; i < 5; ++i) bench.add(prompt_of(3, 100 * (i + 1)), 2, 2);
  std::string order;
  const ScheduledSequence* last = nullptr;
  while (bench.works()) {
    const StepPlan& plan = bench.step();
    REQUIRE(plan.items.size() == 1);
    if (plan.items[0].sequence != last) order += plan.items[0].sequence->request.params.organization == 1 ? 'a' : 'b';
    last = plan.items[0].sequence;
  }
  CHECK_EQ(order, std::string("ababababab"));
}

// Returns the number of steps until a request has its first token.
int steps_to_first_token(Bench& bench, const Request& request) {
  for (int i = 1; i <= 5000; ++i) {
    bench.step(i % 8 == 0);
    if (only(request).generated() > 0) return i;
  }
  return -1;
}

// The long responses of one organization occupy every slot, and hundreds of its requests are waiting. The first token
// of another organization takes as many steps as on an idle engine, and the first organization loses only the slot that
// this request takes.
TEST(scheduler_flood_of_one_organization_delays_another_by_no_step) {
  constexpr int kPlaces = 16;
  for (const int prompt : {1, 30, 100}) {
    Bench idle(2000, 256, kPlaces);
    const int alone = steps_to_first_token(idle, idle.add(prompt_of(prompt, 700), 2, 5));
    Bench bench(2000, 256, kPlaces);
    for (int i = 0; i < 300; ++i) bench.add(prompt_of(20, i), 1, 1000);
    for (int i = 0; i < 40; ++i) bench.step(i % 8 == 0);
    CHECK_EQ(slots_of(bench, 1), kPlaces);
    for (int round = 0; round < 20; ++round) {
      Request& small = bench.add(prompt_of(prompt, 700), 2, 5);
      CHECK_EQ(steps_to_first_token(bench, small), alone);
      CHECK_EQ(slots_of(bench, 1), kPlaces - 1);
      while (only(small).state != SequenceState::kEnded) bench.step(false);
      bench.step();
      CHECK_EQ(slots_of(bench, 1), kPlaces);  // The preempted sequence gets its slot back before other requests.
      CHECK(bench.scheduler.preempted().empty());
    }
    CHECK(bench.scheduler.preemptions() <= 20);
  }
}

// The flood consists of long prompts, and further prompts could start at any time. The other organization's prompt gets
// the larger half of each step.
TEST(scheduler_flood_of_long_prompts_at_most_doubles_the_wait_of_another) {
  Bench idle(4000, 128, 16);
  const int alone = steps_to_first_token(idle, idle.add(prompt_of(300, 700), 2, 5));
  Bench bench(4000, 128, 16);
  for (int i = 0; i < 200; ++i) bench.add(prompt_of(2000, i), 1, 100);
  for (int i = 0; i < 30; ++i) bench.step(false);
  const int flooded = steps_to_first_token(bench, bench.add(prompt_of(300, 700), 2, 5));
  CHECK_EQ(alone, 3);
  CHECK(flooded > 0 && flooded <= 2 * alone);
}

// One organization occupies all pages, so that its next request never fits.
TEST(scheduler_flood_of_pages_delays_another_by_at_most_one_step) {
  Bench bench(64, 64, 8);
  for (int i = 0; i < 40; ++i) bench.add(prompt_of(150, i), 1, 200);
  for (int i = 0; i < 60; ++i) bench.step(false);
  CHECK(slots_of(bench, 1) >= 2);
  CHECK(steps_to_first_token(bench, bench.add(prompt_of(40, 700), 2, 5)) <= 2);
  for (int i = 0; i < 20000 && bench.works(); ++i) bench.step(i % 64 == 0);
  for (const auto& request : bench.requests) CHECK_EQ(only(*request).generated(), request->params.max_tokens);
}

// If there are as many organizations as slots, each organization gets one slot, and no organization loses its only
// slot.
TEST(scheduler_gives_every_organization_a_slot_and_preempts_no_last_one) {
  Bench bench(1000, 64, 6);
  for (int i = 0; i < 40; ++i) bench.add(prompt_of(10, i), 1, 300);
  for (int i = 0; i < 10; ++i) bench.step();
  for (uint64_t organization = 2; organization <= 9; ++organization) {
    bench.add(prompt_of(10, 100), organization, 300);
    bench.add(prompt_of(10, 200), organization, 300);
  }
  bench.step();  // All five new requests start in the same step.
  for (uint64_t organization = 1; organization <= 6; ++organization) CHECK_EQ(slots_of(bench, organization), 1);
  const uint64_t displaced = bench.scheduler.preemptions();
  CHECK_EQ(displaced, uint64_t{5});
  for (int i = 0; i < 100; ++i) bench.step(i % 16 == 0);
  CHECK_EQ(bench.scheduler.preemptions(), displaced);  // Waiting requests now start only when others end.
  for (int i = 0; i < 6000 && bench.works(); ++i) bench.step(i % 64 == 0);
  for (const auto& request : bench.requests) CHECK_EQ(only(*request).generated(), 300);
}

// After a preempted sequence resumes, it cannot be preempted again for a while.
TEST(scheduler_never_preempts_a_sequence_twice_in_a_row) {
  Bench bench(1000, 64, 3);
  for (int i = 0; i < 3; ++i) bench.add(prompt_of(10, i), 1, 2000);
  bench.step();
  std::map<const ScheduledSequence*, int> preempted_at;
  for (int i = 0; i < 600; ++i) {
    if (i % 3 == 0) bench.add(prompt_of(4, 300), 2, 1);  // New requests keep arriving.
    std::map<const ScheduledSequence*, bool> was_running;
    for (const auto& request : bench.requests)
      was_running[&only(*request)] = only(*request).state == SequenceState::kRunning;
    bench.step(false);
    for (const auto& [sequence, running] : was_running) {
      if (!running || sequence->state != SequenceState::kPreempted) continue;
      const auto before = preempted_at.find(sequence);
      if (before != preempted_at.end()) CHECK(sequence->generated() - before->second >= Admission::kMinRunTokens);
      preempted_at[sequence] = sequence->generated();
    }
    CHECK(slots_of(bench, 1) >= 1);
  }
  for (int i = 0; i < 3; ++i) CHECK(only(*bench.requests[static_cast<size_t>(i)]).generated() >= 300);
}

// One organization occupies both slots. Another organization requests a slot when `after` tokens have been generated
// since the younger sequence was preempted. Returns whether the younger sequence is preempted again.
bool younger_gives_way_again(int prompt, int after) {
  Bench bench(1000, 16, 2);
  const Request& older = bench.add(prompt_of(4), 1, 500);
  bench.step();
  const Request& younger = bench.add(prompt_of(prompt, 300), 1, 500);
  for (int i = 0; i < 3; ++i) bench.step();
  const auto claim = [&] {
    bench.add(prompt_of(4, 600), 2, 1);
    bench.step();
    CHECK((only(older).state == SequenceState::kPreempted) != (only(younger).state == SequenceState::kPreempted));
  };
  claim();
  CHECK(only(younger).state == SequenceState::kPreempted);
  const int before = only(younger).generated();
  while (only(younger).state != SequenceState::kRunning || only(younger).generated() < before + after) bench.step();
  claim();
  return only(younger).state == SequenceState::kPreempted;
}

TEST(scheduler_preempts_a_sequence_again_after_its_minimum_run) {
  CHECK(!younger_gives_way_again(4, 1));
  CHECK(!younger_gives_way_again(4, Admission::kMinRunTokens - 1));
  CHECK(younger_gives_way_again(4, Admission::kMinRunTokens));
  CHECK(!younger_gives_way_again(400, 0));  // It has not reached its first token in between.
}

// Steps reserved for first tokens contain no decode tokens of other sequences, as long as such steps are rare.
TEST(scheduler_computes_first_tokens_in_steps_of_their_own) {
  Bench bench(1000, 64, 8);
  for (int i = 0; i < 6; ++i) bench.add(prompt_of(10, i), 1, 500);
  for (int i = 0; i < 10; ++i) bench.step();
  bench.add(prompt_of(30, 300), 2, 20);
  const StepPlan& plan = bench.step();
  CHECK(plan.first_tokens);
  CHECK_EQ(plan.n_rows, 30);
  CHECK_EQ(plan.n_decodes, 0);
  const int before = only(*bench.requests[0]).generated();
  bench.add(prompt_of(30, 400), 3,
            20);  // Too soon after the last step reserved for first tokens, so it shares a step with the decodes.
  CHECK_EQ(bench.step().n_rows, 6 + 1 + 30);
  CHECK_EQ(only(*bench.requests[0]).generated(), before + 1);
  for (int i = 0; i < 5; ++i) CHECK(!bench.step().first_tokens);
  bench.add(prompt_of(300, 600), 4, 20);  // Too long for one step.
  CHECK(!bench.step().first_tokens);
  bench.add(prompt_of(30, 500), 1, 20);  // Not the only sequence of its organization.
  CHECK(!bench.step().first_tokens);
}

// If one organization sends many long prompts, only a few of them, sometimes only one, run at the same time as a
// decoding response. Even then, no step is reserved for the first token of a prompt, because it is not its
// organization's only request.
TEST(scheduler_gives_no_first_token_step_to_a_flood) {
  Bench bench(1000, 64, 8);
  bench.add(prompt_of(10, 0), 1, 500);
  for (int i = 0; i < 10; ++i) bench.step();
  for (int i = 0; i < 20; ++i) bench.add(prompt_of(200 + 7 * i, 331 * i + 1), 2, 1);
  while (only(*bench.requests[18]).generated() == 0) {
    const StepPlan& plan = bench.step();
    CHECK(!plan.first_tokens);
    CHECK_EQ(plan.n_decodes, 1);
  }
}

// Running sequences are counted in each step. As soon as the other sequence of an organization has ended, its prompt
// counts as its only request.
TEST(scheduler_gives_a_first_token_step_to_the_only_remaining_request) {
  Bench bench(1000, 64, 8);
  for (int i = 0; i < 6; ++i) bench.add(prompt_of(10, i), 1, 500);
  for (int i = 0; i < 10; ++i) bench.step();
  const Request& first = bench.add(prompt_of(70, 300), 2, 1);
  const Request& second = bench.add(prompt_of(120, 400), 2, 20);
  while (only(first).generated() == 0) CHECK(!bench.step().first_tokens);
  const int n_left = 120 - only(second).kv.n_computed;
  CHECK(n_left > 0 && n_left < 64);
  const StepPlan& plan = bench.step();
  CHECK(plan.first_tokens);
  CHECK_EQ(plan.n_rows, n_left);
}

// A flood of prompts does not delay a first token even if no sequence is decoding, because a step is reserved for the
// first token.
TEST(scheduler_computes_a_first_token_before_the_prompts_of_a_flood) {
  Bench bench(1000, 64, 8);
  for (int i = 0; i < 6; ++i) bench.add(prompt_of(300, 331 * i + 1), 2, 1);
  for (int i = 0; i < 6; ++i) CHECK(!bench.step().first_tokens);
  bench.add(prompt_of(18, 9000), 1, 20);
  const StepPlan& plan = bench.step();
  CHECK(plan.first_tokens);
  CHECK_EQ(plan.n_rows, 18);
  CHECK_EQ(only(*bench.requests[6]).generated(), 1);
  CHECK_EQ(bench.step().n_rows, 64);  // After that, all prompts continue.
}

// Two organizations with one prompt each do not delay other organizations.
TEST(scheduler_computes_single_prompts_of_organizations_together) {
  Bench bench(1000, 64, 8);
  bench.add(prompt_of(300, 0), 1, 5);
  for (int i = 0; i < 2; ++i) bench.step();
  bench.add(prompt_of(18, 1000), 2, 5);
  CHECK(!bench.step().first_tokens);
}

// A prompt that only fills the prefix cache has no first token. Therefore no step is reserved for it, and its share of
// a step with several prompts is not increased.
TEST(scheduler_computes_cache_only_prompts_together_with_decodes) {
  Bench bench(1000, 64, 8);
  for (int i = 0; i < 6; ++i) bench.add(prompt_of(10, i), 1, 500);
  for (int i = 0; i < 10; ++i) bench.step();
  const auto prepare = [&](int n, uint64_t organization) {
    bench.add(prompt_of(n, static_cast<int>(organization) * 100), organization, 0, 1, {}, OutputKind::kNothing);
  };
  prepare(30, 3);
  const StepPlan& plan = bench.step();
  CHECK(!plan.first_tokens);
  CHECK_EQ(plan.n_decodes, 6);
  CHECK_EQ(plan.n_rows, 6 + 30);

  // The next two prompts take the same number of steps. Each is the only request of its organization, so they get equal
  // shares.
  prepare(500, 4);
  bench.step();
  Request& tokens = bench.add(prompt_of(500, 5000), 5, 20);
  bench.add(prompt_of(500, 6000), 6, 0, 1, {}, OutputKind::kNothing);
  const Request& nothing = *bench.requests.back();
  bench.step();
  const int of_tokens = only(tokens).kv.n_computed, of_nothing = only(nothing).kv.n_computed;
  bench.step();
  CHECK(only(tokens).kv.n_computed - of_tokens > 2 * (only(nothing).kv.n_computed - of_nothing));
}

// The caller's token limit applies even if only a single response is running.
TEST(scheduler_keeps_the_token_bound_with_a_single_decode) {
  Bench bench(64, 64, 8);
  bench.add(prompt_of(5), 1, 100);
  bench.step();
  bench.add(prompt_of(300, 500), 1, 5);
  const StepPlan& plan = bench.scheduler.plan(24);
  CHECK_EQ(plan.n_decodes, 1);
  CHECK_EQ(plan.n_rows, 1 + 24);
}

// A request is admitted as soon as there are enough free pages for it and for one more page per running sequence.
TEST(scheduler_admits_with_exactly_the_required_pages) {
  const auto runs_beside = [](int n_running, int64_t n_left, int prompt, const KvLayout& layout) {
    Bench bench(n_running * layout.tables() + n_left, 64, 8, true, layout);
    for (int i = 0; i < n_running; ++i) bench.add(prompt_of(3, 40 * i), 1, 10);
    bench.step();
    CHECK_EQ(bench.cache.available(), n_left);
    const Request& request = bench.add(prompt_of(prompt, 500), 1, 1);
    bench.step();
    return only(request).generated() == 1;
  };
  for (const KvLayout& layout : {KvLayout{}, KvLayout{.full = 1, .windowed = 2, .window = 40},
                                 KvLayout{.full = 0, .windowed = 1, .window = 40}}) {
    for (const int n_running : {1, 3}) {
      const int tables = layout.tables();
      CHECK(runs_beside(n_running, tables * (1 + n_running), 5, layout));
      CHECK(!runs_beside(n_running, tables * (1 + n_running) - 1, 5, layout));
      CHECK(runs_beside(n_running, tables * (3 + n_running), 40, layout));
      CHECK(!runs_beside(n_running, tables * (3 + n_running) - 1, 40, layout));
    }
  }
}

// If many organizations have prompts, each organization gets its share of every step.
TEST(scheduler_shares_prompt_tokens_between_organizations) {
  Bench bench(4000, 100, 24);
  for (int i = 0; i < 12; ++i) bench.add(prompt_of(1000, i), 1, 5);  // Many prompts of one organization.
  Request& single = bench.add(prompt_of(1000, 800), 2, 5);
  bench.add(prompt_of(1000, 900), 3, 5);
  bench.add(prompt_of(1000, 950), 3, 5);
  for (int i = 0; i < 4; ++i) bench.step(false);
  const int before = only(single).kv.n_computed;
  for (int i = 0; i < 5; ++i) bench.step(false);
  CHECK(only(single).kv.n_computed - before >= 5 * 100 / 4);
  const int of_oldest = only(*bench.requests[0]).kv.n_computed;
  bench.step(false);
  CHECK(only(*bench.requests[0]).kv.n_computed > of_oldest);
}

// If two organizations both have many prompts, the oldest of all prompts gets an extra share, so that it makes
// progress.
TEST(scheduler_gives_the_oldest_prompt_of_two_floods_more) {
  Bench bench(4000, 100, 24);
  for (const uint64_t organization : {2, 1})
    for (int i = 0; i < 6; ++i)
      bench.add(prompt_of(1000, static_cast<int>(organization) * 7000 + 331 * i), organization, 5);
  for (int i = 0; i < 4; ++i) bench.step(false);
  const auto n_computed = [&](int of) { return only(*bench.requests[static_cast<size_t>(of)]).kv.n_computed; };
  const int oldest = n_computed(0), of_other = n_computed(6);
  bench.step(false);
  CHECK(n_computed(0) - oldest >= 50);
  CHECK_EQ(n_computed(6) - of_other, 19);
}

// A request has more choices than the engine has slots. The remaining choices wait in the queue, in the same way as
// other requests.
TEST(scheduler_lets_forks_without_a_slot_wait_their_turn) {
  Bench bench(400, 64, 4);
  Request& wide = bench.add(prompt_of(20), 1, 30, 20);
  bench.step();
  CHECK_EQ(slots_of(bench, 1), 4);
  CHECK_EQ(bench.scheduler.waiting(), size_t{0});  // A fork does not count as a waiting request.
  Request& brief = bench.add(prompt_of(20, 700), 2, 3);
  for (int i = 0; i < 40; ++i) bench.step();
  CHECK_EQ(only(brief).generated(), 3);
  CHECK(wide.choices[19]->state == SequenceState::kForked);
  bench.scheduler.remove(*wide.choices[19]);
  for (int i = 0; i < 200; ++i) bench.step(i % 16 == 0);
  for (int i = 0; i < 19; ++i) CHECK_EQ(wide.choices[static_cast<size_t>(i)]->generated(), 30);
  CHECK_EQ(wide.choices[19]->generated(), 1);
  CHECK_EQ(bench.cache.available(), 400);
}

// Small prompts of other organizations may overtake a prompt for which there are not enough pages, but only a limited
// number of times.
TEST(scheduler_does_not_starve_large_prompts_of_pages) {
  Bench bench(40, 64, 8);
  bench.add(prompt_of(160), 2, 200);  // Holds the pages that the large prompt needs.
  bench.step();
  Request& large = bench.add(prompt_of(600, 300), 1, 4);
  Request& behind = bench.add(prompt_of(5, 50), 1, 1);
  int begun = 0;
  for (int i = 0; i < 4000 && only(large).generated() == 0; ++i) {
    if (bench.scheduler.waiting() < 4) bench.add(prompt_of(5, i % 900), 3, 6);  // A steady stream of small requests.
    bench.step(i % 16 == 0);
    CHECK(only(large).state != SequenceState::kWaiting || only(behind).state == SequenceState::kWaiting);
  }
  for (const auto& request : bench.requests)
    begun += request->params.organization == 3 && only(*request).generated() > 0 &&
             only(*request).arrival > only(large).arrival;
  CHECK_EQ(only(large).generated(), 1);
  CHECK(begun >= 1);
  CHECK(begun <= WaitingQueue::kMaxPasses + 8);  // Plus the requests that start together with it.
}

TEST(scheduler_shares_prefixes_within_an_organization) {
  Bench bench(64, 64, 8);
  Request& first = bench.add(prompt_of(48), 1);
  bench.step();
  Request& same = bench.add(prompt_of(48), 1);
  Request& foreign = bench.add(prompt_of(48), 2);
  bench.step();  // Runs the other organization's request.
  CHECK_EQ(only(foreign).generated(), 1);
  CHECK_EQ(bench.scheduler.cached_tokens(), uint64_t{0});
  bench.scheduler.plan();
  CHECK_EQ(only(same).kv.n_computed, 32);  // The last token is always computed, and so is its page.
  CHECK_EQ(only(same).kv.pages[1], only(first).kv.pages[1]);
  CHECK_EQ(bench.scheduler.cached_tokens(), uint64_t{32});
}

TEST(scheduler_looks_up_a_prompt_without_room_again_only_after_a_change) {
  Bench bench(40, 64, 8);
  bench.add(prompt_of(320), 1, 1);  // Leaves 20 pages in the cache.
  while (bench.works()) bench.step();
  const Request& decoder = bench.add(prompt_of(260, 500), 2, 50);
  while (only(decoder).generated() == 0) bench.step();
  const Request& waiting = bench.add(prompt_of(480), 1, 1);  // 20 of its 30 pages are cached; 3 pages are free.
  bench.step();
  const uint64_t lookups = bench.cache.n_lookups();
  int n_steps = 0;
  for (; only(decoder).state == SequenceState::kRunning; ++n_steps) {
    CHECK_EQ(bench.cache.n_lookups(), lookups);
    CHECK(only(waiting).state == SequenceState::kWaiting);
    bench.step();
  }
  CHECK(n_steps > 40);
  bench.step();  // The decoder has ended, so there are enough pages.
  CHECK(only(waiting).state == SequenceState::kRunning);
  CHECK(bench.cache.n_lookups() > lookups);
  CHECK_EQ(only(waiting).kv.n_indexed(), 24);  // 20 cached pages plus the pages of one step.
}

// In the meantime, another sequence has started to use the cached prefix, so the prompt needs fewer additional pages
// than before.
TEST(scheduler_admits_a_prompt_without_room_when_its_prefix_is_in_use) {
  Bench bench(60, 64, 8);
  bench.add(prompt_of(320), 1, 1);  // Leaves 20 pages in the cache.
  while (bench.works()) bench.step();
  const Request& decoder = bench.add(prompt_of(260, 500), 2, 50);
  Request& sharer = bench.add(prompt_of(330), 1, 200);
  sharer.inputs_ready = false;
  while (only(decoder).generated() == 0) bench.step();
  const Request& waiting = bench.add(prompt_of(800), 1, 1);  // 20 of its 50 pages are cached; 23 pages are free.
  bench.step();
  CHECK(only(waiting).state == SequenceState::kWaiting);
  sharer.inputs_ready = true;
  while (only(decoder).state == SequenceState::kRunning) bench.step();
  CHECK(only(waiting).state == SequenceState::kWaiting);
  bench.step();  // The decoder's pages are enough for the 30 that are not cached.
  CHECK(only(waiting).state == SequenceState::kRunning);
  CHECK(only(sharer).state == SequenceState::kRunning);
}

TEST(scheduler_computes_simultaneous_equal_prompts_once) {
  Bench bench(200, 64, 16);
  for (int i = 0; i < 8; ++i) {
    auto prompt = prompt_of(160);
    prompt.push_back(900 + i);
    bench.add(prompt, 1, 2);
  }
  int rows = 0;
  while (bench.scheduler.waiting() + bench.scheduler.running().size() > 0) rows += bench.step().n_rows;
  CHECK(rows <= 160 + 8 * 2);  // The prefix once, then one prompt token and one decode for each request.
}

// Two prompts with a common prefix start together, because neither of them fills a page in its first step. The sequence
// that has computed fewer tokens uses the full pages of the other sequence, and waits for pages that are about to be
// full.
TEST(scheduler_uses_pages_that_another_sequence_has_filled) {
  Bench bench(200, 64, 4);
  bench.scheduler.configure(8, 4);
  const Request& first = bench.add(prompt_of(200), 1, 1);
  bench.step();
  const Request& second = bench.add(prompt_of(200), 1, 1);
  int rows = 8;
  while (only(second).kv.n_computed < kPageTokens) rows += bench.step().n_rows;
  CHECK_EQ(only(second).kv.n_computed, kPageTokens);
  CHECK(only(first).kv.n_computed < 2 * kPageTokens);
  bench.scheduler.configure(64, 4);
  while (bench.works()) rows += bench.step().n_rows;
  CHECK_EQ(only(first).generated() + only(second).generated(), 2);
  // The second sequence also computes its first page, and its last page, because the last token must be computed.
  CHECK_EQ(rows, 200 + kPageTokens + 8);
}

// If the prefixes differ, pages are different even if their tokens are equal, so no sequence waits for such a page of
// another sequence.
TEST(scheduler_does_not_wait_for_pages_of_a_different_prefix) {
  Bench bench(200, 32, 4);
  auto prompt = prompt_of(300);
  const Request& first = bench.add(prompt);
  prompt[0] = 999;
  const Request& second = bench.add(prompt);
  for (int i = 1; i <= 4; ++i) {
    bench.step();
    CHECK_EQ(only(first).kv.n_computed, i * kPageTokens);
    CHECK_EQ(only(second).kv.n_computed, i * kPageTokens);
  }
}

TEST(scheduler_preempts_the_youngest_and_resumes_it_before_new_requests) {
  Bench bench(8, 64, 8);  // 128 tokens.
  Request& old = bench.add(prompt_of(40), 1, 80);
  Request& young = bench.add(prompt_of(40, 300), 1, 80);
  Request& late = bench.add(prompt_of(40, 600), 1, 80);
  bool preempted = false;
  for (int i = 0;
       i < 400 && bench.scheduler.running().size() + bench.scheduler.waiting() + bench.scheduler.preempted().size() > 0;
       ++i) {
    bench.step();
    if (only(young).state == SequenceState::kPreempted) {
      preempted = true;
      CHECK(only(young).kv.pages.empty());
      CHECK(only(old).state != SequenceState::kPreempted);
      CHECK(only(late).state == SequenceState::kWaiting);
    }
  }
  CHECK(preempted);
  for (const Request* request : {&old, &young, &late}) CHECK_EQ(only(*request).generated(), 80);
  CHECK_EQ(bench.cache.available(), 8);
}

TEST(scheduler_shares_pages_between_forks_with_copy_on_write) {
  Bench bench(16, 64, 3);
  GenerationRequest params;
  params.prompt = prompt_of(20);
  params.max_tokens = 10;
  params.n = 4;
  Request request(1, bench.channel, params, kVocabulary, 256);
  bench.scheduler.add(*request.choices[0]);
  bench.compute(bench.scheduler.plan());
  bench.scheduler.advance();
  ScheduledSequence& lead = *request.choices[0];
  request.started_at = Clock::now();
  for (int choice = 1; choice < 4; ++choice) {
    request.choices.push_back(std::make_unique<Sequence>(request, choice));
    bench.scheduler.fork(lead, *request.choices.back());
  }
  for (const auto& choice : request.choices) choice->tokens.push_back(5);
  CHECK(request.choices[3]->state == SequenceState::kForked);  // There are only three slots.
  CHECK_EQ(bench.cache.ref_count(lead.kv.nodes[0]), 3);
  const StepPlan& plan = bench.step();
  CHECK_EQ(plan.copies.size(), size_t{2});  // The last choice that writes keeps the original page.
  std::set<PageId> second_pages;
  for (int choice = 0; choice < 3; ++choice)
    second_pages.insert(request.choices[static_cast<size_t>(choice)]->kv.pages[1]);
  CHECK_EQ(second_pages.size(), size_t{3});
  CHECK_EQ(bench.cache.ref_count(lead.kv.nodes[0]), 3);
  for (int i = 0; i < 40; ++i) bench.step();
  for (const auto& choice : request.choices) CHECK_EQ(choice->generated(), 10);
  CHECK_EQ(bench.cache.available(), 16);
}

TEST(scheduler_suspends_sequences_of_a_full_channel) {
  Bench bench(16, 64, 8);
  Request& held = bench.add(prompt_of(20), 1, 30);
  bench.step();
  bench.channel->step_records().resize(200);  // Above the limit of 100.
  std::memset(bench.channel->step_records().data(), 0, 200);
  bench.channel->publish();
  for (int i = 0; i < 3; ++i) CHECK(bench.step().items.empty());
  CHECK(only(held).kv.pages.empty());
  std::vector<std::byte> drained;
  CHECK(bench.channel->drain(drained));
  const int before = only(held).generated();
  bench.step();
  CHECK_EQ(only(held).generated(), before + 1);
}

// Later requests overtake requests whose images are still being encoded or whose client does not read its events. Once
// such a request is ready, it comes first.
TEST(scheduler_skips_requests_that_are_not_ready) {
  Bench bench(64, 64, 8);
  Request& unseen = bench.add(prompt_of(20, 100), 1, 5);
  unseen.inputs_ready = false;
  Request& ready = bench.add(prompt_of(20, 200), 1, 5);
  bench.step();
  CHECK(only(unseen).state == SequenceState::kWaiting);
  CHECK_EQ(only(ready).generated(), 1);
  unseen.inputs_ready = true;
  bench.step();
  CHECK_EQ(only(unseen).generated(), 1);

  // This client does not read.
  const Request& unread = bench.add(prompt_of(20, 300), 1, 5);
  bench.channel->step_records().resize(200);
  std::memset(bench.channel->step_records().data(), 0, 200);
  bench.channel->publish();
  CHECK(bench.step().items.empty());
  CHECK(only(unread).state == SequenceState::kWaiting);
}

TEST(channel_reports_the_age_of_its_oldest_record) {
  Channel channel([] {}, 1000);
  const auto write = [&] {
    channel.step_records().resize(20);
    channel.publish();
  };
  std::vector<std::byte> drained;
  Clock::time_point since{};
  const auto before = Clock::now();
  write();
  const auto after = Clock::now();
  while (Clock::now() == after) {
  }
  write();  // This record has waited for a shorter time.
  channel.drain(drained, &since);
  CHECK_EQ(drained.size(), size_t{40});
  CHECK(since >= before && since <= after);
  const auto later = Clock::now();
  write();
  channel.drain(drained, &since);
  CHECK(since >= later);
}

TEST(scheduler_lets_running_sequences_finish_after_limits_are_lowered) {
  Bench bench(64, 32, 8);
  for (int i = 0; i < 6; ++i) bench.add(prompt_of(1, i), 1, 10);
  bench.step();
  bench.scheduler.configure(2, 1);
  bench.add(prompt_of(4, 50), 1, 10);
  bench.add(prompt_of(4, 60), 2, 10);  // Nor does it start for another organization.
  for (int i = 0; i < 9; ++i) CHECK_EQ(bench.step().items.size(), size_t{6});  // No running sequence misses a step.
  CHECK_EQ(bench.step().items.size(), size_t{1});
}

TEST(scheduler_computes_forced_tokens_in_one_chunk) {
  Bench bench(64, 64, 8);
  Request& writer = bench.add(prompt_of(5), 1, 100);
  Request& other = bench.add(prompt_of(6, 300), 1, 100);
  const auto write = [](Request& request, int n) {
    ScheduledSequence& sequence = *request.choices[0];
    for (int i = 0; i < n; ++i) sequence.tokens.push_back(9);
    sequence.n_ahead = sequence.remaining() - 1;
  };
  bench.step();
  write(writer, 20);
  CHECK(only(writer).decoding());
  const StepPlan* plan = &bench.step();
  CHECK_EQ(plan->n_decodes, 2);
  CHECK_EQ(plan->n_rows, 22);
  CHECK_EQ(plan->n_ahead, 20);
  CHECK_EQ(only(writer).remaining(), 1);
  // Forced tokens that do not fit in one step continue in the next step without delaying other sequences. Prompts keep
  // their quarter of the step.
  write(writer, 60);
  Request& prompt = bench.add(prompt_of(200, 600));
  const int before = only(other).generated();
  plan = &bench.step();
  CHECK_EQ(plan->items[0].n_tokens, 47);
  CHECK(!plan->items[0].wants_logits);
  CHECK_EQ(only(prompt).kv.n_computed, 16);
  CHECK_EQ(plan->n_rows, 64);
  CHECK(only(writer).decoding());
  plan = &bench.step();
  CHECK_EQ(plan->items[0].n_tokens, 14);
  CHECK_EQ(only(writer).remaining(), 1);
  CHECK_EQ(only(other).generated(), before + 2);
  // If the step time is limited, forced tokens take at most half of the tokens that a step has for prompts.
  write(writer, 40);
  plan = &bench.scheduler.plan(24);
  CHECK_EQ(plan->n_ahead, 12);
  CHECK_EQ(plan->n_rows, 2 + 24);
}

TEST(scheduler_adds_draft_tokens_without_taking_pages_from_others) {
  Bench bench(4, 64, 3);
  Request& one = bench.add(prompt_of(15), 1, 30);
  Request& other = bench.add(prompt_of(14, 400), 1, 30);
  bench.step();
  bench.step();
  const StepPlan* plan = &bench.scheduler.plan();  // The next positions are 16 and 15.
  REQUIRE(plan->items.size() == 2 && plan->n_rows == 2);
  const StepPlan::Item& first = plan->items[0];
  CHECK_EQ(bench.cache.available(), int64_t{1});
  CHECK_EQ(bench.scheduler.add_drafts(plan->items[1], 7), 0);  // It would need a page that other sequences may need.
  CHECK_EQ(bench.scheduler.add_drafts(first, 7), 1);  // Each draft token needs a row of logits, and a step has three.
  CHECK_EQ(first.n_drafts, 1);
  CHECK_EQ(plan->n_rows, 3);
  bench.scheduler.advance();
  CHECK_EQ(only(one).remaining(), 0);
  // An accepted draft token counts as computed. Its page is cached only once it is full.
  one.choices[0]->tokens.push_back(7);
  bench.scheduler.keep_draft(*one.choices[0]);
  one.choices[0]->tokens.push_back(8);
  other.choices[0]->tokens.push_back(7);
  CHECK_EQ(only(one).kv.n_computed, 18);
  CHECK_EQ(only(one).kv.n_indexed(), 1);
  CHECK(bench.scheduler.consistent());
  bench.scheduler.plan();
  bench.scheduler.advance();
  CHECK_EQ(only(one).remaining(), 0);
}

TEST(scheduler_random_load) { check_random_load({}, 30); }
TEST(scheduler_random_load_with_sliding_windows) {
  check_random_load({.full = 1, .windowed = 3, .window = 37}, 20);
  check_random_load({.full = 2, .windowed = 1, .window = 16}, 10);
  check_random_load({.full = 0, .windowed = 1, .window = 50}, 20);
  check_random_load({.full = 1, .windowed = 1, .window = 5000}, 10);
}

// Prompts and responses are much longer than the window, and sequences are forked, cached and preempted. No sequence
// holds more pages than a window and a step need, a prefix is found again while its window is cached, and all pages are
// free at the end.
TEST(pages_outside_the_window_are_freed_while_the_sequence_runs) {
  constexpr int kWindow = 50, kRows = 40;
  for (const KvLayout& layout :
       {KvLayout{.full = 1, .windowed = 2, .window = kWindow}, KvLayout{.full = 0, .windowed = 1, .window = kWindow}}) {
    for (const bool prefix_cache : {true, false}) {
      Bench bench(layout.full > 0 ? 200 : 40, kRows, 2, prefix_cache, layout);
      std::vector<TokenId> prompt;
      for (int i = 0; i < 400; ++i) prompt.push_back(1 + i % 900);
      bench.add(prompt, 1, 300, 3);
      int64_t most = 0, most_decoding = 0;
      while (bench.works()) {
        bench.step();
        for (const ScheduledSequence* sequence : bench.scheduler.running()) {
          const int64_t held =
              std::ranges::count_if(sequence->kv.window_pages, [](PageId page) { return page != kNoPage; });
          (sequence->decoding() ? most_decoding : most) = std::max(sequence->decoding() ? most_decoding : most, held);
        }
      }
      CHECK(most <= layout.window_pages(kRows));
      CHECK(most_decoding >= 4 && most_decoding <= layout.window_pages(1));
      CHECK_EQ(bench.cache.available(), bench.cache.pool().size());
      CHECK_EQ(bench.cache.pool().cached() > 0, prefix_cache);

      // Submits the same prompt again, and then a prefix of this prompt that does not end where an earlier request
      // ended.
      const uint64_t cached = bench.scheduler.cached_tokens();
      const Request& again = bench.add(prompt, 1, 1);
      bench.step();
      const uint64_t found = bench.scheduler.cached_tokens() - cached;
      if (prefix_cache)
        CHECK_EQ(found, uint64_t{384});
      else
        CHECK_EQ(found, uint64_t{0});
      while (bench.works()) bench.step();
      CHECK_EQ(only(again).generated(), 1);
      // Organizations whose requests arrive later are entitled to a slot.
      for (uint64_t organization = 1; organization <= 3; ++organization) {
        for (int i = 0; i < 3; ++i) bench.add(prompt, organization, 200 + 40 * i);
        for (int i = 0; i < 30; ++i) bench.step();
      }
      while (bench.works()) bench.step();
      CHECK(bench.scheduler.preemptions() > 0);
      CHECK_EQ(bench.cache.available(), bench.cache.pool().size());
    }
  }
}

// In each step, a prompt gets the window pages for the whole step, not only for the next token.
TEST(a_long_prompt_with_sliding_windows_uses_whole_steps) {
  for (const int full : {0, 1}) {
    Bench bench(100, 40, 2, true, {.full = full, .windowed = 1, .window = 50});
    bench.add(prompt_of(400), 1, 5);
    for (int i = 0; i < 10; ++i) CHECK_EQ(bench.step().n_rows, 40);
    CHECK_EQ(only(*bench.requests[0]).generated(), 1);
  }
}

// A prompt many times as long as the window is admitted alongside other requests. It takes only the pages that it holds
// at any one time.
TEST(a_long_prompt_reserves_only_the_window_pages_it_holds) {
  const KvLayout layout{.full = 0, .windowed = 1, .window = 64};
  Bench bench(24, 32, 4, true, layout);
  const Request& one = bench.add(prompt_of(1500), 1, 20);
  const Request& other = bench.add(prompt_of(1400, 300), 1, 20);
  bench.step();
  CHECK_EQ(bench.scheduler.running().size(), size_t{2});
  while (bench.works()) bench.step();
  CHECK_EQ(only(one).generated(), 20);
  CHECK_EQ(only(other).generated(), 20);
  CHECK_EQ(bench.scheduler.preemptions(), uint64_t{0});
}

// There are enough pages for only a little more than one window. Several prompts take turns, and the oldest one always
// makes progress.
TEST(prompts_that_lack_window_pages_yield_to_the_oldest) {
  const KvLayout layout{.full = 1, .windowed = 4, .window = 40};
  Bench bench(110, 16, 4, true, layout);
  REQUIRE(bench.max_length() >= 800);
  for (int i = 0; i < 6; ++i) bench.add(prompt_of(700 - 30 * i, 37 * i), static_cast<uint64_t>(i % 2), 40);
  for (int i = 0; i < 20'000 && bench.works(); ++i) REQUIRE(!bench.step(i % 8 == 0).items.empty());
  for (const auto& request : bench.requests) CHECK_EQ(only(*request).generated(), 40);
  CHECK_EQ(bench.cache.available(), bench.cache.pool().size());
}

InputSpan span_of(int first, int n_rows, uint64_t content, bool bidirectional) {
  return {.first = first, .n_rows = n_rows, .hash = {content, content}, .rows = {}, .bidirectional = bidirectional};
}

// Returns how many tokens of a second prompt with the same text are cached.
uint64_t cached_of_second(std::vector<InputSpan> first, std::vector<InputSpan> second) {
  Bench bench(64, 128, 4);
  bench.add(std::vector<TokenId>(90, 5), 1, 1, 1, std::move(first));
  while (bench.works()) bench.step();
  bench.add(std::vector<TokenId>(90, 5), 1, 1, 1, std::move(second));
  while (bench.works()) bench.step();  // Also checks the contents of shared pages.
  return bench.scheduler.cached_tokens();
}

TEST(scheduler_shares_pages_of_equal_spans_only) {
  for (const bool bidirectional : {false, true}) {
    const auto span = [&](uint64_t content) { return std::vector{span_of(32, 16, content, bidirectional)}; };
    CHECK_EQ(cached_of_second(span(1), span(1)), uint64_t{80});
    CHECK_EQ(cached_of_second(span(1), span(2)), uint64_t{32});
    CHECK_EQ(cached_of_second(span(1), {}), uint64_t{32});
    CHECK_EQ(cached_of_second({}, span(1)), uint64_t{32});
  }
}

TEST(scheduler_reuses_prefixes_that_do_not_split_a_bidirectional_span) {
  const auto cached = [](int first, int n_rows, bool bidirectional, int second_ends) {
    Bench bench(64, 128, 4);
    const std::vector spans = {span_of(first, n_rows, 1, bidirectional)};
    bench.add(std::vector<TokenId>(90, 5), 1, 1, 1, spans);
    while (bench.works()) bench.step();
    bench.add(std::vector<TokenId>(static_cast<size_t>(second_ends), 5), 1, 1, 1, spans);
    while (bench.works()) bench.step();
    return bench.scheduler.cached_tokens();
  };
  CHECK_EQ(cached(20, 40, true, 90), uint64_t{80});  // The prefix includes the span.
  // The page in which the span ends is not full, so no part of the span is reused.
  CHECK_EQ(cached(20, 40, true, 62), uint64_t{16});
  CHECK_EQ(cached(20, 40, false, 62), uint64_t{48});  // Rows in a causal span attend only to earlier positions.
  CHECK_EQ(cached(16, 32, true, 49), uint64_t{48});   // The span ends at a page boundary.
  // The span ends at the end of the prompt, whose last position is always computed.
  CHECK_EQ(cached(16, 32, true, 48), uint64_t{16});
}

TEST(scheduler_computes_a_bidirectional_span_in_one_chunk) {
  for (const KvLayout& layout : {KvLayout{}, KvLayout{.layers_per_page = 1, .full = 1, .windowed = 2, .window = 24}}) {
    std::mt19937 random(17);
    Bench bench(120, 64, 6, true, layout);
    int n_steps = 0, n_spans = 0, n_first = 0;
    for (int round = 0; round < 60; ++round) {
      std::vector<InputSpan> spans;
      const int length = 20 + static_cast<int>(random() % 200);
      for (int at = static_cast<int>(random() % 20); at < length;) {
        const int n_rows = std::min(length - at, 1 + static_cast<int>(random() % 60));
        spans.push_back(span_of(at, n_rows, random() % 2, random() % 3 > 0));
        at += n_rows + static_cast<int>(random() % 30);
        ++n_spans;
      }
      bench.add(std::vector<TokenId>(static_cast<size_t>(length), 5), random() % 3, 30,
                1 + static_cast<int>(random() % 2), std::move(spans));
      for (int i = 0; i < 12 && bench.works(); ++i, ++n_steps) n_first += bench.step().first_tokens;
    }
    while (bench.works() && ++n_steps < 10'000) n_first += bench.step().first_tokens;
    CHECK(!bench.works());
    CHECK(n_spans > 100);
    CHECK(n_first > 0);
    CHECK(bench.scheduler.cached_tokens() > 0);
  }
}

TEST(scheduler_computes_a_span_that_does_not_fit_together_with_decodes) {
  Bench bench(200, 64, 48);
  for (int i = 0; i < 44; ++i) bench.add({static_cast<TokenId>(i)}, 1, 400);
  for (int i = 0; i < 10; ++i) bench.step();
  CHECK_EQ(bench.scheduler.running().size(), size_t{44});
  // The organization has other requests, so no step is reserved for this one's first token.
  Request& request =
      bench.add(std::vector<TokenId>(200, 5), 1, 10, 1, {span_of(8, 60, 1, true), span_of(70, 64, 1, true)});
  int n_steps = 0;
  while (only(request).generated() == 0 && ++n_steps < 50) bench.step();
  CHECK(n_steps < 50);
}

// The prompts after an organization's oldest prompt are ordered by length, shortest first, rather than by age.
TEST(scheduler_computes_the_shortest_prompts_after_the_oldest) {
  Bench bench(400, 128, 8);
  bench.scheduler.configure(64, 8);
  const Request& oldest = bench.add(prompt_of(32 + 10), 1, 5);
  const Request& older = bench.add(prompt_of(200, 400), 1, 5, 1, {span_of(0, 100, 1, true)});
  const Request& brief = bench.add(prompt_of(32 + 20, 600), 1, 5);
  bench.step();
  CHECK_EQ(only(oldest).kv.n_computed, 32);
  CHECK_EQ(only(older).kv.n_computed, 0);  // Its span does not fit in the remainder of the step.
  CHECK_EQ(only(brief).kv.n_computed, 32);
  bench.scheduler.configure(128, 8);
  bench.step();
  CHECK_EQ(only(oldest).generated(), 1);
  CHECK_EQ(only(brief).generated(), 1);
  CHECK_EQ(only(older).kv.n_computed, 0);  // Now its span would fit, but the short prompt comes first.
}

}  // namespace
}  // namespace monolith
