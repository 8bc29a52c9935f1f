// Compares models that use a LoRA adapter with golden logits, in exact and in production arithmetic, with every
// instruction set of this machine. Results must be bit-identical for every chunk size, every batch, and any adapters of
// other requests in the batch.
#include <string>
#include <vector>

#include "backend/cpu/machine/isa.h"
#include "check.h"
#include "formats/gguf/lora_file.h"
#include "support/model_fixture.h"

namespace monolith {
namespace {

using namespace testing;

struct LoraCase {
  const char* base;
  const char* adapter;
  const char* golden;
  float scale;
};
constexpr LoraCase kCases[] = {
    {"llama.f16", "lora-llama.f16-r8", "lora-llama.f16-r8.scale0.5", 0.5f},
    {"llama.f16", "lora-llama.f16-r8", "lora-llama.f16-r8.scale1.0", 1.0f},
    {"qwen3.f16", "lora-qwen3.f16-r4", "lora-qwen3.f16-r4.scale0.5", 0.5f},
    {"qwen3.f16", "lora-qwen3.f16-r4", "lora-qwen3.f16-r4.scale1.0", 1.0f},
};

std::string file_path(const std::string& name) { return check::vectors_path("models/" + name); }

bool is_here(const LoraCase& tested) {
  return !file_path(std::string(tested.base) + ".gguf").empty() &&
         !file_path(std::string(tested.golden) + ".json").empty();
}

std::unique_ptr<const Adapter> load_adapter(const std::string& name, float scale, LoadedModel& loaded) {
  const auto file = open_lora_file(file_path(name + ".gguf"));
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message), nullptr;
  auto adapter = Adapter::load(*file, scale, *loaded.model, SIZE_MAX);
  if (!adapter) return check::fail(__FILE__, __LINE__, adapter.error().message), nullptr;
  if (Status status = loaded.model->reserve_adapters((*adapter)->rank()); !status)
    return check::fail(__FILE__, __LINE__, status.error().message), nullptr;
  return std::move(*adapter);
}

bool same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}
bool same(const PromptRun& a, const PromptRun& b) { return same(a.positions, b.positions) && same(a.greedy, b.greedy); }
bool same(const std::vector<PromptRun>& a, const std::vector<PromptRun>& b) {
  return std::ranges::equal(a, b, [](const PromptRun& x, const PromptRun& y) { return same(x, y); });
}

void judge(const Golden& golden, const std::vector<GoldenPrompt>& prompts, const std::vector<PromptRun>& runs,
           const char* row, const std::string& label) {
  const Tolerance* tolerance = golden.tolerance(row);
  if (tolerance == nullptr) return check::fail(__FILE__, __LINE__, label + ": no tolerance");
  Verdict verdict;
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (size_t p = 0; p < prompts[i].positions.size(); ++p)
      verdict.add(distance(runs[i].positions[p], prompts[i].positions[p].exact, *tolerance), *tolerance);
    verdict.add(distance(runs[i].greedy.back(), prompts[i].last.exact, *tolerance), *tolerance);
  }
  check::note(label + " max " + std::to_string(verdict.worst.max) + " rms " + std::to_string(verdict.worst.rms));
  if (!verdict.passes(*tolerance)) check::fail(__FILE__, __LINE__, "outside the tolerance: " + label);
}

// Returns the golden prompts. For the portable kernels, which are slow, returns only the prompts of up to 50 tokens.
std::vector<GoldenPrompt> prompts_for(const Golden& golden, bool only_short) {
  std::vector<GoldenPrompt> prompts = golden.prompts;
  if (only_short) std::erase_if(prompts, [](const GoldenPrompt& prompt) { return prompt.tokens.size() > 50; });
  return prompts;
}

void check_golden(Arithmetic arithmetic, KvType kv_type, const char* row) {
  for (const LoraCase& tested : kCases) {
    if (!is_here(tested)) {
      check::skip("golden vectors not found");
      continue;
    }
    const auto golden = Golden::read(file_path(std::string(tested.golden) + ".json"));
    REQUIRE(golden);
    std::vector<PromptRun> first;
    for (const CpuIsa isa : available_cpu_isas()) {
      auto loaded =
          load_model(file_path(std::string(tested.base) + ".gguf"),
                     {.threads = 2, .isa = cpu_isa_name(isa), .arithmetic = arithmetic}, golden_limits(kv_type));
      REQUIRE(loaded);
      const auto adapter = load_adapter(tested.adapter, tested.scale, *loaded);
      REQUIRE(adapter);
      GoldenRunner runner(*loaded->model);
      runner.use({adapter.get()});
      const auto prompts = prompts_for(*golden, isa == CpuIsa::kPlain);
      const auto runs = runner.run(prompts, 1024, false);
      judge(*golden, prompts, runs, row, std::string(tested.golden) + " " + std::string(cpu_isa_name(isa)));
      // All instruction sets must compute the same bits for the short prompts.
      const auto brief = runner.run(prompts_for(*golden, true), 1024, true);
      if (first.empty()) first = brief;
      if (!same(brief, first)) check::fail(__FILE__, __LINE__, "different bits with " + std::string(cpu_isa_name(isa)));
      if (isa == CpuIsa::kPlain) continue;
      if (!same(runner.run(prompts, 7, true), runs)) check::fail(__FILE__, __LINE__, "different bits in chunks of 7");
    }
  }
}

}  // namespace

TEST(an_adapter_is_within_the_f32_tolerance_in_exact_arithmetic) {
  check_golden(Arithmetic::kExact, KvType::kF32, "f32");
}

TEST(an_adapter_is_within_the_tolerance_of_production_arithmetic) {
  check_golden(Arithmetic::kProduction, KvType::kF16, "f16");
}

TEST(rows_do_not_depend_on_the_other_adapters_of_a_step) {
  const LoraCase& tested = kCases[0];
  if (!is_here(tested)) return check::skip("golden vectors not found");
  const auto golden = Golden::read(file_path(std::string(tested.golden) + ".json"));
  REQUIRE(golden);
  for (const char* base : {"llama.f16", "llama.q8_0", "llama.q4_k_m"}) {
    auto loaded = load_model(file_path(std::string(base) + ".gguf"), {.threads = 2}, golden_limits(KvType::kF16));
    REQUIRE(loaded);
    GoldenRunner runner(*loaded->model);
    const auto without = runner.run(golden->prompts, 1024, false);
    const auto one = load_adapter(tested.adapter, 1.0f, *loaded), half = load_adapter(tested.adapter, 0.5f, *loaded);
    REQUIRE(one && half);
    runner.use({one.get()});
    const auto with_one = runner.run(golden->prompts, 1024, false);
    runner.use({half.get()});
    const auto with_half = runner.run(golden->prompts, 1024, false);
    runner.use({nullptr, one.get(), half.get()});
    for (const int piece : {1, 32, 1024}) {
      const auto mixed = runner.run(golden->prompts, piece, true);
      for (size_t i = 0; i < mixed.size(); ++i) {
        const auto& expected = i % 3 == 0 ? without[i] : i % 3 == 1 ? with_one[i] : with_half[i];
        if (!same(mixed[i], expected))
          check::fail(__FILE__, __LINE__, std::string(base) + ": different bits of prompt " + std::to_string(i));
      }
    }
    CHECK(!same(without[1], with_one[1]) && !same(with_one[2], with_half[2]));
  }
}

}  // namespace monolith
