// A model family as the Hugging Face directory that its authors publish. Tests only.
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
  // Converts weights, under their GGUF names, from GGUF's layout to the checkpoint's layout.
  std::function<void(Weights&)> publish = [](Weights&) {};
  // Rounds the weights of the GGUF file to values that the checkpoint can represent exactly.
  std::function<void(Weights&)> round = [](Weights&) {};
  std::string layers = "model.layers.";
};

using TensorNames = std::map<std::string, std::string>;

inline TensorNames operator+(TensorNames names, const TensorNames& more) {
  for (const auto& [gguf, name] : more) names.insert_or_assign(gguf, name);
  return names;
}

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

// Returns the names with the prefix "model.language_model.", which vision-language classes use.
inline TensorNames below_language_model(TensorNames names) {
  for (auto& [gguf, name] : names)
    if (name.starts_with("model.")) name.insert(6, "language_model.");
  return names;
}

// Names of MTP layers under "mtp.": tensors that every layer has, and tensors that only MTP layers have (vLLM's
// qwen3_next_mtp.py).
inline std::string mtp_names(int level, const std::string& rest) {
  static const std::map<std::string, std::string> beside = {{"eh_proj.weight", "mtp.fc.weight"},
                                                            {"enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
                                                            {"hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
                                                            {"shared_head.norm.weight", "mtp.norm.weight"}};
  const auto found = beside.find(rest);
  return found == beside.end() ? "mtp.layers." + std::to_string(level) + "." + rest : found->second;
}

inline FloatTensor rows_between(const FloatTensor& tensor, int64_t first, int64_t count) {
  const auto row = static_cast<ptrdiff_t>(tensor.values.size()) / tensor.shape[0];
  FloatTensor out{tensor.shape, {tensor.values.begin() + first * row, tensor.values.begin() + (first + count) * row}};
  out.shape[0] = count;
  return out;
}

// Removes the tensor with this stem from every layer that has it, and passes it to `use` together with the layer's name
// prefix.
inline void take_each(Weights& weights, const std::string& stem,
                      const std::function<void(const std::string& block, FloatTensor tensor)>& use) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : weights)
    if (is_named(name, stem)) names.push_back(name);
  for (const std::string& name : names) {
    FloatTensor tensor = std::move(weights.at(name));
    weights.erase(name);
    use(name.substr(0, name.size() - stem.size()), std::move(tensor));
  }
}

// Fuses the gate and up matrices of each expert into one tensor, gate rows first.
inline void fuse_experts(Weights& weights) {
  take_each(weights, "ffn_gate_exps.weight", [&](const std::string& block, const FloatTensor& gate) {
    const FloatTensor& up = weights.at(block + "ffn_up_exps.weight");
    FloatTensor both = join_rows({&gate, &up}, gate.shape[0]);
    both.shape = {gate.shape[0], 2 * gate.shape[1], gate.shape[2]};
    weights[block + "ffn_gate_up_exps.weight"] = std::move(both);
    weights.erase(block + "ffn_up_exps.weight");
  });
}

// Reorders the rows of tensors for which GGUF rotates adjacent pairs (interleaved RoPE), whereas the checkpoint rotates
// halves (rotate_half in transformers).
inline void as_halves(Weights& weights, std::string_view stem, int64_t heads) {
  each(weights, stem, [&](FloatTensor& tensor) {
    const int64_t width = tensor.shape[0] / heads;
    pick_rows(tensor, [&](int64_t row) {
      const int64_t at = row % width, half = width / 2;
      return row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
    });
  });
}

}  // namespace monolith::testing
