// Tests that speculative decoding changes only the number of steps: for every kind of request, tokens and logprobs are
// bit-identical to a run without speculation, and no page contains rejected draft tokens.
#include "formats/gguf/tokenizer.h"
#include "engine/loop/step_loop.h"
#include "formats/hf/model_file.h"
#include "model/recurrent_cases.h"
#include "speculation_check.h"
#include "text/tokenizer/support.h"

namespace monolith::testing {
namespace {

void check_speculation(const std::string& model) {
  EngineSetup setup;
  setup.model = model;
  setup.options.prefix_cache = false;
  std::vector<ChoiceOutcome> expected;
  for (const bool drafts : {false, true}) {  // Requests run one after another.
    setup.options.speculation = drafts ? Speculation::kAlways : Speculation::kOff;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    const std::vector<GenerationRequest> requests = requests_of(*engine);
    uint64_t steps = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const RequestId id = consumer.submit(requests[i]);
      consumer.pump_until_ended(id);
      REQUIRE(!consumer.outcomes()[id].failed);
      const ChoiceOutcome& choice = consumer.outcomes()[id].choices[0];
      if (drafts)
        check_same(choice, expected[i], "alone, request " + std::to_string(i));
      else
        expected.push_back(choice);
    }
    steps = engine->stats().steps;
    const EngineStats stats = engine->stats();
    check::note(model + (drafts ? " with" : " without") + " draft tokens: " + std::to_string(stats.decode_tokens) +
                " tokens in " + std::to_string(steps) + " steps");
    if (!drafts)
      CHECK_EQ(stats.draft_tokens, uint64_t{0});
    else
      CHECK(stats.accepted_draft_tokens > 100 && stats.accepted_draft_tokens < stats.draft_tokens);
  }
  check_all(setup, expected, 1, false, "together");
  setup.options.prefix_cache = true;
  setup.threads = 2;
  check_all(setup, expected, 3, false, "with cached prefixes and two threads");
  setup.options.max_batch_tokens = 9;
  setup.options.max_sequences = 4;
  check_all(setup, expected, 2, false, "with nine tokens per step");
  setup.options.max_batch_tokens = 64;
  setup.limits.n_pages = 16;  // One of these requests takes up to nine pages.
  check_all(setup, expected, 2, true, "with few pages");
  setup.options.speculation = Speculation::kAuto;
  setup.limits.n_pages = 256;
  setup.options.max_sequences = 1;  // Requests run one by one, whether or not speculation pays off for them.
  setup.options.prefix_cache = false;
  auto engine = start_engine(setup);
  REQUIRE(engine != nullptr);
  Consumer consumer(*engine);
  const std::vector<GenerationRequest> requests = requests_of(*engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    const RequestId id = consumer.submit(requests[i]);
    consumer.pump_until_ended(id);
    check_same(consumer.outcomes()[id].choices[0], expected[i], "in automatic mode, request " + std::to_string(i));
  }
}

TEST(speculation_changes_no_token_llama) { check_speculation("models/llama.q8_0.gguf"); }
TEST(speculation_changes_no_token_sparse_mla) { check_speculation("models/deepseek32.q8_0.gguf"); }
TEST(speculation_changes_no_token_recurrent_state) { check_speculation("models/qwen35.f16.gguf"); }
TEST(speculation_changes_no_token_mamba) { check_speculation("models/mamba.f16.gguf"); }
TEST(speculation_changes_no_token_rwkv7) { check_speculation("models/rwkv7.f16.gguf"); }
TEST(speculation_changes_no_token_qwen3) { check_speculation("models/qwen3.f16.gguf"); }

// Tests draft models with the same weights as the target model, with similar weights, and with unrelated weights.
void check_draft(const std::string& draft) {
  EngineSetup setup;
  setup.draft = draft;
  setup.options.prefix_cache = false;
  const std::vector<ChoiceOutcome> expected = outcomes_without(setup);
  if (expected.empty()) return;
  setup.options.speculation = Speculation::kAlways;
  check_all(setup, expected, 1, false, draft + " together");
  setup.threads = 2;
  setup.options.max_sequences = 1;
  check_all(setup, expected, 1, false, "one by one");
  setup.options.prefix_cache = true;
  setup.options.max_sequences = 32;
  setup.options.max_batch_tokens = 64;
  setup.limits.n_pages = 16;  // One of these requests takes up to nine pages.
  setup.draft_pages = 9;
  check_all(setup, expected, 2, true, "with few pages");
}

TEST(speculation_with_a_draft_model_of_the_same_weights) { check_draft("models/llama.q8_0.gguf"); }
TEST(speculation_with_a_draft_model_of_fewer_bits) { check_draft("models/llama.q4_k_m.gguf"); }
TEST(speculation_with_an_unrelated_draft_model) { check_draft("models/qwen3.f16.gguf"); }

TEST(speculation_refuses_a_draft_model_with_another_vocabulary) {
  const auto tokenizer_of = [](const std::string& name) {
    return read_model_file(check::data_path("../../models/" + name), {},
                           [](const GgufFile& file) { return load_tokenizer(file); });
  };
  const auto hal = tokenizer_of("hal-1.0-q8_0.gguf"), tycho = tokenizer_of("tycho-1.0-q8_0.gguf"),
             starter = tokenizer_of("starter-q8_0.gguf");
  REQUIRE(hal && tycho && starter);
  CHECK(static_cast<bool>(DraftModel::check_vocabulary(**hal, **tycho)));
  const Status refused = DraftModel::check_vocabulary(**hal, **starter);
  REQUIRE(!refused);
  CHECK_EQ(refused.error().message, "a draft model must have the vocabulary of its target model, but this one has " +
                                        std::to_string((*starter)->n_vocab()) + " tokens, not " +
                                        std::to_string((*hal)->n_vocab()));
}

// The two vocabularies have the same size, but one token ID has a different text in each.
TEST(speculation_refuses_a_draft_model_with_different_token_ids) {
  const auto with = [](const char* one, const char* other) {
    VocabularyFile words = VocabularyFile::byte_level();
    for (const char* name : {one, other}) words.add(name, TokenKind::kControl);
    return load(words);
  };
  const auto model = with("<a>", "<b>"), draft = with("<b>", "<a>");
  REQUIRE(model.ok() && draft.ok());
  CHECK(static_cast<bool>(DraftModel::check_vocabulary(**model, **model)));
  const Status refused = DraftModel::check_vocabulary(**model, **draft);
  REQUIRE(!refused);
  CHECK_EQ(refused.error().message,
           "a draft model must have the vocabulary of its target model, but this one has a different token 256");
}

// The context of the draft model is limited by the context lengths of both models, and the number of its pages is
// limited by its memory budget. Models with recurrent state are rejected, because such state cannot be rolled back.
TEST(speculation_plans_the_draft_model_within_its_memory_budget) {
  auto cpu = make_cpu_backend({.threads = 1});
  REQUIRE(cpu.ok());
  const ParsedModel small{TinyModel()};
  ModelLimits limits{.max_context = 128, .n_pages = 40};
  const auto pages = [&](uint64_t bytes) {
    const auto own = DraftModel::choose_limits(*small.file, **cpu, limits, bytes);
    return own ? own->n_pages : -1;
  };
  const uint64_t page = Model::plan(*small.file, **cpu, {.n_pages = 1, .kv_type = limits.kv_type})->page_bytes;
  CHECK_EQ(pages(0), 1);
  CHECK_EQ(pages(7 * page + page / 2), 7);
  CHECK_EQ(pages(1'000 * page), 40);
  CHECK_EQ(DraftModel::choose_limits(*small.file, **cpu, limits, page)->max_context, 128);
  limits.max_context = 4096;
  CHECK_EQ(DraftModel::choose_limits(*small.file, **cpu, limits, page)->max_context, 256);
  const ParsedModel recurrent(lfm2().model);
  const auto refused = DraftModel::choose_limits(*recurrent.file, **cpu, limits, page);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kUnsupported);
  CHECK_EQ(refused.error().message,
           "a draft model of architecture 'lfm2' has recurrent state, which cannot be rolled back by single tokens");
}

void check_choices_and_ends(const std::string& draft) {
  std::map<std::string, ChoiceOutcome> expected;
  for (const bool drafts : {false, true}) {
    EngineSetup setup;
    setup.draft = draft;
    setup.options.speculation = drafts ? Speculation::kAlways : Speculation::kOff;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    const auto check = [&](const std::string& what, const GenerationRequest& request) {
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      CHECK_EQ(consumer.outcomes()[id].message, std::string());
      for (auto& [index, choice] : consumer.outcomes()[id].choices) {
        const std::string name = what + ", choice " + std::to_string(index);
        if (drafts)
          check_same(choice, expected[name], name);
        else
          expected[name] = choice;
      }
    };
    GenerationRequest request;
    for (int i = 0; i < 5; ++i)
      for (const TokenId token : test_prompt(9, 2)) request.prompt.push_back(token);
    request.sampling.logit_bias = few_words();
    request.sampling.temperature = 0.4f;
    request.sampling.seed = 77;
    request.ignore_eos = true;
    request.n = 5;
    for (int most = 1; most < 60; most += 7) {
      request.max_tokens = most;
      check("cap " + std::to_string(most), request);
    }
    request.n = 1;
    request.max_tokens = 60;
    request.sampling.temperature = 0;
    check("whole", request);
    const std::string whole = expected["whole, choice 0"].content;
    for (size_t at = 0; at + 3 < whole.size(); at += 5) {
      request.stop = {whole.substr(at, 3)};
      if (static_cast<unsigned char>(request.stop[0][0]) < 0x80 &&
          static_cast<unsigned char>(request.stop[0][2]) < 0x80 &&
          static_cast<unsigned char>(request.stop[0][1]) < 0x80)
        check("stop " + std::to_string(at), request);
    }
    request.stop = {};
    request.ignore_eos = false;
    for (const TokenId token : {51, 121, 201, 260}) {
      request.stop_tokens = {token};
      request.sampling.logit_bias = few_words();
      request.sampling.logit_bias.emplace_back(token, 27.0f);
      check("stop token " + std::to_string(token), request);
    }
    if (drafts) CHECK(engine->stats().accepted_draft_tokens > 50);
    CHECK(pages_come_back(*engine));
  }
}

TEST(speculation_changes_no_choice_and_no_end) { check_choices_and_ends(""); }
TEST(speculation_with_a_draft_model_changes_no_choice_and_no_end) {
  check_choices_and_ends("models/llama.q4_k_m.gguf");
}

// No cached page may contain rejected draft tokens, even if the draft tokens reach beyond the end of a page.
TEST(speculation_keeps_rejected_tokens_out_of_the_prefix_cache) {
  EngineSetup setup;
  setup.options.speculation = Speculation::kAlways;
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  EngineCounters counters;
  StepLoop loop(*parts.model, *parts.tokenizer, setup.options, counters);
  auto channel = std::make_shared<Channel>([] {}, setup.options.channel_bytes_max);
  for (RequestId id = 1; id <= 6; ++id) {
    GenerationRequest request;
    for (int i = 0; i < 6; ++i)
      for (const TokenId token : test_prompt(5 + static_cast<int>(id), 1)) request.prompt.push_back(token);
    request.max_tokens = 90;
    request.ignore_eos = true;
    request.sampling.logit_bias = few_words();
    request.sampling.temperature = 0.7f;
    request.sampling.seed = id;
    loop.add(std::make_unique<Request>(id, channel, request, parts.model->params().n_vocab, 512));
  }
  while (!loop.idle()) {
    CHECK(loop.step());
    CHECK(loop.consistent());
  }
  CHECK(counters.accepted_draft_tokens > 0);
  CHECK(counters.accepted_draft_tokens < counters.draft_tokens);
  CHECK_EQ(counters.decode_tokens.load(), uint64_t{6 * 90});
  CHECK(counters.steps < 6 * 90);
}

}  // namespace
}  // namespace monolith::testing
