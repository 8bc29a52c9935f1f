// Tests tool calls in the running engine: forced and allowed tokens, and finishing a choice on request.
#include <algorithm>
#include <set>

#include "engine/loop/step_loop.h"
#include "engine_fixture.h"

namespace monolith::testing {
namespace {

GenerationRequest call_request(int prompt_tokens, int max_tokens, int family = 0) {
  GenerationRequest request;
  request.prompt = test_prompt(prompt_tokens, family);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.seed = 5;
  return request;
}

// Runs the step loop without threads, so that the test controls what happens between steps.
struct StepBench {
  EngineParts parts;
  EngineCounters counters;
  std::unique_ptr<StepLoop> loop;  // Null if the golden models are missing.
  std::shared_ptr<Channel> channel;
  std::map<RequestId, Outcome> outcomes;

  explicit StepBench(const EngineSetup& setup) : parts(load_parts(setup)) {
    if (!parts.model) return;
    loop = std::make_unique<StepLoop>(*parts.model, *parts.tokenizer, setup.options, counters);
    channel = std::make_shared<Channel>([] {}, setup.options.channel_bytes_max);
  }
  void add(RequestId id, const GenerationRequest& request) {
    outcomes[id].n = request.n;
    loop->add(std::make_unique<Request>(id, channel, request, parts.model->params().n_vocab, 512));
  }
  void run() {
    while (!loop->idle()) CHECK(loop->step());
    loop->publish();
    std::vector<std::byte> events;
    channel->drain(events);
    EventReader(events).read_into(outcomes);
  }
};

TEST(engine_finishes_single_choices_on_demand) {
  EngineSetup setup;
  setup.limits.max_context = 4096;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest request = call_request(10, 3000);
  request.n = 3;
  request.stop = {"never generated"};
  const RequestId id = consumer.submit(request);
  Outcome& outcome = consumer.outcomes()[id];
  consumer.pump_until([&] { return outcome.choices[1].pieces > 3; });
  engine->finish(id, 1);
  engine->finish(id, 1);
  engine->finish(id, 3);  // This choice does not exist.
  engine->finish(id, -1);
  engine->finish(4711, 0);
  consumer.pump_until([&] { return outcome.choices[1].finished; });
  CHECK(outcome.choices[1].reason == FinishReason::kEndOfTurn);
  CHECK(!outcome.choices[0].finished && !outcome.choices[2].finished);
  const uint32_t tokens = outcome.choices[1].completion_tokens;
  CHECK(tokens > 3 && tokens < 3000);
  CHECK(outcome.choices[1].piece_tokens <= static_cast<int>(tokens));
  const int pieces = outcome.choices[0].pieces;
  consumer.pump_until([&] { return outcome.choices[0].pieces > pieces + 3; });  // The other choices continue.
  engine->finish(id, 0);
  engine->finish(id, 2);
  consumer.pump_until_ended(id);
  engine->finish(id, 0);
  CHECK(pages_come_back(*engine));
  CHECK_EQ(engine->stats().finished, uint64_t{1});

  // The text before the choice is finished must be the same as in a run in which it is not finished.
  request.n = 1;
  request.sampling.stream = 1;
  request.max_tokens = static_cast<int>(tokens);
  const RequestId again = consumer.submit(request);
  consumer.pump_until_ended(again);
  CHECK_EQ(consumer.outcomes()[again].choices[0].content, outcome.choices[1].content);
}

TEST(engine_finishes_choices_that_have_not_started) {
  EngineSetup setup;
  setup.options.max_sequences = 1;
  setup.options.max_batch_tokens = 4;  // Prefill takes many steps.
  StepBench bench(setup);
  if (!bench.loop) return;
  GenerationRequest request = call_request(300, 5);
  request.n = 3;
  bench.add(1, request);
  bench.add(2, call_request(10, 5));
  CHECK(bench.loop->step());
  bench.loop->finish_choice(1, 0);  // The choice whose sequence computes the prompt for all choices.
  bench.loop->finish_choice(1, 2);
  bench.loop->finish_choice(2, 0);  // This request is still in the queue.
  bench.run();
  for (const auto& [id, choice] : {std::pair{1u, 0}, {1u, 2}, {2u, 0}}) {
    const ChoiceOutcome& ended = bench.outcomes[id].choices[choice];
    CHECK(ended.finished && ended.reason == FinishReason::kEndOfTurn);
    CHECK_EQ(ended.completion_tokens, 0u);
    CHECK_EQ(ended.pieces, 0);
    CHECK_EQ(bench.outcomes[id].started, 1);
  }
  CHECK(bench.outcomes[1].choices[1].reason == FinishReason::kMaxTokens);
  CHECK_EQ(bench.outcomes[1].choices[1].completion_tokens, 5u);
  CHECK(bench.loop->consistent());
}

// Returns `count` ordinary tokens that consist of letters, for use as markers and names.
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

TokenId line_break_token(const Tokenizer& tokenizer) {
  for (TokenId id = 0; id < tokenizer.n_vocab(); ++id)
    if (tokenizer.bytes(id) == "\n") return id;
  return kNoToken;
}

// A request with tool calls whose markers are tokens: "open", then one of three names, then "close".
struct CallSetup {
  const Tokenizer& tokenizer;
  std::vector<TokenId> words;
  TokenId open, close, think, no_think;
  GenerationRequest request;

  explicit CallSetup(const Tokenizer& vocabulary) : tokenizer(vocabulary), words(letter_tokens(vocabulary, 12)) {
    open = words[0];
    close = words[1];
    think = words[2];
    no_think = words[3];
    request = call_request(20, 30);
    request.sampling.temperature = 2;
    request.sampling.top_logprobs = 1;
    request.calls.open = {text({open}), open};
    request.calls.close = {text({close}), close};
    request.calls.prefixes = {{words[5], words[6], words[8]}, {words[5], words[6], words[7]}, {words[4]}};
  }
  std::string text(const std::vector<TokenId>& tokens) const {
    std::string text;
    for (const TokenId token : tokens) text += tokenizer.bytes(token);
    return text;
  }
  void require() {
    for (std::vector<TokenId> tokens : request.calls.prefixes) {
      tokens.insert(tokens.begin(), open);
      request.calls.required.push_back(tokens);
    }
  }
  void reason() {
    request.reasoning.open = {text({think}), think};
    request.reasoning.close = {text({no_think}), no_think};
  }
  // Returns the index of the name that follows an open marker at `at`, or -1 if there is none.
  int name_at(const std::string& calls, size_t at) const {
    for (size_t i = 0; i < request.calls.prefixes.size(); ++i)
      if (calls.substr(at).starts_with(text({open}) + text(request.calls.prefixes[i]))) return static_cast<int>(i);
    return -1;
  }
};

TEST(engine_allows_only_the_given_names_after_an_open_marker) {
  auto engine = start_engine({});
  if (!engine) return;
  CallSetup setup(engine->tokenizer());
  setup.request.n = 8;
  setup.request.max_tokens = 60;
  setup.request.sampling.logit_bias = {{setup.open, 12.0f}, {setup.close, 12.0f}};
  const std::string open = setup.text({setup.open}), close = setup.text({setup.close});
  Consumer consumer(*engine);
  std::set<int> names;
  int n_calls = 0, n_later = 0;
  for (int round = 0; round < 30; ++round) {
    const RequestId id = consumer.submit(setup.request);
    consumer.pump_until_ended(id);
    for (auto& [index, choice] : consumer.outcomes()[id].choices) {
      CHECK_EQ(choice.completion_tokens, 60u);
      CHECK(choice.piece_tokens <= 60);
      // Each token of a call arrives as a separate delta. The test parses the call again, starting at each open marker.
      const std::vector<std::string>& pieces = choice.call_pieces;
      for (size_t at = 0; at < pieces.size(); ++at) {
        if (pieces[at].empty()) continue;
        CHECK_EQ(pieces[at], open);
        std::string call;
        size_t end = at;
        while (end < pieces.size() && !(end > at && (pieces[end] == close || pieces[end] == "\uFFFD" + close)))
          call += pieces[end++];
        if (end - at > 3) {  // The token limit did not cut the call short.
          const int name = setup.name_at(call, 0);
          CHECK(name >= 0);
          names.insert(name);
          ++n_calls;
          n_later += at > 0 && !pieces[at - 1].empty();
        }
        at = end;
      }
    }
    setup.request.sampling.seed += 8;
  }
  check::note(std::to_string(n_calls) + " calls, " + std::to_string(n_later) + " of them directly after another call");
  CHECK(n_calls > 250 && n_later > 10);
  CHECK_EQ(names.size(), size_t{3});
}

TEST(engine_writes_the_required_call) {
  auto engine = start_engine({});
  if (!engine) return;
  CallSetup setup(engine->tokenizer());
  setup.require();
  setup.request.n = 8;
  Consumer consumer(*engine);
  std::set<int> names;
  for (const float temperature : {2.0f, 0.0f}) {
    setup.request.sampling.temperature = temperature;
    for (int round = 0; round < 20; ++round) {
      const RequestId id = consumer.submit(setup.request);
      consumer.pump_until_ended(id);
      for (auto& [index, choice] : consumer.outcomes()[id].choices) {
        const int name = setup.name_at(choice.calls, 0);
        CHECK(name >= 0);
        if (temperature > 0) names.insert(name);
        CHECK_EQ(choice.completion_tokens, 30u);
        CHECK(choice.pieces > 0 && choice.reason == FinishReason::kMaxTokens);
      }
      setup.request.sampling.seed += 8;
    }
  }
  CHECK_EQ(names.size(), size_t{3});

  // With a single name, there is nothing to choose, so all tokens are forced. The token limit includes forced tokens.
  setup.request.n = 1;
  setup.request.calls.prefixes = {{setup.words[9], setup.words[9], setup.words[10]}};
  setup.request.calls.required.clear();
  setup.require();
  setup.request.max_tokens = 3;
  const RequestId capped = consumer.submit(setup.request);
  consumer.pump_until_ended(capped);
  const ChoiceOutcome& choice = consumer.outcomes()[capped].choices[0];
  CHECK_EQ(choice.calls, setup.text({setup.open, setup.words[9], setup.words[9]}));
  CHECK_EQ(choice.content, std::string());
  CHECK(choice.logprobs.empty());
  CHECK_EQ(choice.completion_tokens, 3u);
  CHECK_EQ(choice.piece_tokens, 3);

  // An end-of-generation token before the required call does not end the response.
  setup.request.max_tokens = 30;
  setup.request.ignore_eos = false;
  setup.request.sampling.logit_bias = {{engine->tokenizer().eos(), 100.0f}};
  const RequestId ended = consumer.submit(setup.request);
  consumer.pump_until_ended(ended);
  CHECK_EQ(consumer.outcomes()[ended].choices[0].calls,
           setup.text({setup.open, setup.words[9], setup.words[9], setup.words[10]}));
  CHECK(consumer.outcomes()[ended].choices[0].reason == FinishReason::kEndOfTurn);
  CHECK_EQ(consumer.outcomes()[ended].choices[0].completion_tokens, 5u);
}

// The content starts with the required call regardless of how the reasoning ends, and even if there is no reasoning.
TEST(engine_writes_the_required_call_after_the_reasoning) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  const TokenId eos = engine->tokenizer().eos();
  const TokenId line_break = line_break_token(engine->tokenizer());
  REQUIRE(line_break != kNoToken);
  enum Way { kBudget, kOwnMarker, kSkipped, kEndInside, kEndBefore, kNoCloseSequence, kSpelledMarkers };
  for (const Way way : {kBudget, kOwnMarker, kSkipped, kEndInside, kEndBefore, kNoCloseSequence, kSpelledMarkers}) {
    CallSetup setup(engine->tokenizer());
    setup.require();
    setup.reason();
    GenerationRequest& request = setup.request;
    request.n = 4;
    request.max_tokens = 60;
    request.ignore_eos = false;
    request.reasoning.starts_inside = way != kSkipped && way != kEndBefore;
    request.reasoning.close_sequence = {setup.words[11], setup.no_think, line_break};
    request.sampling.logit_bias = {{eos, -100.0f}, {setup.think, -100.0f}};
    switch (way) {
      case kBudget: request.reasoning.budget = 7; break;
      case kOwnMarker:  // The engine continues with the tokens that normally follow the marker.
        request.sampling.logit_bias.emplace_back(setup.no_think, 12.0f);
        request.reasoning.close_sequence.back() = setup.words[10];
        break;
      case kSkipped: break;
      case kEndInside:
      case kEndBefore: request.sampling.logit_bias = {{eos, 100.0f}}; break;
      case kNoCloseSequence:
        request.reasoning.budget = 7;
        request.reasoning.close_sequence.clear();
        break;
      case kSpelledMarkers:
        request.reasoning.budget = 7;
        request.reasoning.open.token = request.reasoning.close.token = kNoToken;
        request.calls.open.token = request.calls.close.token = kNoToken;
        request.calls.prefixes.clear();
        break;
    }
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    const CallSetup names(engine->tokenizer());
    for (auto& [index, choice] : consumer.outcomes()[id].choices) {
      const std::string what =
          "way " + std::to_string(way) + ": '" + choice.reasoning + "' '" + choice.content + "' '" + choice.calls + "'";
      if (names.name_at(choice.calls, 0) < 0) check::fail(__FILE__, __LINE__, what);
      const bool ends_at_once = way == kEndInside || way == kEndBefore;
      if (ends_at_once) CHECK_EQ(choice.content, std::string());
      CHECK(choice.reason == (ends_at_once ? FinishReason::kEndOfTurn : FinishReason::kMaxTokens));
      switch (way) {
        case kBudget:
        case kSpelledMarkers: CHECK(choice.reasoning.ends_with(setup.text({setup.words[11]}))); break;
        case kEndInside: CHECK_EQ(choice.reasoning, setup.text({setup.words[11]})); break;
        case kOwnMarker: CHECK(choice.content.starts_with(setup.text({setup.words[10]}))); break;
        case kSkipped:
        case kEndBefore: CHECK_EQ(choice.reasoning_tokens, 0u); break;
        case kNoCloseSequence: CHECK_EQ(choice.reasoning_tokens, 7u); break;
      }
    }
  }
}

// Before a required call, the model may still sample whitespace and the tokens that open the reasoning.
TEST(engine_keeps_white_space_and_reasoning_before_a_required_call) {
  auto engine = start_engine({});
  if (!engine) return;
  Consumer consumer(*engine);
  CallSetup setup(engine->tokenizer());
  setup.require();
  setup.reason();
  setup.request.reasoning.budget = 3;
  setup.request.reasoning.close_sequence = {setup.no_think};
  setup.request.sampling.logit_bias = {{setup.think, 100.0f}};
  const RequestId opened = consumer.submit(setup.request);
  consumer.pump_until_ended(opened);
  const ChoiceOutcome& reasoned = consumer.outcomes()[opened].choices[0];
  CHECK_EQ(reasoned.reasoning_tokens, 4u);
  // The spelling of the marker occurs within the reasoning, where it is plain text.
  CHECK_EQ(reasoned.reasoning, setup.text({setup.think, setup.think}));
  CHECK(setup.name_at(reasoned.calls, 0) >= 0);

  const TokenId line_break = line_break_token(engine->tokenizer());
  REQUIRE(line_break != kNoToken);
  setup.request.sampling.logit_bias = {{line_break, 100.0f}};
  setup.request.max_tokens = 40;
  const RequestId spaced = consumer.submit(setup.request);
  consumer.pump_until_ended(spaced);
  const ChoiceOutcome& late = consumer.outcomes()[spaced].choices[0];
  // At most 32 whitespace characters may precede an open marker.
  CHECK(late.content.starts_with(std::string(32, '\n')));
  CHECK(!late.content.starts_with(std::string(33, '\n')));
  CHECK(setup.name_at(late.calls, 0) >= 0);
}

TEST(engine_never_samples_a_forbidden_marker) {
  auto engine = start_engine({});
  if (!engine) return;
  CallSetup setup(engine->tokenizer());
  setup.request.calls = {};
  setup.request.n = 4;
  setup.request.sampling.logit_bias = {{setup.open, 20.0f}, {setup.close, 12.0f}};
  Consumer consumer(*engine);
  for (const bool forbidden : {false, true}) {
    if (forbidden) setup.request.sampling.banned = {setup.open};
    const RequestId id = consumer.submit(setup.request);
    consumer.pump_until_ended(id);
    int seen = 0;
    for (auto& [index, choice] : consumer.outcomes()[id].choices) {
      CHECK_EQ(choice.calls, std::string());
      for (size_t i = 0; i < choice.logprobs.size(); i += 2) seen += choice.logprobs[i].first == setup.open;
    }
    CHECK(forbidden ? seen == 0 : seen > 50);
  }
}

}  // namespace
}  // namespace monolith::testing
