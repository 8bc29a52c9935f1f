// The model files that golden vectors are there for: llama.cpp's logits, and those of exact arithmetic. Tests only.
#pragma once

namespace monolith::testing {

struct GoldenFile {
  const char* name;
  const char* architecture;
  const char* production;  // the tolerance row of production arithmetic with F16 KV
  bool own_shape = false;  // stands for its architecture: the llama.* files differ only in weights' types
  bool plain_too = false;  // runs on the plain kernels as well, which are scalar and slow
};

// F32 and F16 weights: the cache is in half precision. Quantized weights: activations have 8 bits.
inline constexpr GoldenFile kGoldenFiles[] = {
    {"llama.f32", "llama", "f16", true},
    {"llama.f16", "llama", "f16", false, true},
    {"llama.bf16", "llama", "bf16", false, true},
    {"llama.q8_0", "llama", "int8", false, true},
    {"llama.q4_0", "llama", "int8", false, true},
    {"llama.q4_k", "llama", "int8"},
    {"llama.q6_k", "llama", "int8"},
    {"llama.q4_k_m", "llama", "int8", false, true},  // Q4_K and Q6_K
    {"llama-rope3.f16", "llama", "f16", true},
    {"qwen2.f16", "qwen2", "f16", true},
    {"qwen3.f16", "qwen3", "f16", true},
    {"gemma3.f16", "gemma3", "f16", true},
};

}  // namespace monolith::testing
