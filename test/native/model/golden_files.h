// The model files that have golden vectors: logits from llama.cpp and from exact arithmetic. For tests only.
#pragma once

namespace monolith::testing {

struct GoldenFile {
  const char* name;
  const char* architecture;
  const char* production;  // Name of the tolerance for production arithmetic with an F16 KV cache.
  bool own_shape = false;  // The file represents its architecture; the llama.* files differ only in their weight types.
  bool plain_too = false;  // Also run with the portable kernels, which are slow.
};

// With F32 and F16 weights, keys and values are stored as binary16. With quantized weights, activations are also
// rounded to 8 bits.
inline constexpr GoldenFile kGoldenFiles[] = {
    {"llama.f32", "llama", "f16", true},
    {"llama.f16", "llama", "f16", false, true},
    {"llama.bf16", "llama", "bf16", false, true},
    {"llama.q8_0", "llama", "int8", false, true},
    {"llama.q4_0", "llama", "int8", false, true},
    {"llama.q4_k", "llama", "int8"},
    {"llama.q6_k", "llama", "int8"},
    {"llama.q4_k_m", "llama", "int8", false, true},  // A file with a mix of Q4_K and Q6_K weights.
    {"llama-rope3.f16", "llama", "f16", true},
    {"qwen2.f16", "qwen2", "f16", true},
    {"qwen3.f16", "qwen3", "f16", true},
    {"gemma3.f16", "gemma3", "f16", true},
    // Files from the second set of golden vectors.
    {"exaone-moe.q8_0", "exaone-moe", "int8", true, true},
    {"cohere2.q8_0", "cohere2", "int8", true},
    {"command-r.f16", "command-r", "f16", true},
    {"stablelm.q8_0", "stablelm", "int8", true},
    {"phimoe.q8_0", "phimoe", "int8", true},
    {"arcee.f16", "arcee", "f16", true},
    {"apertus.f16", "apertus", "f16", true},
    {"hunyuan-dense.q8_0", "hunyuan-dense", "int8", true},
    {"hunyuan-moe.q8_0", "hunyuan-moe", "int8", true},
    {"minimax-m2.q8_0", "minimax-m2", "int8", true},
    {"llama4.q4_0", "llama4", "int8", true},
    {"gemma3n.q4_0", "gemma3n", "int8", true, true},
    {"gemma4.f16", "gemma4", "f16", true, true},
    {"gemma4-moe.q8_0", "gemma4", "int8", true, true},
    {"gemma4-ple.q8_0", "gemma4", "int8", true, true},
    {"mimo2.q8_0", "mimo2", "int8", true, true},
    {"step35.q8_0", "step35", "int8", true, true},
    {"qwen35.f16", "qwen35", "f16", true, true},
    {"qwen35-k.q4_k_m", "qwen35", "int8", false, true},
    {"qwen35moe.q8_0", "qwen35moe", "int8", true, true},
    {"qwen3next.q8_0", "qwen3next", "int8", true, true},
    {"kimi-linear.q8_0", "kimi-linear", "int8", true, true},
    {"deepseek2-lite.q4_0", "deepseek2", "int8", true, true},
    {"deepseek2-v3.q8_0", "deepseek2", "int8", true, true},
    {"deepseek2-glm47flash.q8_0", "deepseek2", "int8", true, true},
    {"mistral4.q8_0", "mistral4", "int8", true, true},
    {"deepseek32.q8_0", "deepseek32", "int8", true, true},
    {"glm-dsa.q8_0", "glm-dsa", "int8", true, true},
    {"deepseek4.mxfp4_moe", "deepseek4", "int8", true, true},
    {"mistral3.f16", "mistral3", "f16", true, true},
    {"mamba2.q8_0", "mamba2", "int8", true, true},
    {"nemotron-h.q8_0", "nemotron_h", "int8", true, true},
    {"nemotron-h-moe.q8_0", "nemotron_h_moe", "int8", true, true},
    {"granitehybrid.q8_0", "granitehybrid", "int8", true, true},
    {"falcon-h1.q8_0", "falcon-h1", "int8", true, true},
    {"lfm2.f16", "lfm2", "f16", true, true},
    {"lfm2moe.q8_0", "lfm2moe", "int8", true, true},
    // Files from the third set of golden vectors.
    {"maincoder.f16", "maincoder", "f16", true, true},
    {"mellum.q8_0", "mellum", "int8", true, true},
    {"pangu-embedded.f16", "pangu-embedded", "f16", true, true},
    {"jais2.q8_0", "jais2", "int8", true, true},
    {"deepseek.q8_0", "deepseek", "int8", true, true},
    {"nemotron.f16", "nemotron", "f16", true, true},
    {"orion.f16", "orion", "f16", true, true},
    {"chatglm.f16", "chatglm", "f16", true, true},
    {"phi2.q8_0", "phi2", "int8", true, true},
    {"falcon.f16", "falcon", "f16", true, true},
    {"starcoder2.q8_0", "starcoder2", "int8", true, true},
    {"codeshell.q8_0", "codeshell", "int8", true, true},
    {"openelm.q8_0", "openelm", "int8", true, true},
    {"paddleocr.f16", "paddleocr", "f16", true, true},
    {"hunyuan-vl.f16", "hunyuan_vl", "f16", true, true},
    {"hy-v3.q8_0", "hy_v3", "int8", true, true},
    {"laguna.q8_0", "laguna", "int8", true, true},
    {"cohere2moe.q8_0", "cohere2moe", "int8", true, true},
    {"smallthinker.q8_0", "smallthinker", "int8", true, true},
    {"arctic.q8_0", "arctic", "int8", true, true},
    {"afmoe.q8_0", "afmoe", "int8", true, true},
    {"plamo3.f16", "plamo3", "f16", true, true},
    {"nanbeige.f16", "nanbeige", "f16", true, true},
    {"minicpm3.q8_0", "minicpm3", "int8", true, true},
    {"grok.q8_0", "grok", "int8", true, true},
    {"dbrx.q8_0", "dbrx", "int8", true, true},
    {"olmo.f16", "olmo", "f16", true, true},
    {"bitnet.q8_0", "bitnet", "int8", true, true},
    {"deci.f16", "deci", "f16", true, true},
    {"gptneox.q8_0", "gptneox", "int8", true, true},
    {"gpt2.f16", "gpt2", "f16", true, true},
    {"starcoder.q8_0", "starcoder", "int8", true, true},
    {"mpt.f16", "mpt", "f16", true, true},
    {"bloom.q8_0", "bloom", "int8", true, true},
    {"refact.f16", "refact", "f16", true, true},
    {"jais.q8_0", "jais", "int8", true, true},
    {"qwen.f16", "qwen", "f16", true, true},
    {"baichuan.q4_0", "baichuan", "int8", true, true},
    {"grovemoe.q8_0", "grovemoe", "int8", true, true},
    {"mamba.f16", "mamba", "f16", true, true},
    {"jamba.q8_0", "jamba", "int8", true, true},
    {"plamo2.q8_0", "plamo2", "int8", true, true},
    {"rwkv7.f16", "rwkv7", "f16", true, true},
    {"rwkv6.q8_0", "rwkv6", "int8", true, true},
};

}  // namespace monolith::testing
