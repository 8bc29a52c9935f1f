// Tests that a failed allocation on behalf of one request fails only that request. The output of the other requests
// stays the same, and the failed request's pages are freed. Each test is repeated so that every allocation of the
// engine thread fails once.
#include <future>
#include <semaphore>

#include "allocation_hook.h"
#include "engine/loop/step_loop.h"
#include "engine/output/grammar_cache.h"
#include "engine_fixture.h"

namespace monolith::testing {
namespace {

constexpr const char* kNoMemory = "there is not enough memory for this request";

GenerationRequest request_with(int number, int max_tokens) {
  GenerationRequest request;
  request.prompt = test_prompt(20 + 7 * number, number);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.organization = static_cast<uint64_t>(number % 3);
  request.sampling.seed = static_cast<uint64_t>(number);
  request.sampling.top_logprobs = number % 2 ? 2 : -1;
  return request;
}

std::vector<GenerationRequest> requests_of_all_kinds(const GrammarRef& grammar) {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 7; ++i) requests.push_back(request_with(i, 24));
  requests[0].sampling.repetition_penalty = 1.1f;
  requests[0].stop = {"a stop string that is too long for the small buffer of a string"};
  requests[1].n = 3;
  requests[1].sampling.frequency_penalty = 0.5f;
  requests[2].sampling.prompt_logprobs = 2;
  requests[3].format = grammar;
  requests[3].sampling.top_logprobs = -1;
  requests[4].format = grammar;
  requests[5].calls.open = {"<call>", 301};
  requests[5].calls.close = {"</call>", 302};
  requests[5].calls.prefixes = {{310, 311}, {310, 312}};
  requests[5].sampling.logit_bias = {{301, 9.0f}, {302, 9.0f}};
  requests[6].n = 2;
  requests[6].generation_ms = 0;
  return requests;
}

struct Run {
  std::map<RequestId, Outcome> outcomes;
  bool has_failed_allocation = false;
};

// Runs all requests in one step loop. The first `n` allocations succeed, and the next `in_a_row` allocations fail. If
// `n` is negative, no allocation fails.
Run run(const EngineSetup& setup, EngineParts& parts, int n, int in_a_row = 1) {
  Run run;
  EngineCounters counters;
  StepLoop loop(*parts.model, *parts.tokenizer, setup.options, counters);
  auto channel = std::make_shared<Channel>([] {}, setup.options.channel_bytes_max);
  GrammarCache grammars(*parts.tokenizer, StepLoop::vocabulary(*parts.model, *parts.tokenizer));
  grammar::GrammarOptions options;
  options.kind = grammar::GrammarOptions::Kind::kRegex;
  options.text = "[0-9]{3}([, ]+[0-9]{1,3})*;";
  std::vector<std::unique_ptr<Request>> requests;
  for (GenerationRequest& request : requests_of_all_kinds(grammars.compile(options).grammar)) {
    const auto id = static_cast<RequestId>(requests.size() + 1);
    run.outcomes[id].n = request.n;
    CHECK(counters.queue.take(request.prompt.size()) == QueueRoom::Taken::kTaken);
    requests.push_back(std::make_unique<Request>(id, channel, std::move(request), parts.model->params().n_vocab,
                                                 setup.limits.max_context, parts.model->memory().layout));
  }
  std::vector<std::byte> drained;
  until_failure = n;
  n_failures = in_a_row;
  for (auto& request : requests) loop.add(std::move(request));
  for (int i = 0; i < 1000 && !(loop.idle() && !loop.has_unpublished()); ++i) {
    loop.step();
    const WithoutFailures pause;
    if (i % 3 != 0 && !loop.idle()) continue;
    channel->drain(drained);
    EventReader(drained).read_into(run.outcomes);
  }
  {
    const WithoutFailures pause;
    channel->drain(drained);
    EventReader(drained).read_into(run.outcomes);
  }
  run.has_failed_allocation = n >= 0 && until_failure < 0;
  until_failure = -1;
  n_failures = 1;
  CHECK(loop.idle() && !loop.has_unpublished());
  CHECK_EQ(loop.ended().size(), run.outcomes.size());
  CHECK(loop.consistent());
  CHECK_EQ(counters.pages_free + counters.pages_cached, counters.pages_total.load());
  CHECK_EQ(counters.queue.requests(), 0);
  CHECK_EQ(counters.queue.tokens(), int64_t{0});
  return run;
}

// With `in_a_row` > 1, several requests may fail.
void check_each_allocation(EngineSetup setup, int in_a_row = 1) {
  setup.limits.n_pages = 64;  // Too few for all requests, so some wait.
  setup.limits.max_logit_rows = 6 + setup.limits.draft_rows;
  setup.options.channel_bytes_max = size_t{1} << 20;
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  const Run expected = run(setup, parts, -1);
  int n = 0, n_failed = 0;
  for (;; ++n) {
    const Run got = run(setup, parts, n, in_a_row);
    if (!got.has_failed_allocation) break;
    int failed = 0;
    for (const auto& [id, outcome] : got.outcomes) {
      const std::string name = "allocation " + std::to_string(n) + ", request " + std::to_string(id);
      if (outcome.failed) {
        ++failed;
        CHECK_EQ(outcome.message, std::string(kNoMemory));
        CHECK(outcome.code == FailureCode::kEngineError);
        continue;
      }
      const Outcome& reference = expected.outcomes.at(id);
      if (!outcome.ended()) check::fail(__FILE__, __LINE__, name + " has not ended");
      REQUIRE(outcome.choices.size() == reference.choices.size());
      for (const auto& [index, choice] : reference.choices) check_same(outcome.choices.at(index), choice, name);
      CHECK(outcome.prompt == reference.prompt);
    }
    if (failed > 1 && in_a_row == 1) {
      check::fail(__FILE__, __LINE__, "allocation " + std::to_string(n) + " failed several requests");
      return;
    }
    n_failed += failed;
  }
  check::note(std::to_string(n) + " allocations, " + std::to_string(n_failed) + " failed a request");
  CHECK(n_failed > 20);
}

TEST(failed_allocation_in_a_step_fails_one_request_only) { check_each_allocation({}); }
TEST(failed_allocation_in_an_overlapping_step_fails_one_request_only) {
  EngineSetup setup;
  setup.asynchronous = true;
  check_each_allocation(setup);
}
// For a while, no memory can be allocated, not even for the records that report failures.
TEST(failed_allocations_delay_the_records_of_failures) { check_each_allocation({}, 40); }
TEST(failed_allocation_in_a_step_with_draft_tokens_fails_one_request_only) {
  EngineSetup setup;
  setup.options.speculation = Speculation::kAlways;
  setup.make_room_for_drafts();
  check_each_allocation(setup);
}

// An operation that ran out of memory can be repeated. Its grammar then produces the same masks as before.
TEST(a_grammar_recovers_from_a_failed_allocation) {
  const EngineParts parts = load_parts({});
  if (!parts.model) return;
  grammar::GrammarOptions options;
  options.kind = grammar::GrammarOptions::Kind::kJsonSchema;
  options.text =
      R"({"type":"object","properties":{"a":{"type":"array","items":{"enum":["x","yy"]}},"b":{"type":"integer"}}})";
  std::vector<TokenId> text;
  parts.tokenizer->encode(R"({"a":["x","yy","x"],"b":-12})", {.continues = true, .verbatim = true}, text);
  std::vector<std::vector<uint64_t>> expected;
  int n = -1;
  for (bool fails = true; fails; ++n) {
    GrammarCache cache(*parts.tokenizer, StepLoop::vocabulary(*parts.model, *parts.tokenizer));
    const GrammarRef grammar = cache.compile(options).grammar;
    REQUIRE(grammar != nullptr);
    grammar::TokenMask mask(grammar->vocabulary().trie().n_tokens());
    grammar::Grammar::Position position = grammar->start();
    until_failure = n;
    for (size_t i = 0; i <= text.size(); ++i) {
      const std::span<const TokenId> before(text.data(), i);
      const auto repeated = [](auto&& work) {
        try {
          return work();
        } catch (const std::bad_alloc&) {
          return work();
        }
      };
      grammar::Grammar::Outcome outcome = repeated([&] { return grammar->allowed(position, before, mask); });
      {
        const WithoutFailures pause;
        CHECK(outcome == grammar::Grammar::Outcome::kOk);
        const std::vector<uint64_t> words(mask.words().begin(), mask.words().end());
        if (n < 0) expected.push_back(words);
        if (words != expected[i])
          return check::fail(__FILE__, __LINE__, "the mask differs after allocation " + std::to_string(n));
      }
      if (i == text.size()) break;
      outcome = repeated([&] { return grammar->advance(position, before, text[i]); });
      const WithoutFailures pause;
      CHECK(outcome == grammar::Grammar::Outcome::kOk);
    }
    fails = n < 0 || until_failure < 0;
    until_failure = -1;
  }
  CHECK(n > 50);
}

// All requests arrive together: they are submitted while the engine thread is blocked in the wake-up of a channel.
TEST(failed_allocation_loses_no_request_of_the_inbox) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  int n = 0;
  std::binary_semaphore held(0), released(0);
  const ChannelId gate = engine->open_channel([&] {
    held.release();
    released.acquire();
    until_failure = n;  // Of the engine thread.
  });
  GenerationRequest opener;
  opener.prompt = test_prompt(3, 1);
  opener.output = OutputKind::kNothing;
  std::vector<std::byte> drained;
  int n_failed = 0;
  for (; n < 40; ++n) {
    REQUIRE(engine->submit(gate, opener).ok());
    held.acquire();
    std::vector<RequestId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(consumer.submit(request_with(i, 2)));
    released.release();
    for (const RequestId id : ids) {
      consumer.pump_until_ended(id);
      n_failed += consumer.outcomes()[id].failed;
    }
    engine->drain_channel(gate, drained);
    if (engine->stats().failed) {
      check::fail(__FILE__, __LINE__, "allocation " + std::to_string(n) + " failed the engine");
      break;
    }
  }
  engine->close_channel(gate);
  CHECK(n_failed > 10 && n_failed <= n);
  CHECK(pages_come_back(*engine));
}

}  // namespace
}  // namespace monolith::testing
