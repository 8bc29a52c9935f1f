// Tests that pages exported from one engine through the storage tier and imported into another produce the same output,
// bit for bit, as computed pages. The engines have different numbers of pages, so that page ids differ.
#include <map>

#include "engine/engine_fixture.h"
#include "engine/tiers/page_importer.h"
#include "engine/tiers/tier_outbox.h"
#include "model/kv_layout.h"

namespace monolith::testing {
namespace {

// Stores everything that an engine exports for one conversation.
struct Kept {
  struct Page {
    std::vector<std::byte> full, window, snapshot;
  };
  std::map<int, Page> pages;
  std::vector<int> order;  // Page indices in the order of their export.
  PageText text;
  int n_skipped = 0, n_exports = 0;
  uint64_t organization = 0;
  std::string label;
};

// A consumer of one engine's storage tier.
class TierConsumer {
 public:
  explicit TierConsumer(Engine& engine, size_t max_bytes = size_t{1} << 30, size_t min_tokens = 0) : engine_(engine) {
    const auto wake = [this] {
      const std::lock_guard lock(mutex_);
      woken_ = true;
      condition_.notify_one();
    };
    outbox_ = std::make_shared<TierOutbox>(max_bytes, wake, min_tokens);
    engine_.open_tier(outbox_);
  }
  ~TierConsumer() { outbox_->close(); }

  // Waits until the engine has exported `n` sequences.
  Kept take(int n = 1, bool acknowledge = true) {
    Kept kept;
    const bool arrived = wait_until([&] {
      for (PageExport& item : exports_) {
        for (ExportedPage& page : item.pages) add(kept, page, acknowledge);
        kept.text = *item.text;
        kept.n_skipped += item.n_skipped;
        kept.organization = item.organization;
        kept.label = item.label;
        kept.n_exports += item.is_last;
      }
      exports_.clear();
      return kept.n_exports >= n;
    });
    CHECK(arrived);
    return kept;
  }

  // Opens an import and returns the leading pages that are in the pool.
  std::vector<uint8_t> open(uint64_t id, uint64_t organization, const GenerationRequest& request, bool pinned = false) {
    engine_.open_import({.id = id,
                         .organization = organization,
                         .text = PageText::of(request.prompt, request.spans, static_cast<int>(request.prompt.size())),
                         .pinned = pinned});
    std::vector<uint8_t> held;
    CHECK(wait_until([&] {
      return std::erase_if(replies_, [&](ImportReply& reply) {
               if (reply.id != id || !reply.opened) return false;
               held = std::move(reply.pages);
               refused = reply.refused;
               return true;
             }) > 0;
    }));
    return held;
  }

  // Imports pages 0 .. n - 1. Returns the number of pages for which there was room.
  int write(uint64_t id, const Kept& kept, int n) {
    std::vector<ImportedPage> pages;
    const auto bytes = [](const std::vector<std::byte>& of) { return of.empty() ? nullptr : of.data(); };
    for (int index = 0; index < n; ++index) {
      const auto at = kept.pages.find(index);
      if (at == kept.pages.end()) break;
      pages.push_back({index, bytes(at->second.full), bytes(at->second.window), bytes(at->second.snapshot)});
    }
    engine_.write_import(id, std::move(pages), nullptr);
    int n_written = -1;
    CHECK(wait_until([&] {
      for (const ImportReply& reply : replies_)
        if (reply.id == id && !reply.opened) n_written = reply.n_written;
      return n_written >= 0;
    }));
    return n_written;
  }

  TierOutbox& outbox() { return *outbox_; }

  bool refused = false;  // Whether the last import was rejected.

 private:
  template <typename Done>
  bool wait_until(Done&& done) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      std::vector<PageExport> exports;
      std::vector<ImportReply> replies;
      outbox_->drain(exports, replies);
      for (PageExport& item : exports) exports_.push_back(std::move(item));
      for (ImportReply& reply : replies) replies_.push_back(std::move(reply));
      if (done()) return true;
      std::unique_lock lock(mutex_);
      if (!condition_.wait_until(lock, until, [&] { return woken_; })) return false;
      woken_ = false;
    }
  }
  void add(Kept& kept, const ExportedPage& page, bool acknowledge) {
    const std::byte* at = page.bytes.get();
    const auto take = [&](std::vector<std::byte>& into, size_t n) {
      if (n > 0) into.assign(at, at + n);
      at += n;
    };
    kept.order.push_back(page.index);
    Kept::Page& to = kept.pages[page.index];
    take(to.full, page.full_bytes);
    take(to.window, page.window_bytes);
    take(to.snapshot, page.snapshot_bytes);
    if (acknowledge) outbox_->acknowledge(page.size());
  }

  Engine& engine_;
  std::shared_ptr<TierOutbox> outbox_;
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
  std::vector<PageExport> exports_;
  std::vector<ImportReply> replies_;
};

// Statistics are updated after the step, so they may be later than the events. Waits until the statistic has reached
// the value.
bool reaches(const Engine& engine, uint64_t EngineStats::*count, uint64_t value) {
  for (int i = 0; i < 1000 && engine.stats().*count != value; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return engine.stats().*count == value;
}

GenerationRequest first_request() {
  GenerationRequest request;
  request.prompt = test_prompt(150, 1);
  request.organization = 7;
  request.max_tokens = 60;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  request.sampling.top_logprobs = 2;
  request.return_tokens = true;
  request.retain = "conversation";
  return request;
}

// Returns a request whose prompt continues the whole first conversation.
GenerationRequest next_request(const GenerationRequest& first, const ChoiceOutcome& answer) {
  GenerationRequest next = first;
  next.retain.clear();
  next.prompt.insert(next.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  const std::vector<TokenId> more = test_prompt(20, 2);
  next.prompt.insert(next.prompt.end(), more.begin(), more.end());
  return next;
}

ChoiceOutcome run(Consumer& consumer, const GenerationRequest& request, uint32_t* cached = nullptr) {
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  const Outcome& outcome = consumer.outcomes()[id];
  CHECK(!outcome.failed);
  if (cached != nullptr) *cached = outcome.cached_tokens;
  return outcome.choices.at(0);
}

struct Round {
  uint32_t cached = 0;
  int n_pages = 0;  // Full pages of the next prompt that were exported.
};

// Exports a conversation from one engine, imports it into another and compares the response to the next prompt with the
// response of an engine without a prefix cache.
Round check_round_trip(EngineSetup setup, const std::string& what) {
  GenerationRequest next;
  Kept kept;
  {
    auto engine = start_engine(setup);
    if (!engine) return {};
    Consumer consumer(*engine);
    TierConsumer tier(*engine);
    const GenerationRequest first = first_request();
    const ChoiceOutcome answer = run(consumer, first);
    next = next_request(first, answer);
    kept = tier.take();
    CHECK_EQ(kept.n_skipped, 0);
    CHECK_EQ(kept.organization, uint64_t{7});
    CHECK(kept.label == "conversation");
  }
  EngineSetup without = setup;
  without.options.prefix_cache = false;
  auto reference_engine = start_engine(without);
  if (!reference_engine) return {};
  Consumer reference(*reference_engine);
  const ChoiceOutcome expected = run(reference, next);

  setup.limits.n_pages += 37 * setup.limits.n_pages / 100;
  auto engine = start_engine(setup);
  if (!engine) return {};
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  // Other contents are imported first, so that the pages have different ids.
  GenerationRequest other = next;
  other.prompt = test_prompt(90, 5);
  run(consumer, other);
  CHECK(tier.open(1, 7, next).empty());
  const int n_pages = static_cast<int>(kept.pages.size());
  CHECK_EQ(tier.write(1, kept, n_pages), n_pages);
  Round round{.cached = 0, .n_pages = n_pages};
  check_same(run(consumer, next, &round.cached), expected, what);
  engine->close_import(1);
  CHECK(pages_come_back(*engine));
  CHECK(reaches(*engine, &EngineStats::pages_imported, static_cast<uint64_t>(n_pages)));
  // Another organization does not find the pages.
  uint32_t cached = 1;
  next.organization = 8;
  check_same(run(consumer, next, &cached), expected, what + ", other organization");
  CHECK_EQ(cached, 0u);
  return round;
}

EngineSetup of_model(const std::string& model, KvType type) {
  EngineSetup setup;
  setup.model = model;
  setup.limits.kv_type = type;
  return setup;
}

TEST(imported_pages_give_the_same_bits_for_each_element_type) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0, KvType::kF32, KvType::kQ4_0, KvType::kQ5_0}) {
    const Round round =
        check_round_trip(of_model("models/llama.q8_0.gguf", type), "type " + std::to_string(static_cast<int>(type)));
    if (round.n_pages == 0) return;
    CHECK_EQ(round.cached, 208u);  // 209 of 210 positions are computed: 13 full pages.
  }
}

TEST(imported_pages_give_the_same_bits_with_sliding_windows) {
  EngineSetup setup = of_model("models/mimo2.q8_0.gguf", KvType::kF16);
  setup.limits.pages_by_window = true;
  setup.limits.n_pages = 2048;
  const Round round = check_round_trip(setup, "windows");
  if (round.n_pages > 0) CHECK_EQ(round.cached, 208u);
}

TEST(imported_pages_give_the_same_bits_with_latents) {
  for (const KvType type : {KvType::kF16, KvType::kF32, KvType::kQ4_0, KvType::kQ5_0}) {
    const Round round = check_round_trip(of_model("models/deepseek32.q8_0.gguf", type), "latents");
    if (round.n_pages > 0) CHECK_EQ(round.cached, 208u);
  }
}

TEST(imported_snapshots_give_the_same_bits_with_recurrent_state) {
  for (const char* model : {"models/qwen35.f16.gguf", "models/kimi-linear.q8_0.gguf", "models/falcon-h1.q8_0.gguf",
                            "models/nemotron-h-moe.q8_0.gguf", "models/lfm2moe.q8_0.gguf", "models/jamba.q8_0.gguf",
                            "models/rwkv6.q8_0.gguf", "models/rwkv7.f16.gguf"}) {
    const Round round = check_round_trip(of_model(model, KvType::kF16), model);
    if (round.n_pages > 0) CHECK_EQ(round.cached, 208u);  // The snapshot at the end of the response.
  }
}

TEST(imported_pages_give_the_same_bits_with_compressed_blocks) {
  const Round round = check_round_trip(of_model("models/deepseek4.mxfp4_moe.gguf", KvType::kF16), "blocks");
  if (round.n_pages > 0) CHECK(round.cached > 0);
}

TEST(imported_pages_give_the_same_bits_with_mtp_layers) {
  EngineSetup setup = of_model("models/deepseek2-glm47flash.q8_0.gguf", KvType::kF16);
  setup.give_mtp_layer();
  setup.options.speculation = Speculation::kAlways;
  setup.options.mtp = Speculation::kAlways;
  const Round round = check_round_trip(setup, "MTP");
  if (round.n_pages > 0) CHECK_EQ(round.cached, 208u);
}

TEST(image_positions_are_exported_by_content_hash) {
  EngineSetup setup = of_model("models/llama.q8_0.gguf", KvType::kF16);
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  const auto width = load_parts(setup).model->params().input_width();
  GenerationRequest request = first_request();
  std::vector<float> rows(static_cast<size_t>(20 * width));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 13) * 0.01f - 0.05f;
  request.spans.push_back({.first = 30,
                           .n_rows = 20,
                           .hash = {123, 456},
                           .rows = std::make_shared<const std::vector<float>>(std::move(rows))});
  const ChoiceOutcome answer = run(consumer, request);
  const Kept kept = tier.take();
  REQUIRE(kept.text.spans.size() == 1);
  CHECK(kept.text.spans[0].first == 30 && kept.text.spans[0].n_rows == 20);
  CHECK((kept.text.spans[0].hash == ContentHash{123, 456}) && kept.text.spans[0].rows == nullptr);

  auto second = start_engine(setup);
  REQUIRE(second);
  Consumer other(*second);
  TierConsumer other_tier(*second);
  tier.outbox().close();
  CHECK(other_tier.open(1, 7, request).empty());
  CHECK_EQ(other_tier.write(1, kept, 9), 9);
  uint32_t cached = 0;
  check_same(run(other, request, &cached), answer, "image");
  CHECK_EQ(cached, 144u);
  // The same placeholder tokens with a different image form a different prompt.
  request.spans[0].hash.low = 457;
  CHECK_EQ(other_tier.open(2, 7, request).size(), size_t{1});
}

TEST(pages_are_exported_once_until_the_consumer_forgets_them) {
  auto engine = start_engine(of_model("models/llama.q8_0.gguf", KvType::kF16));
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  GenerationRequest request = first_request();
  const ChoiceOutcome answer = run(consumer, request);
  CHECK_EQ(tier.take().pages.size(), size_t{13});
  GenerationRequest next = next_request(request, answer);
  next.retain = "next";
  run(consumer, next);
  Kept kept = tier.take();
  CHECK_EQ(kept.text.tokens.size(), size_t{288});  // 289 of 290 positions: 18 pages, 13 of which are known.
  CHECK_EQ(kept.pages.size(), size_t{5});
  CHECK_EQ(kept.pages.begin()->first, 13);
  engine->forget_exports();
  run(consumer, next);
  CHECK_EQ(tier.take().pages.size(), size_t{18});
  // Without a label, nothing is exported.
  next.retain.clear();
  next.prompt = test_prompt(100, 9);
  run(consumer, next);
  CHECK(reaches(*engine, &EngineStats::pages_exported, uint64_t{36}));
}

TEST(forks_export_their_own_pages_and_the_common_ones_once) {
  auto engine = start_engine(of_model("models/llama.q8_0.gguf", KvType::kF16));
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  GenerationRequest request = first_request();
  request.n = 3;
  request.sampling.temperature = 1;
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  const Kept kept = tier.take(3);
  CHECK_EQ(kept.n_exports, 3);
  CHECK(reaches(*engine, &EngineStats::pages_exported,
                uint64_t{9 + 3 * 4}));  // 150 tokens of prompt; 209 positions each.
}

TEST(a_full_outbox_skips_pages_and_counts_them) {
  auto engine = start_engine(of_model("models/llama.q8_0.gguf", KvType::kF16));
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine, engine->page_sizes().full * 5);
  GenerationRequest request = first_request();
  run(consumer, request);
  const Kept kept = tier.take(1, false);
  CHECK_EQ(kept.pages.size(), size_t{5});
  CHECK_EQ(kept.n_skipped, 8);
  CHECK(reaches(*engine, &EngineStats::exports_skipped, uint64_t{8}));
  tier.outbox().acknowledge(engine->page_sizes().full * 5);
  run(consumer, request);  // The skipped pages are still in the pool. This exports as many as fit.
  const Kept more = tier.take();
  CHECK_EQ(more.pages.size(), size_t{5});
  CHECK_EQ(more.pages.begin()->first, 5);
}

// A small page after a skipped page would fit, but no lookup could find it.
TEST(nothing_is_exported_after_a_skipped_page) {
  EngineSetup setup = of_model("models/mimo2.q8_0.gguf", KvType::kF16);
  setup.limits.pages_by_window = true;
  setup.limits.n_pages = 2048;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  const PageSizes sizes = engine->page_sizes();
  TierConsumer tier(*engine, sizes.full * 2 + sizes.window / 2);
  run(consumer, first_request());
  const Kept kept = tier.take(1, false);
  int next = 0;
  for (const auto& [index, page] : kept.pages) CHECK_EQ(index, next++);
  CHECK_EQ(static_cast<int>(kept.pages.size()) + kept.n_skipped, 13);
}

TEST(a_sequence_below_the_minimum_is_exported_when_it_has_grown) {
  auto engine = start_engine(of_model("models/llama.q8_0.gguf", KvType::kF16));
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine, size_t{1} << 30, 256);
  const GenerationRequest request = first_request();
  GenerationRequest next = next_request(request, run(consumer, request));
  next.retain = "next";
  run(consumer, next);
  const Kept kept = tier.take();
  CHECK(kept.label == "next");
  CHECK_EQ(kept.n_exports, 1);
  CHECK_EQ(kept.pages.size(), size_t{18});  // 289 positions, the first 209 of which were below the minimum before.
}

// A page can be stored only after the pages before it.
TEST(pages_are_exported_in_order_with_their_snapshots) {
  auto engine = start_engine(of_model("models/qwen35.f16.gguf", KvType::kF16));
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  run(consumer, first_request());
  const Kept kept = tier.take();
  for (size_t i = 0; i < kept.order.size(); ++i) CHECK_EQ(kept.order[i], static_cast<int>(i));
  CHECK_EQ(kept.order.size(), size_t{13});
  CHECK(!kept.pages.at(12).snapshot.empty());
}

TEST(an_import_without_room_writes_what_fits) {
  EngineSetup setup = of_model("models/llama.q8_0.gguf", KvType::kF16);
  Kept kept;
  GenerationRequest request = first_request();
  {
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    TierConsumer tier(*engine);
    run(consumer, request);
    kept = tier.take();
  }
  setup.limits.n_pages = 24;  // An import holds at most a quarter.
  auto engine = start_engine(setup);
  REQUIRE(engine);
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  request.retain.clear();
  CHECK(tier.open(1, 7, request).empty());
  CHECK_EQ(tier.write(1, kept, 9), 6);
  uint32_t cached = 0;
  run(consumer, request, &cached);
  CHECK_EQ(cached, 96u);
}

TEST(holds_yield_to_sequences_that_need_the_pages) {
  EngineSetup setup = of_model("models/llama.q8_0.gguf", KvType::kF16);
  Kept kept;
  GenerationRequest request = first_request();
  {
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    TierConsumer tier(*engine);
    run(consumer, request);
    kept = tier.take();
  }
  setup.limits.n_pages = 24;
  auto engine = start_engine(setup);
  REQUIRE(engine);
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  CHECK(tier.open(1, 7, request).empty());
  CHECK_EQ(tier.write(1, kept, 9), 6);
  // A prompt that needs the whole pool is served although the import is never closed.
  GenerationRequest large = request;
  large.retain.clear();
  large.prompt = test_prompt(340, 4);
  large.max_tokens = 20;
  uint32_t cached = 1;
  run(consumer, large, &cached);
  CHECK_EQ(cached, 0u);
  CHECK(pages_come_back(*engine));
}

// Returns a request of organization 7 whose prompt has 6 full pages, the maximum that can be pinned in a pool of 24
// pages.
GenerationRequest pinned_request() {
  GenerationRequest request = first_request();
  request.retain.clear();
  request.prompt = test_prompt(100, 1);
  request.max_tokens = 4;
  return request;
}

GenerationRequest other_request(int n_tokens, int seed) {
  GenerationRequest request = pinned_request();
  request.prompt = test_prompt(n_tokens, seed);
  return request;
}

TEST(pinned_pages_are_evicted_only_if_no_sequence_could_run_otherwise) {
  EngineSetup setup = of_model("models/llama.q8_0.gguf", KvType::kF16);
  setup.limits.n_pages = 24;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  const GenerationRequest request = pinned_request();
  run(consumer, request);
  CHECK_EQ(tier.open(1, 7, request, true).size(), size_t{6});
  for (int seed = 2; seed < 6; ++seed) run(consumer, other_request(200, seed));
  uint32_t cached = 0;
  run(consumer, request, &cached);
  CHECK_EQ(cached, 96u);
  engine->clear_cache(std::nullopt);
  run(consumer, request, &cached);
  CHECK_EQ(cached, 96u);
  run(consumer, other_request(340, 7));
  run(consumer, request, &cached);
  CHECK(cached < 96u);
  // A second import pins the pages that the preceding request has computed again.
  engine->close_import(1);
  CHECK_EQ(tier.open(2, 7, request, true).size(), size_t{6});
  engine->close_import(2);
  for (int seed = 2; seed < 6; ++seed) run(consumer, other_request(200, seed));
  run(consumer, request, &cached);
  CHECK_EQ(cached, 0u);
  CHECK(pages_come_back(*engine));
}

TEST(pinned_pages_stay_while_all_sequences_wait_for_their_consumer) {
  EngineSetup setup = of_model("models/llama.q8_0.gguf", KvType::kF16);
  setup.limits.n_pages = 24;
  setup.options.channel_bytes_max = 1024;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  const GenerationRequest request = pinned_request();
  run(consumer, request);
  CHECK_EQ(tier.open(1, 7, request, true).size(), size_t{6});
  const ChannelId undrained = engine->open_channel([] {});
  GenerationRequest blocked = other_request(32, 9);
  blocked.max_tokens = 200;
  blocked.ignore_eos = true;
  const auto id = engine->submit(undrained, blocked);
  REQUIRE(id.ok());
  for (int i = 0; i < 2000 && engine->stats().preemptions == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(engine->stats().preemptions > 0);
  for (int i = 0; i < 50; ++i) {  // Each call makes the engine plan a step.
    engine->clear_cache(3);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  engine->close_channel(undrained);
  for (int seed = 2; seed < 6; ++seed) run(consumer, other_request(200, seed));
  uint32_t cached = 0;
  run(consumer, request, &cached);
  CHECK_EQ(cached, 96u);
}

TEST(pinned_imports_hold_a_quarter_of_the_pool_at_most) {
  EngineSetup setup = of_model("models/llama.q8_0.gguf", KvType::kF16);
  setup.limits.n_pages = 24;
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  run(consumer, other_request(200, 1));
  CHECK_EQ(tier.open(1, 7, other_request(200, 1), true).size(), size_t{6});
}

TEST(the_cache_of_one_organization_or_of_all_can_be_cleared) {
  auto engine = start_engine(of_model("models/llama.q8_0.gguf", KvType::kF16));
  if (!engine) return;
  Consumer consumer(*engine);
  GenerationRequest own = pinned_request(), others = pinned_request();
  others.organization = 8;
  run(consumer, own);
  run(consumer, others);
  engine->clear_cache(7);
  uint32_t cached = 1;
  run(consumer, own, &cached);
  CHECK_EQ(cached, 0u);
  run(consumer, others, &cached);
  CHECK_EQ(cached, 96u);
  engine->clear_cache(std::nullopt);
  run(consumer, own, &cached);
  CHECK_EQ(cached, 0u);
  run(consumer, others, &cached);
  CHECK_EQ(cached, 0u);
  CHECK(pages_come_back(*engine));
}

TEST(an_import_can_be_closed_before_its_pages_are_written) {
  EngineSetup setup = of_model("models/llama.q8_0.gguf", KvType::kF16);
  Kept kept;
  GenerationRequest request = first_request();
  auto engine = start_engine(setup);
  if (!engine) return;
  Consumer consumer(*engine);
  {
    TierConsumer tier(*engine);
    run(consumer, request);
    kept = tier.take();
  }
  TierConsumer tier(*engine);
  request.organization = 9;
  CHECK(tier.open(1, 9, request).empty());
  engine->close_import(1);
  CHECK_EQ(tier.write(1, kept, 1), 0);
  CHECK(reaches(*engine, &EngineStats::pages_imported, uint64_t{0}));
  CHECK(pages_come_back(*engine));
}

TEST(imports_above_the_limit_are_refused) {
  auto engine = start_engine(of_model("models/llama.q8_0.gguf", KvType::kF16));
  if (!engine) return;
  TierConsumer tier(*engine);
  const GenerationRequest request = first_request();
  for (uint64_t id = 1; id <= PageImporter::kMaxOpen; ++id) {
    tier.open(id, 7, request);
    CHECK(!tier.refused);
  }
  tier.open(1000, 7, request);
  CHECK(tier.refused);
  CHECK_EQ(tier.write(1000, {}, 0), 0);
  engine->close_import(1);
  tier.open(1001, 7, request);
  CHECK(!tier.refused);
}

TEST(a_touched_pool_has_all_its_pages) {
  for (const char* model : {"models/llama.q8_0.gguf", "models/mimo2.q8_0.gguf"}) {
    EngineSetup setup = of_model(model, KvType::kF16);
    setup.limits.pages_by_window = true;
    auto engine = start_engine(setup);
    if (!engine) return;
    Consumer consumer(*engine);
    GenerationRequest request = first_request();
    request.retain.clear();
    const TierConsumer tier(*engine);
    engine->touch_pool();
    uint32_t cached = 1;
    const ChoiceOutcome first = run(consumer, request, &cached);
    CHECK_EQ(cached, 0u);
    engine->touch_pool();  // Has no effect, because the pool is in use.
    check_same(run(consumer, request), first, model);
    CHECK(pages_come_back(*engine));
  }
}

TEST(a_cancelled_sequence_exports_the_pages_that_it_computed) {
  auto engine = start_engine(of_model("models/llama.q8_0.gguf", KvType::kF16));
  if (!engine) return;
  Consumer consumer(*engine);
  TierConsumer tier(*engine);
  GenerationRequest request = first_request();
  request.max_tokens = 300;
  const RequestId id = consumer.submit(request);
  consumer.pump_until([&] { return !consumer.outcomes()[id].choices[0].tokens.empty(); });
  engine->cancel(consumer.channel(), id);
  CHECK(tier.take().pages.size() >= 9);
}

}  // namespace
}  // namespace monolith::testing
