// A model family in the form of the Hugging Face directory that its authors publish. For tests only.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "support/checkpoint.h"

namespace monolith::testing {

struct FamilyFolder {
  const char* file;    // Name of the golden model.
  const char* name;    // Class name in config.json.
  std::string config;  // The other members of config.json.
  std::map<std::string, std::string> names;
  // Converts weights from GGUF's layout to the checkpoint's layout. The weights have their GGUF names.
  std::function<void(Weights&)> publish = [](Weights&) {};
  // Rounds the weights of the GGUF file to values that the checkpoint can represent exactly.
  std::function<void(Weights&)> round = [](Weights&) {};
  std::string layers = "model.layers.";
};

using TensorNames = std::map<std::string, std::string>;

TensorNames operator+(TensorNames names, const TensorNames& more);

// Tensor names used by most decoders in transformers (modeling_llama.py, modeling_mixtral.py, modeling_qwen2_moe.py).
inline const TensorNames kDecoder = {{"token_embd.weight", "model.embed_tokens.weight"},
                                     {"output_norm.weight", "model.norm.weight"},
                                     {"output.weight", "lm_head.weight"},
                                     {"rope_freqs.weight", ""},  // Not in the checkpoint: derived from config.json.
                                     {"attn_norm.weight", "input_layernorm.weight"},
                                     {"attn_q.weight", "self_attn.q_proj.weight"},
                                     {"attn_k.weight", "self_attn.k_proj.weight"},
                                     {"attn_v.weight", "self_attn.v_proj.weight"},
                                     {"attn_q.bias", "self_attn.q_proj.bias"},
                                     {"attn_k.bias", "self_attn.k_proj.bias"},
                                     {"attn_v.bias", "self_attn.v_proj.bias"},
                                     {"attn_output.weight", "self_attn.o_proj.weight"},
                                     {"attn_q_norm.weight", "self_attn.q_norm.weight"},
                                     {"attn_k_norm.weight", "self_attn.k_norm.weight"},
                                     {"ffn_norm.weight", "post_attention_layernorm.weight"},
                                     {"ffn_gate.weight", "mlp.gate_proj.weight"},
                                     {"ffn_up.weight", "mlp.up_proj.weight"},
                                     {"ffn_down.weight", "mlp.down_proj.weight"},
                                     {"ffn_gate_inp.weight", "mlp.gate.weight"},
                                     {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
                                     {"ffn_gate_exps.weight", "mlp.experts.{}.gate_proj.weight"},
                                     {"ffn_up_exps.weight", "mlp.experts.{}.up_proj.weight"},
                                     {"ffn_down_exps.weight", "mlp.experts.{}.down_proj.weight"},
                                     {"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
                                     {"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
                                     {"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"}};

// Returns `names` with the prefix "model.language_model.", which vision-language classes use.
TensorNames below_language_model(TensorNames names);

// Names of MTP layers under "mtp.": tensors that every layer has, and tensors that only MTP layers have (see vLLM's
// qwen3_next_mtp.py).
std::string mtp_names(int level, const std::string& rest);

FloatTensor rows_between(const FloatTensor& tensor, int64_t first, int64_t count);

// Removes the tensor with this stem from every layer that has such a tensor, and passes it to `use` together with the
// layer's name prefix.
void take_each(Weights& weights, const std::string& stem,
               const std::function<void(const std::string& block, FloatTensor tensor)>& use);

// Fuses the gate and up matrices of each expert into one tensor, with the gate rows first.
void fuse_experts(Weights& weights);

// Reorders the rows of the tensors for which GGUF rotates adjacent pairs (interleaved RoPE) while the checkpoint
// rotates halves (rotate_half in transformers).
void as_halves(Weights& weights, std::string_view stem, int64_t heads);

}  // namespace monolith::testing
