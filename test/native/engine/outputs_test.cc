// Tests that a request either generates tokens or only stores its prompt in the prefix cache.
#include "engine/loop/step_loop.h"
#include "engine_fixture.h"

namespace monolith::testing {
namespace {

GenerationRequest asked(OutputKind output, int max_tokens) {
  GenerationRequest request;
  request.prompt = test_prompt(70, 1);
  request.output = output;
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  request.sampling.repetition_penalty = 1.1f;
  return request;
}

TEST(engine_computes_only_the_prompt) {
  for (const bool overlaps : {false, true}) {
    EngineSetup setup;
    setup.asynchronous = overlaps;
    setup.options.max_batch_tokens = 32;  // The prompt is processed in chunks.
    setup.options.speculation = Speculation::kAlways;
    std::string alone;
    {
      auto engine = start_engine(setup);
      if (!engine) return;
      Consumer consumer(*engine);
      const RequestId id = consumer.submit(asked(OutputKind::kTokens, 12));
      consumer.pump_until_ended(id);
      alone = consumer.outcomes()[id].choices[0].content;
    }
    auto engine = start_engine(setup);
    Consumer consumer(*engine);
    GenerationRequest nothing = asked(OutputKind::kNothing, 0);
    nothing.n = 2;
    nothing.stop = {"a"};
    nothing.sampling.top_logprobs = 1;
    const RequestId prepared = consumer.submit(nothing);
    consumer.pump_until_ended(prepared);
    const Outcome& outcome = consumer.outcomes()[prepared];
    CHECK_EQ(outcome.started, 1);
    CHECK_EQ(outcome.prompt_tokens, 70u);
    CHECK_EQ(outcome.choices.size(), size_t{2});
    for (const auto& [index, choice] : outcome.choices) {
      CHECK(choice.reason == FinishReason::kMaxTokens);
      CHECK_EQ(choice.completion_tokens, 0u);
      CHECK_EQ(choice.pieces, 0);
      CHECK_EQ(choice.stop_index, -1);
    }
    const EngineStats after = engine->stats();
    CHECK_EQ(after.prefill_tokens, uint64_t{70});
    CHECK_EQ(after.decode_tokens, uint64_t{0});
    CHECK_EQ(after.finished, uint64_t{1});
    CHECK(pages_come_back(*engine));

    const RequestId next = consumer.submit(asked(OutputKind::kTokens, 12));
    consumer.pump_until_ended(next);
    CHECK_EQ(consumer.outcomes()[next].cached_tokens, 64u);
    CHECK_EQ(engine->stats().prefill_tokens, uint64_t{76});
    CHECK(consumer.outcomes()[next].choices[0].content == alone);
  }
}

// A request that only stores its prompt has no row with logits, whether it runs before sequences that need logits or
// together with them.
TEST(step_loop_requests_no_logits_for_prompt_only_requests) {
  EngineSetup setup;
  setup.asynchronous = true;
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  EngineCounters counters;
  StepLoop loop(*parts.model, *parts.tokenizer, setup.options, counters);
  auto channel = std::make_shared<Channel>([] {}, size_t{64} << 20);
  const auto add = [&](RequestId id, const GenerationRequest& request) {
    loop.add(std::make_unique<Request>(id, channel, request, parts.model->params().n_vocab, 512));
  };
  add(1, asked(OutputKind::kNothing, 0));
  add(2, asked(OutputKind::kTokens, 3));
  CHECK(loop.step());
  loop.cancel(1);  // Its row is in flight.
  for (int i = 0; i < 20 && !loop.idle(); ++i) loop.step();
  CHECK_EQ(counters.decode_tokens.load(), uint64_t{3});
  add(3, asked(OutputKind::kNothing, 0));
  CHECK(loop.step());
  CHECK(!loop.idle());
  CHECK(loop.step());  // Completes the step in flight; no step follows.
  CHECK(loop.idle());
  CHECK(!loop.step());
  CHECK_EQ(counters.decode_tokens.load(), uint64_t{3});
  CHECK_EQ(counters.finished.load(), uint64_t{2});
  CHECK(loop.consistent());
}

}  // namespace
}  // namespace monolith::testing
