// Runs the token and image sequences of the vision vectors on the CPU: with every instruction set, in exact and default
// arithmetic, and with whole and chunked prompts.
#include "support/vision_sequences.h"

namespace monolith::testing {
namespace {

void check_pair(const std::string& name) {
  const auto pair = read_pair(name);
  if (!pair) return check::skip("vision vectors not found");
  for (const CpuIsa isa : available_cpu_isas()) {
    // The portable code is slow, so it is run for only two models.
    if (isa == CpuIsa::kPlain && available_cpu_isas().size() > 1 && name != "qwen3vl" && name != "gemma3") continue;
    for (const bool exact : {true, false})
      for (const int rows : {512, 20}) {
        auto backend = make_cpu_backend({.threads = 2,
                                         .isa = cpu_isa_name(isa),
                                         .arithmetic = exact ? Arithmetic::kExact : Arithmetic::kProduction});
        REQUIRE(backend.ok());
        const std::string how = std::string(cpu_isa_name(isa)) + (exact ? ", exact, " : ", production, ") +
                                std::to_string(rows) + " rows a step";
        run_pair(*pair, std::move(*backend), {.how = how, .exact = exact, .rows = rows});
      }
  }
}

TEST(vision_sequences_idefics3) { check_pair("idefics3"); }
TEST(vision_sequences_gemma3) { check_pair("gemma3"); }
TEST(vision_sequences_qwen25vl) { check_pair("qwen25vl"); }
TEST(vision_sequences_qwen3vl) { check_pair("qwen3vl"); }
TEST(vision_sequences_of_the_other_pairs) {
  for (const char* pair : {"pixtral", "mistral3", "internvl", "llava15", "llava16", "lfm2", "gemma4v", "kimik25"})
    check_pair(pair);
}

}  // namespace
}  // namespace monolith::testing
