#include "model/hf/architecture.h"

#include <algorithm>
#include <iterator>

namespace monolith::hf {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "LlamaForCausalLM", .gguf = "llama", .interleaves_heads = true},
    {.name = "MistralForCausalLM", .gguf = "llama", .interleaves_heads = true},
    {.name = "MixtralForCausalLM", .gguf = "llama", .interleaves_heads = true},
    {.name = "Qwen2ForCausalLM", .gguf = "qwen2"},
    {.name = "Qwen2MoeForCausalLM", .gguf = "qwen2moe"},
    {.name = "Qwen3ForCausalLM", .gguf = "qwen3"},
    {.name = "Qwen3MoeForCausalLM", .gguf = "qwen3moe"},
    {.name = "GemmaForCausalLM", .gguf = "gemma", .norms_from_one = true, .activation = Activation::kGelu},
    {.name = "Gemma2ForCausalLM",
     .gguf = "gemma2",
     .norms_from_one = true,
     .post_norms = true,
     .activation = Activation::kGelu},
    {.name = "Gemma3ForCausalLM",
     .gguf = "gemma3",
     .norms_from_one = true,
     .post_norms = true,
     .activation = Activation::kGelu},
    {.name = "Gemma3ForConditionalGeneration",   // its text model
     .gguf = "gemma3",
     .norms_from_one = true,
     .post_norms = true,
     .activation = Activation::kGelu},
    {.name = "Phi3ForCausalLM", .gguf = "phi3"},
    {.name = "SmolLM3ForCausalLM", .gguf = "smollm3", .interleaves_heads = true},
    {.name = "GraniteForCausalLM", .gguf = "granite", .interleaves_heads = true},
    {.name = "GraniteMoeForCausalLM", .gguf = "granitemoe", .interleaves_heads = true},
    {.name = "GraniteMoeSharedForCausalLM", .gguf = "granitemoe", .interleaves_heads = true},
    {.name = "Olmo2ForCausalLM", .gguf = "olmo2", .post_norms = true},
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
