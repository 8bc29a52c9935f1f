#include "formats/hf/architecture.h"

#include <algorithm>
#include <iterator>

namespace monolith::hf {
namespace {

constexpr std::string_view kPostNorm = "post_attention_norm";

constexpr Architecture kArchitectures[] = {
    {.name = "LlamaForCausalLM", .gguf = "llama", .interleaves_heads = true},
    {.name = "MistralForCausalLM", .gguf = "llama", .interleaves_heads = true},
    {.name = "MixtralForCausalLM", .gguf = "llama", .interleaves_heads = true, .rms_eps = 1e-5},
    {.name = "Qwen2ForCausalLM", .gguf = "qwen2"},
    {.name = "Qwen2MoeForCausalLM", .gguf = "qwen2moe"},
    {.name = "Qwen3ForCausalLM", .gguf = "qwen3"},
    {.name = "Qwen3MoeForCausalLM", .gguf = "qwen3moe"},
    {.name = "GemmaForCausalLM", .gguf = "gemma", .norms_from_one = true, .activation = Activation::kGelu},
    {.name = "Gemma2ForCausalLM",
     .gguf = "gemma2",
     .norms_from_one = true,
     .second_norm = kPostNorm,
     .activation = Activation::kGelu,
     .window_pattern = true},
    {.name = "Gemma3ForCausalLM",
     .gguf = "gemma3",
     .norms_from_one = true,
     .second_norm = kPostNorm,
     .activation = Activation::kGelu,
     .window_pattern = true},
    {.name = "Gemma3ForConditionalGeneration",   // its text model
     .gguf = "gemma3",
     .norms_from_one = true,
     .second_norm = kPostNorm,
     .activation = Activation::kGelu,
     .window_pattern = true},
    {.name = "Gemma4ForCausalLM",
     .gguf = "gemma4",
     .second_norm = kPostNorm,
     .activation = Activation::kGelu,
     .window_pattern = true},
    {.name = "Gemma4ForConditionalGeneration",   // its text model
     .gguf = "gemma4",
     .second_norm = kPostNorm,
     .activation = Activation::kGelu,
     .window_pattern = true},
    {.name = "Phi3ForCausalLM", .gguf = "phi3", .rms_eps = 1e-5},
    {.name = "SmolLM3ForCausalLM", .gguf = "smollm3", .interleaves_heads = true},
    {.name = "GraniteForCausalLM", .gguf = "granite", .interleaves_heads = true},
    {.name = "GraniteMoeForCausalLM", .gguf = "granitemoe", .interleaves_heads = true},
    {.name = "GraniteMoeSharedForCausalLM", .gguf = "granitemoe", .interleaves_heads = true},
    {.name = "Olmo2ForCausalLM", .gguf = "olmo2", .second_norm = kPostNorm, .rms_eps = 1e-5},
    {.name = "Olmo3ForCausalLM", .gguf = "olmo2", .second_norm = kPostNorm, .window_pattern = true, .rms_eps = 1e-5},
    {.name = "OlmoeForCausalLM", .gguf = "olmoe", .rms_eps = 1e-5},
    {.name = "ExaoneForCausalLM", .gguf = "exaone"},
    {.name = "Exaone4ForCausalLM",
     .gguf = "exaone4",
     .second_norm = kPostNorm,
     .window_pattern = true,
     .rms_eps = 1e-5},
    {.name = "Glm4ForCausalLM", .gguf = "glm4", .rms_eps = 1.5625e-7, .rotated_share = 0.5},
    {.name = "Glm4MoeForCausalLM",
     .gguf = "glm4moe",
     .second_norm = kPostNorm,
     .guess_layers = true,
     .rms_eps = 1e-5,
     .rotated_share = 0.5},
    {.name = "Dots1ForCausalLM", .gguf = "dots1"},
    {.name = "BailingMoeForCausalLM", .gguf = "bailingmoe", .interleaves_heads = true},
    {.name = "BailingMoeV2ForCausalLM", .gguf = "bailingmoe2", .guess_layers = true, .rotated_share = 0.5},
    {.name = "Ernie4_5_MoeForCausalLM", .gguf = "ernie4_5-moe", .rms_eps = 1e-5},
    {.name = "GptOssForCausalLM", .gguf = "gpt-oss", .second_norm = kPostNorm, .window_pattern = true, .rms_eps = 1e-5},
    {.name = "SeedOssForCausalLM", .gguf = "seed_oss", .second_norm = kPostNorm},
    {.name = "Ernie4_5ForCausalLM", .gguf = "ernie4_5", .rms_eps = 1e-5},
    {.name = "Ernie4_5_ForCausalLM", .gguf = "ernie4_5", .rms_eps = 1e-5},
    {.name = "InternLM2ForCausalLM", .gguf = "internlm2", .interleaves_heads = true},
    {.name = "InternLM3ForCausalLM", .gguf = "llama", .interleaves_heads = true},
    {.name = "XverseForCausalLM", .gguf = "xverse", .interleaves_heads = true},
    {.name = "MiniCPMForCausalLM", .gguf = "minicpm", .interleaves_heads = true},
};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found != std::end(kArchitectures) ? found : nullptr;
}

std::string known_architectures() {
  std::string names;
  for (const Architecture& known : kArchitectures) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

}  // namespace monolith::hf
