// Tests that tokens are emitted without sampling if a grammar or a forced sequence allows only one continuation. This
// takes fewer steps, produces the same text in any batch, and respects token limits and stop strings.
#include <algorithm>
#include <future>
#include <random>

#include "engine/loop/step_loop.h"
#include "engine/output/grammar_cache.h"
#include "engine_fixture.h"

namespace monolith::testing {
namespace {

using grammar::GrammarOptions;

// One model per kind of tokenizer.
constexpr const char* kModels[] = {"models/llama.q8_0.gguf", "models/qwen3.f16.gguf"};

constexpr const char* kOrder =
    R"({"type":"object","properties":{"customer":{"type":"object","properties":{"first_name":{"type":"string","maxLength":4},)"
    R"("is_member":{"type":"boolean"}},"required":["first_name","is_member"],"additionalProperties":false},"note":{"const":"naïve “quote” 北京"},)"
    R"("status":{"enum":["delivered","delayed"]},"lines":{"type":"array","items":{"type":"object","properties":{"quantity":{"type":"integer","minimum":0,"maximum":9}},)"
    R"("required":["quantity"],"additionalProperties":false},"minItems":1,"maxItems":2}},"required":["customer","note","status","lines"],"additionalProperties":false})";

GrammarOptions order_options(std::string suffix = "") {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kJsonSchema;
  options.text = kOrder;
  options.suffix = std::move(suffix);
  return options;
}

GrammarRef compiled(Engine& engine, const GrammarOptions& options) {
  std::promise<CompiledGrammar> promise;
  engine.compile_grammar(options, [&](CompiledGrammar done) { promise.set_value(std::move(done)); });
  const CompiledGrammar result = promise.get_future().get();
  CHECK(result.grammar != nullptr);
  return result.grammar;
}

GenerationRequest order_request(const GrammarRef& format, uint64_t seed = 3) {
  GenerationRequest request;
  request.prompt = test_prompt(20, 1);
  request.max_tokens = 300;
  request.sampling.seed = seed;
  request.sampling.temperature = 1.2f;
  request.format = format;
  return request;
}

ChoiceOutcome outcome_of(Consumer& consumer, const GenerationRequest& request) {
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  CHECK_EQ(consumer.outcomes()[id].message, std::string());
  return consumer.outcomes()[id].choices[0];
}

bool begins_alike(const std::vector<TokenId>& tokens, const std::vector<TokenId>& others) {
  return others.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), others.begin());
}

// Follows random texts of the grammar token by token. Forced tokens must contain only bytes to which the grammar allows
// no alternative, and must be the tokens with which the tokenized form of every longer text begins.
TEST(grammar_forces_the_tokens_common_to_all_continuations) {
  for (const char* model : kModels) {
    EngineSetup setup;
    setup.model = model;
    const EngineParts parts = load_parts(setup);
    if (!parts.model) return;
    const Tokenizer& tokenizer = *parts.tokenizer;
    GrammarCache grammars(tokenizer, StepLoop::vocabulary(*parts.model, tokenizer));
    const GrammarRef grammar = grammars.compile(order_options()).grammar;
    REQUIRE(grammar != nullptr);
    grammar::TokenMask mask(static_cast<size_t>(grammar->vocabulary().trie().n_tokens()));
    std::mt19937 random(5);
    int n_forced = 0, n_drawn = 0;
    for (int i = 0; i < 30; ++i) {
      std::vector<TokenId> tokens, forced, again;
      std::string text;
      auto position = grammar->start();
      const auto read = [&](TokenId token) {
        CHECK(grammar->advance(position, tokens, token) == grammar::Grammar::Outcome::kOk);
        tokens.push_back(token);
        text += tokenizer.bytes(token);
      };
      while (!position.ends && tokens.size() < 400) {
        REQUIRE(grammar->forced(position, tokens, tokenizer, forced) == grammar::Grammar::Outcome::kOk);
        if (!forced.empty()) {
          const size_t begin = text.size();
          for (const TokenId token : forced) {
            for (const char byte : tokenizer.bytes(token)) {
              const auto next = grammar->follow(text);
              REQUIRE(next.has_value());
              CHECK(!next->accepts);
              CHECK_EQ(next->bytes.count(), size_t{1});
              CHECK(next->bytes[static_cast<uint8_t>(byte)]);
              text += byte;
            }
            CHECK(grammar->advance(position, tokens, token) == grammar::Grammar::Outcome::kOk);
            tokens.push_back(token);
          }
          n_forced += static_cast<int>(forced.size());
          // If the text is continued for a few bytes beyond the next point at which the grammar leaves a choice, its
          // tokens still start with the same tokens.
          std::string longer = text;
          auto next = grammar->follow(longer);
          for (; next && !next->accepts && next->bytes.count() == 1; next = grammar->follow(longer))
            for (size_t byte = 0; byte < 256; ++byte)
              if (next->bytes[byte]) longer += static_cast<char>(byte);
          REQUIRE(next.has_value());
          for (size_t byte = 0; byte < 256; ++byte) {
            if (!next->bytes[byte]) continue;
            for (const std::string more : {"", "a", "\"", "e,"}) {
              again.clear();
              tokenizer.encode(longer.substr(begin) + static_cast<char>(byte) + more, {.continues = true}, again);
              if (!begins_alike(forced, again)) check::fail(__FILE__, __LINE__, longer + " | " + text);
            }
          }
          continue;
        }
        REQUIRE(grammar->allowed(position, tokens, mask) == grammar::Grammar::Outcome::kOk);
        std::vector<TokenId> allowed;
        for (uint32_t token = 0; token < grammar->vocabulary().trie().n_tokens(); ++token)
          if (mask.has(token)) allowed.push_back(static_cast<TokenId>(token));
        REQUIRE(!allowed.empty());
        read(allowed[random() % allowed.size()]);
        ++n_drawn;
      }
    }
    check::note(std::string(model) + ": " + std::to_string(n_forced) + " forced, " + std::to_string(n_drawn) +
                " drawn");
    CHECK(n_forced > n_drawn);
  }
}

TEST(forced_tokens_take_fewer_steps) {
  for (const char* model : kModels) {
    EngineSetup setup;
    setup.model = model;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    const GenerationRequest request = order_request(compiled(*engine, order_options()));
    const uint64_t before = engine->stats().steps;
    const ChoiceOutcome choice = outcome_of(consumer, request);
    const uint64_t steps = engine->stats().steps - before;
    CHECK(choice.reason == FinishReason::kEndOfTurn);
    CHECK_EQ(choice.piece_tokens, static_cast<int>(choice.completion_tokens));
    check::note(choice.content + ": " + std::to_string(choice.completion_tokens) + " tokens in " +
                std::to_string(steps) + " steps");
    CHECK(steps * 2 < choice.completion_tokens);
    CHECK_EQ(engine->stats().decode_tokens, uint64_t{choice.completion_tokens});
    CHECK(engine->stats().prefill_tokens <= request.prompt.size());
    CHECK(pages_come_back(*engine));
  }
}

TEST(token_limits_and_stop_strings_apply_within_forced_tokens) {
  for (const char* model : kModels) {
    EngineSetup setup;
    setup.model = model;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    GenerationRequest request = order_request(compiled(*engine, order_options()));
    const ChoiceOutcome whole = outcome_of(consumer, request);
    for (int most = 1; most < static_cast<int>(whole.completion_tokens); most += 3) {
      request.max_tokens = most;
      const ChoiceOutcome cut = outcome_of(consumer, request);
      CHECK(cut.reason == FinishReason::kMaxTokens);
      CHECK_EQ(cut.completion_tokens, static_cast<uint32_t>(most));
      std::string content = cut.content;
      while (content.ends_with("\uFFFD")) content.resize(content.size() - 3);  // The limit falls within a character.
      CHECK(whole.content.starts_with(content));
    }
    request.max_tokens = 300;
    for (const char* stop : {"{\"cust", "ber\":", "note", "北", "quant", "]}"}) {
      request.stop = {"never generated", stop};
      const ChoiceOutcome stopped = outcome_of(consumer, request);
      CHECK(stopped.reason == FinishReason::kStopString);
      CHECK_EQ(stopped.stop_index, 1);
      CHECK_EQ(stopped.content, whole.content.substr(0, whole.content.find(stop)));
      CHECK(stopped.completion_tokens <= whole.completion_tokens);
    }
    CHECK(pages_come_back(*engine));
  }
}

// Banned tokens are not emitted, even if they are forced.
TEST(banned_tokens_are_not_forced) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  const Tokenizer& tokenizer = engine->tokenizer();
  const GrammarRef format = compiled(*engine, order_options());
  std::vector<TokenId> tokens;
  auto position = format->start();
  REQUIRE(format->forced(position, {}, tokenizer, tokens) == grammar::Grammar::Outcome::kOk);
  REQUIRE(tokens.size() > 3);
  const std::string content = outcome_of(consumer, order_request(format)).content;
  enum Way { kStopToken, kBanned, kBias };
  for (const Way way : {kStopToken, kBanned, kBias}) {
    GenerationRequest request = order_request(format);
    const TokenId refused = tokens[2];
    if (way == kStopToken) request.stop_tokens = {refused};
    if (way == kBanned) request.sampling.banned = {refused};
    if (way == kBias) request.sampling.logit_bias = {{refused, -100.0f}};
    const ChoiceOutcome choice = outcome_of(consumer, request);
    CHECK(choice.reason == FinishReason::kEndOfTurn);  // The bias has not ended the turn early.
    CHECK(choice.content.starts_with(R"({"customer":{"first_name":")"));
    CHECK(choice.content.ends_with("}]}"));
  }
}

// With logprobs, every token is sampled, because each token needs a logprob entry.
TEST(no_token_is_forced_with_logprobs) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest request = order_request(compiled(*engine, order_options()));
  request.sampling.top_logprobs = 0;
  const uint64_t before = engine->stats().steps;
  const ChoiceOutcome choice = outcome_of(consumer, request);
  CHECK_EQ(choice.logprobs.size(), size_t{choice.completion_tokens});
  CHECK_EQ(engine->stats().steps - before, uint64_t{choice.completion_tokens});
}

// The text is the same whether the request runs alone, together with all other requests, from a cached prefix, with few
// tokens per step, with few pages, or as one of several choices.
TEST(forced_tokens_are_the_same_in_any_batch) {
  for (const char* model : kModels) {
    EngineSetup setup;
    setup.model = model;
    std::vector<GenerationRequest> requests;
    std::vector<ChoiceOutcome> expected;
    const auto prepare = [&](Engine& engine) {
      requests.clear();
      const GrammarRef format = compiled(engine, order_options()), call = compiled(engine, order_options("</call>"));
      for (uint64_t i = 0; i < 8; ++i) {
        GenerationRequest request = order_request(i % 4 == 3 ? nullptr : format, 100 + i);
        request.prompt = test_prompt(15 + static_cast<int>(i) * 11, static_cast<int>(i) % 3);
        request.organization = i % 2;
        request.sampling.temperature = i % 3 == 0 ? 0.0f : 1.1f;
        request.sampling.repetition_penalty = i % 3 == 1 ? 1.1f : 1.0f;
        if (i % 4 == 3) {  // The long start of a call is a forced sequence.
          request.calls.open = {"<call>", 301};
          request.calls.close = {"</call>", kNoToken};
          request.calls.prefixes = {{310, 311, 312, 313, 314, 315, 316}, {310, 320, 321, 322}};
          for (const auto& prefix : request.calls.prefixes) {
            request.calls.required.push_back({301});
            request.calls.required.back().insert(request.calls.required.back().end(), prefix.begin(), prefix.end());
          }
          request.calls.grammars = {call, call};
          request.max_tokens = 150;
        }
        requests.push_back(request);
      }
    };
    const auto check_same = [&](const ChoiceOutcome& got, const ChoiceOutcome& wanted, const std::string& what) {
      if (got.content != wanted.content || got.calls != wanted.calls ||
          got.completion_tokens != wanted.completion_tokens || got.reason != wanted.reason)
        check::fail(__FILE__, __LINE__,
                    what + ": " + got.content + got.calls + " instead of " + wanted.content + wanted.calls);
    };
    const auto check_all = [&](const std::string& what, bool preempts) {
      auto engine = start_engine(setup);
      REQUIRE(engine != nullptr);
      Consumer consumer(*engine);
      prepare(*engine);
      for (int round = 0; round < 2 || (preempts && round < 30 && engine->stats().preemptions == 0); ++round) {
        std::vector<RequestId> ids;
        for (const GenerationRequest& request : requests) ids.push_back(consumer.submit(request));
        for (size_t i = 0; i < ids.size(); ++i) {
          consumer.pump_until_ended(ids[i]);
          check_same(consumer.outcomes()[ids[i]].choices[0], expected[i], what + ", request " + std::to_string(i));
        }
      }
      if (preempts) CHECK(engine->stats().preemptions > 0);
      CHECK(pages_come_back(*engine));
    };
    {
      setup.options.prefix_cache = false;
      auto engine = start_engine(setup);
      if (!engine) return;
      Consumer consumer(*engine);
      prepare(*engine);
      for (const GenerationRequest& request : requests) expected.push_back(outcome_of(consumer, request));
      GenerationRequest several = requests[1];
      several.n = 4;
      const RequestId id = consumer.submit(several);
      consumer.pump_until_ended(id);
      for (int choice = 0; choice < 4; ++choice) {
        GenerationRequest one = requests[1];
        one.sampling.stream = static_cast<uint32_t>(choice);
        check_same(consumer.outcomes()[id].choices[choice], outcome_of(consumer, one),
                   "choice " + std::to_string(choice));
      }
    }
    check_all("together", false);
    setup.options.prefix_cache = true;
    setup.threads = 2;
    check_all("with cached prefixes and two threads", false);
    setup.options.max_batch_tokens = 9;
    setup.options.max_sequences = 4;
    check_all("with nine tokens per step", false);
    setup.options.max_batch_tokens = 64;
    setup.options.max_sequences = 8;
    setup.limits.n_pages = 22;
    check_all("with few pages", true);
  }
}

}  // namespace
}  // namespace monolith::testing
