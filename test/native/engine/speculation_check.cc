#include "engine/speculation_check.h"

namespace monolith::testing {

GrammarRef compiled(Engine& engine, GrammarOptions::Kind kind, std::string text, std::string suffix) {
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

std::vector<std::pair<TokenId, float>> few_words() { return {{50, 30.0f}, {120, 30.0f}, {200, 30.0f}}; }

std::vector<GenerationRequest> requests_of(Engine& engine) {
  const GrammarRef list = compiled(
      engine, GrammarOptions::Kind::kJsonSchema,
      R"({"type":"array","minItems":9,"items":{"type":"object","properties":{"kind":{"enum":["alpha","beta"]},"n":{"type":"integer"}},)"
      R"("required":["kind","n"],"additionalProperties":false}})");
  const GrammarRef words = compiled(engine, GrammarOptions::Kind::kRegex, "([a-d]{1,3} )*");
  const GrammarRef call = compiled(
      engine, GrammarOptions::Kind::kJsonSchema,
      R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false})", ")");
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

void check_all(const EngineSetup& setup, const std::vector<ChoiceOutcome>& expected, int rounds, bool preempts,
               const std::string& what) {
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
  check::note(what + ": " + std::to_string(stats.accepted_draft_tokens) + " of " + std::to_string(stats.draft_tokens) +
              " draft tokens accepted, " + std::to_string(stats.decode_tokens) + " tokens" +
              (!setup.has_drafter() ? ""
                                    : "; of the draft model's tokens " + std::to_string(stats.accepted_drafter_tokens) +
                                          " of " + std::to_string(stats.drafter_tokens)));
  CHECK_EQ(stats.drafter_tokens > 0, setup.has_drafter());
  CHECK(stats.accepted_draft_tokens > 0);
  CHECK(stats.accepted_draft_tokens < stats.draft_tokens);
  if (preempts) CHECK(stats.preemptions > 0);
  CHECK(pages_come_back(*engine));
  CHECK(!stats.failed);
}

}  // namespace monolith::testing
