// Tests grammars in the running engine: responses match their grammar, start and end where they must, and are the same
// in any batch.
#include <algorithm>
#include <future>
#include <random>
#include <set>
#include <thread>

#if defined(__GLIBC__)
#include <pthread.h>
#endif

#include "engine/loop/step_loop.h"
#include "engine/output/grammar_cache.h"
#include "engine_fixture.h"
#include "text/grammar/automaton.h"

namespace monolith::testing {
namespace {

using grammar::GrammarOptions;

constexpr const char* kPerson =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},"age":{"type":"integer","minimum":0,"maximum":120},)"
    R"("tags":{"type":"array","items":{"enum":["red","green","blue"]},"minItems":1,"maxItems":3}},"required":["name","age","tags"],"additionalProperties":false})";

GrammarOptions schema_options(std::string schema, std::string suffix = "") {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kJsonSchema;
  options.text = std::move(schema);
  options.suffix = std::move(suffix);
  return options;
}
GrammarOptions regex_options(std::string pattern) {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kRegex;
  options.text = std::move(pattern);
  return options;
}
GrammarOptions choice_options(std::vector<std::string> choices) {
  GrammarOptions options;
  options.kind = GrammarOptions::Kind::kChoice;
  options.choices = std::move(choices);
  return options;
}

GrammarRef compiled(Engine& engine, const GrammarOptions& options) {
  std::promise<CompiledGrammar> promise;
  engine.compile_grammar(options, [&](CompiledGrammar done) { promise.set_value(std::move(done)); });
  const CompiledGrammar result = promise.get_future().get();
  for (const auto& problem : result.problems) check::note(problem.what);
  CHECK(result.grammar != nullptr);
  return result.grammar;
}

// Returns whether the text matches the grammar, as a whole or, if `whole` is false, as a prefix. Checks the text byte
// by byte.
bool obeys(const GrammarOptions& options, std::string_view text, bool whole = true) {
  std::vector<grammar::SchemaProblem> problems;
  const auto schema =
      options.kind == GrammarOptions::Kind::kJsonSchema ? grammar::Schema::compile(options.text, {}, problems)
      : options.kind == GrammarOptions::Kind::kRegex    ? grammar::Schema::regex(options.text, {}, problems)
      : options.kind == GrammarOptions::Kind::kChoice
          ? grammar::Schema::choice(options.choices, {}, problems)
          : grammar::Schema::any_json(options.kind == GrammarOptions::Kind::kJsonObject);
  const grammar::TokenTrie trie(std::vector<std::string>{"x"});
  grammar::AutomatonOptions of_automaton;
  of_automaton.suffix = options.suffix;
  grammar::Automaton automaton(*schema, trie, of_automaton);
  grammar::StateId state = automaton.start();
  for (const char c : text) state = automaton.step(state, static_cast<uint8_t>(c));
  return whole ? automaton.accepts(state) : state != grammar::Automaton::kDead;
}

GenerationRequest format_request(const GrammarRef& format, int max_tokens = 400) {
  GenerationRequest request;
  request.prompt = test_prompt(20, 1);
  request.max_tokens = max_tokens;
  request.sampling.seed = 11;
  request.format = format;
  return request;
}

#if defined(__GLIBC__)
// The stack size is so large that no thread can be created.
TEST(engine_without_a_thread_refuses_a_grammar_and_compiles_the_next) {
  auto engine = start_engine({});
  if (!engine) return;
  pthread_attr_t usual, huge;
  REQUIRE(pthread_getattr_default_np(&usual) == 0 && pthread_attr_init(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, size_t{1} << 47) == 0 && pthread_setattr_default_np(&huge) == 0);
  int n_done = 0;
  engine->compile_grammar(regex_options("[0-9]+"), [&](CompiledGrammar done) {
    ++n_done;
    CHECK(done.grammar == nullptr);
    REQUIRE(done.problems.size() == 1);
    CHECK_EQ(done.problems[0].what, std::string("the compiler thread could not be started"));
  });
  CHECK_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
  CHECK_EQ(n_done, 1);
  CHECK(compiled(*engine, regex_options("[0-9]+")) != nullptr);
}
#endif

TEST(engine_output_matches_its_format) {
  EngineSetup setup;
  setup.limits.max_context = 1024;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  GrammarOptions any;
  any.kind = GrammarOptions::Kind::kJsonObject;
  int n_ended = 0, n_cut = 0;
  for (const GrammarOptions& options : {schema_options(kPerson), regex_options("[a-f]{2,5}-\\d{3}(é|ü)?"),
                                        choice_options({"yes", "no", "now and then"}), any,
                                        schema_options(R"({"type":"array","items":{"type":"number"},"maxItems":4})")}) {
    std::set<std::string> said;
    for (const float temperature : {0.0f, 1.0f, 3.0f}) {
      GenerationRequest request = format_request(compiled(*engine, options));
      request.n = 6;
      request.sampling.temperature = temperature;
      request.sampling.top_p = temperature > 2 ? 0.9f : 1.0f;
      request.sampling.top_k = temperature > 2 ? 40 : 0;
      request.sampling.top_logprobs = 2;
      request.sampling.frequency_penalty = temperature > 2 ? 0.5f : 0.0f;
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      CHECK_EQ(consumer.outcomes()[id].message, std::string());
      for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
        const bool ended = choice.reason == FinishReason::kEndOfTurn;
        ++(ended ? n_ended : n_cut);
        if (!ended) CHECK(choice.reason == FinishReason::kMaxTokens);
        // A truncated response may end within a character. In that case, it ends with U+FFFD, even if the grammar does
        // not allow this character.
        std::string content = choice.content;
        if (!ended && content.ends_with("\uFFFD")) content.resize(content.size() - 3);
        if (!obeys(options, content, ended)) check::fail(__FILE__, __LINE__, content);
        CHECK(choice.reasoning.empty() && choice.calls.empty());
        said.insert(choice.content);
      }
    }
    CHECK(said.size() > 1);
  }
  check::note(std::to_string(n_ended) + " ended, " + std::to_string(n_cut) + " cut");
  CHECK(n_ended > 50);
  CHECK(pages_come_back(*engine));
}

TEST(formatted_output_ends_only_where_the_grammar_allows) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  const TokenId eos = engine->tokenizer().eos();
  // The response is the whole text with no token after it, regardless of whether the model prefers to stop.
  for (const float bias : {100.0f, -100.0f}) {
    for (const bool ignore : {false, true}) {
      GenerationRequest request = format_request(compiled(*engine, choice_options({"maybe", "perhaps"})));
      request.sampling.logit_bias = {{eos, bias}};
      request.ignore_eos = ignore;
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      const ChoiceOutcome& choice = consumer.outcomes()[id].choices[0];
      CHECK(choice.content == "maybe" || choice.content == "perhaps");
      CHECK(choice.reason == FinishReason::kEndOfTurn);
      CHECK_EQ(choice.piece_tokens, static_cast<int>(choice.completion_tokens));  // No end token was sampled.
    }
  }
  // At a point where the text may end but may also continue, the end token is sampled like any other token. Bans that
  // would leave no token are not applied.
  for (const float bias : {100.0f, -100.0f}) {
    GenerationRequest request = format_request(compiled(*engine, regex_options("(ab)+")), 40);
    request.sampling.logit_bias = {{eos, bias}};
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    const ChoiceOutcome& choice = consumer.outcomes()[id].choices[0];
    if (bias > 0)
      CHECK_EQ(choice.content, std::string("ab"));
    else
      CHECK(choice.content.size() >= 40 && choice.reason == FinishReason::kMaxTokens);
  }
  // An ordinary token that is used as a stop token ends the response where the text may end. Elsewhere it is never
  // sampled.
  TokenId a = kNoToken;
  for (TokenId token = 0; token < engine->tokenizer().n_vocab(); ++token)
    if (engine->tokenizer().bytes(token) == "a" && engine->tokenizer().kind(token) == TokenKind::kNormal) a = token;
  if (a != kNoToken) {
    GenerationRequest request = format_request(compiled(*engine, regex_options("b+")), 40);
    request.stop_tokens = {a};
    request.sampling.logit_bias = {{a, 100.0f}, {eos, -100.0f}};
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    CHECK(consumer.outcomes()[id].choices[0].reason == FinishReason::kEndOfTurn);
    CHECK(consumer.outcomes()[id].choices[0].content.starts_with('b'));
  }
}

// Returns ordinary tokens that consist of letters, for use as markers.
std::vector<TokenId> letter_tokens(const Tokenizer& tokenizer, size_t count) {
  std::vector<TokenId> tokens;
  for (TokenId id = 0; id < tokenizer.n_vocab() && tokens.size() < count; ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (tokenizer.kind(id) == TokenKind::kNormal && bytes.size() > 1 &&
        std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
      tokens.push_back(id);
  }
  return tokens;
}

// Returns a control token that does not end the generation.
TokenId control_token(const Tokenizer& tokenizer) {
  TokenId found = kNoToken;
  for (TokenId token = 0; token < tokenizer.n_vocab(); ++token)
    if (tokenizer.kind(token) == TokenKind::kControl && !tokenizer.is_end_of_generation(token) &&
        !tokenizer.bytes(token).empty())
      found = token;
  return found;
}

TEST(engine_applies_the_format_after_the_reasoning) {
  EngineSetup setup;
  setup.limits.max_context = 1024;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  const Tokenizer& tokenizer = engine->tokenizer();
  const std::vector<TokenId> words = letter_tokens(tokenizer, 4);
  const TokenId eos = tokenizer.eos();
  const GrammarOptions options = schema_options(kPerson);
  const GrammarRef format = compiled(*engine, options);
  enum Way { kBudget, kOwnMarker, kEndInside, kSkipped, kOpened, kNoCloseSequence, kSpelled };
  for (const Way way : {kBudget, kOwnMarker, kEndInside, kSkipped, kOpened, kNoCloseSequence, kSpelled}) {
    GenerationRequest request = format_request(format);
    request.n = 4;
    request.sampling.temperature = 1.5f;
    request.reasoning.open = {std::string(tokenizer.bytes(words[0])), words[0]};
    request.reasoning.close = {std::string(tokenizer.bytes(words[1])), words[1]};
    request.reasoning.close_sequence = {words[2], words[1]};
    request.reasoning.starts_inside = way != kSkipped && way != kOpened && way != kSpelled;
    request.reasoning.budget = 30;
    request.sampling.logit_bias = {{eos, -100.0f}};
    switch (way) {
      case kBudget: request.reasoning.budget = 7; break;
      case kOwnMarker: request.sampling.logit_bias.emplace_back(words[1], 10.0f); break;
      case kEndInside: request.sampling.logit_bias = {{eos, 100.0f}}; break;
      case kSkipped: request.sampling.logit_bias.emplace_back(words[0], -100.0f); break;
      case kOpened: request.sampling.logit_bias.emplace_back(words[0], 100.0f); break;
      case kNoCloseSequence: request.reasoning.close_sequence.clear(); break;
      case kSpelled:
        request.reasoning.open = {"<think>", kNoToken};
        request.reasoning.close = {"</think>", kNoToken};
        break;
    }
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    CHECK_EQ(consumer.outcomes()[id].message, std::string());
    for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
      const bool ended = choice.reason == FinishReason::kEndOfTurn;
      if (!obeys(options, choice.content, ended))
        check::fail(__FILE__, __LINE__, std::to_string(way) + ": " + choice.content);
      CHECK(ended);
      if (way == kSkipped) CHECK(choice.reasoning.empty());
      if (way == kBudget || way == kOpened) CHECK(!choice.reasoning.empty());
    }
  }
}

// Tool calls whose markers are tokens: "open", one of two names, arguments, and a closing text.
struct CallGrammars {
  const Tokenizer& tokenizer;
  std::vector<TokenId> words;
  std::vector<GrammarOptions> options;
  GenerationRequest request;

  explicit CallGrammars(Engine& engine) : tokenizer(engine.tokenizer()), words(letter_tokens(tokenizer, 8)) {
    request = format_request(nullptr, 300);
    request.n = 4;
    request.sampling.temperature = 1.5f;
    request.calls.open = {word(0), words[0]};
    // The closing text is recognized by its spelling, which may also occur in the arguments.
    request.calls.close = {"}}>" + word(1), kNoToken};
    request.calls.prefixes = {{words[3], words[4]}, {words[2], words[4]}};
    options = {
        schema_options(
            R"({"type":"object","properties":{"city":{"type":"string","maxLength":8}},"required":["city"],"additionalProperties":false})",
            "}}>" + word(1)),
        schema_options(R"({"type":"object","properties":{"n":{"type":"integer"},"why":{"const":"}}>)" + word(1) +
                           R"("}},"required":["n","why"],"additionalProperties":false})",
                       "}}>" + word(1))};
    for (const GrammarOptions& one : options) request.calls.grammars.push_back(compiled(engine, one));
  }
  std::string word(size_t i) const { return std::string(tokenizer.bytes(words[i])); }
  void require() {
    for (const auto& prefix : request.calls.prefixes) {
      request.calls.required.push_back({words[0]});
      request.calls.required.back().insert(request.calls.required.back().end(), prefix.begin(), prefix.end());
    }
  }
  std::string text(const std::vector<TokenId>& tokens) const {
    std::string text;
    for (const TokenId token : tokens) text += tokenizer.bytes(token);
    return text;
  }
  // The content also has a header.
  std::vector<TokenId> answer() const { return {words[0], words[5], words[6]}; }
  void head() {
    request.format_head = answer();
    request.calls.answer = {words[5], words[6]};
    request.calls.answer_start = answer();
    for (const auto& prefix : request.calls.prefixes) {
      request.calls.starts.push_back({words[0]});
      request.calls.starts.back().insert(request.calls.starts.back().end(), prefix.begin(), prefix.end());
    }
  }
  // Returns the number of complete calls, or -1 if the response contains text that is neither a call nor one of
  // `others`.
  int count(std::string_view calls, bool cut, const std::vector<std::string>& others = {}) const {
    int n = 0;
    while (!calls.empty()) {
      bool read = false;
      for (size_t i = 0; i < 2 && !read; ++i) {
        const std::string begin = word(0) + word(i == 0 ? 3 : 2) + word(4);
        if (!calls.starts_with(begin)) continue;
        for (size_t end = begin.size(); end <= calls.size() && !read; ++end) {
          if (!obeys(options[i], calls.substr(begin.size(), end - begin.size()))) continue;
          calls.remove_prefix(end);
          ++n;
          read = true;
        }
        if (!read && cut && obeys(options[i], calls.substr(begin.size()), false)) return n;
      }
      for (size_t i = 0; i < others.size() && !read; ++i) {
        read = calls.starts_with(others[i]);
        if (read) calls.remove_prefix(others[i].size());
      }
      if (!read) return cut && calls.size() < 40 ? n : -1;
    }
    return n;
  }
};

TEST(engine_writes_calls_by_their_grammars) {
  EngineSetup setup;
  setup.limits.max_context = 1024;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  enum Way { kRequired, kSampled, kBesideFormat };
  for (const Way way : {kRequired, kSampled, kBesideFormat}) {
    int n_calls = 0, n_formats = 0, n_ended = 0;
    for (int round = 0; round < 8; ++round) {
      CallGrammars setup(*engine);
      GenerationRequest& request = setup.request;
      request.sampling.seed = static_cast<uint64_t>(100 * round);
      const GrammarOptions format = schema_options(kPerson);
      switch (way) {
        case kRequired: setup.require(); break;
        case kSampled:
          request.max_tokens = 120;
          request.sampling.logit_bias = {{setup.words[0], 8.0f}};
          break;
        case kBesideFormat:
          request.format = compiled(*engine, format);
          request.sampling.logit_bias = {{setup.words[0], round % 2 ? 5.0f : -5.0f}};
          break;
      }
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      CHECK_EQ(consumer.outcomes()[id].message, std::string());
      for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
        const bool cut = choice.reason == FinishReason::kMaxTokens;
        n_ended += !cut;
        const int n = setup.count(choice.calls, cut);
        if (n < 0) check::fail(__FILE__, __LINE__, choice.calls);
        n_calls += std::max(n, 0);
        if (way == kRequired) CHECK(!choice.calls.empty());
        if (way != kSampled) {
          std::string content = choice.content;
          if (!choice.calls.empty())
            CHECK(content.find_first_not_of(" \n\t\r") == std::string::npos);
          else if (!obeys(format, content, !cut))
            check::fail(__FILE__, __LINE__, content);
          else
            ++n_formats;
        }
      }
    }
    check::note(std::to_string(n_calls) + " calls, " + std::to_string(n_formats) + " formats, " +
                std::to_string(n_ended) + " ended");
    CHECK(n_calls > 10);
    if (way == kBesideFormat) CHECK(n_formats > 3);
  }
}

// If the closing marker is a control token, only that token closes a call, and only where the arguments are complete.
TEST(engine_closes_calls_with_their_close_token) {
  auto engine = start_engine({});
  if (!engine) return;
  const Tokenizer& tokenizer = engine->tokenizer();
  const TokenId close = control_token(tokenizer);
  REQUIRE(close != kNoToken);
  const std::string spelling(tokenizer.bytes(close));
  Consumer consumer(*engine);
  CallGrammars setup(*engine);
  setup.options = {schema_options(
      R"({"type":"object","properties":{"x":{"type":"string","maxLength":9}},"required":["x"],"additionalProperties":false})",
      "}\n" + spelling)};
  GenerationRequest& request = setup.request;
  request.calls.close = {spelling, close};
  request.calls.prefixes.resize(1);
  request.calls.grammars = {compiled(*engine, setup.options[0])};
  setup.require();
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
    if (setup.count(choice.calls, choice.reason == FinishReason::kMaxTokens) < 1)
      check::fail(__FILE__, __LINE__, choice.calls);
    CHECK(choice.content.find_first_not_of(" \n\t\r") == std::string::npos);
  }
}

// Content has a header, as calls do. The model chooses between content and a call at the token where the headers
// differ, and the remainder of the header is forced.
TEST(engine_writes_the_header_of_content_or_of_a_call) {
  EngineSetup roomy;
  roomy.limits.max_context = 1024;
  auto engine = start_engine(roomy);
  if (!engine) return;
  Consumer consumer(*engine);
  const GrammarOptions format = schema_options(kPerson);
  enum Way { kAtOnce, kSkipped, kReasoned, kSpelledReasoning, kForced };
  for (const Way way : {kAtOnce, kSkipped, kReasoned, kSpelledReasoning, kForced}) {
    int n_calls = 0, n_formats = 0;
    for (int round = 0; round < 6; ++round) {
      CallGrammars setup(*engine);
      GenerationRequest& request = setup.request;
      request.sampling.seed = static_cast<uint64_t>(100 * round);
      request.format = compiled(*engine, format);
      setup.head();
      const bool spelled = way == kSpelledReasoning;
      if (way != kAtOnce && way != kForced) {
        request.reasoning.open = {spelled ? "<think>" : setup.word(7), spelled ? kNoToken : setup.words[7]};
        request.reasoning.close = {spelled ? "</think>" : setup.word(1), spelled ? kNoToken : setup.words[1]};
        request.reasoning.close_sequence = {setup.words[1]};
        request.reasoning.budget = 5;
        request.reasoning.starts_inside = way == kReasoned;
      }
      if (way == kSkipped) request.sampling.logit_bias = {{setup.words[7], -100.0f}};
      request.sampling.logit_bias.emplace_back(setup.words[5], round % 2 ? 8.0f : -8.0f);
      if (way == kForced) {  // No call is possible, so there is nothing to choose.
        request.calls = {};
        request.calls.open = {setup.word(0), setup.words[0]};
        request.calls.answer = {setup.words[5], setup.words[6]};
        request.calls.answer_start = request.format_head;
        request.calls.starts = {request.format_head};
      }
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      CHECK_EQ(consumer.outcomes()[id].message, std::string());
      for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
        const bool cut = choice.reason == FinishReason::kMaxTokens;
        if (way == kReasoned) CHECK(!choice.reasoning.empty());
        if (choice.calls == setup.text(setup.answer())) {
          ++n_formats;
          if (!obeys(format, choice.content, !cut)) check::fail(__FILE__, __LINE__, choice.content);
        } else {
          ++n_calls;
          if (setup.count(choice.calls, cut) < 1) check::fail(__FILE__, __LINE__, choice.calls);
          CHECK(choice.content.find_first_not_of(" \n\t\r") == std::string::npos);
        }
      }
    }
    check::note(std::to_string(way) + ": " + std::to_string(n_calls) + " calls, " + std::to_string(n_formats) +
                " formats");
    CHECK(n_formats > 4);
    CHECK(way == kForced ? n_calls == 0 : n_calls > 4);
  }
}

// The open marker is followed by a call or by the header of the content. The text of the content may contain another
// marker.
TEST(engine_continues_with_the_content_after_its_header) {
  EngineSetup roomy;
  roomy.limits.max_context = 1024;
  auto engine = start_engine(roomy);
  if (!engine) return;
  Consumer consumer(*engine);
  for (const bool spelled : {false, true}) {
    int n_answers = 0, n_calls = 0;
    for (int round = 0; round < 8; ++round) {
      CallGrammars setup(*engine);
      GenerationRequest& request = setup.request;
      request.sampling.seed = static_cast<uint64_t>(100 * round);
      request.max_tokens = 60;
      setup.head();
      request.format_head.clear();
      std::vector<std::pair<TokenId, float>> bans;
      if (spelled) {
        request.calls.open.token = kNoToken;
        // Tokens that contain the marker and continue after it are banned, because such a token would not start a call.
        const std::string marker = setup.word(0);
        for (TokenId token = 0; token < setup.tokenizer.n_vocab(); ++token) {
          const std::string_view bytes = setup.tokenizer.bytes(token);
          if (bytes != marker && (bytes.find(marker) != std::string_view::npos || bytes.ends_with(marker[0])))
            bans.emplace_back(token, -100.0f);
        }
      }
      request.sampling.logit_bias = std::move(bans);
      request.sampling.logit_bias.insert(request.sampling.logit_bias.end(),
                                         {{setup.words[0], 9.0f}, {setup.words[5], round % 2 ? 6.0f : 0.0f}});
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      CHECK_EQ(consumer.outcomes()[id].message, std::string());
      for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
        // Where text is allowed, a marker that is not followed by a header is ordinary text.
        std::vector<std::string> others = {setup.text(setup.answer())};
        if (spelled) others.push_back(setup.word(0));
        const int n = setup.count(choice.calls, choice.reason == FinishReason::kMaxTokens, others);
        if (n < 0) check::fail(__FILE__, __LINE__, choice.calls);
        n_calls += n;
        n_answers += choice.calls.find(others[0]) != std::string::npos && !choice.content.empty();
      }
    }
    check::note(std::to_string(n_calls) + " calls, " + std::to_string(n_answers) + " answers");
    CHECK(n_calls > 4 && n_answers > 4);
  }
  // A marker whose spelling directly follows the header is also text, unless another header follows it.
  CallGrammars setup(*engine);
  GenerationRequest& request = setup.request;
  setup.head();
  request.format_head.clear();
  request.calls.open.token = kNoToken;
  request.max_tokens = 9;
  request.sampling.logit_bias = {
      {setup.words[0], 100.0f}, {setup.words[5], 60.0f}, {setup.words[2], -100.0f}, {setup.words[3], -100.0f}};
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  std::string markers = setup.text(setup.answer());
  for (int i = 0; i < 6; ++i) markers += setup.word(0);
  for (const auto& [index, choice] : consumer.outcomes()[id].choices) CHECK_EQ(choice.calls, markers);
}

// A section with several calls. A grammar ends each call, which is followed either by another call or by the text that
// ends the section.
TEST(engine_writes_several_calls_into_one_section) {
  EngineSetup roomy;
  roomy.limits.max_context = 1024;
  auto engine = start_engine(roomy);
  if (!engine) return;
  Consumer consumer(*engine);
  const TokenId close = control_token(engine->tokenizer());
  REQUIRE(close != kNoToken);
  int n_calls = 0, n_sections = 0, n_ended = 0;
  enum Way { kRequired, kSampled, kToTheEnd };
  for (const Way way : {kRequired, kSampled, kToTheEnd}) {
    for (int round = 0; round < 6; ++round) {
      CallGrammars setup(*engine);
      GenerationRequest& request = setup.request;
      request.sampling.seed = static_cast<uint64_t>(100 * round);
      if (way != kSampled)
        setup.require();
      else
        request.sampling.logit_bias = {{setup.words[0], 8.0f}};
      request.calls.grammars.clear();
      for (GrammarOptions& one : setup.options) {
        one.suffix = "}";
        request.calls.grammars.push_back(compiled(*engine, one));
      }
      if (way == kToTheEnd)
        request.calls.close = {};  // The turn ends with the section.
      else
        request.calls.close = {std::string(setup.tokenizer.bytes(close)), close};
      request.calls.next = {{setup.words[5], setup.words[3], setup.words[4]},
                            {setup.words[5], setup.words[2], setup.words[4]}};
      request.calls.end = {setup.words[6], close};
      const std::string end = setup.text(request.calls.end);
      const RequestId id = consumer.submit(request);
      consumer.pump_until_ended(id);
      CHECK_EQ(consumer.outcomes()[id].message, std::string());
      for (const auto& [index, choice] : consumer.outcomes()[id].choices) {
        const bool cut = choice.reason == FinishReason::kMaxTokens;
        n_ended += !cut;
        if (way == kToTheEnd) CHECK(cut || choice.calls.ends_with(end));
        if (way != kSampled) CHECK(choice.content.find_first_not_of(" \n\t\r") == std::string::npos);
        // Splits the sections of a response into separate calls, each of which starts with its open marker.
        std::string_view left = choice.calls;
        const int n_before = n_sections;
        while (!left.empty()) {
          const size_t found = left.find(end);
          std::string section(left.substr(0, found));
          left.remove_prefix(found == std::string::npos ? left.size() : found + end.size());
          n_sections += found != std::string::npos;
          for (size_t at = 0; (at = section.find("}}" + setup.word(5), at)) != std::string::npos; at += 2)
            section.replace(at + 2, setup.word(5).size(), setup.word(0));
          const int n = setup.count(section, cut && left.empty());
          if (n < (cut ? 0 : 1)) check::fail(__FILE__, __LINE__, choice.calls);
          n_calls += n;
        }
        if (way == kToTheEnd) CHECK(n_sections == n_before + !cut);
      }
    }
  }
  check::note(std::to_string(n_calls) + " calls in " + std::to_string(n_sections) + " sections, " +
              std::to_string(n_ended) + " ended");
  CHECK(n_calls > n_sections + 10 && n_sections > 24 && n_ended > 20);
}

// With a response format, all text from the first character is content, even if it spells a marker.
TEST(text_of_a_format_is_never_a_marker) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  for (const char* text : {"a <call> b </call> c", "\n\n<call>{}"}) {
    GenerationRequest request = format_request(compiled(*engine, choice_options({text})));
    request.calls.open = {"<call>", kNoToken};
    request.calls.close = {"</call>", kNoToken};
    request.reasoning.open = {"<think>", kNoToken};
    request.reasoning.close = {"</think>", kNoToken};
    request.sampling.banned = {};
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    const ChoiceOutcome& choice = consumer.outcomes()[id].choices[0];
    CHECK_EQ(choice.calls, std::string());
    CHECK_EQ(choice.content, std::string(text));
  }
}

TEST(token_limits_and_stop_strings_apply_to_formats) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  const GrammarOptions options = schema_options(kPerson);
  GenerationRequest request = format_request(compiled(*engine, options), 5);
  RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  CHECK(consumer.outcomes()[id].choices[0].reason == FinishReason::kMaxTokens);
  CHECK_EQ(consumer.outcomes()[id].choices[0].completion_tokens, 5u);
  CHECK(obeys(options, consumer.outcomes()[id].choices[0].content, false));
  request.max_tokens = 300;
  request.stop = {"\":"};
  id = consumer.submit(request);
  consumer.pump_until_ended(id);
  CHECK(consumer.outcomes()[id].choices[0].reason == FinishReason::kStopString);
  CHECK(consumer.outcomes()[id].choices[0].content.starts_with("{\""));
  CHECK(consumer.outcomes()[id].choices[0].content.find(':') == std::string::npos);
}

std::string alone(const EngineSetup& setup, const GenerationRequest& request, const GrammarOptions& options) {
  auto engine = start_engine(setup);
  if (!engine) return "";
  Consumer consumer(*engine);
  GenerationRequest own = request;
  own.format = compiled(*engine, options);
  const RequestId id = consumer.submit(own);
  consumer.pump_until_ended(id);
  return consumer.outcomes()[id].choices[0].content;
}

TEST(formatted_output_is_the_same_in_any_batch_and_after_preemption) {
  EngineSetup roomy;
  roomy.limits.max_context = 512;
  EngineSetup tight = roomy;
  tight.limits.n_pages = 12;
  tight.options.max_sequences = 6;
  const GrammarOptions options = schema_options(
      R"({"type":"array","items":{"type":"string","pattern":"^[a-z ]{3,12}$"},"minItems":20,"maxItems":20})");
  std::vector<GenerationRequest> requests;
  std::vector<std::string> expected;
  for (int i = 0; i < 6; ++i) {
    GenerationRequest request = format_request(nullptr, 150);
    request.prompt = test_prompt(20 + i, i);
    request.sampling.seed = static_cast<uint64_t>(i);
    requests.push_back(request);
    expected.push_back(alone(roomy, request, options));
    if (expected.back().empty()) return;  // The golden models are missing.
  }
  auto engine = start_engine(tight);
  Consumer consumer(*engine);
  std::vector<RequestId> ids;
  for (GenerationRequest& request : requests) {
    request.format = compiled(*engine, options);
    ids.push_back(consumer.submit(request));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    consumer.pump_until_ended(ids[i]);
    CHECK_EQ(consumer.outcomes()[ids[i]].choices[0].content, expected[i]);
  }
  CHECK(engine->stats().preemptions > 0);
}

// Runs the step loop without threads, so that the test can change the limits of grammars.
TEST(step_loop_restarts_a_grammar_that_has_grown_too_large) {
  EngineSetup setup;
  setup.limits.max_context = 1024;
  std::vector<std::string> said[2];
  for (const bool tight : {false, true}) {
    EngineParts parts = load_parts(setup);
    if (!parts.model) return;
    EngineCounters counters;
    StepLoop loop(*parts.model, *parts.tokenizer, setup.options, counters);
    auto channel = std::make_shared<Channel>([] {}, setup.options.channel_bytes_max);
    grammar::GrammarLimits limits;
    if (tight) limits.most_states = 150;
    GrammarCache cache(*parts.tokenizer, StepLoop::vocabulary(*parts.model, *parts.tokenizer), limits);
    const GrammarOptions options = schema_options(
        R"({"type":"array","items":{"type":"string","maxLength":30,"pattern":"^[a-m]+ [n-z]+$"},"minItems":8,"maxItems":8})");
    const GrammarRef format = cache.compile(options).grammar;
    REQUIRE(format != nullptr);
    std::map<RequestId, Outcome> outcomes;
    for (RequestId id = 1; id <= 3; ++id) {
      GenerationRequest request = format_request(format, 300);
      request.sampling.seed = id;
      outcomes[id].n = 1;
      loop.add(std::make_unique<Request>(id, channel, request, parts.model->params().n_vocab, 1024));
    }
    while (!loop.idle()) CHECK(loop.step());
    std::vector<std::byte> events;
    channel->drain(events);
    EventReader(events).read_into(outcomes);
    for (auto& [id, outcome] : outcomes) {
      CHECK_EQ(outcome.message, std::string());
      CHECK(obeys(options, outcome.choices[0].content, outcome.choices[0].reason == FinishReason::kEndOfTurn));
      said[tight].push_back(outcome.choices[0].content);
    }
    check::note(std::to_string(format->epoch()) + " beginnings");
    if (tight)
      CHECK(format->epoch() > 3);
    else
      CHECK_EQ(format->epoch(), 1u);
  }
  CHECK(said[0] == said[1]);
}

TEST(step_loop_fails_only_the_request_whose_grammar_exceeds_its_limits) {
  EngineSetup setup;
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  EngineCounters counters;
  StepLoop loop(*parts.model, *parts.tokenizer, setup.options, counters);
  auto channel = std::make_shared<Channel>([] {}, setup.options.channel_bytes_max);
  grammar::GrammarLimits limits;
  GrammarCache cache(*parts.tokenizer, StepLoop::vocabulary(*parts.model, *parts.tokenizer), limits);
  limits.use_steps = 700;
  GrammarCache tight(*parts.tokenizer, StepLoop::vocabulary(*parts.model, *parts.tokenizer), limits);
  // At the first position, the allowed tokens are cheap to compute. At later positions, computing them exceeds the
  // budget for one position.
  const GrammarOptions options = schema_options(
      R"({"type":"object","properties":{"a":{"type":"string","pattern":"^([a-m]{3,9}[n-z]{2,7}){4,5}$"}},"required":["a"],"additionalProperties":false})");
  std::map<RequestId, Outcome> outcomes;
  for (RequestId id = 1; id <= 2; ++id) {
    GenerationRequest request = format_request((id == 1 ? tight : cache).compile(options).grammar, 100);
    if (id == 1 && request.format == nullptr) return check::fail(__FILE__, __LINE__, "the grammar does not compile");
    outcomes[id].n = 1;
    loop.add(std::make_unique<Request>(id, channel, request, parts.model->params().n_vocab, 512));
  }
  while (!loop.idle()) CHECK(loop.step());
  std::vector<std::byte> events;
  channel->drain(events);
  EventReader(events).read_into(outcomes);
  CHECK(outcomes[1].failed && outcomes[1].code == FailureCode::kEngineError);
  CHECK(!outcomes[2].failed &&
        obeys(options, outcomes[2].choices[0].content, outcomes[2].choices[0].reason == FinishReason::kEndOfTurn));
  CHECK(loop.consistent());
}

// The grammar budget of a step determines when and on which thread a mask is computed, but never affects the output.
TEST(the_grammar_budget_of_a_step_does_not_change_the_output) {
  EngineSetup setup;
  setup.limits.max_context = 1024;
  std::vector<std::string> said[2];
  for (const bool tight : {false, true}) {
    EngineParts parts = load_parts(setup);
    if (!parts.model) return;
    EngineCounters counters;
    if (tight) setup.options.grammar_steps = 2;  // One step per sequence, so only cached results are used.
    StepLoop loop(*parts.model, *parts.tokenizer, setup.options, counters);
    auto channel = std::make_shared<Channel>([] {}, setup.options.channel_bytes_max);
    GrammarCache cache(*parts.tokenizer, StepLoop::vocabulary(*parts.model, *parts.tokenizer));
    const GrammarOptions all[] = {schema_options(kPerson), regex_options("[a-f]{2,5}-\\d{3}(é|ü)?"),
                                  schema_options(R"({"type":"array","items":{"type":"string"},"maxItems":3})")};
    std::map<RequestId, Outcome> outcomes;
    for (RequestId id = 1; id <= 3; ++id) {
      GenerationRequest request = format_request(cache.compile(all[id - 1]).grammar, 60);
      request.sampling.seed = id;
      request.organization = id;
      outcomes[id].n = 1;
      loop.add(std::make_unique<Request>(id, channel, request, parts.model->params().n_vocab, 1024));
    }
    int n_waits = 0;
    while (!loop.idle()) n_waits += !loop.step();
    std::vector<std::byte> events;
    channel->drain(events);
    EventReader(events).read_into(outcomes);
    for (auto& [id, outcome] : outcomes) {
      CHECK_EQ(outcome.message, std::string());
      CHECK(obeys(all[id - 1], outcome.choices[0].content, outcome.choices[0].reason == FinishReason::kEndOfTurn));
      said[tight].push_back(outcome.choices[0].content);
    }
    if (tight) CHECK(n_waits > 0);
    CHECK(loop.consistent());
  }
  CHECK(said[0] == said[1]);
}

// Worker threads compute all masks. The engine checks time limits only once an hour, so if a worker did not wake it up,
// the engine would wait an hour for a mask.
TEST(a_finished_mask_wakes_the_engine) {
  EngineSetup setup;
  setup.options.grammar_steps = 2;
  setup.options.stalled_wait_ms = 3'600'000;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  const RequestId id = consumer.submit(format_request(compiled(*engine, schema_options(kPerson)), 60));
  consumer.pump_until_ended(id);
  CHECK(consumer.outcomes()[id].ended() && !consumer.outcomes()[id].failed);
  CHECK(engine->stats().preemptions > 0);  // The sequence has waited for masks.
}

// Makes the compiled grammar grow by computing the allowed tokens along a random text.
void grow(grammar::Grammar& grammar, uint32_t seed, int n_tokens) {
  std::minstd_rand random(seed);
  grammar::TokenMask mask(grammar.vocabulary().trie().n_tokens());
  std::vector<TokenId> before;
  grammar::Grammar::Position position = grammar.start();
  for (int i = 0; i < n_tokens; ++i) {
    if (grammar.allowed(position, before, mask) != grammar::Grammar::Outcome::kOk || !mask.any()) return;
    auto token = static_cast<uint32_t>(random() % grammar.vocabulary().trie().n_tokens());
    while (!mask.has(token)) token = (token + 1) % static_cast<uint32_t>(grammar.vocabulary().trie().n_tokens());
    CHECK(grammar.advance(position, before, static_cast<TokenId>(token)) == grammar::Grammar::Outcome::kOk);
    before.push_back(static_cast<TokenId>(token));
  }
}

TEST(grammar_cache_bounds_the_memory_of_grammars_in_use) {
  EngineParts parts = load_parts({});
  if (!parts.model) return;
  constexpr size_t kMax = 24 << 20;
  GrammarCache cache(*parts.tokenizer, StepLoop::vocabulary(*parts.model, *parts.tokenizer), {}, 1 << 20, 4, kMax);
  std::vector<GrammarRef> held;  // References held by requests. The cache itself keeps four.
  size_t fresh = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i);
    held.push_back(cache
                       .compile(schema_options(
                           R"({"type":"array","items":{"type":"object","properties":{"p)" + n +
                           R"(":{"type":"string","maxLength":200},"q":{"type":"string","pattern":"^([a-z]{1,)" +
                           std::to_string(i + 9) + R"(} ?)+$"}},"required":["q"]}})"))
                       .grammar);
    REQUIRE(held.back() != nullptr);
    fresh += held.back()->bytes();
  }
  CHECK_EQ(cache.live_bytes(), fresh);
  size_t most = 0;
  grammar::Grammar::Position late = held[0]->start();
  for (uint32_t i = 0; i < 120; ++i) {
    grow(*held[i % 40], i, 300);
    most = std::max(most, cache.live_bytes());
    if (cache.is_over()) cache.trim();
    CHECK(cache.live_bytes() <= kMax);
  }
  check::note(std::to_string(fresh >> 10) + " KiB compiled, at most " + std::to_string(most >> 10));
  CHECK(most > kMax);  // The limit was exceeded, so something had to be trimmed.
  size_t sum = 0;
  for (const GrammarRef& grammar : held) sum += grammar->bytes();
  CHECK_EQ(cache.live_bytes(), sum);
  grammar::TokenMask mask(held[0]->vocabulary().trie().n_tokens());
  CHECK(held[0]->allowed(late, {}, mask) == grammar::Grammar::Outcome::kOk && mask.any());
  held.clear();
  CHECK(cache.live_bytes() < 2 << 20);  // The size of the four grammars in the cache.
}

TEST(engine_trims_grammars_that_exceed_their_memory_limit) {
  EngineSetup setup;
  setup.limits.max_context = 1024;
  std::vector<std::string> said[2];
  for (const bool tight : {false, true}) {
    if (tight) setup.options.grammar_bytes_max = 1;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    const GrammarRef format = compiled(*engine, schema_options(kPerson));
    const size_t fresh = format->bytes();
    for (int i = 0; i < 3; ++i) {
      const RequestId id = consumer.submit(format_request(format, 100));
      consumer.pump_until_ended(id);
      said[tight].push_back(consumer.outcomes()[id].choices[0].content);
    }
    // A grammar that grows while it is being trimmed is trimmed again by the next request.
    for (int more = 0; tight && format->bytes() > fresh && more < 20; ++more) {
      const auto until = Clock::now() + std::chrono::milliseconds(500);
      while (format->bytes() > fresh && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (format->bytes() > fresh) consumer.pump_until_ended(consumer.submit(format_request(format, 100)));
    }
    if (tight)
      CHECK(format->bytes() <= fresh);
    else
      CHECK(format->bytes() > fresh);
  }
  CHECK(said[0] == said[1]);
}

TEST(engine_refuses_grammars_of_another_engine) {
  auto engine = start_engine({});
  if (!engine) return;
  auto other = start_engine({});
  Consumer consumer(*engine);
  GenerationRequest request = format_request(compiled(*other, choice_options({"a"})));
  auto refused = engine->submit(consumer.channel(), request);
  CHECK(!refused && refused.error().code == ErrorCode::kInvalidArgument);
  request.calls.grammars = {std::exchange(request.format, nullptr)};
  request.calls.open = {"abc", 300};
  request.calls.prefixes = {{301}};
  refused = engine->submit(consumer.channel(), request);
  CHECK(!refused && refused.error().code == ErrorCode::kInvalidArgument);
  request.calls.grammars = {nullptr, nullptr};
  refused = engine->submit(consumer.channel(), request);
  CHECK(!refused && refused.error().code == ErrorCode::kInvalidArgument);
}

TEST(grammar_cache_keeps_recently_used_grammars) {
  EngineParts parts = load_parts({});
  if (!parts.model) return;
  GrammarCache cache(*parts.tokenizer, parts.tokenizer->n_vocab(), {}, 64 << 20, 3);
  const GrammarRef first = cache.compile(choice_options({"1"})).grammar;
  CHECK(first == cache.compile(choice_options({"1"})).grammar);
  CHECK(cache.owns(*first));
  CHECK(first != cache.compile(choice_options({"2"})).grammar);
  CHECK(cache.compile(schema_options(R"({"type":"strang)")).grammar == nullptr);
  CHECK(!cache.compile(schema_options(R"({"type":"strang)")).problems.empty());  // A failed compilation is cached too.
  CHECK_EQ(cache.entries(), size_t{3});
  cache.compile(choice_options({"1"}));
  cache.compile(choice_options({"3"}));
  CHECK_EQ(cache.entries(), size_t{3});
  CHECK(first == cache.compile(choice_options({"1"})).grammar);
  GrammarCache small(*parts.tokenizer, parts.tokenizer->n_vocab(), {}, 1);
  const GrammarRef kept = small.compile(choice_options({"1"})).grammar;
  small.compile(choice_options({"2"}));
  CHECK_EQ(small.entries(), size_t{1});
  CHECK(kept != small.compile(choice_options({"1"})).grammar);
}

}  // namespace
}  // namespace monolith::testing
