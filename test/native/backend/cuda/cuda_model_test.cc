// Tests whole models on the CUDA backend, which runs in the emulator in this executable. The logits match the golden
// vectors. They are bit-identical for any division of prompts into chunks and any batch, with and without CUDA graphs.
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "emulator/emulator.h"
#include "check.h"
#include "support/model_fixture.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

struct Case {
  const char* file;
  const char* row;  // Name of the golden tolerance.
  bool exact;
  KvType kv_type = KvType::kF16;
  bool prompt = false;  // In production arithmetic: run a prompt in chunks rather than a single token.
};
constexpr Case kCases[] = {
    {"llama.f32", "f32", true, KvType::kF32},
    {"llama-rope3.f16", "f32", true, KvType::kF32},
    {"qwen2.f16", "f32", true, KvType::kF32},
    {"qwen3.f16", "f32", true, KvType::kF32},
    {"gemma3.f16", "f32", true, KvType::kF32},
    {"exaone-moe.q8_0", "f32", true, KvType::kF32},
    {"gemma3n.q4_0", "f32", true, KvType::kF32},
    {"gemma4.f16", "f32", true, KvType::kF32},
    {"gemma4-moe.q8_0", "f32", true, KvType::kF32},
    {"gemma4-ple.q8_0", "f32", true, KvType::kF32},
    {"step35.q8_0", "f32", true, KvType::kF32},
    {"gemma4.f16", "f16", false},
    {"gemma4-ple.q8_0", "int8", false},
    {"qwen35.f16", "f32", true, KvType::kF32},
    {"qwen35moe.q8_0", "f32", true, KvType::kF32},
    {"qwen3next.q8_0", "f32", true, KvType::kF32},
    {"mamba2.q8_0", "f32", true, KvType::kF32},
    {"nemotron-h.q8_0", "f32", true, KvType::kF32},
    {"granitehybrid.q8_0", "f32", true, KvType::kF32},
    {"falcon-h1.q8_0", "f32", true, KvType::kF32},
    {"lfm2.f16", "f32", true, KvType::kF32},
    {"lfm2moe.q8_0", "f32", true, KvType::kF32},
    {"nemotron-h-moe.q8_0", "f32", true, KvType::kF32},
    {"llama4.q4_0", "f32", true, KvType::kF32},
    {"mistral3.f16", "f32", true, KvType::kF32},
    {"mimo2.q8_0", "f32", true, KvType::kF32},
    {"deepseek2-lite.q4_0", "f32", true, KvType::kF32},
    {"deepseek2-v3.q8_0", "f32", true, KvType::kF32},
    {"deepseek2-glm47flash.q8_0", "f32", true, KvType::kF32},
    {"mistral4.q8_0", "f32", true, KvType::kF32},
    {"deepseek32.q8_0", "f32", true, KvType::kF32},
    {"glm-dsa.q8_0", "f32", true, KvType::kF32},
    {"kimi-linear.q8_0", "f32", true, KvType::kF32},
    {"deepseek4.mxfp4_moe", "f32", true, KvType::kF32},
    {"minimax-m2.q8_0", "f32", true, KvType::kF32},
    {"hunyuan-dense.q8_0", "f32", true, KvType::kF32},
    {"hunyuan-moe.q8_0", "f32", true, KvType::kF32},
    {"cohere2.q8_0", "f32", true, KvType::kF32},
    {"command-r.f16", "f32", true, KvType::kF32},
    {"stablelm.q8_0", "f32", true, KvType::kF32},
    {"phimoe.q8_0", "f32", true, KvType::kF32},
    {"arcee.f16", "f32", true, KvType::kF32},
    {"apertus.f16", "f32", true, KvType::kF32},
    // Tests one model for each kind of state and layer, in production arithmetic.
    {"qwen35.f16", "f16", false, KvType::kF16, true},
    {"nemotron-h-moe.q8_0", "int8", false, KvType::kF16, true},
    {"falcon-h1.q8_0", "int8", false, KvType::kF16, true},
    {"lfm2.f16", "f16", false, KvType::kF16, true},
    {"deepseek2-v3.q8_0", "int8", false, KvType::kF16, true},
    {"deepseek4.mxfp4_moe", "int8", false, KvType::kF16, true},
    {"llama.q8_0", "int8", false},
    {"llama.q4_0", "int8", false},
    {"llama.q4_k", "int8", false},
    {"llama.q6_k", "int8", false},
    {"llama.q4_k_m", "int8", false},
    {"llama.f16", "f16", false},
    {"llama.bf16", "bf16", false},
    {"qwen3.f16", "f16", false},
    {"llama.f16", "q8_0 pages", false, KvType::kQ8_0},
    {"qwen2.f16", "q8_0 pages", false, KvType::kQ8_0},
    {"gemma3.f16", "q8_0 pages", false, KvType::kQ8_0},
    {"llama.f16", "fp8 pages", false, KvType::kFp8},
    {"qwen2.f16", "fp8 pages", false, KvType::kFp8},
    {"qwen3.f16", "fp8 pages", false, KvType::kFp8},
    {"gemma3.f16", "fp8 pages", false, KvType::kFp8},
};
// The error that 8-bit pages add to the error of binary16 weights and activations, in standard deviations of the
// logits.
constexpr Tolerance kQ8Pages{.max = 0.2, .rms = 0.05, .kl = 0.006, .outliers = 0};
constexpr Tolerance kFp8Pages{.max = 0.9, .rms = 0.22, .kl = 0.13, .outliers = 0};

// Runs only short prompts, because the emulator is slow.
std::vector<GoldenPrompt> short_prompts(const Golden& golden, size_t most_tokens) {
  std::vector<GoldenPrompt> prompts = golden.prompts;
  std::erase_if(prompts, [&](const GoldenPrompt& prompt) { return prompt.tokens.size() > most_tokens; });
  return prompts;
}

}  // namespace

TEST(cuda_models_give_golden_logits) {
  bool any = false;
  for (const Case& c : kCases) {
    const std::string path = check::vectors_path(std::string("models/") + c.file + ".gguf");
    if (path.empty()) continue;
    any = true;
    const auto golden = Golden::read(check::vectors_path(std::string("models/") + c.file + ".json"));
    REQUIRE(golden.has_value());
    auto loaded = load_model(path, make_cuda_backend({.exact = c.exact}), golden_limits(c.kv_type));
    if (!loaded) return check::fail(__FILE__, __LINE__, loaded.error().message);
    std::vector<GoldenPrompt> prompts = short_prompts(*golden, 24);
    REQUIRE(!prompts.empty());
    if (!c.exact) prompts = {c.prompt ? prompts.back() : prompts.front()};
    const Tolerance* tolerance = c.kv_type == KvType::kQ8_0  ? &kQ8Pages
                                 : c.kv_type == KvType::kFp8 ? &kFp8Pages
                                                             : golden->tolerance(c.row);
    REQUIRE(tolerance != nullptr);
    const std::vector<PromptRun> runs = GoldenRunner(*loaded->model).run(prompts, 7, true);
    Verdict verdict;
    for (size_t i = 0; i < prompts.size(); ++i) {
      for (size_t p = 0; p < prompts[i].positions.size(); ++p)
        verdict.add(distance(runs[i].positions[p], prompts[i].positions[p].exact, *tolerance), *tolerance);
      verdict.add(distance(runs[i].greedy.back(), prompts[i].last.exact, *tolerance), *tolerance);
    }
    check::note(std::string(c.file) + ", " + c.row + ": " + std::to_string(prompts.size()) + " prompts, max " +
                std::to_string(verdict.worst.max) + ", rms " + std::to_string(verdict.worst.rms));
    CHECK_EQ(verdict.failed, 0);
  }
  if (!any) check::skip("golden vectors not found");
}

TEST(cuda_results_do_not_depend_on_the_batch) {
  const std::string path = check::vectors_path("models/llama.bf16.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto golden = Golden::read(check::vectors_path("models/llama.bf16.json"));
  REQUIRE(golden.has_value());
  const std::vector<GoldenPrompt> prompts = short_prompts(*golden, 24);
  std::vector<PromptRun> first;
  struct Way {
    int piece;
    bool together, recording;
    cuda::emulator::Order order;
  };
  using enum cuda::emulator::Order;
  for (const Way way : {Way{1024, false, false, kAscending}, Way{1024, true, true, kDescending},
                        Way{5, true, true, kShuffled}, Way{1, false, true, kAscending}}) {
    cuda::emulator::set_order(way.order);
    auto loaded =
        load_model(path, make_cuda_backend({.exact = false, .recording = way.recording}), golden_limits(KvType::kF16));
    REQUIRE(loaded.ok());
    const std::vector<PromptRun> runs = GoldenRunner(*loaded->model).run(prompts, way.piece, way.together);
    if (first.empty()) first = runs;
    for (size_t i = 0; i < prompts.size(); ++i) {
      CHECK(runs[i].greedy == first[i].greedy);
      CHECK(runs[i].positions == first[i].positions);
    }
  }
  cuda::emulator::set_order(kAscending);
}
