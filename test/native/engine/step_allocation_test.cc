// Tests that a steady decode step allocates no memory: not in the scheduler, the model, the sampler with penalties and
// logprobs, the text stage, the event records or the delivery of these records.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "allocation_hook.h"
#include "engine/adapters/adapter_set.h"
#include "engine/lora_adapters.h"
#include "engine/loop/step_loop.h"
#include "engine/output/grammar_cache.h"
#include "engine_fixture.h"
#include "model/all_cases.h"
#include "support/eagle_file.h"

namespace monolith::testing {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
std::atomic<int64_t> allocated_bytes{0};
thread_local int until_failure = -1;
thread_local int n_failures = 1;

}  // namespace monolith::testing

namespace {

using namespace monolith::testing;

void* counted_or_null(std::size_t size, std::size_t alignment = 0) {
  if (until_failure >= 0 && until_failure-- == 0) {
    if (n_failures > 1) until_failure = 0;
    n_failures = std::max(1, n_failures - 1);
    return nullptr;
  }
  if (counting.load(std::memory_order_relaxed)) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    allocated_bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  }
  return alignment ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                   : std::malloc(size > 0 ? size : 1);
}

void* counted(std::size_t size, std::size_t alignment = 0) {
  void* memory = counted_or_null(size, alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

#if defined(__GNUC__) && !defined(__clang__)
// GCC warns if it has inlined only one of the two operators.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted_or_null(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return counted_or_null(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace monolith::testing {
namespace {

// Runs requests `first` to 6. Two of the six requests have a grammar, whose text would end too early with other
// vocabularies. If `adapted` is true, requests with even numbers use a LoRA adapter.
void check_steady_steps(EngineSetup setup, Speculation speculation, RequestId first = 1, bool adapted = false) {
  const int n = 7 - static_cast<int>(first);
  setup.threads = 2;
  setup.options.speculation = speculation;
  EngineParts parts = load_parts(setup);
  if (!parts.model) return;
  AdapterSet adapters(*parts.model, SIZE_MAX);
  AdapterId adapter = kNoAdapter;
  if (adapted) {
    const ScratchFolder folder;
    const auto loaded =
        adapters.load(write_bytes(folder, "adapter.gguf", RandomAdapter(setup.model, 8, 1).gguf()), {.name = "steady"},
                      [&](int rank) { return parts.model->reserve_adapters(rank); });
    REQUIRE(loaded);
    adapter = loaded->id;
  }
  EngineCounters counters;
  StepLoop loop(*parts.model, *parts.tokenizer, setup.options, counters, parts.draft.get());
  auto channel = std::make_shared<Channel>([] {}, setup.options.channel_bytes_max);
  GrammarCache grammars(*parts.tokenizer, StepLoop::vocabulary(*parts.model, *parts.tokenizer));
  grammar::GrammarOptions numbers;  // A grammar whose states recur.
  numbers.kind = grammar::GrammarOptions::Kind::kRegex;
  numbers.text = "[0-9]{3}([, ]+[0-9]{1,3})*;";
  for (RequestId id = first; id <= 6; ++id) {
    GenerationRequest request;
    request.prompt = test_prompt(20 + static_cast<int>(id), static_cast<int>(id));
    request.max_tokens = setup.limits.max_context - 112;
    if (adapted && id % 2 == 0) request.adapter_use = *adapters.use(adapter);
    request.ignore_eos = true;
    request.stop = {"never generated", "nor this"};
    request.reasoning.open.text = "<think>";
    request.reasoning.close.text = "</think>";
    request.sampling.seed = id;
    request.sampling.top_logprobs = id % 2 ? 20 : -1;
    request.sampling.top_p = id % 3 ? 1.0f : 0.9f;
    request.sampling.top_k = id == 4 ? 40 : 0;
    request.sampling.repetition_penalty = 1.1f;
    request.sampling.frequency_penalty = 0.1f;
    request.sampling.logit_bias = {{5, 1.0f}};
    if (id > 2) {  // Calls that start and end repeatedly, with several function names.
      request.calls.open = {"<call>", 301};
      request.calls.close = {"</call>", 302};
      request.calls.prefixes = {{310, 311}, {310, 312}, {313, 314, 315}};
      request.sampling.logit_bias = {{301, 9.0f}, {302, 9.0f}};
      request.sampling.frequency_penalty = 0;
    }
    if (id >= 5)  // A prediction that the output follows, leaves and finds again.
      for (int i = 0; i < 30; ++i) request.prediction.insert(request.prediction.end(), {301, 310, 311, 302});
    if (id == 3) request.calls.required = {{301, 310, 311}, {301, 313, 314, 315}};
    if (id <= 2) {
      request.format = grammars.compile(numbers).grammar;
      if (id == 2) request.reasoning = {};
      request.sampling.logit_bias = {};
      for (TokenId token = 0; token < parts.tokenizer->n_vocab(); ++token)
        if (parts.tokenizer->bytes(token).find(';') != std::string_view::npos)
          request.sampling.logit_bias.emplace_back(token, -100.0f);
    }
    loop.add(std::make_unique<Request>(id, channel, request, parts.model->params().n_vocab, setup.limits.max_context,
                                       parts.model->memory().layout));
  }
  std::vector<std::byte> drained;
  const auto step = [&] {
    CHECK(loop.step());
    // Normally, records accumulate in the channel for three steps. The draft tokens of an EAGLE head are rarely
    // accepted, so the channel's buffer would still be growing during the measured steps. In that case, the channel is
    // therefore drained after every step.
    if (setup.head || counters.steps.load() % 3 == 0) channel->drain(drained);
  };
  for (int i = 0; i < 150; ++i) step();  // Buffers reach their final sizes.
  const uint64_t tokens = counters.decode_tokens;
  allocations = 0;
  counting = true;
  // The steps fill several pages with tokens. With MTP layers, there are more steps, because some of them must accept
  // many more draft tokens than earlier steps.
  const int n_steps = speculation == Speculation::kOff ? 100 : setup.limits.mtp_layer ? 600 : 60;
  for (int i = 0; i < n_steps; ++i) step();
  counting = false;
  CHECK_EQ(allocations.load(), 0);
  // The names of tool calls are forced, several tokens in one step.
  CHECK(counters.decode_tokens - tokens >= (speculation == Speculation::kOff ? 100u : 50u) * static_cast<unsigned>(n));
  CHECK_EQ(counters.accepted_draft_tokens > 0, speculation != Speculation::kOff);
  CHECK_EQ(counters.drafter_tokens > 0, setup.has_drafter());
  CHECK_EQ(counters.running.load(), n);
  for (RequestId id = first; id <= 6; ++id) loop.cancel(id);
  CHECK(!loop.step());
  CHECK(loop.consistent());
  CHECK_EQ(counters.pages_free + counters.pages_cached, counters.pages_total.load());
}

EngineSetup setup_of(const std::string& model) {
  EngineSetup setup;
  setup.model = model;
  return setup;
}

TEST(step_loop_decodes_without_allocating) { check_steady_steps({}, Speculation::kOff); }
TEST(step_loop_applies_adapters_without_allocating) { check_steady_steps({}, Speculation::kOff, 1, true); }
TEST(step_loop_drafts_without_allocating) {
  EngineSetup setup;
  setup.draft = "models/llama.q4_k_m.gguf";
  check_steady_steps(setup, Speculation::kAlways);
}
TEST(step_loop_updates_recurrent_state_without_allocating) {
  for (const char* model : {"models/qwen35.f16.gguf", "models/jamba.q8_0.gguf", "models/rwkv7.f16.gguf"})
    check_steady_steps(setup_of(model), Speculation::kOff, 3);
}
TEST(step_loop_speculates_without_allocating) { check_steady_steps({}, Speculation::kAlways); }
TEST(step_loop_runs_an_eagle_head_without_allocating) {
  EngineSetup setup;
  setup.make_room_for_drafts();
  setup.head = [](const LooseModel& model) { return EagleFile(model, {301, 302, 310, 311, 7}).build(); };
  check_steady_steps(setup, Speculation::kAlways, 3);
}

// Two models: one with one MTP layer and a single page table per step, and one with three layers and several page
// tables. Each layer predicts a few frequent words, so its predictions are sometimes right.
void check_own_layers(const std::string& model, int n_layers) {
  EngineSetup setup = setup_of(model);
  setup.give_mtp_layer(
      [](LooseModel& loose, const std::string& block) {
        const uint64_t n_embd = loose.number("embedding_length"),
                       n_vocab = loose.tensors.at("token_embd.weight").dims[1];
        std::vector<float> head(n_vocab * n_embd);
        for (const uint64_t token : {301u, 302u, 310u, 311u})
          std::ranges::copy(made_up(n_embd, token, 0.5f), head.begin() + static_cast<ptrdiff_t>(token * n_embd));
        loose.put_floats(block + "nextn.shared_head_head.weight", {n_embd, n_vocab}, head);
      },
      n_layers);
  setup.limits.max_context = 16384;  // No request ends during the test.
  setup.limits.n_pages = 16384;
  setup.limits.pages_by_window = true;
  check_steady_steps(setup, Speculation::kAlways, 3);
}
TEST(step_loop_runs_mtp_layers_without_allocating) {
  check_own_layers("models/qwen35.f16.gguf", 1);
  check_own_layers("models/mimo2.q8_0.gguf", 3);
}

// Repeats the test so that each allocation fails once.
TEST(failed_allocation_in_submit_leaks_nothing) {
  EngineSetup setup;
  setup.options.queue_max = 4;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest request;
  request.prompt = test_prompt(20, 1);
  request.max_tokens = 5;
  request.stop = {"a stop string too long to stand in the string itself", "another"};
  request.sampling.repetition_penalty = 1.1f;
  request.calls.open = {"<call>", 301};
  request.calls.prefixes = {{310, 311}, {310, 312}};
  int n_refused = 0;
  for (;; ++n_refused) {
    GenerationRequest given = request;
    until_failure = n_refused;
    const auto id = engine->submit(consumer.channel(), std::move(given));
    const bool has_failed = until_failure < 0;
    until_failure = -1;
    CHECK_EQ(id.ok(), !has_failed);
    if (id) {
      consumer.pump_until_ended(*id);
      break;
    }
    REQUIRE(id.error().code == ErrorCode::kOutOfMemory);
    CHECK_EQ(engine->stats().waiting, 0);
    CHECK_EQ(engine->stats().waiting_tokens, int64_t{0});
  }
  CHECK(n_refused > 10);
  CHECK_EQ(engine->stats().requests, uint64_t{1});
}

TEST(no_architecture_allocates_in_a_step) {
  for (const Case& one : all_cases()) {
    const ParsedModel parsed(one.model);
    auto backend = make_cpu_backend({.threads = 2});
    REQUIRE(backend.ok());
    auto model = Model::load(*parsed.file, **backend,
                             {.max_batch_tokens = 8, .max_logit_rows = 2, .max_context = 64, .n_pages = 4}, {});
    REQUIRE(model.ok());
    const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6}, pages = {2, 0}, rows = {6, 7};
    const Segment segments[] = {{0, 7, 0, pages.data(), kNoSlot, 0}, {7, 1, 0, pages.data() + 1, kNoSlot, 1}};
    allocations = 0;
    counting = true;
    for (int i = 0; i < 2; ++i) (*model)->forward({tokens, segments, rows});
    counting = false;
    if (allocations.load() != 0)
      check::fail(__FILE__, __LINE__, one.name + " allocated " + std::to_string(allocations.load()) + " times");
  }
}

}  // namespace
}  // namespace monolith::testing
