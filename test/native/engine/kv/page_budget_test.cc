#include "engine/kv/page_budget.h"

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "base/machine_memory.h"
#include "check.h"
#include "model/recurrent_cases.h"
#include "backend/forwarding_backend.h"
#include "support/drafting_model.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

using namespace testing;

constexpr uint64_t kMiB = 1 << 20;
constexpr ModelLimits kLimits = {.max_batch_tokens = 32, .max_logit_rows = 8};

PageChoice choose(int file_context, size_t page_bytes, const PageBudget& budget) {
  const auto choice = choose_pages(file_context, page_bytes, budget);
  return choice ? *choice : PageChoice{};
}

// A backend that computes on the CPU but reports device memory with a given number of free bytes.
class Device final : public ForwardingBackend {
 public:
  Device(Backend& inner, uint64_t free_bytes) : ForwardingBackend(inner), free_bytes_(free_bytes) {}
  uint64_t free_memory() const override { return free_bytes_; }
  size_t overhead_bytes(int n_layers) const override { return 5'000 * static_cast<size_t>(n_layers); }

 private:
  const uint64_t free_bytes_;
};

std::unique_ptr<Backend> processor() {
  auto made = make_cpu_backend({.threads = 1});
  return made ? std::move(*made) : nullptr;
}

// Returns the plan with which choose_limits() starts, before it knows the number of pages.
MemoryPlan first_plan(const GgufFile& file, Backend& cpu) {
  ModelLimits limits = kLimits;
  limits.n_pages = 1;
  limits.pages_by_window = true;
  limits.max_context = HyperParams::read(file)->context_length;
  return *Model::plan(file, Device(cpu, 1), limits);
}

// Returns the number of device bytes that are used before any pages or slots are allocated.
uint64_t taken_by(const MemoryPlan& plan) {
  return plan.weight_bytes + plan.activation_bytes + plan.overhead_bytes + kHeadroomBytes;
}

bool names(const Error& error, uint64_t number) {
  return error.message.find(' ' + std::to_string(number) + ' ') != std::string::npos;
}

}  // namespace

TEST(the_default_budget_holds_four_contexts) {
  const PageChoice choice = choose(2048, 1000, {.memory = 1024 * kMiB});
  CHECK_EQ(choice.context, 2048);
  CHECK_EQ(choice.pages, 4 * 128);
  // If the context is not a multiple of the page size, its last page counts as a whole page.
  CHECK_EQ(choose(2049, 1000, {.memory = 1024 * kMiB}).pages, 4 * 129);
}

TEST(the_default_context_is_limited_to_a_quarter_of_memory) {
  const PageChoice choice = choose(131072, kMiB, {.memory = 1024 * kMiB});
  CHECK_EQ(choice.pages, 256);
  CHECK_EQ(choice.context, 256 * kPageTokens);
}

TEST(a_requested_context_may_take_half_of_memory) {
  PageChoice choice = choose(131072, kMiB, {.max_context = 6000, .memory = 1024 * kMiB});
  CHECK_EQ(choice.context, 6000);
  CHECK_EQ(choice.pages, 375);
  choice = choose(131072, kMiB, {.max_context = 100000, .memory = 1024 * kMiB});
  CHECK_EQ(choice.pages, 512);
  CHECK_EQ(choice.context, 512 * kPageTokens);
}

// The extra pages keep the prompts of returning users cached. The pool grows with the free memory, and is never smaller
// than it would be without free memory.
TEST(free_memory_enlarges_the_pool_on_the_cpu) {
  const PageBudget plain{.memory = 1024 * kMiB};
  const auto with = [&](uint64_t free_bytes, bool is_device = false) {
    PageBudget budget = plain;
    budget.free = free_bytes;
    budget.is_device = is_device;
    return choose(2048, 1000, budget).pages;
  };
  CHECK_EQ(with(0), 4 * 128);
  CHECK_EQ(with(4 * 4 * 128 * 1000), 4 * 128);  // A quarter of this is exactly the same amount.
  CHECK_EQ(with(800 * kMiB), static_cast<int64_t>(200 * kMiB / 1000));
  CHECK_EQ(with(1000 * 1024 * kMiB), static_cast<int64_t>(kMaxDefaultKvBytes / 1000));
  CHECK_EQ(with(800 * kMiB, true), with(0, true));
  // Free memory affects neither an explicit pool size nor the context length.
  CHECK_EQ(choose(2048, 1000, {.kv_bytes = 50'999, .free = 800 * kMiB}).pages, 50);
  CHECK_EQ(choose(131072, kMiB, {.memory = 1024 * kMiB, .free = 900 * kMiB}).context, 256 * kPageTokens);
}

TEST(memory_planned_by_other_models_is_not_free) {
  const ParsedModel model{TinyModel()};
  const auto cpu = processor();
  REQUIRE(model.file && cpu);
  const auto pages = [&] {
    const auto limits = choose_limits(*model.file, *cpu, kLimits, 0, 0);
    return limits ? limits->n_pages : 0;
  };
  const int64_t least = 4 * 256 / kPageTokens, alone = pages();
  REQUIRE(alone > 2 * least);  // Needs a machine with a few megabytes of free memory.
  const MemoryClaim most(machine_memory().available / 10 * 9);
  CHECK(pages() < alone);
  const MemoryClaim all(uint64_t{1} << 60);
  CHECK_EQ(pages(), least);
}

TEST(a_requested_context_is_limited_by_the_file) {
  CHECK_EQ(choose(2048, 1000, {.max_context = 8192, .memory = 1024 * kMiB}).context, 2048);
  CHECK_EQ(choose(2048, 1000, {.max_context = 100, .memory = 1024 * kMiB}).context, 100);
}

TEST(an_explicit_budget_is_used_completely) {
  const PageChoice choice = choose(2048, 1000, {.kv_bytes = 50'999});
  CHECK_EQ(choice.pages, 50);
  CHECK_EQ(choice.context, 800);
  CHECK_EQ(choose(2048, 1000, {.max_context = 64, .kv_bytes = 50'999}).context, 64);
}

TEST(pages_of_zero_bytes_follow_the_context_length) {
  for (const uint64_t kv_bytes : {uint64_t{0}, uint64_t{1} << 40}) {
    const PageChoice choice = choose(2048, 0, {.kv_bytes = kv_bytes, .memory = uint64_t{1} << 41});
    CHECK_EQ(choice.context, 2048);
    CHECK_EQ(choice.pages, 4 * 128);
  }
}

TEST(a_budget_below_one_page_is_refused) {
  const auto choice = choose_pages(2048, 4096, {.kv_bytes = 4095});
  REQUIRE(!choice.ok());
  CHECK(choice.error().code == ErrorCode::kInvalidArgument);
  CHECK(choice.error().message.find("4095") != std::string::npos);
  CHECK(!choose_pages(2048, 4096, {.memory = 0}).ok());
}

TEST(a_budget_beyond_memory_is_refused) {
  const auto choice = choose_pages(2048, 4096, {.kv_bytes = 2 * kMiB, .memory = kMiB});
  REQUIRE(!choice.ok());
  CHECK(choice.error().message.find("2097152") != std::string::npos);
  CHECK_EQ(choose(2048, 4096, {.kv_bytes = kMiB, .memory = kMiB}).pages, 256);  // Exactly all of the memory is allowed.
}

TEST(a_refusal_names_the_available_bytes) {
  for (const auto& [is_device, max_context, room] :
       {std::tuple{false, 0, 100u}, {false, 64, 200u}, {true, 0, 300u}, {true, 64, 360u}}) {
    const auto choice = choose_pages(2048, 401, {.max_context = max_context, .memory = 400, .is_device = is_device});
    REQUIRE(!choice.ok());
    CHECK(names(choice.error(), 401) && names(choice.error(), room));
    CHECK(choose_pages(2048, room, {.max_context = max_context, .memory = 400, .is_device = is_device}).ok());
  }
}

// Only the engine uses the device's memory. Three quarters of the free memory are used for pages, or nine tenths if a
// context length is requested.
TEST(device_memory_is_filled) {
  PageChoice choice = choose(131072, kMiB, {.memory = 1024 * kMiB, .is_device = true});
  CHECK_EQ(choice.pages, 768);
  CHECK_EQ(choice.context, 768 * kPageTokens);
  choice = choose(131072, kMiB, {.max_context = 14'000, .memory = 1024 * kMiB, .is_device = true});
  CHECK_EQ(choice.pages, 875);
  CHECK_EQ(choice.context, 14'000);
  choice = choose(131072, kMiB, {.max_context = 100'000, .memory = 1024 * kMiB, .is_device = true});
  CHECK_EQ(choice.pages, 921);
  CHECK_EQ(choose(2048, 1000, {.memory = 1024 * kMiB, .is_device = true}).pages, 256 * 128);
}

TEST(a_model_that_does_not_fit_the_device_is_refused_with_its_size) {
  const ParsedModel model{TinyModel()};
  const auto cpu = processor();
  REQUIRE(model.file && cpu);
  const MemoryPlan plan = first_plan(*model.file, *cpu);
  const uint64_t taken = taken_by(plan);
  for (const uint64_t free_bytes : {taken, taken - 1}) {
    const auto refused = choose_limits(*model.file, Device(*cpu, free_bytes), kLimits, 0, 0);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::kOutOfMemory);
    CHECK(names(refused.error(), taken) && names(refused.error(), free_bytes));
  }
  // Three quarters of the remaining memory are used for pages.
  for (const auto& [left, pages, context] : {std::tuple{8u, 6, 96}, {64u, 48, 256}}) {
    const auto limits = choose_limits(*model.file, Device(*cpu, taken + left * plan.page_bytes), kLimits, 0, 0);
    REQUIRE(limits.ok());
    CHECK_EQ(limits->n_pages, pages);
    CHECK_EQ(limits->max_context, context);
  }
}

// Sliding-window layers get enough pages for the positions that a sequence stores at any one time. This number depends
// on the number of tokens per step, up to 128.
TEST(a_model_with_sliding_windows_has_enough_window_pages) {
  const std::string path = check::vectors_path("models/mimo2.q8_0.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto cpu = processor();
  const auto file = GgufFile::open(path);
  REQUIRE(file.ok() && cpu);
  ModelLimits limits = kLimits;
  const MemoryClaim all(uint64_t{1} << 60);  // No memory is free.
  for (const auto& [batch, rows] : {std::pair{32, 32}, {500, 128}}) {
    limits.max_batch_tokens = batch;
    const auto chosen = choose_limits(**file, *cpu, limits, 0, 0);
    REQUIRE(chosen.ok());
    const KvLayout layout = Model::plan(**file, *cpu, *chosen)->layout;
    REQUIRE(layout.windowed > 0 && layout.window_pages(32) < layout.window_pages(128));
    CHECK_EQ(chosen->n_pages, 4 * layout.pages_at_once(chosen->max_context, rows));
  }
}

// Each sequence has its own slot and two snapshots. On a device, slots and snapshots take at most a quarter of the
// remaining memory.
TEST(recurrent_state_slots_take_a_bounded_share_of_memory) {
  const ParsedModel model(lfm2().model);
  const auto cpu = processor();
  REQUIRE(model.file && cpu);
  const auto roomy = choose_limits(*model.file, *cpu, kLimits, 0, 0);
  REQUIRE(roomy.ok());
  CHECK_EQ(roomy->n_slots, 3 * kLimits.max_logit_rows + 1);
  const MemoryPlan plan = first_plan(*model.file, *cpu);
  const uint64_t taken = taken_by(plan), slot = plan.slot_bytes;
  REQUIRE(slot > 0);
  const auto with = [&](uint64_t left) {
    return choose_limits(*model.file, Device(*cpu, taken + left), kLimits, 0, 0);
  };
  const auto ten = with(4 * 10 * slot + 3);
  REQUIRE(ten.ok());
  CHECK_EQ(ten->n_slots, 10);
  // Three quarters of the memory that the slots leave free are used for pages.
  CHECK_EQ(ten->n_pages, static_cast<int64_t>((30 * slot + 3) / 4 * 3 / plan.page_bytes));
  const auto refused = with(4 * slot - 1);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kOutOfMemory);
  CHECK(names(refused.error(), slot));
  const auto without_pages = with(4 * slot);  // Two slots would be enough.
  CHECK(!without_pages.ok() && without_pages.error().message.find("page pool") != std::string::npos);
}

TEST(step_limits_can_be_raised_while_buffers_are_small) {
  const auto cpu = processor();
  TinyModel wide;
  for (const char* block : {"blk.0.", "blk.1."}) {
    for (const char* name : {"ffn_gate.weight", "ffn_up.weight"})
      wide.matrix(std::string(block) + name, 2048, TinyModel::kEmbedding);
    wide.matrix(std::string(block) + "ffn_down.weight", TinyModel::kEmbedding, 2048);
  }
  wide.key("feed_forward_length", 2048u);
  const ParsedModel model(wide);
  REQUIRE(model.file && cpu);
  const auto rows = [&](ModelLimits limits) {
    const auto chosen = choose_limits(*model.file, *cpu, limits, 0, 0);
    if (!chosen) check::fail(__FILE__, __LINE__, chosen.error().message);
    return chosen ? std::pair{chosen->max_batch_tokens, chosen->max_logit_rows} : std::pair{0, 0};
  };
  CHECK(rows(kLimits) == std::pair(4 * 32, 4 * 8));
  // Rows for draft tokens are planned in addition to the headroom.
  CHECK(rows({.max_batch_tokens = 32, .max_logit_rows = 8, .draft_rows = 3}) == std::pair(4 * 32, 4 * 8 + 3));
  // With buffers for four times as many tokens, the headroom would be too large; twice as many tokens fit.
  const auto bytes = [&](int n) {
    ModelLimits limits = kLimits;
    limits.max_batch_tokens = n;
    return Model::plan(*model.file, *cpu, limits)->activation_bytes;
  };
  const int many = static_cast<int>(kHeadroomBytes / 2 * 1'000 / (bytes(2'000) - bytes(1'000)));
  REQUIRE(bytes(2 * many) - bytes(many) <= kHeadroomBytes && bytes(4 * many) - bytes(many) > kHeadroomBytes &&
          4 * many < 65'536);
  CHECK(rows({.max_batch_tokens = many, .max_logit_rows = 8}) == std::pair(2 * many, 2 * 8));
  // Values that are set explicitly are never reduced, even if they exceed the limits up to which headroom is added.
  CHECK(rows({.max_batch_tokens = 65'536, .max_logit_rows = 5'000}) == std::pair(65'536, 5'000));
  CHECK(rows({.max_batch_tokens = 32, .max_logit_rows = 3'000}) == std::pair(4 * 32, 4'096));
}

// A file may lack the MTP layer or contain only a part of it. In both cases, the model runs without draft tokens.
TEST(an_mtp_layer_is_used_only_if_it_is_complete) {
  const std::string path = check::vectors_path("models/qwen35.f16.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto cpu = processor();
  const auto plain = GgufFile::open(path);
  REQUIRE(plain.ok() && cpu);
  ModelLimits wanted = kLimits;
  wanted.mtp_layer = true;
  const auto drafts = [&](const GgufFile& file) {
    const auto limits = choose_limits(file, *cpu, wanted, 0, 0);
    return limits ? std::string(limits->mtp_layer ? "drafts" : "no draft") : limits.error().message;
  };
  CHECK_EQ(drafts(**plain), "no draft");
  LooseModel loose(**plain);
  const std::string block = "blk." + std::to_string(add_mtp_layer(loose)) + ".";
  const Bytes whole = loose.build();
  loose.tensors.erase(block + "ffn_down.weight");
  const Bytes part = loose.build();
  const auto file = GgufFile::parse(whole), broken = GgufFile::parse(part);
  REQUIRE(file.ok() && broken.ok());
  CHECK_EQ(drafts(**file), "drafts");
  CHECK_EQ(drafts(**broken), "no draft");
}

TEST(missing_tensors_are_named_before_memory_is_allocated) {
  const auto cpu = processor();
  TinyModel no_length, no_tensor;
  no_length.keys.erase("llama.context_length");
  no_tensor.tensors.erase("blk.1.attn_k.weight");
  for (const auto& [model, name] : {std::pair{&no_length, "context_length"}, {&no_tensor, "attn_k"}}) {
    const ParsedModel parsed(*model);
    REQUIRE(parsed.file && cpu);
    const auto limits = choose_limits(*parsed.file, *cpu, kLimits, 0, 0);
    REQUIRE(!limits.ok());
    CHECK(limits.error().message.find(name) != std::string::npos);
  }
}

}  // namespace monolith
