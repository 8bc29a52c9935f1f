// Compares every architecture with a reference network in float64. Results must be bit-identical for any chunk size,
// any number of threads and every instruction set. Invalid tensors must be rejected with an error that names them.
#include <cstring>
#include <string>
#include <vector>

#include "all_cases.h"
#include "check.h"
#include "support/golden.h"
#include "support/network_run.h"

namespace monolith {
namespace {

using namespace testing;

std::vector<Case> cases_on_a_cpu() {
  std::vector<Case> cases = all_cases();
  cases.push_back(alibi_case());
  cases.push_back(grovemoe());
  return cases;
}

Loaded load(const TinyModel& tiny, const CpuBackendOptions& options) {
  const ParsedModel parsed(tiny);
  if (parsed.file) return load_network(*parsed.file, options);
  check::fail(__FILE__, __LINE__, tiny.architecture + ": " + parsed.error);
  return {};
}

}  // namespace

TEST(every_architecture_matches_its_float64_network) {
  const Tokens tokens = some_tokens(37);
  for (const Case& one : cases_on_a_cpu()) {
    const Loaded loaded = load(one.model, {.threads = 2, .arithmetic = Arithmetic::kExact});
    REQUIRE(loaded.model != nullptr);
    const std::vector<float> logits = run_network(*loaded.model, tokens, 37);
    const Rows expected = one.network(Mlp(one.model), tokens);
    double worst = 0;
    for (size_t row = 0; row < expected.size(); ++row) {
      const std::span<const float> ours(logits.data() + row * TinyModel::kVocab, TinyModel::kVocab);
      const double deviation = standard_deviation(ours);
      for (size_t i = 0; i < ours.size(); ++i)
        worst = std::max(worst, std::abs(ours[i] - expected[row][i]) / deviation);
    }
    check::note(one.name + ": " + std::to_string(worst * 1e6) + "e-6 standard deviations");
    if (!(worst < 2e-5)) check::fail(__FILE__, __LINE__, one.name + " is off by " + std::to_string(worst));
    CHECK_EQ(loaded.model->memory().total(), loaded.model->allocated().total());
    CHECK_EQ(loaded.model->memory().weight_bytes, loaded.model->allocated().weight_bytes);
  }
}

TEST(every_architecture_is_independent_of_chunks_threads_and_instruction_set) {
  const Tokens tokens = some_tokens(37);
  for (const Case& one : cases_on_a_cpu()) {
    std::vector<float> first;
    for (const CpuIsa isa : available_cpu_isas()) {
      for (const auto& [threads, piece] : {std::pair{1, 37}, std::pair{3, 1}, std::pair{2, 10}}) {
        const Loaded loaded = load(one.model, {.threads = threads, .isa = cpu_isa_name(isa)});
        REQUIRE(loaded.model != nullptr);
        const std::vector<float> logits = run_network(*loaded.model, tokens, piece);
        if (first.empty()) first = logits;
        if (std::memcmp(first.data(), logits.data(), logits.size() * sizeof(float)) != 0)
          check::fail(__FILE__, __LINE__,
                      one.name + ": different bits on " + std::string(cpu_isa_name(isa)) + " in chunks of " +
                          std::to_string(piece));
      }
    }
  }
}

// If a tensor is missing, has a wrong shape or is unknown, the error must name it.
TEST(every_architecture_names_invalid_tensors) {
  for (const Case& one : cases_on_a_cpu()) {
    for (const auto& [name, tensor] : one.model.tensors) {
      if (!name.starts_with("blk.1.")) continue;
      for (const bool erased : {true, false}) {
        TinyModel faulty = one.model;
        if (erased) {
          faulty.tensors.erase(name);
        } else {
          faulty.tensors[name].dims.back() += 16;
        }
        const ParsedModel parsed(faulty);
        auto backend = make_cpu_backend({.threads = 1});
        const auto plan = Model::plan(*parsed.file, **backend, kNetworkLimits);
        if (plan || plan.error().message.find("'" + name + "'") == std::string::npos)
          check::fail(
              __FILE__, __LINE__,
              one.name + ": a fault in " + name + " is " + (plan ? "not seen" : "told as " + plan.error().message));
      }
    }
  }
}

TEST(learned_positions_limit_the_context) {
  TinyModel model = earlier_cases().front().model;
  model.key("context_length", 48u);
  model.matrix("position_embd.weight", 48, kEmbd);
  const ParsedModel parsed(model);
  auto backend = make_cpu_backend({.threads = 1});
  ModelLimits limits = kNetworkLimits;
  const auto plan = Model::plan(*parsed.file, **backend, limits);
  REQUIRE(!plan.ok());
  CHECK(plan.error().message.find("max_context is 96") != std::string::npos &&
        plan.error().message.find("only 48 positions") != std::string::npos);
  limits.max_context = 48;
  CHECK(Model::plan(*parsed.file, **backend, limits).ok());
}

}  // namespace monolith
