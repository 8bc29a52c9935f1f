// Tests the engine on the CUDA backend (in the emulator). A request must get the same response alone, in a batch, from
// a cached prefix, as one of several choices and with draft tokens, with and without overlapping steps. CUDA graphs of
// decode steps are captured and replayed while the batch size changes. The models keep their state in KV pages and in
// state slots.
#include "backend/cuda/cuda_backend.h"
#include "engine/engine_fixture.h"
#include "support/eagle_file.h"

namespace monolith::testing {
namespace {

[[maybe_unused]] const bool on_cuda = (
    test_backend = [] { return make_cuda_backend({}); }, true);

// The requests are short because the emulator is slow.
std::vector<GenerationRequest> short_requests() {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 4; ++i) {
    GenerationRequest request;
    request.prompt = test_prompt(5 + i * 14, i % 2);
    request.max_tokens = i == 3 ? 8 : 3 + 2 * i;
    if (i == 3) {  // A stop string may end this request while its next token is being computed.
      request.stop = {"e", "a", "o", "1"};
      request.sampling.frequency_penalty = 0.4f;
    }
    request.ignore_eos = true;
    request.queue_wait_ms = 0;  // No queue limit, because steps are slow in the emulator.
    request.sampling.seed = static_cast<uint64_t>(40 + i);
    request.sampling.temperature = i == 0 ? 0.0f : 0.9f;
    request.sampling.top_p = i == 2 ? 0.8f : 1.0f;
    request.sampling.top_logprobs = 1;
    requests.push_back(request);
  }
  return requests;
}

EngineSetup setup_for(Speculation speculation, KvType kv_type = KvType::kF16) {
  EngineSetup setup;
  setup.limits.kv_type = kv_type;
  setup.model = "models/llama.q8_0.gguf";
  setup.options.speculation = speculation;
  return setup;
}

std::vector<ChoiceOutcome> answers_alone(const std::vector<GenerationRequest>& requests, EngineSetup setup) {
  setup.options.speculation = Speculation::kOff;
  setup.options.prefix_cache = false;
  setup.options.overlap = false;
  std::vector<ChoiceOutcome> answers;
  auto engine = start_engine(setup);
  if (!engine) return answers;
  Consumer consumer(*engine);
  for (const GenerationRequest& request : requests) {
    const RequestId id = consumer.submit(request);
    consumer.pump_until_ended(id);
    CHECK(!consumer.outcomes()[id].failed);
    answers.push_back(consumer.outcomes()[id].choices.at(0));
  }
  return answers;
}

// Checks that every choice of request i equals expected[i].
void check_all(Consumer& consumer, const std::vector<RequestId>& ids, const std::vector<ChoiceOutcome>& expected,
               const std::string& what) {
  for (size_t i = 0; i < ids.size(); ++i) {
    consumer.pump_until_ended(ids[i]);
    const Outcome& outcome = consumer.outcomes()[ids[i]];
    CHECK_EQ(outcome.message, std::string());
    for (const auto& [choice, answer] : outcome.choices)
      check_same(answer, expected[i], what + ", request " + std::to_string(i));
  }
}

}  // namespace

TEST(engine_cuda_responses_do_not_depend_on_the_batch) {
  const std::vector<GenerationRequest> requests = short_requests();
  const std::vector<ChoiceOutcome> expected = answers_alone(requests, setup_for(Speculation::kOff));
  if (expected.empty()) return;
  for (const Speculation speculation : {Speculation::kOff, Speculation::kAlways}) {
    EngineSetup setup = setup_for(speculation);
    // A small batch limit splits prompts into chunks, so that some steps have no logits.
    if (speculation == Speculation::kOff) setup.options.max_batch_tokens = 20;
    auto engine = start_engine(setup);
    REQUIRE(engine);
    Consumer consumer(*engine);
    for (int round = 0; round < 2; ++round) {  // The second round starts from cached prefixes.
      std::vector<RequestId> ids;
      for (GenerationRequest request : requests) {
        // The request has two identical choices, so that the fork must copy pages.
        request.n = round == 0 && request.sampling.temperature == 0.0f ? 2 : 1;
        ids.push_back(consumer.submit(request));
      }
      check_all(consumer, ids, expected, "round " + std::to_string(round));
    }
    CHECK(pages_come_back(*engine));
  }
}

// Tests 8-bit KV pages that are shared, copied for a fork, found again in the prefix cache, and taken from the most
// recent request when there are no free pages.
TEST(engine_cuda_responses_with_fp8_pages_do_not_depend_on_the_batch) {
  std::vector<GenerationRequest> requests = short_requests();
  for (GenerationRequest& request : requests) request.max_tokens += 28;
  const std::vector<ChoiceOutcome> expected = answers_alone(requests, setup_for(Speculation::kOff, KvType::kFp8));
  if (expected.empty()) return;
  for (const int64_t n_pages : {256, 8}) {
    EngineSetup setup = setup_for(Speculation::kOff, KvType::kFp8);
    setup.limits.n_pages = n_pages;
    auto engine = start_engine(setup);
    REQUIRE(engine);
    Consumer consumer(*engine);
    for (int round = 0; round < (n_pages > 8 ? 2 : 1); ++round) {
      std::vector<RequestId> ids;
      for (GenerationRequest request : requests) {
        request.n = n_pages > 8 && request.sampling.temperature == 0.0f ? 2 : 1;
        ids.push_back(consumer.submit(request));
      }
      check_all(consumer, ids, expected, std::to_string(n_pages) + " pages");
    }
    CHECK(pages_come_back(*engine));
    check::note(std::to_string(n_pages) + " pages: " + std::to_string(engine->stats().preemptions) + " preemptions");
    if (n_pages == 8) CHECK(engine->stats().preemptions > 0);
  }
}

// Recurrent state in slots is forked, restored from snapshots in the prefix cache, and rolled back after rejected draft
// tokens. When no slot or page is free, one is taken from the most recent request.
TEST(engine_cuda_recurrent_responses_do_not_depend_on_the_batch) {
  std::vector<GenerationRequest> requests = short_requests();
  EngineSetup alone = setup_for(Speculation::kOff);
  alone.model = "models/qwen35.f16.gguf";
  alone.options.snapshot_tokens = 16;
  alone.limits.n_slots = 64;
  std::vector<ChoiceOutcome> expected = answers_alone(requests, alone);
  if (expected.empty()) return;
  for (const Speculation speculation : {Speculation::kOff, Speculation::kAlways}) {
    EngineSetup setup = alone;
    setup.options.speculation = speculation;
    if (speculation == Speculation::kOff) setup.options.max_batch_tokens = 20;
    auto engine = start_engine(setup);
    REQUIRE(engine);
    Consumer consumer(*engine);
    for (int round = 0; round < 2; ++round) {
      std::vector<RequestId> ids;
      for (GenerationRequest request : requests) {
        request.n = round == 0 && request.sampling.temperature == 0.0f ? 2 : 1;
        ids.push_back(consumer.submit(request));
      }
      check_all(consumer, ids, expected, speculation == Speculation::kOff ? "slots" : "slots and draft tokens");
    }
    CHECK(engine->stats().cached_tokens > 0);  // A state snapshot was found in the prefix cache.
    CHECK(pages_come_back(*engine));
  }
  for (GenerationRequest& request : requests) request.max_tokens += 20;
  expected = answers_alone(requests, alone);
  EngineSetup few = alone;
  few.limits.n_pages = 8;
  few.limits.n_slots = 4;
  auto engine = start_engine(few);
  REQUIRE(engine);
  Consumer consumer(*engine);
  std::vector<RequestId> ids;
  for (const GenerationRequest& request : requests) ids.push_back(consumer.submit(request));
  check_all(consumer, ids, expected, "few pages and slots");
  CHECK(engine->stats().preemptions > 0);
  CHECK(pages_come_back(*engine));
}

// Checks both kinds of drafters: the model's own MTP layers, and an EAGLE head from another file.
void check_drafts_of(EngineSetup setup, const std::string& what) {
  const std::vector<GenerationRequest> requests = short_requests();
  EngineSetup alone = setup;
  alone.head = {};
  const std::vector<ChoiceOutcome> expected = answers_alone(requests, alone);
  if (expected.empty()) return;
  setup.options.speculation = Speculation::kAlways;
  auto engine = start_engine(setup);
  REQUIRE(engine);
  Consumer consumer(*engine);
  for (int round = 0; round < 2; ++round) {
    std::vector<RequestId> ids;
    for (const GenerationRequest& request : requests) ids.push_back(consumer.submit(request));
    check_all(consumer, ids, expected, what);
  }
  const EngineStats stats = engine->stats();
  check::note(what + ": " + std::to_string(stats.accepted_drafter_tokens) + " of " +
              std::to_string(stats.drafter_tokens) + " draft tokens accepted");
  CHECK(stats.drafter_tokens > 0);
  CHECK(pages_come_back(*engine));
}

TEST(engine_cuda_mtp_drafts_do_not_change_responses) {
  EngineSetup setup = setup_for(Speculation::kOff);
  setup.model = "models/qwen35.f16.gguf";
  setup.limits.n_slots = 64;
  setup.give_mtp_layer();
  check_drafts_of(setup, "own layer");
}

TEST(engine_cuda_eagle_drafts_do_not_change_responses) {
  EngineSetup setup = setup_for(Speculation::kOff);
  setup.make_room_for_drafts();
  setup.head = [](const LooseModel& loose) { return EagleFile(loose, {120, 50, 7, 200, 8}).build(); };
  check_drafts_of(setup, "head");
}

}  // namespace monolith::testing
