#include "model/architectures.h"

#include <array>

namespace monolith {
namespace {

constexpr auto kAdjacent = RopeStyle::kAdjacentPairs;

constexpr std::array kArchitectures = {
    ArchitectureTraits{.name = "llama",   // Mistral and Mixtral as well
                       .rope_style = kAdjacent,
                       .rope_factors = true,
                       .windows = Windows::kEveryLayer,
                       .experts = Experts::kOptional},
    ArchitectureTraits{.name = "qwen2", .qkv_bias = true},
    ArchitectureTraits{.name = "qwen2moe",
                       .qkv_bias = true,
                       .experts = Experts::kRequired,
                       .normalized_weights = false,
                       .shared_expert = SharedExpert::kGated},
    ArchitectureTraits{.name = "qwen3", .qk_norm = QkNorm::kEachHead},
    ArchitectureTraits{.name = "qwen3moe",
                       .qk_norm = QkNorm::kEachHead,
                       .experts = Experts::kRequired},
    ArchitectureTraits{.name = "gemma", .activation = Activation::kGelu, .embedding_root = true},
    ArchitectureTraits{.name = "gemma2",
                       .activation = Activation::kGelu,
                       .post_norm = true,
                       .embedding_root = true,
                       .soft_cap_keys = true,
                       .attention_soft_cap = 50.0f,
                       .logit_soft_cap = 30.0f,
                       .wide_query_layers = 46,
                       .windows = Windows::kPattern,
                       .default_window = 4096,
                       .window_period = 2},
    ArchitectureTraits{.name = "gemma3",
                       .activation = Activation::kGelu,
                       .qk_norm = QkNorm::kEachHead,
                       .post_norm = true,
                       .embedding_root = true,
                       .soft_cap_keys = true,
                       .wide_query_layers = 62,
                       .windows = Windows::kPattern,
                       .window_period = 6,
                       .windowed_rope = WindowedRope::kOwnBase,
                       .windowed_base = 10000},
    ArchitectureTraits{.name = "phi3",
                       .rope_factors = true,
                       .fused_gate_up = true,
                       .windows = Windows::kEveryLayer},
    ArchitectureTraits{.name = "smollm3", .rope_style = kAdjacent, .unrotated_period = 4},
    ArchitectureTraits{.name = "granite",
                       .rope_style = kAdjacent,
                       .rope_factors = true,
                       .rope_switch = true,
                       .scale_keys = true},
    ArchitectureTraits{.name = "granitemoe",
                       .rope_style = kAdjacent,
                       .rope_factors = true,
                       .rope_switch = true,
                       .scale_keys = true,
                       .experts = Experts::kRequired,
                       .shared_expert = SharedExpert::kPlain},
    ArchitectureTraits{.name = "minicpm",
                       .rope_style = kAdjacent,
                       .rope_factors = true,
                       .scale_keys = true,
                       .scale_keys_required = true},
    ArchitectureTraits{.name = "olmo2",   // Olmo 3 as well
                       .qk_norm = QkNorm::kWholeRow,
                       .pre_norm = false,
                       .post_norm = true,
                       .windows = Windows::kPattern,
                       .window_period = 4,
                       .windowed_rope = WindowedRope::kUnscaled},
    ArchitectureTraits{.name = "olmoe",
                       .qk_norm = QkNorm::kWholeRow,
                       .experts = Experts::kRequired,
                       .normalized_weights = false},
    ArchitectureTraits{.name = "exaone", .rope_factors = true},
    ArchitectureTraits{.name = "exaone4",
                       .rope_factors = true,
                       .rotates_windows_only = true,
                       .qk_norm = QkNorm::kEachHead,
                       .pre_norm = false,
                       .post_norm = true,
                       .windows = Windows::kPattern,
                       .window_period = 4},
    ArchitectureTraits{.name = "glm4",
                       .rope_style = kAdjacent,
                       .post_norm = true,
                       .fused_gate_up = true},
    ArchitectureTraits{.name = "glm4moe",
                       .qk_norm = QkNorm::kEachHead,
                       .qk_norm_optional = true,
                       .ffn_norm_name = "post_attention_norm.weight",
                       .experts = Experts::kRequired,
                       .normalized_weights = false,
                       .router = RouterScore::kSigmoid,
                       .guess_layers = true,
                       .shared_expert = SharedExpert::kCounted},
    ArchitectureTraits{.name = "dots1",
                       .qk_norm = QkNorm::kEachHead,
                       .experts = Experts::kRequired,
                       .normalized_weights = false,
                       .router = RouterScore::kSigmoid,
                       .shared_expert = SharedExpert::kCounted},
    ArchitectureTraits{.name = "bailingmoe",   // Ling
                       .rope_style = kAdjacent,
                       .rope_factors = true,
                       .experts = Experts::kRequired,
                       .normalized_weights = false,
                       .shared_expert = SharedExpert::kCounted},
    ArchitectureTraits{.name = "bailingmoe2",   // Ling and Ring 2
                       .qk_norm = QkNorm::kEachHead,
                       .experts = Experts::kRequired,
                       .normalized_weights = false,
                       .router = RouterScore::kSigmoid,
                       .guess_layers = true,
                       .shared_expert = SharedExpert::kCounted},
    ArchitectureTraits{.name = "ernie4_5-moe",
                       .rope_style = kAdjacent,
                       .experts = Experts::kRequired,
                       .shared_expert = SharedExpert::kCounted},
    ArchitectureTraits{.name = "gpt-oss",
                       .activation = Activation::kClampedSilu,
                       .ffn_norm_name = "post_attention_norm.weight",
                       .qkv_bias = true,
                       .windows = Windows::kPattern,
                       .window_period = 2,
                       .experts = Experts::kRequired,
                       .expert_biases = true,
                       .attention_sinks = true},
    ArchitectureTraits{.name = "seed_oss", .ffn_norm_name = "post_attention_norm.weight"},
    ArchitectureTraits{.name = "ernie4_5", .rope_style = kAdjacent},
    ArchitectureTraits{.name = "internlm2", .rope_style = kAdjacent},
    ArchitectureTraits{.name = "xverse", .rope_style = kAdjacent},
};

}  // namespace

const ArchitectureTraits* find_architecture(std::string_view name) {
  for (const ArchitectureTraits& known : kArchitectures) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

std::string known_architectures() {
  std::string names;
  for (const ArchitectureTraits& known : kArchitectures) {
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return names;
}

}  // namespace monolith
