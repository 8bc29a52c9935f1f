// Guessing changes nothing but the number of steps: the same tokens and logprob bits as without, whatever asks for
// them, and no page holds what was refused.
#include <algorithm>
#include <cmath>
#include <future>
#include <numeric>

#include "engine/loop/step_loop.h"
#include "engine_fixture.h"
#include "formats/hf/model_file.h"

namespace monolith::testing {
namespace {

using grammar::GrammarOptions;

GrammarRef compiled(Engine& engine, GrammarOptions::Kind kind, std::string text, std::string suffix = "") {
  GrammarOptions options;
  options.kind = kind;
  options.text = std::move(text);
  options.suffix = std::move(suffix);
  std::promise<CompiledGrammar> promise;
  engine.compile_grammar(options, [&](CompiledGrammar done) { promise.set_value(std::move(done)); });
  const CompiledGrammar result = promise.get_future().get();
  CHECK(result.grammar != nullptr);
  return result.grammar;
}

// A few tokens that come again and again: what has been said is said again, but not always.
std::vector<std::pair<TokenId, float>> few_words() { return {{50, 30.0f}, {120, 30.0f}, {200, 30.0f}}; }

// Prompts that repeat themselves, and every way to choose the next token.
std::vector<GenerationRequest> requests_of(Engine& engine) {
  const GrammarRef list = compiled(engine, GrammarOptions::Kind::kJsonSchema,
                                   R"({"type":"array","minItems":9,"items":{"type":"object","properties":{"kind":{"enum":["alpha","beta"]},"n":{"type":"integer"}},)"
                                   R"("required":["kind","n"],"additionalProperties":false}})");
  const GrammarRef words = compiled(engine, GrammarOptions::Kind::kRegex, "([a-d]{1,3} )*");
  const GrammarRef call = compiled(engine, GrammarOptions::Kind::kJsonSchema, R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false})", ")");
  std::vector<GenerationRequest> requests;
  for (uint64_t i = 0; i < 12; ++i) {
    GenerationRequest request;
    const std::vector<TokenId> phrase = test_prompt(7 + static_cast<int>(i), static_cast<int>(i) % 3);
    for (int j = 0; j < 4; ++j) request.prompt.insert(request.prompt.end(), phrase.begin(), phrase.end());
    request.organization = i % 2;
    request.max_tokens = 50 + static_cast<int>(i);
    request.ignore_eos = true;
    request.sampling.seed = 500 + i;
    request.sampling.temperature = i % 3 == 0 ? 0.0f : i % 3 == 1 ? 0.3f : 0.8f;
    request.sampling.top_p = i % 4 == 1 ? 0.7f : 1.0f;
    request.sampling.top_logprobs = i % 2 ? 2 : -1;
    request.sampling.repetition_penalty = i == 4 || i == 7 ? 1.05f : 1.0f;
    request.sampling.frequency_penalty = i == 5 ? 0.05f : 0.0f;
    if (i % 3 != 2) request.sampling.logit_bias = few_words();
    if (i == 2 || i == 9) request.format = list;
    if (i == 6 || i == 10) request.format = words;
    if (i == 3 || i == 8) {
      request.calls.open = {"<call>", 301};
      request.calls.close = {")", kNoToken};
      request.calls.prefixes = {{310, 311, 312}, {310, 313}};
      request.calls.required = {{301, 310, 311, 312}, {301, 310, 313}};
      request.calls.grammars = {call, call};
    }
    if (i == 11) {
      request.reasoning.close = {"<close>", 303};
      request.reasoning.starts_inside = true;
      request.reasoning.budget = 20;
      request.reasoning.close_sequence = {303, 304};
    }
    requests.push_back(request);
  }
  return requests;
}

// What comes of the requests one by one, without guesses.
std::vector<ChoiceOutcome> outcomes_without(EngineSetup setup) {
  setup.options.speculation = Speculation::kOff;
  auto engine = start_engine(setup);
  if (!engine) return {};
  Consumer consumer(*engine);
  std::vector<ChoiceOutcome> outcomes;
  for (const GenerationRequest& request : requests_of(*engine)) {
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    CHECK(!consumer.outcomes()[id].failed);
    outcomes.push_back(consumer.outcomes()[id].choices[0]);
  }
  return outcomes;
}

void check_all(const EngineSetup& setup, const std::vector<ChoiceOutcome>& expected, int rounds, bool preempts, const std::string& what) {
  auto engine = start_engine(setup);
  REQUIRE(engine != nullptr);
  Consumer consumer(*engine);
  const std::vector<GenerationRequest> requests = requests_of(*engine);
  for (int round = 0; round < rounds || (preempts && round < 40 && engine->stats().preemptions == 0); ++round) {
    std::vector<RequestId> ids;
    for (const GenerationRequest& request : requests) ids.push_back(consumer.submit(request));
    for (size_t i = 0; i < ids.size(); ++i) {
      consumer.pump_until_ended(ids[i]);
      check_same(consumer.outcomes()[ids[i]].choices[0], expected[i], what + ", request " + std::to_string(i));
    }
  }
  const EngineStats stats = engine->stats();
  check::note(what + ": " + std::to_string(stats.guessed_right) + " of " + std::to_string(stats.guessed_tokens) + " guesses right, " +
              std::to_string(stats.decode_tokens) + " tokens" +
              (setup.draft.empty() && !setup.limits.guess_layer ? "" : "; of the draft " + std::to_string(stats.drafted_right) + " of " + std::to_string(stats.drafted_tokens)));
  CHECK_EQ(stats.drafted_tokens > 0, !setup.draft.empty() || setup.limits.guess_layer);
  CHECK(stats.guessed_right > 0);
  CHECK(stats.guessed_right < stats.guessed_tokens);
  if (preempts) CHECK(stats.preemptions > 0);
  CHECK(pages_come_back(*engine));
  CHECK(!stats.failed);
}

void check_speculation(const std::string& model) {
  EngineSetup setup;
  setup.model = model;
  setup.options.prefix_cache = false;
  std::vector<ChoiceOutcome> expected;
  for (const bool guesses : {false, true}) {   // one after the other
    setup.options.speculation = guesses ? Speculation::kAlways : Speculation::kOff;
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
      if (guesses) check_same(choice, expected[i], "alone, request " + std::to_string(i));
      else expected.push_back(choice);
    }
    steps = engine->stats().steps;
    const EngineStats stats = engine->stats();
    check::note(model + (guesses ? " with" : " without") + " guesses: " + std::to_string(stats.decode_tokens) + " tokens in " + std::to_string(steps) + " steps");
    if (!guesses) CHECK_EQ(stats.guessed_tokens, uint64_t{0});
    else CHECK(stats.guessed_right > 100 && stats.guessed_right < stats.guessed_tokens);
  }
  check_all(setup, expected, 1, false, "together");
  setup.options.prefix_cache = true;
  setup.threads = 2;
  check_all(setup, expected, 3, false, "with cached prefixes, two threads");
  setup.options.max_batch_tokens = 9;
  setup.options.max_sequences = 4;
  check_all(setup, expected, 2, false, "nine tokens a step");
  setup.options.max_batch_tokens = 64;
  setup.limits.n_pages = 24;
  check_all(setup, expected, 2, true, "few pages");
  setup.options.speculation = Speculation::kAuto;
  setup.limits.n_pages = 256;
  setup.options.max_sequences = 1;   // whoever it pays for or not
  setup.options.prefix_cache = false;
  auto engine = start_engine(setup);
  REQUIRE(engine != nullptr);
  Consumer consumer(*engine);
  const std::vector<GenerationRequest> requests = requests_of(*engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    const RequestId id = consumer.submit(requests[i]);
    consumer.pump_until_ended(id);
    check_same(consumer.outcomes()[id].choices[0], expected[i], "as it pays, request " + std::to_string(i));
  }
}

TEST(speculation_changes_no_token_llama) { check_speculation("models/llama.q8_0.gguf"); }
TEST(speculation_changes_no_token_latents) { check_speculation("models/deepseek32.q8_0.gguf"); }
TEST(speculation_changes_no_token_recurrent_state) { check_speculation("models/qwen35.f16.gguf"); }
TEST(speculation_changes_no_token_qwen3) { check_speculation("models/qwen3.f16.gguf"); }

// Whatever a draft says: that of the same weights, of others close to them, and of others altogether.
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
  setup.limits.n_pages = 24;
  setup.draft_pages = 9;
  check_all(setup, expected, 2, true, "few pages");
}

TEST(speculation_with_a_draft_of_the_same_weights) { check_draft("models/llama.q8_0.gguf"); }
TEST(speculation_with_a_draft_of_fewer_bits) { check_draft("models/llama.q4_k_m.gguf"); }
TEST(speculation_with_a_draft_that_knows_nothing) { check_draft("models/qwen3.f16.gguf"); }

// The model's own layer, which knows no more than which tokens are biased, and is sometimes right.
void say_few_words(LooseModel& model, const std::string& block) {
  const uint64_t n_embd = model.number("embedding_length"), n_vocab = model.tensors.at("token_embd.weight").dims[1];
  std::vector<float> head(n_vocab * n_embd);
  for (const auto& [token, bias] : few_words()) {
    const std::vector<float> row = made_up(n_embd, static_cast<uint64_t>(token), 0.5f);
    std::ranges::copy(row, head.begin() + static_cast<ptrdiff_t>(static_cast<uint64_t>(token) * n_embd));
  }
  model.put_floats(block + "nextn.shared_head_head.weight", {n_embd, n_vocab}, head);
}

void check_own_layer(const std::string& model, bool pages_by_window) {
  EngineSetup setup;
  setup.model = model;
  setup.give_guess_layer(say_few_words);
  setup.limits.pages_by_window = pages_by_window;
  setup.options.prefix_cache = false;
  const std::vector<ChoiceOutcome> expected = outcomes_without(setup);
  if (expected.empty()) return;
  setup.options.speculation = Speculation::kAlways;
  check_all(setup, expected, 1, false, model + " with its own layer");
  setup.threads = 2;
  setup.options.prefix_cache = true;
  check_all(setup, expected, 1, false, "with cached prefixes, two threads");
  setup.options.max_sequences = 4;
  setup.options.max_batch_tokens = 64;
  setup.limits.n_pages = pages_by_window ? 80 : 24;
  check_all(setup, expected, 2, true, "few pages");
}

TEST(speculation_with_an_own_layer_recurrent_state) { check_own_layer("models/qwen35.f16.gguf", false); }
TEST(speculation_with_an_own_layer_latents) { check_own_layer("models/deepseek2-glm47flash.q8_0.gguf", false); }
TEST(speculation_with_an_own_layer_windows) { check_own_layer("models/mimo2.q8_0.gguf", true); }

// Of a network that counts: all that its layers add is nothing, and its head looks for the token before. What is counted
// never comes twice. The layer that guesses says the same by its token, and is right where the largest logit decides; or
// it looks two tokens back, by the hidden row before, and is right with the first of its guesses only.
void know_what_follows(LooseModel& model, const std::string& block, bool by_hidden_row) {
  for (const auto& [name, tensor] : std::map(model.tensors))
    for (const char* out : {"attn_output.weight", "ssm_out.weight", "ffn_down.weight"})
      if (name.ends_with(out)) model.zero(name);
  const uint64_t n = model.number("embedding_length"), n_vocab = model.tensors.at("token_embd.weight").dims[1];
  const std::vector<float> table = model.floats("token_embd.weight");
  const auto put_head = [&](const std::string& name, uint64_t ahead) {
    std::vector<float> head(table.size());
    for (uint64_t token = 0; token < n_vocab; ++token) {
      const auto row = table.begin() + static_cast<ptrdiff_t>(token * n);
      const float length = std::sqrt(std::inner_product(row, row + static_cast<ptrdiff_t>(n), row, 0.0f));
      for (uint64_t i = 0; i < n; ++i) head[(token + ahead) % n_vocab * n + i] = table[token * n + i] / length;
    }
    model.put_floats(name, {n, n_vocab}, head);
  };
  put_head("output.weight", 1);
  if (by_hidden_row) put_head(block + "nextn.shared_head_head.weight", 2);
  const std::vector<float> ones(n, 1);
  for (const std::string& name : {std::string("output_norm.weight"), block + "nextn.enorm.weight", block + "nextn.hnorm.weight", block + "nextn.shared_head_norm.weight"})
    model.put_floats(name, {n}, ones);
  std::vector<float> takes(2 * n * n);
  for (uint64_t i = 0; i < n; ++i) takes[i * 2 * n + i + (by_hidden_row ? n : 0)] = 1;
  model.put_floats(block + "nextn.eh_proj.weight", {2 * n, n}, takes);
}

EngineStats count_with(Speculation mode, bool by_hidden_row) {
  EngineSetup setup;
  setup.model = "models/qwen35.f16.gguf";
  setup.give_guess_layer([by_hidden_row](LooseModel& model, const std::string& block) { know_what_follows(model, block, by_hidden_row); });
  setup.options.speculation = Speculation::kAuto;
  setup.options.own_guesses = mode;
  auto engine = start_engine(setup);
  if (!engine) return {};
  Consumer consumer(*engine);
  for (int i = 0; i < 6; ++i) {
    GenerationRequest request;
    request.prompt = test_prompt(8, i);
    request.max_tokens = 40;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    consumer.pump_until_ended(consumer.submit(request));
  }
  CHECK(pages_come_back(*engine));
  const EngineStats stats = engine->stats();
  check::note("mode " + std::to_string(static_cast<int>(mode)) + ": " + std::to_string(stats.drafted_right) + " of " + std::to_string(stats.drafted_tokens) +
              " right, " + std::to_string(stats.decode_tokens) + " tokens in " + std::to_string(stats.steps) + " steps");
  return stats;
}

TEST(own_layer_that_knows_what_follows_saves_steps) {
  for (const Speculation mode : {Speculation::kAuto, Speculation::kAlways, Speculation::kOff}) {
    const EngineStats stats = count_with(mode, false);
    if (stats.steps == 0) return;
    CHECK_EQ(stats.drafted_right, stats.drafted_tokens);
    CHECK_EQ(stats.drafted_tokens > 0, mode != Speculation::kOff);
    if (mode == Speculation::kAlways) CHECK(stats.drafted_right > 150 && stats.steps < stats.decode_tokens / 3);
    if (mode == Speculation::kOff) CHECK_EQ(stats.steps, stats.decode_tokens);
  }
}

TEST(own_layer_is_given_the_hidden_row_before_each_token) {
  const EngineStats stats = count_with(Speculation::kAlways, true);
  if (stats.steps == 0) return;
  CHECK(stats.drafted_right + 12 >= stats.steps);   // one a step, but for the first and the last of each answer
  CHECK(stats.steps < stats.decode_tokens * 3 / 5);
}

TEST(speculation_refuses_a_draft_of_other_tokens) {
  const auto tokenizer_of = [](const std::string& name) {
    return read_model_file(check::data_path("../../models/" + name), {}, [](const GgufFile& file) { return Tokenizer::load(file); });
  };
  const auto hal = tokenizer_of("hal-1.0-q8_0.gguf"), tycho = tokenizer_of("tycho-1.0-q8_0.gguf"), starter = tokenizer_of("starter-q8_0.gguf");
  REQUIRE(hal && tycho && starter);
  CHECK(static_cast<bool>(DraftModel::check_vocabulary(**hal, **tycho)));
  const Status refused = DraftModel::check_vocabulary(**hal, **starter);
  REQUIRE(!refused);
  CHECK_EQ(refused.error().message, "a draft must have the vocabulary of its model, and this one has " + std::to_string((*starter)->n_vocab()) +
                                        " tokens, not " + std::to_string((*hal)->n_vocab()));
}

void check_choices_and_ends(const std::string& draft) {
  std::map<std::string, ChoiceOutcome> expected;
  for (const bool guesses : {false, true}) {
    EngineSetup setup;
    setup.draft = draft;
    setup.options.speculation = guesses ? Speculation::kAlways : Speculation::kOff;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    const auto check = [&](const std::string& what, const GenerationRequest& request) {
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      CHECK_EQ(consumer.outcomes()[id].message, std::string());
      for (auto& [index, choice] : consumer.outcomes()[id].choices) {
        const std::string name = what + ", choice " + std::to_string(index);
        if (guesses) check_same(choice, expected[name], name);
        else expected[name] = choice;
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
      if (static_cast<unsigned char>(request.stop[0][0]) < 0x80 && static_cast<unsigned char>(request.stop[0][2]) < 0x80 &&
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
    if (guesses) CHECK(engine->stats().guessed_right > 50);
    CHECK(pages_come_back(*engine));
  }
}

TEST(speculation_changes_no_choice_and_no_end) { check_choices_and_ends(""); }
TEST(speculation_with_a_draft_changes_no_choice_and_no_end) { check_choices_and_ends("models/llama.q4_k_m.gguf"); }

// What is guessed past a page's end, and refused, is in no page that others find.
TEST(speculation_keeps_refused_guesses_out_of_the_prefix_cache) {
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
  CHECK(counters.guessed_right > 0);
  CHECK(counters.guessed_right < counters.guessed_tokens);
  CHECK_EQ(counters.decode_tokens.load(), uint64_t{6 * 90});
  CHECK(counters.steps < 6 * 90);
}

}  // namespace
}  // namespace monolith::testing
