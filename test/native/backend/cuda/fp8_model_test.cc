// Tests whole models with FP8 weights. Their products equal the products of the same numbers in binary32, and the error
// of their logits compared with the original model stays below a fixed bound.
#include <algorithm>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "check.h"
#include "formats/gguf/assembled_file.h"
#include "support/model_fixture.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

// Upper bound on the logits' error, in standard deviations of the reference, and lower bound on the fraction of greedy
// tokens that are equal to the reference's. Rounding to a 3-bit mantissa changes each weight by about 2%, and in these
// small random models, the largest logits are often nearly equal.
constexpr double kFarthestRms = 0.15, kFewestSame = 0.7;

Result<LoadedModel> load_fp8(const std::string& path, bool exact) {
  auto file = GgufFile::open_for_change(path);
  if (!file) return file.error();
  AssembledFile::quantize(**file, TensorType::kF8E4M3, 1);
  auto backend = make_cuda_backend({.exact = exact});
  if (!backend) return backend.error();
  auto model = Transformer::load(**file, **backend, golden_limits(exact ? KvType::kF32 : KvType::kF16), {});
  if (!model) return model.error();
  return LoadedModel{std::move(*backend), std::move(*model)};
}

int best_of(const std::vector<float>& logits) {
  return static_cast<int>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

TEST(cuda_models_in_fp8_are_close_to_the_originals) {
  bool any = false;
  for (const std::string name : {"llama.bf16", "qwen3.f16"}) {
    const std::string path = check::vectors_path("models/" + name + ".gguf");
    if (path.empty()) continue;
    any = true;
    const auto golden = Golden::read(check::vectors_path("models/" + name + ".json"));
    REQUIRE(golden.has_value());
    std::vector<GoldenPrompt> prompts = golden->prompts;
    std::erase_if(prompts, [](const GoldenPrompt& prompt) { return prompt.tokens.size() > 16; });
    prompts.resize(std::min<size_t>(prompts.size(), 2));
    REQUIRE(!prompts.empty());
    const Tolerance* const tolerance = golden->tolerance("f16");
    REQUIRE(tolerance != nullptr);
    auto plain = load_fp8(path, true), fast = load_fp8(path, false);
    if (!plain) return check::fail(__FILE__, __LINE__, plain.error().message);
    if (!fast) return check::fail(__FILE__, __LINE__, fast.error().message);
    CHECK_EQ(fast->model->memory().weight_bytes, fast->model->allocated().weight_bytes);
    CHECK(fast->model->memory().weight_bytes * 3 < plain->model->memory().weight_bytes);
    const std::vector<PromptRun> expected = GoldenRunner(*plain->model).run(prompts, 64, true),
                                 runs = GoldenRunner(*fast->model).run(prompts, 5, true);
    int failed = 0, same = 0, tokens = 0;
    double products = 0, rounding = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const GoldenPrompt& prompt = prompts[i];
      for (size_t p = 0; p < prompt.positions.size(); ++p) {
        const Distance off = distance(runs[i].positions[p], expected[i].positions[p], *tolerance);
        products = std::max(products, off.rms);
        failed += off.within(*tolerance) ? 0 : 1;
        rounding = std::max(rounding, distance(runs[i].positions[p], prompt.positions[p].exact, *tolerance).rms);
      }
      for (size_t t = 0; t < runs[i].greedy.size(); ++t, ++tokens)
        same += best_of(runs[i].greedy[t]) == prompt.greedy[t];
    }
    check::note(name + " in FP8: rms " + std::to_string(products) + " from its products in binary32, " +
                std::to_string(rounding) + " from the file's weights; " + std::to_string(same) + " of " +
                std::to_string(tokens) + " greedy tokens the same");
    CHECK_EQ(failed, 0);
    CHECK(rounding < kFarthestRms);
    CHECK(same >= kFewestSame * tokens);
  }
  if (!any) check::skip("golden vectors not found");
}
