// Compares models with golden logits: every file, in exact and in production arithmetic, with every instruction set of
// this machine. Results must be bit-identical for any chunk size, batch and number of threads.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "backend/cpu/machine/isa.h"
#include "check.h"
#include "model/golden_files.h"
#include "support/model_fixture.h"

namespace monolith {
namespace {

using namespace testing;

// If faster kernels are available, the portable kernels run only one file per type, and only the short prompts. The
// same applies to the AVX2 kernels if AVX-VNNI is available, because the two sets of kernels differ only in matmul,
// which is tested separately.
bool spared(CpuIsa isa) {
  return (isa == CpuIsa::kPlain && available_cpu_isas().size() > 1) ||
         (isa == CpuIsa::kAvx2 && cpu_has(CpuIsa::kAvxVnni));
}

std::string weights_path(const GoldenFile& file) {
  return check::vectors_path(std::string("models/") + file.name + ".gguf");
}

// The golden vectors are cached, because otherwise parsing them would take most of the test's time.
const Golden* golden_of(const GoldenFile& file) {
  static std::map<std::string, std::optional<Golden>> read;
  auto [at, is_new] = read.try_emplace(file.name);
  if (is_new) at->second = Golden::read(check::vectors_path(std::string("models/") + file.name + ".json"));
  if (!at->second) check::fail(__FILE__, __LINE__, std::string(file.name) + ".json is damaged");
  return at->second ? &*at->second : nullptr;
}

std::vector<GoldenPrompt> prompts_for(CpuIsa isa, const Golden& golden) {
  std::vector<GoldenPrompt> prompts = golden.prompts;
  if (spared(isa)) std::erase_if(prompts, [](const GoldenPrompt& prompt) { return prompt.tokens.size() > 100; });
  return prompts;
}

// A fresh clone contains only a few of the files; a developer's checkout may have all of them.
std::vector<GoldenFile> files_here() {
  std::vector<GoldenFile> here;
  for (const GoldenFile& file : kGoldenFiles)
    if (!weights_path(file).empty()) here.push_back(file);
  return here;
}

bool vectors_absent() {
  if (!files_here().empty()) return false;
  check::skip("golden vectors not found");
  return true;
}

// Loads a model and checks that the requested kernels are used.
std::unique_ptr<LoadedModel> load(const GoldenFile& file, const CpuBackendOptions& options, KvType kv_type) {
  auto loaded = load_model(weights_path(file), options, golden_limits(kv_type));
  if (!loaded) {
    check::fail(__FILE__, __LINE__, std::string(file.name) + ": " + loaded.error().message);
    return nullptr;
  }
  if (options.isa != "auto") CHECK_EQ(loaded->backend->info().isa, std::string(options.isa));
  return std::make_unique<LoadedModel>(std::move(*loaded));
}

// The greedy path may differ only from a step at which exact arithmetic has a near tie. Tokens after that step cannot
// be compared.
bool greedy_agrees(const GoldenPrompt& prompt, const PromptRun& run, const Tolerance& tolerance) {
  for (size_t i = 0; i < prompt.greedy.size(); ++i) {
    if (argmax(run.greedy[i]) == prompt.greedy[i]) continue;
    return prompt.exact_margins[i] < 2 * tolerance.max * standard_deviation(run.greedy[i]);
  }
  return true;
}

// After a failure, reports for each layer how far the residual stream is from the exact residual stream.
void note_layers(LoadedModel& loaded, const GoldenPrompt& prompt) {
  if (!loaded.model->observe()) return;
  GoldenPrompt alone = prompt;
  alone.greedy.resize(1);  // The run ends after the prompt.
  alone.positions = {{static_cast<int>(prompt.tokens.size()) - 1, {}}};
  GoldenRunner(*loaded.model).run({alone}, 1024, false);
  const std::vector<float> observed = loaded.model->observed();
  const size_t n_embd = static_cast<size_t>(loaded.model->params().n_embd);
  for (size_t layer = 0; layer < prompt.hidden_exact.size(); ++layer) {
    const std::span<const float> ours(observed.data() + layer * n_embd, n_embd);
    const Distance d = distance(ours, prompt.hidden_exact[layer], {});
    const bool is_norm = layer + 1 == prompt.hidden_exact.size();
    check::note(prompt.id + (is_norm ? ": final norm" : ": layer " + std::to_string(layer)) + " max " +
                std::to_string(d.max) + " rms " + std::to_string(d.rms));
  }
}

// `runs` has one entry for each entry of `prompts`, which contains some or all of the golden prompts.
void judge(const GoldenFile& file, const Golden& golden, const std::vector<GoldenPrompt>& prompts,
           const std::vector<PromptRun>& runs, const char* row, const std::string& label, LoadedModel& loaded) {
  const Tolerance* tolerance = golden.tolerance(row);
  if (tolerance == nullptr) return check::fail(__FILE__, __LINE__, std::string(file.name) + " has no tolerance " + row);
  Verdict verdict;
  std::string left_path;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const GoldenPrompt& prompt = prompts[i];
    for (size_t p = 0; p < prompt.positions.size(); ++p) {
      verdict.add(distance(runs[i].positions[p], prompt.positions[p].exact, *tolerance), *tolerance);
    }
    verdict.add(distance(runs[i].greedy.back(), prompt.last.exact, *tolerance), *tolerance);
    if (!greedy_agrees(prompt, runs[i], *tolerance)) left_path += " " + prompt.id;
  }
  char line[200];
  std::snprintf(line, sizeof line, "%-16s %-26s %-4s max %.2e rms %.2e kl %.2e, top-1 %d/%d", file.name, label.c_str(),
                row, verdict.worst.max, verdict.worst.rms, verdict.worst.kl, verdict.same_top, verdict.positions);
  check::note(line);
  if (!left_path.empty()) check::fail(__FILE__, __LINE__, file.name + (": greedy path differs in" + left_path));
  if (verdict.passes(*tolerance)) return;
  check::fail(__FILE__, __LINE__, std::string("outside the tolerance: ") + line);
  for (const GoldenPrompt& prompt : prompts) note_layers(loaded, prompt);
}

// Compares with vectors that were computed in chunks of 7 tokens. Such vectors exist for models with recurrent state.
void judge_pieces_of_7(const GoldenFile& file, const Golden& golden, GoldenRunner& runner) {
  const Tolerance& tolerance = *golden.tolerance("f32");
  const auto runs = runner.run(golden.prompts, 7, false);
  for (size_t i = 0; i < runs.size(); ++i) {
    const GoldenPrompt& prompt = golden.prompts[i];
    if (!prompt.after_pieces || !prompt.last_after_pieces) continue;
    if (!distance(runs[i].greedy.front(), prompt.after_pieces->exact, tolerance).within(tolerance) ||
        !distance(runs[i].greedy.back(), prompt.last_after_pieces->exact, tolerance).within(tolerance))
      check::fail(__FILE__, __LINE__,
                  std::string(file.name) + " " + prompt.id + " in chunks of 7 is outside the tolerance");
  }
}

// Compares two runs bit for bit, including the greedy logits.
bool same_bits(const std::vector<PromptRun>& a, const std::vector<PromptRun>& b) {
  const auto equal = [](const std::vector<std::vector<float>>& x, const std::vector<std::vector<float>>& y) {
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i].size() != y[i].size() || std::memcmp(x[i].data(), y[i].data(), x[i].size() * sizeof(float)) != 0)
        return false;
    }
    return true;
  };
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i].positions, b[i].positions) || !equal(a[i].greedy, b[i].greedy)) return false;
  }
  return true;
}

void check_same_bits(const std::vector<PromptRun>& a, const std::vector<PromptRun>& b, const std::string& what) {
  if (!same_bits(a, b)) check::fail(__FILE__, __LINE__, "different bits: " + what);
}

}  // namespace

TEST(exact_arithmetic_is_within_the_f32_tolerance_with_any_chunks) {
  if (vectors_absent()) return;
  for (const GoldenFile& file : files_here()) {
    const Golden* golden = golden_of(file);
    REQUIRE(golden != nullptr);
    auto loaded = load(file, {.threads = 2, .arithmetic = Arithmetic::kExact}, KvType::kF32);
    REQUIRE(loaded != nullptr);
    GoldenRunner runner(*loaded->model);
    const auto whole = runner.run(golden->prompts, 1024, false);
    judge(file, *golden, golden->prompts, whole, "f32", "exact " + loaded->backend->info().isa, *loaded);
    judge_pieces_of_7(file, *golden, runner);
    for (const int piece : {1, 16, 32, 100}) {
      const auto pieces = runner.run(golden->prompts, piece, true);
      check_same_bits(whole, pieces, std::string(file.name) + " in chunks of " + std::to_string(piece) + ", batched");
    }
  }
}

TEST(exact_arithmetic_is_within_the_f32_tolerance_on_the_other_instruction_sets) {
  if (vectors_absent()) return;
  for (const CpuIsa isa : available_cpu_isas()) {
    if (isa == available_cpu_isas().back()) continue;  // The test above covers the instruction set that "auto" selects.
    for (const GoldenFile& file : files_here()) {
      // With exact arithmetic, weights of every type are converted to F32, so one file per architecture is enough.
      if (!file.own_shape) continue;
      const Golden* golden = golden_of(file);
      REQUIRE(golden != nullptr);
      auto loaded =
          load(file, {.threads = 2, .isa = cpu_isa_name(isa), .arithmetic = Arithmetic::kExact}, KvType::kF32);
      REQUIRE(loaded != nullptr);
      const auto prompts = prompts_for(isa, *golden);
      judge(file, *golden, prompts, GoldenRunner(*loaded->model).run(prompts, 1024, true), "f32",
            "exact " + std::string(cpu_isa_name(isa)), *loaded);
    }
  }
}

TEST(production_arithmetic_is_within_its_tolerance_on_every_instruction_set) {
  if (vectors_absent()) return;
  for (const CpuIsa isa : available_cpu_isas()) {
    for (const GoldenFile& file : files_here()) {
      if (spared(isa) && !file.plain_too) continue;
      const Golden* golden = golden_of(file);
      REQUIRE(golden != nullptr);
      auto loaded = load(file, {.threads = 2, .isa = cpu_isa_name(isa)}, KvType::kF16);
      REQUIRE(loaded != nullptr);
      const auto prompts = prompts_for(isa, *golden);
      judge(file, *golden, prompts, GoldenRunner(*loaded->model).run(prompts, 1024, true), file.production,
            "production " + std::string(cpu_isa_name(isa)), *loaded);
    }
  }
}

// 8-bit keys and values cause a smaller error than 8-bit activations. The tolerance for 8-bit activations covers both
// errors.
TEST(eight_bit_pages_are_within_the_int8_tolerance) {
  if (vectors_absent()) return;
  for (const GoldenFile& file : files_here()) {
    const Golden* golden = golden_of(file);
    REQUIRE(golden != nullptr);
    if (golden->tolerance("int8") == nullptr) continue;
    auto loaded = load(file, {.threads = 2}, KvType::kQ8_0);
    REQUIRE(loaded != nullptr);
    judge(file, *golden, golden->prompts, GoldenRunner(*loaded->model).run(golden->prompts, 1024, true), "int8",
          "8-bit pages", *loaded);
  }
}

// The error of pages with fewer bits alone, in standard deviations of the logits: all other arithmetic is exact. The
// files have random weights and small heads, so their errors are larger than the errors of trained models. The largest
// errors are caused by latents, and by experts that are chosen differently.
TEST(pages_of_8_5_and_4_bits_are_within_their_tolerance) {
  if (vectors_absent()) return;
  struct Bound {
    KvType type;
    const char* name;
    double median, most;
  };
  for (const Bound& bound : {Bound{KvType::kQ8_0, "q8_0", 0.04, 0.5}, Bound{KvType::kQ5_0, "q5_0", 0.18, 0.9},
                             Bound{KvType::kQ4_0, "q4_0", 0.35, 1.0}}) {
    std::vector<double> errors;
    for (const GoldenFile& file : files_here()) {
      if (!file.own_shape) continue;
      const Golden* golden = golden_of(file);
      REQUIRE(golden != nullptr);
      auto loaded = load(file, {.threads = 2, .arithmetic = Arithmetic::kExact}, bound.type);
      REQUIRE(loaded != nullptr);
      const auto runs = GoldenRunner(*loaded->model).run(golden->prompts, 1024, true);
      double squares = 0;
      int n = 0;
      for (size_t i = 0; i < runs.size(); ++i)
        for (size_t p = 0; p < golden->prompts[i].positions.size(); ++p, ++n)
          squares += std::pow(distance(runs[i].positions[p], golden->prompts[i].positions[p].exact, {}).rms, 2);
      errors.push_back(std::sqrt(squares / std::max(n, 1)));
      char line[120];
      std::snprintf(line, sizeof line, "%-24s %s pages: %.4f standard deviations", file.name, bound.name,
                    errors.back());
      check::note(line);
      if (!(errors.back() <= bound.most))
        check::fail(__FILE__, __LINE__, std::string("outside the tolerance: ") + line);
    }
    if (errors.empty()) continue;
    std::ranges::sort(errors);
    if (!(errors[errors.size() / 2] <= bound.median))
      check::fail(__FILE__, __LINE__,
                  std::string(bound.name) + ": median error " + std::to_string(errors[errors.size() / 2]));
  }
}

TEST(production_results_do_not_depend_on_chunks_batch_and_threads) {
  if (vectors_absent()) return;
  for (const CpuIsa isa : available_cpu_isas()) {
    if (spared(isa)) continue;
    for (const GoldenFile& file : files_here()) {
      const Golden* golden = golden_of(file);
      REQUIRE(golden != nullptr);
      const std::string label = std::string(file.name) + " " + std::string(cpu_isa_name(isa));
      auto one_thread = load(file, {.threads = 1, .isa = cpu_isa_name(isa)}, KvType::kF16);
      auto threads = load(file, {.threads = 3, .isa = cpu_isa_name(isa)}, KvType::kF16);
      REQUIRE(one_thread != nullptr && threads != nullptr);
      const auto alone = GoldenRunner(*one_thread->model).run(golden->prompts, 1024, false);
      check_same_bits(alone, GoldenRunner(*threads->model).run(golden->prompts, 32, true),
                      label + ", chunks of 32, 3 threads");
      check_same_bits(alone, GoldenRunner(*one_thread->model).run(golden->prompts, 100, true),
                      label + ", chunks of 100");
    }
  }
}

TEST(observed_residuals_match_exact_ones_at_every_layer) {
  if (vectors_absent()) return;
  for (const GoldenFile& file : files_here()) {
    if (!file.own_shape) continue;
    const Golden* golden = golden_of(file);
    REQUIRE(golden != nullptr);
    if (golden->prompts.front().hidden_exact.empty()) continue;  // The second set of vectors has no hidden states.
    auto loaded = load(file, {.threads = 1, .arithmetic = Arithmetic::kExact}, KvType::kF32);
    REQUIRE(loaded != nullptr);
    REQUIRE(loaded->model->observe().ok());
    const auto n_tables = static_cast<size_t>(loaded->model->memory().layout.tables());
    std::vector<int32_t> pages;
    while (pages.size() < 10 * n_tables) pages.push_back(static_cast<int32_t>(pages.size() ^ 2));
    for (const GoldenPrompt& prompt : golden->prompts) {
      const int n = static_cast<int>(prompt.tokens.size());
      if (n > 160) continue;
      std::vector<Segment> segments;
      for (size_t table = 0; table < n_tables; ++table) segments.push_back({0, n, 0, &pages[10 * table]});
      // If there is more than one row of logits, the last layer's rows are gathered. This checks that the right row is
      // observed.
      const std::vector<int32_t> rows = n > 2 ? std::vector<int32_t>{0, n - 1} : std::vector<int32_t>{n - 1};
      loaded->model->forward({prompt.tokens, segments, rows});
      const std::vector<float> observed = loaded->model->observed();
      const auto n_embd = static_cast<size_t>(loaded->model->params().n_embd);
      REQUIRE(prompt.hidden_exact.size() * n_embd == observed.size());
      for (size_t layer = 0; layer < prompt.hidden_exact.size(); ++layer) {
        const Distance d = distance({observed.data() + layer * n_embd, n_embd}, prompt.hidden_exact[layer], {});
        if (!(d.max < 1e-4)) {
          check::fail(__FILE__, __LINE__,
                      std::string(file.name) + " " + prompt.id + " layer " + std::to_string(layer) + ": off by " +
                          std::to_string(d.max) + " standard deviations");
        }
      }
    }
  }
}

}  // namespace monolith
