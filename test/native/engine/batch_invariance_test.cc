// Tests that a request produces the same tokens and bit-identical logprobs whether it runs alone, in a batch with
// others, from a cached prefix, after preemption, or as one of several choices.
#include <random>
#include <set>

#include "engine_fixture.h"

namespace monolith::testing {
namespace {

std::vector<GenerationRequest> mixed_requests() {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 10; ++i) {
    GenerationRequest request;
    // Requests in the same family share a long prefix. Prompts end at page boundaries and close to them.
    request.prompt = test_prompt(15 + i * 17, i % 3);
    request.organization = static_cast<uint64_t>(i % 2);
    request.max_tokens = 24 + i;
    request.ignore_eos = true;
    request.sampling.seed = static_cast<uint64_t>(1000 + i);
    request.sampling.temperature = i % 4 == 0 ? 0.0f : 0.9f;
    request.sampling.top_p = i % 3 == 0 ? 0.8f : 1.0f;
    request.sampling.top_k = i % 5 == 2 ? 20 : 0;
    request.sampling.repetition_penalty = i % 2 ? 1.2f : 1.0f;
    request.sampling.presence_penalty = i % 3 == 1 ? 0.5f : 0.0f;
    request.sampling.top_logprobs = 2;
    requests.push_back(request);
  }
  return requests;
}

// Returns the mixed requests with tool calls. Some calls are required, some come after reasoning, and there are several
// function names to choose from. The close marker is so likely that calls end.
std::vector<GenerationRequest> requests_with_calls() {
  std::vector<GenerationRequest> requests = mixed_requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    GenerationRequest& request = requests[i];
    request.max_tokens += 30;
    request.calls.open = {"<open>", 301};
    request.calls.close = {"<close>", 302};
    request.calls.prefixes = {{310, 311, 312}, {310, 311, 313}, {314}, {310, 315}};
    request.sampling.logit_bias = {{301, 5.0f}, {302, 5.0f}};
    if (i % 2 == 0)
      for (const auto& prefix : request.calls.prefixes) {
        request.calls.required.push_back({301});
        request.calls.required.back().insert(request.calls.required.back().end(), prefix.begin(), prefix.end());
      }
    if (i % 3 == 0) {
      request.reasoning.close = {"<close-reasoning>", 303};
      request.reasoning.starts_inside = true;
      request.reasoning.budget = static_cast<int>(i);
      request.reasoning.close_sequence = {303, 304};
    }
  }
  return requests;
}

// Returns the mixed requests with spans of random embedding rows; each row has `width` values.
std::vector<GenerationRequest> requests_with_spans(int width, bool bidirectional, bool three_numbers) {
  std::vector<GenerationRequest> requests = mixed_requests();
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<InputSpan> known;  // One span per family for the first position, then one per family for the second.
  for (int i = 0; i < 6; ++i) {
    InputSpan span{.n_rows = 12 + 5 * i, .hash = {static_cast<uint64_t>(i), 7}, .bidirectional = bidirectional};
    std::vector<float> rows(static_cast<size_t>(span.n_rows * width));
    for (float& x : rows) x = normal(random);
    span.rows = std::make_shared<const std::vector<float>>(std::move(rows));
    if (three_numbers) {
      std::vector<RopePosition> offsets;
      for (int row = 0; row < span.n_rows; ++row) offsets.push_back({0, row / 6, row % 6});
      span.rope_offsets = std::make_shared<const std::vector<RopePosition>>(std::move(offsets));
      span.n_rope_positions = std::max(6, (span.n_rows + 5) / 6);
    }
    known.push_back(span);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    GenerationRequest& request = requests[i];
    const auto put = [&](InputSpan span, int first) {
      span.first = first;
      // The tests expect whole pages from the cache, so page boundaries must not fall within a bidirectional span.
      const int last_page = (static_cast<int>(request.prompt.size()) - 1) / 16 * 16;
      if (span.end() > (bidirectional ? last_page : static_cast<int>(request.prompt.size()))) return;
      request.spans.push_back(std::move(span));
    };
    put(known[i % 3], 5);
    put(known[3 + i % 3], 60);
  }
  return requests;
}

// Runs all requests concurrently on one engine. Later rounds reuse prefixes cached in earlier rounds.
void check_together(const EngineSetup& setup, const std::vector<GenerationRequest>& requests,
                    const std::vector<ChoiceOutcome>& expected, int rounds, bool expect_preemption,
                    const std::string& what) {
  auto engine = start_engine(setup);
  REQUIRE(engine);
  Consumer consumer(*engine);
  // Whether a request is preempted depends on when requests arrive, so rounds are repeated until one has been.
  const auto goes_on = [&](int round) {
    return round < rounds || (expect_preemption && round < 50 && engine->stats().preemptions == 0);
  };
  for (int round = 0; goes_on(round); ++round) {
    std::vector<RequestId> ids;
    for (const GenerationRequest& request : requests) ids.push_back(consumer.submit(request));
    for (size_t i = 0; i < ids.size(); ++i) {
      consumer.pump_until_ended(ids[i]);
      const Outcome& outcome = consumer.outcomes()[ids[i]];
      CHECK(!outcome.failed);
      check_same(outcome.choices.at(0), expected[i],
                 what + ", round " + std::to_string(round) + ", request " + std::to_string(i));
      if (round > 0 && setup.options.prefix_cache && setup.limits.n_pages > 200 && setup.limits.n_slots >= 64)
        CHECK_EQ(outcome.cached_tokens, static_cast<uint32_t>((requests[i].prompt.size() - 1) / 16 * 16));
    }
  }
  if (expect_preemption) CHECK(engine->stats().preemptions > 0);
  if (rounds > 1 && !expect_preemption && setup.limits.n_slots >= 64) CHECK(engine->stats().cached_tokens > 0);
  CHECK(pages_come_back(*engine));
  CHECK(!engine->stats().failed);
}

void check_invariance(const std::string& model, const std::vector<GenerationRequest>& requests,
                      KvType kv_type = KvType::kF16, int n_slots = 64) {
  std::vector<ChoiceOutcome> expected;
  EngineSetup alone;
  alone.model = model;
  alone.limits.kv_type = kv_type;
  alone.limits.n_slots = n_slots;  // Slots for recurrent state, if the model has any.
  alone.options.prefix_cache = false;
  alone.options.snapshot_tokens = 32;
  {
    auto engine = start_engine(alone);
    if (!engine) return;
    Consumer consumer(*engine);
    for (const GenerationRequest& request : requests) {
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      const Outcome& outcome = consumer.outcomes()[id];
      REQUIRE(!outcome.failed);
      CHECK_EQ(outcome.started, 1);
      REQUIRE(outcome.choices.contains(0));
      CHECK_EQ(outcome.prompt_tokens, static_cast<uint32_t>(request.prompt.size()));
      CHECK_EQ(outcome.choices.at(0).completion_tokens, static_cast<uint32_t>(request.max_tokens));
      CHECK(outcome.choices.at(0).reason == FinishReason::kMaxTokens);
      if (request.calls.prefixes.empty())
        CHECK(outcome.choices.at(0).logprobs.size() > static_cast<size_t>(request.max_tokens));
      if (!request.calls.required.empty()) CHECK(!outcome.choices.at(0).calls.empty());
      expected.push_back(outcome.choices.at(0));
    }
  }
  EngineSetup setup = alone;
  check_together(setup, requests, expected, 1, false, "together");
  setup.options.prefix_cache = true;
  setup.threads = 2;
  check_together(setup, requests, expected, 2, false, "with cached prefixes and two threads");
  setup.options.max_batch_tokens = 9;
  setup.options.max_sequences = 4;
  check_together(setup, requests, expected, 2, false, "with nine tokens per step");
  setup.options.max_batch_tokens = 64;
  setup.limits.n_pages = 16;
  check_together(setup, requests, expected, 2, true, "with sixteen pages");
  setup.options.prefix_cache = false;
  check_together(setup, requests, expected, 1, true, "with sixteen pages and no cache");
}

TEST(batch_invariance_llama_q8_0) { check_invariance("models/llama.q8_0.gguf", mixed_requests()); }
TEST(batch_invariance_qwen3_f16) { check_invariance("models/qwen3.f16.gguf", mixed_requests()); }
TEST(batch_invariance_8_bit_pages) { check_invariance("models/llama.q8_0.gguf", mixed_requests(), KvType::kQ8_0); }
TEST(batch_invariance_4_bit_pages) { check_invariance("models/llama.q8_0.gguf", mixed_requests(), KvType::kQ4_0); }
TEST(batch_invariance_5_bit_pages) { check_invariance("models/llama.q8_0.gguf", mixed_requests(), KvType::kQ5_0); }
TEST(batch_invariance_recurrent_state) { check_invariance("models/qwen35.f16.gguf", mixed_requests()); }
TEST(batch_invariance_recurrent_state_and_experts) { check_invariance("models/qwen3next.q8_0.gguf", mixed_requests()); }
TEST(batch_invariance_mla) { check_invariance("models/deepseek2-v3.q8_0.gguf", mixed_requests()); }
TEST(batch_invariance_mla_8_bit_pages) {
  check_invariance("models/deepseek2-v3.q8_0.gguf", mixed_requests(), KvType::kQ8_0);
}
TEST(batch_invariance_mla_4_bit_pages) {
  check_invariance("models/deepseek2-v3.q8_0.gguf", mixed_requests(), KvType::kQ4_0);
}
TEST(batch_invariance_sparse_mla) { check_invariance("models/deepseek32.q8_0.gguf", mixed_requests()); }
TEST(batch_invariance_recurrent_state_and_mla) { check_invariance("models/kimi-linear.q8_0.gguf", mixed_requests()); }
TEST(batch_invariance_mamba) { check_invariance("models/jamba.q8_0.gguf", mixed_requests()); }
TEST(batch_invariance_rwkv7) { check_invariance("models/rwkv7.f16.gguf", mixed_requests()); }
TEST(batch_invariance_rwkv6) { check_invariance("models/rwkv6.q8_0.gguf", mixed_requests(), KvType::kF16, 4); }
TEST(batch_invariance_few_slots) { check_invariance("models/qwen35.f16.gguf", mixed_requests(), KvType::kF16, 4); }
TEST(batch_invariance_tool_calls) { check_invariance("models/llama.q8_0.gguf", requests_with_calls()); }

TEST(batch_invariance_embedding_spans) {
  check_invariance("models/llama.q8_0.gguf", requests_with_spans(256, false, false));
}
TEST(batch_invariance_bidirectional_spans_and_sliding_windows) {
  check_invariance("models/gemma4-ple.q8_0.gguf", requests_with_spans(128, true, false));
}
TEST(batch_invariance_mrope_spans_and_recurrent_state) {
  check_invariance("models/qwen35.f16.gguf", requests_with_spans(128, false, true));
}

void check_choices(const std::string& model) {
  // With only 8 pages, the choices cannot all run at the same time.
  for (const int64_t n_pages : {int64_t{256}, int64_t{8}}) {
    EngineSetup setup;
    setup.model = model;
    setup.limits.n_pages = n_pages;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    GenerationRequest request;
    request.prompt = test_prompt(37, 1);
    request.max_tokens = 40;
    request.ignore_eos = true;
    request.sampling.seed = ~uint64_t{0} - 1;
    request.sampling.top_logprobs = 1;
    request.sampling.frequency_penalty = 0.3f;
    request.n = 5;
    const RequestId all = consumer.submit(request);
    consumer.pump_until_ended(all);
    REQUIRE(!consumer.outcomes()[all].failed);
    CHECK_EQ(consumer.outcomes()[all].started, 1);
    request.n = 1;
    for (int choice = 0; choice < 5; ++choice) {
      const RequestId single = consumer.submit(request);
      consumer.pump_until_ended(single);
      check_same(consumer.outcomes()[all].choices[choice], consumer.outcomes()[single].choices[0],
                 "choice " + std::to_string(choice));
      ++request.sampling.stream;
    }
    CHECK(consumer.outcomes()[all].choices[0].content != consumer.outcomes()[all].choices[1].content);
    if (n_pages == 8) CHECK(engine->stats().preemptions > 0);
    CHECK(pages_come_back(*engine));
  }
}

TEST(batch_invariance_choices_equal_separate_requests) { check_choices("models/llama.q8_0.gguf"); }
TEST(batch_invariance_choices_mla) { check_choices("models/deepseek32.q8_0.gguf"); }
TEST(batch_invariance_choices_recurrent_state) {
  for (const char* model : {"models/qwen35.f16.gguf", "models/jamba.q8_0.gguf", "models/rwkv7.f16.gguf"})
    check_choices(model);
}

// The next turn in a conversation resumes from a snapshot taken within the last response. The result is the same as
// without the cache.
TEST(a_conversation_resumes_from_the_state_of_its_last_response) {
  std::vector<TokenId> turn;
  ChoiceOutcome fresh;
  for (const bool cached : {true, false}) {
    EngineSetup setup;
    setup.model = "models/qwen35.f16.gguf";
    setup.options.prefix_cache = cached;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    GenerationRequest request;
    request.max_tokens = 60;
    request.ignore_eos = true;
    request.sampling.seed = 9;
    request.sampling.top_logprobs = 0;
    if (cached) {
      request.prompt = test_prompt(50, 1);
      const RequestId first = consumer.submit(request);
      consumer.pump_until_ended(first);
      turn = request.prompt;
      for (const auto& [token, logprob] : consumer.outcomes()[first].choices[0].logprobs) turn.push_back(token);
      REQUIRE(turn.size() == 110);
      turn.insert(turn.end(), {20, 30, 40});
    }
    request.prompt = turn;
    const RequestId next = consumer.submit(request);
    consumer.pump_until_ended(next);
    const Outcome& outcome = consumer.outcomes()[next];
    REQUIRE(!outcome.failed);
    CHECK_EQ(outcome.cached_tokens, cached ? 96u : 0u);  // Out of 109 computed tokens.
    if (cached)
      fresh = outcome.choices.at(0);
    else
      check_same(outcome.choices.at(0), fresh, "the second turn");
  }
}

// Requests with adjacent seeds have no response in common.
TEST(choices_differ_from_those_of_neighboring_seeds) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest request;
  request.prompt = test_prompt(20, 1);
  request.max_tokens = 24;
  request.ignore_eos = true;
  std::set<std::string> answers;
  size_t n = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    request.sampling.seed = seed;
    request.n = 3;
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
      answers.insert(choice.content);
      ++n;
    }
    request.n = 1;  // The first choice equals a single request with the same seed.
    const RequestId single = consumer.submit(request);
    consumer.pump_until_ended(single);
    check_same(consumer.outcomes()[id].choices[0], consumer.outcomes()[single].choices[0], "alone");
  }
  CHECK_EQ(n, size_t{12});
  CHECK_EQ(answers.size(), n);
}

}  // namespace
}  // namespace monolith::testing
