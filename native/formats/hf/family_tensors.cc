// Converts tensors whose order or values in GGUF differ from the model family's checkpoints. The checkpoint's order is
// defined by the transformers modeling file named above each function. GGUF's order is defined by llama.cpp's
// converter.
#include <algorithm>
#include <cmath>

#include "formats/gguf/parser.h"
#include "formats/hf/translator.h"

namespace monolith::hf {
namespace {

constexpr int64_t kMaxNumbers = 1024;  // Maximum number of layers, the same limit as in the model.

// Computes the decay rate, -exp(A_log), from the checkpoint's A_log.
float decay_of_log(float value) { return static_cast<float>(-std::exp(static_cast<double>(value))); }

// Whether the tensor is a depthwise convolution kernel: [channels, 1, taps] or [channels, taps].
bool is_convolution(const Safetensor& tensor) {
  return tensor.shape.size() == 2 || (tensor.shape.size() == 3 && tensor.shape[1] == 1);
}

Error misfit(const Safetensor& tensor, const std::string& what, int64_t expected) {
  return invalid(tensor, "has " + std::to_string(tensor.shape[0]) + " rows, expected " + std::to_string(expected) +
                             " for " + what);
}

}  // namespace

Result<bool> Translator::add_of_family(const std::string& block, std::string_view rest, const Safetensor& tensor,
                                       TensorType type) {
  const auto taken = [](Status status) { return status ? Result<bool>(true) : Result<bool>(status.error()); };
  if (config_.delta_net.key_heads > 0 && rest.starts_with("linear_attn."))
    if (const std::string_view part = rest.substr(12); part != "norm.weight" && part != "in_proj_ba.weight")
      return taken(add_of_delta_net(block, part, tensor, type));
  if (config_.latents.key_dim > 0 && rest == "self_attn.kv_b_proj.weight")
    return taken(add_latent_heads(block, tensor, type));
  if (config_.state_space.heads > 0) {
    for (const std::string_view prefix : {"mixer.", "mamba."}) {
      if (!rest.starts_with(prefix)) continue;
      const std::string_view part = rest.substr(prefix.size());
      for (const std::string_view own : {"A_log", "D", "dt_bias", "conv1d.weight", "conv1d.bias", "norm.weight"})
        if (part == own) return taken(add_of_state_space(block, part, tensor, type));
    }
  }
  if (config_.architecture->family == Family::kFalconH1 && rest == "pre_ff_layernorm.weight")
    return taken(put(block + "ffn_norm", tensor, type));  // The model expects this name without a suffix.
  if (config_.architecture->family == Family::kShortConvolution && rest == "conv.conv.weight") {
    if (!is_convolution(tensor)) return invalid(tensor, "is not a depthwise convolution");
    put_rows(block + "shortconv.conv.weight", {tensor.shape.back(), tensor.shape[0]}, rows_of(tensor, type));
    return true;
  }
  if (config_.architecture->gguf == "kimi-linear")
    if (const auto put_there = add_of_kimi_net(block, rest, tensor, type); !put_there || *put_there) return put_there;
  if (config_.architecture->family == Family::kLlama4 && rest.starts_with("feed_forward.experts."))
    return taken(add_turned_experts(block, rest.substr(21), tensor, type));
  if (config_.architecture->gguf == "qwen3vlmoe" && rest.starts_with("mlp.experts."))
    return taken(add_turned_experts(block, rest.substr(12), tensor, type));
  if (config_.architecture->family == Family::kGraniteHybrid && config_.experts == 0 &&
      rest == "shared_mlp.output_linear.weight")
    return taken(put(block + "ffn_down.weight", tensor, type));
  return false;
}

// See modeling_qwen3_next.py (fix_query_key_value_ordering) and modeling_qwen3_5.py in transformers. The checkpoint
// groups value heads by key head: all value heads of the first key head, then all of the second, and so on. For
// qwen3next, GGUF keeps this order. For other architectures, GGUF interleaves the value heads: the first value head of
// each key head, then the second of each, and so on.
Status Translator::add_of_delta_net(const std::string& block, std::string_view part, const Safetensor& tensor,
                                    TensorType type) {
  const DeltaNetHeads& net = config_.delta_net;
  const int64_t keys = net.key_heads * net.key_dim, values = net.value_heads * net.value_dim;
  const bool dealt = config_.architecture->gguf != "qwen3next" && net.value_heads != net.key_heads;
  const Rows rows = rows_of(tensor, type);
  const std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
  // Adds a matrix that consists of `lead` other rows, followed by `width` rows per value head.
  const auto put_values = [&](const std::string& name, std::vector<int64_t> to, const Rows& from, int64_t lead,
                              int64_t width) -> Status {
    const int64_t expected = lead + net.value_heads * width;
    if (tensor.shape[0] != expected || expected > INT32_MAX || from->rows() != expected)
      return misfit(tensor, "the model's heads", expected);
    Rows result = from;
    if (dealt) {
      std::vector<int32_t> order;
      for (int64_t row = 0; row < lead; ++row) order.push_back(static_cast<int32_t>(row));
      for (const int32_t row : dealt_order(net.key_heads, net.value_heads, width))
        order.push_back(static_cast<int32_t>(lead) + row);
      result = picked_rows(from, std::move(order));
    }
    put_rows(block + name, to, std::move(result));
    return {};
  };
  if (part == "A_log") return put_values("ssm_a", shape, mapped_rows(rows, decay_of_log), 0, 1);
  if (part == "dt_bias") return put_values("ssm_dt.bias", shape, rows, 0, 1);
  if (part == "in_proj_a.weight") return put_values("ssm_alpha.weight", shape, rows, 0, 1);
  if (part == "in_proj_b.weight") return put_values("ssm_beta.weight", shape, rows, 0, 1);
  if (part == "in_proj_z.weight") return put_values("attn_gate.weight", shape, rows, 0, net.value_dim);
  if (part == "in_proj_qkv.weight") return put_values("attn_qkv.weight", shape, rows, 2 * keys, net.value_dim);
  if (part == "conv1d.weight") {
    if (!is_convolution(tensor)) return invalid(tensor, "is not a depthwise convolution");
    return put_values("ssm_conv1d.weight", {shape[0], tensor.shape[0]}, rows, 2 * keys, net.value_dim);
  }
  if (part == "out_proj.weight") {
    if (!dealt) return put(block + "ssm_out.weight", tensor, type);
    if (tensor.shape.size() != 2 || tensor.shape[1] != values)
      return invalid(tensor, "must have " + std::to_string(values) + " columns, one per value of the model's heads");
    put_rows(block + "ssm_out.weight", shape,
             moved_columns(rows, net.value_dim, dealt_order(net.key_heads, net.value_heads, 1)));
    return {};
  }
  if (part == "in_proj_qkvz.weight") {  // For each key head: query, key, and the values and gates of its value heads.
    const int64_t run = net.value_heads / net.key_heads * net.value_dim, head = 2 * net.key_dim + 2 * run;
    if (tensor.shape.size() != 2 || tensor.shape[0] != net.key_heads * head)
      return misfit(tensor, "the model's heads", net.key_heads * head);
    const auto of_each = [&](std::vector<Run>& runs, int64_t first, int64_t count) {
      for (int64_t i = 0; i < net.key_heads; ++i) runs.push_back({rows, i * head + first, count});
    };
    std::vector<Run> mixed, gates;
    of_each(mixed, 0, net.key_dim);
    of_each(mixed, net.key_dim, net.key_dim);
    of_each(mixed, 2 * net.key_dim, run);
    of_each(gates, 2 * net.key_dim + run, run);
    put_rows(block + "attn_qkv.weight", {shape[0], 2 * keys + values}, joined_rows(std::move(mixed)));
    put_rows(block + "attn_gate.weight", {shape[0], values}, joined_rows(std::move(gates)));
    return {};
  }
  return put(tensor.name, tensor, type);  // Keeps its own name, so the model reports it as unknown.
}

// See modeling_mamba2.py (Mamba2Mixer) in transformers. In GGUF, decay rates and skip weights have an additional
// dimension of length 1, and norm weights have one row per normalization group.
Status Translator::add_of_state_space(const std::string& block, std::string_view part, const Safetensor& tensor,
                                      TensorType type) {
  const StateSpace& space = config_.state_space;
  const int64_t count = tensor.shape[0];
  const Rows rows = rows_of(tensor, type);
  if (part == "conv1d.weight") {
    if (!is_convolution(tensor)) return invalid(tensor, "is not a depthwise convolution");
    put_rows(block + "ssm_conv1d.weight", {tensor.shape.back(), count}, rows);
    return {};
  }
  if (tensor.shape.size() != 1) return invalid(tensor, "is not a vector");
  if (part == "conv1d.bias") return put(block + "ssm_conv1d.bias", tensor, type);
  if (part == "dt_bias") return put(block + "ssm_dt.bias", tensor, type);
  if (part == "norm.weight") {
    if (space.groups < 1 || count % space.groups != 0)
      return invalid(tensor, "has " + std::to_string(count) + " numbers, which do not divide into " +
                                 std::to_string(space.groups) + " groups");
    put_rows(block + "ssm_norm.weight", {count / space.groups, space.groups}, rows);
    return {};
  }
  const bool rate = part == "A_log";
  put_rows(block + (rate ? "ssm_a" : "ssm_d"), {1, count}, rate ? mapped_rows(rows, decay_of_log) : rows);
  return {};
}

// See modeling_deepseek_v3.py (kv_b_proj) in transformers. For each head, the checkpoint stores the part that maps
// latents to keys, followed by the part that maps latents to values. GGUF stores the two separately and transposes the
// key part, which is applied to queries instead.
Status Translator::add_latent_heads(const std::string& block, const Safetensor& tensor, TensorType type) {
  const auto& [key_dim, value_dim] = config_.latents;
  const int64_t both = key_dim + value_dim, heads = config_.heads;
  if (tensor.shape.size() != 2 || tensor.shape[0] != heads * both)
    return misfit(tensor, "keys and values of " + std::to_string(heads) + " heads", heads * both);
  const Rows rows = rows_of(tensor, type);
  const int64_t rank = tensor.shape[1];
  put_rows(block + "attn_k_b.weight", {key_dim, rank, heads}, transposed_heads(rows, heads, 0, key_dim));
  std::vector<Run> values;
  for (int64_t head = 0; head < heads; ++head) values.push_back({rows, head * both + key_dim, value_dim});
  put_rows(block + "attn_v_b.weight", {rank, value_dim, heads}, joined_rows(std::move(values)));
  return {};
}

// See modeling_kimi.py (KimiDeltaAttention) in moonshotai/Kimi-Linear. Each of q, k and v has its own convolution, and
// A_log has the shape [1, 1, heads, 1].
Result<bool> Translator::add_of_kimi_net(const std::string& block, std::string_view rest, const Safetensor& tensor,
                                         TensorType type) {
  for (const std::string_view which : {"q", "k", "v"}) {
    if (rest != "self_attn." + std::string(which) + "_conv1d.weight") continue;
    if (!is_convolution(tensor)) return invalid(tensor, "is not a depthwise convolution");
    put_rows(block + "ssm_conv1d_" + std::string(which) + ".weight", {tensor.shape.back(), 1, tensor.shape[0]},
             rows_of(tensor, type));
    return true;
  }
  if (rest != "self_attn.A_log") return false;
  int64_t count = 1;
  for (const int64_t length : tensor.shape) count *= length;
  put_rows(block + "ssm_a", {1, count}, mapped_rows(rows_of(tensor, type), decay_of_log));
  return true;
}

// See activations.py (XIELUActivation) in transformers; used by Apertus. Each layer has scalar parameters, which GGUF
// stores as metadata.
Status Translator::add_activation_number(int64_t layer, std::string_view which, const Safetensor& tensor,
                                         TensorType type) {
  const Rows rows = rows_of(tensor, type);
  if (layer >= config_.layers || layer >= kMaxNumbers || rows->rows() * rows->cols() != 1)
    return invalid(tensor, "is not a single number of one of the " + std::to_string(config_.layers) + " layers");
  std::vector<float>& numbers = activation_numbers_["xielu." + std::string(which)];
  numbers.resize(static_cast<size_t>(std::min(config_.layers, kMaxNumbers)));
  rows->make(0, 1, &numbers[static_cast<size_t>(layer)]);
  return {};
}

// See modeling_llama4.py (Llama4TextExperts) and modeling_qwen3_vl_moe.py (Qwen3VLMoeTextExperts) in transformers. The
// matrices are [experts, in, out], with the gate columns before the up columns.
Status Translator::add_turned_experts(const std::string& block, std::string_view part, const Safetensor& tensor,
                                      TensorType type) {
  const bool both = part == "gate_up_proj";
  if (!both && part != "down_proj") return put(tensor.name, tensor, type);
  if (tensor.shape.size() != 3 || tensor.shape[0] != config_.experts || (both && tensor.shape[2] % 2 != 0))
    return invalid(tensor, "must hold " + std::to_string(config_.experts) + " experts");
  const int64_t experts = tensor.shape[0], in = tensor.shape[1], out = tensor.shape[2];
  const Rows turned = transposed_heads(rows_of(tensor, type), experts, 0, in);
  if (!both) {
    put_rows(block + "ffn_down_exps.weight", {in, out, experts}, turned);
    return {};
  }
  for (const int64_t which : {0, 1}) {
    std::vector<Run> runs;
    for (int64_t i = 0; i < experts; ++i) runs.push_back({turned, i * out + which * (out / 2), out / 2});
    put_rows(block + (which == 0 ? "ffn_gate_exps.weight" : "ffn_up_exps.weight"), {in, out / 2, experts},
             joined_rows(std::move(runs)));
  }
  return {};
}

// modeling_falcon_h1.py in transformers multiplies the inputs and outputs of matrices by constants. In GGUF, these
// constants are already multiplied into the matrices.
Rows Translator::multiplied(std::string_view name, const Rows& rows) const {
  if (config_.architecture->family != Family::kFalconH1) return rows;
  const Multipliers& by = config_.multipliers;
  const auto all = [&](float factor) {
    return factor == 1 ? rows : scaled_rows(rows, std::vector<float>(static_cast<size_t>(rows->rows()), factor));
  };
  const auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
  if (ends("token_embd.weight")) return all(by.embedding);
  if (ends(".attn_output.weight")) return all(by.attention_out);
  if (ends("output.weight")) return all(by.output);
  if (ends(".attn_q.weight") || ends(".attn_v.weight")) return all(by.attention_in);
  if (ends(".attn_k.weight")) return all(by.key * by.attention_in);
  if (ends(".ffn_gate.weight")) return all(by.gate);
  if (ends(".ffn_down.weight")) return all(by.down);
  if (ends(".ssm_out.weight")) return all(by.ssm_out);
  if (!ends(".ssm_in.weight")) return rows;
  const StateSpace& space = config_.state_space;
  std::vector<float> factors;  // One factor per row, in the order z, x, B, C, dt.
  const int64_t counts[] = {space.inner, space.inner, space.groups * space.state, space.groups * space.state,
                            space.heads};
  for (size_t i = 0; i < 5; ++i) {
    const auto before = static_cast<int64_t>(factors.size());
    const int64_t left = rows->rows() - before;
    factors.resize(static_cast<size_t>(before + std::min(left, counts[i])), by.ssm_in * by.ssm[i]);
  }
  factors.resize(static_cast<size_t>(rows->rows()), by.ssm_in * by.ssm[4]);
  return scaled_rows(rows, std::move(factors));
}

}  // namespace monolith::hf
