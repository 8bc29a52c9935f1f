#include "model/all_cases.h"

namespace monolith::testing {

std::vector<Case> all_cases() {
  std::vector<Case> cases = {llama_like("llama", false),
                             llama_like("exaone", true),
                             llama_like("internlm2", false),
                             llama_like("ernie4_5", false),
                             llama_like("xverse", false),
                             qwen2vl(),
                             qwen3vl(),
                             qwen3moe("qwen3vlmoe"),
                             exaone4(false),
                             exaone4(true),
                             glm4(),
                             seed_oss(),
                             minicpm(),
                             mistral(),
                             biased_llama(),
                             mixtral(),
                             qwen2moe(),
                             qwen3moe(),
                             olmoe(),
                             gemma(),
                             gemma2(),
                             gemma3(),
                             phi3(128, 1.5),
                             phi3(64, 6),
                             smollm3(),
                             granite(true),
                             granite(false),
                             granitemoe(false),
                             granitemoe(true),
                             olmo2(false),
                             olmo2(true),
                             glm4moe(false),
                             glm4moe(true),
                             dots1(),
                             bailingmoe(),
                             bailingmoe2(),
                             ernie4_5_moe(),
                             gpt_oss(),
                             norms_apart(true),
                             norms_apart(false)};
  for (Case& one : earlier_cases()) cases.push_back(std::move(one));
  for (Case& one : recurrent_cases()) cases.push_back(std::move(one));
  return cases;
}

}  // namespace monolith::testing
