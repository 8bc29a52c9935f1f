// The list of every tensor a model needs, and its check against the file.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "model/architectures.h"
#include "formats/gguf/parser.h"
#include "model/weights.h"

namespace monolith {
namespace {

// A message lists this many faults in full; a file of another kind may have hundreds.
constexpr size_t kNamedFaults = 8;

class Faults {
 public:
  void add(ErrorCode code, std::string what) {
    if (code == ErrorCode::kInvalidFile) code_ = code;
    if (count_++ < kNamedFaults) text_ += (text_.empty() ? "" : "; ") + std::move(what);
  }
  bool any() const { return count_ > 0; }
  Error error() const {
    return {code_, count_ > kNamedFaults
                       ? text_ + "; and " + std::to_string(count_ - kNamedFaults) + " more"
                       : text_};
  }

 private:
  ErrorCode code_ = ErrorCode::kUnsupported;
  size_t count_ = 0;
  std::string text_;
};

// Row length first, as the file has it.
std::string shape_text(const GgufTensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.n_dims; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[static_cast<size_t>(i)]);
  }
  return text + "]";
}

std::string shape_text(const WeightSlot& slot) {
  std::string text = "[" + std::to_string(slot.shape[0]);
  if (slot.vector == nullptr || slot.shape[1] > 1) text += ", " + std::to_string(slot.shape[1]);
  if (slot.shape[2] > 1) text += ", " + std::to_string(slot.shape[2]);
  return text + "]";
}

class SlotList {
 public:
  SlotList(const HyperParams& params, Weights& weights) : p_(params), weights_(weights) {}

  std::vector<WeightSlot> list() && {
    matrix("token_embd.weight", p_.n_vocab, p_.n_embd, weights_.embedding);
    weights_.layers.resize(static_cast<size_t>(p_.n_layers));
    for (int i = 0; i < p_.n_layers; ++i) {
      block_ = "blk." + std::to_string(i) + ".";
      LayerWeights& layer = weights_.layers[static_cast<size_t>(i)];
      attention(p_.layers[static_cast<size_t>(i)], layer.attention);
      if (p_.pre_norm) norm(p_.ffn_norm_name, p_.n_embd, layer.ffn_norm);
      if (p_.layers[static_cast<size_t>(i)].mixture) {
        experts(layer.experts, layer.network);
      } else {
        feed_forward(layer.network);
      }
      if (p_.post_norm) norm("post_ffw_norm.weight", p_.n_embd, layer.ffn_post_norm);
    }
    block_.clear();
    norm("output_norm.weight", p_.n_embd, weights_.output_norm);
    if (!p_.tied_output) matrix("output.weight", p_.n_vocab, p_.n_embd, weights_.output);
    return std::move(slots_);
  }

 private:
  // A part of a tensor: `rows` from `first` on, of `of_rows`.
  void part(std::string_view name, int64_t first, int64_t rows, int64_t of_rows, int64_t cols,
            std::unique_ptr<Matrix>& to) {
    slots_.push_back(
        {block_ + std::string(name), rows, cols, &to, nullptr, {cols, of_rows, 1}, first});
  }
  void part(std::string_view name, int64_t first, int64_t count, int64_t of_count,
            const float*& to) {
    slots_.push_back(
        {block_ + std::string(name), 1, count, nullptr, &to, {of_count, 1, 1}, first});
  }
  void matrix(std::string_view name, int64_t rows, int64_t cols, std::unique_ptr<Matrix>& to) {
    part(name, 0, rows, rows, cols, to);
  }
  void norm(std::string_view name, int64_t count, const float*& to) {
    part(name, 0, count, count, to);
  }
  void bias(bool carried, std::string_view name, int64_t count, const float*& to) {
    if (carried) part(name, 0, count, count, to);
  }
  void expert_matrix(std::string_view name, int64_t rows, int64_t cols,
                     std::unique_ptr<Matrix>& to) {
    const int64_t count = p_.experts.count;
    slots_.push_back(
        {block_ + std::string(name), rows * count, cols, &to, nullptr, {cols, rows, count}, 0});
  }

  void expert_bias(std::string_view name, int64_t rows, const float*& to) {
    const int64_t count = p_.experts.count;
    slots_.push_back(
        {block_ + std::string(name), 1, rows * count, nullptr, &to, {rows, count, 1}, 0});
  }

  void attention(const LayerParams& shape, AttentionWeights& layer) {
    const int64_t q_dim = int64_t{p_.n_heads} * shape.key_dim;
    const int64_t k_dim = int64_t{shape.n_kv_heads} * shape.key_dim;
    const int64_t v_dim = int64_t{shape.n_kv_heads} * shape.value_dim;
    if (p_.pre_norm) norm("attn_norm.weight", p_.n_embd, layer.norm);
    if (p_.fused_qkv) {
      const int64_t all = q_dim + k_dim + v_dim;
      part("attn_qkv.weight", 0, q_dim, all, p_.n_embd, layer.q);
      part("attn_qkv.weight", q_dim, k_dim, all, p_.n_embd, layer.k);
      part("attn_qkv.weight", q_dim + k_dim, v_dim, all, p_.n_embd, layer.v);
      if (p_.qkv_bias) {
        part("attn_qkv.bias", 0, q_dim, all, layer.q_bias);
        part("attn_qkv.bias", q_dim, k_dim, all, layer.k_bias);
        part("attn_qkv.bias", q_dim + k_dim, v_dim, all, layer.v_bias);
      }
    } else {
      matrix("attn_q.weight", q_dim, p_.n_embd, layer.q);
      matrix("attn_k.weight", k_dim, p_.n_embd, layer.k);
      matrix("attn_v.weight", v_dim, p_.n_embd, layer.v);
      bias(p_.qkv_bias, "attn_q.bias", q_dim, layer.q_bias);
      bias(p_.qkv_bias, "attn_k.bias", k_dim, layer.k_bias);
      bias(p_.qkv_bias, "attn_v.bias", v_dim, layer.v_bias);
    }
    if (p_.qk_norm != QkNorm::kNone) {
      const bool each = p_.qk_norm == QkNorm::kEachHead;
      norm("attn_q_norm.weight", each ? shape.key_dim : q_dim, layer.q_norm);
      norm("attn_k_norm.weight", each ? shape.key_dim : k_dim, layer.k_norm);
    }
    matrix("attn_output.weight", p_.n_embd, int64_t{p_.n_heads} * shape.value_dim, layer.output);
    bias(p_.attention_bias, "attn_output.bias", p_.n_embd, layer.output_bias);
    if (p_.attention_sinks) part("attn_sinks.weight", 0, p_.n_heads, p_.n_heads, layer.sinks);
    if (p_.post_norm) norm("post_attention_norm.weight", p_.n_embd, layer.post_norm);
  }

  void feed_forward(NetworkWeights& layer) {
    if (p_.fused_gate_up) {
      part("ffn_up.weight", 0, p_.n_ff, 2 * int64_t{p_.n_ff}, p_.n_embd, layer.gate);
      part("ffn_up.weight", p_.n_ff, p_.n_ff, 2 * int64_t{p_.n_ff}, p_.n_embd, layer.up);
    } else {
      matrix("ffn_gate.weight", p_.n_ff, p_.n_embd, layer.gate);
      matrix("ffn_up.weight", p_.n_ff, p_.n_embd, layer.up);
      bias(p_.gate_bias, "ffn_gate.bias", p_.n_ff, layer.gate_bias);
      bias(p_.up_bias, "ffn_up.bias", p_.n_ff, layer.up_bias);
    }
    matrix("ffn_down.weight", p_.n_embd, p_.n_ff, layer.down);
    bias(p_.down_bias, "ffn_down.bias", p_.n_embd, layer.down_bias);
  }

  void experts(ExpertWeights& layer, NetworkWeights& shared) {
    const ExpertParams& e = p_.experts;
    matrix("ffn_gate_inp.weight", e.count, p_.n_embd, layer.router);
    expert_matrix("ffn_gate_exps.weight", e.n_ff, p_.n_embd, layer.all.gate);
    expert_matrix("ffn_up_exps.weight", e.n_ff, p_.n_embd, layer.all.up);
    expert_matrix("ffn_down_exps.weight", p_.n_embd, e.n_ff, layer.all.down);
    bias(e.choice_bias, "exp_probs_b.bias", e.count, layer.choice_bias);
    if (e.biases) {
      bias(true, "ffn_gate_inp.bias", e.count, layer.router_bias);
      expert_bias("ffn_gate_exps.bias", e.n_ff, layer.all.gate_bias);
      expert_bias("ffn_up_exps.bias", e.n_ff, layer.all.up_bias);
      expert_bias("ffn_down_exps.bias", p_.n_embd, layer.all.down_bias);
    }
    if (e.n_ff_shared == 0) return;
    matrix("ffn_gate_shexp.weight", e.n_ff_shared, p_.n_embd, shared.gate);
    matrix("ffn_up_shexp.weight", e.n_ff_shared, p_.n_embd, shared.up);
    matrix("ffn_down_shexp.weight", p_.n_embd, e.n_ff_shared, shared.down);
    if (e.shared_gate) matrix("ffn_gate_inp_shexp.weight", 1, p_.n_embd, layer.shared_gate);
  }

  const HyperParams& p_;
  Weights& weights_;
  std::string block_;
  std::vector<WeightSlot> slots_;
};

// Tensors that hold nothing the network would use, or what HyperParams has of it already.
bool is_harmless(std::string_view name, const HyperParams& params, bool applies_factors) {
  if (name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
      name == "rope_factors_short.weight")
    return applies_factors;
  for (int i = params.n_layers; i < params.n_layers + params.n_guess_layers; ++i)
    if (name.starts_with("blk." + std::to_string(i) + ".")) return true;
  return name.starts_with("blk.") &&
         name.ends_with(".attn_rot_embd.weight");  // RoPE frequencies, derived
}

// Finds the slot's tensor. `faults` is null where another slot's check names the same tensor's.
void check_slot(const GgufFile& file, WeightSlot& slot, Faults* faults) {
  slot.tensor = file.tensor(slot.name);
  if (faults == nullptr) return;
  if (slot.tensor == nullptr) {
    faults->add(ErrorCode::kInvalidFile, "tensor '" + slot.name + "' is missing");
    return;
  }
  const GgufTensor& tensor = *slot.tensor;
  const bool is_vector = slot.vector != nullptr;
  const bool fits = std::equal(slot.shape.begin(), slot.shape.end(), tensor.shape.begin()) &&
                    tensor.shape[3] == 1;
  if (!fits) {
    faults->add(ErrorCode::kInvalidFile, "tensor '" + slot.name + "' has shape " +
                                             shape_text(tensor) + ", expected " + shape_text(slot));
  } else if (is_vector && traits_of(tensor.type).block_values != 1) {
    faults->add(ErrorCode::kUnsupported, "tensor '" + slot.name + "' has type " +
                                             std::string(traits_of(tensor.type).name) +
                                             ", expected F32, F16 or BF16");
  } else if (slot.cols % traits_of(tensor.type).block_values != 0) {
    faults->add(ErrorCode::kInvalidFile, "tensor '" + slot.name + "' has rows of " +
                                             std::to_string(slot.cols) +
                                             " values, not a multiple of the block of " +
                                             std::string(traits_of(tensor.type).name));
  }
}

}  // namespace

Result<std::vector<WeightSlot>> weight_slots(const GgufFile& file, const HyperParams& params,
                                             Weights& weights) {
  // Each layer needs several tensors, so a block_count beyond their number is certainly wrong; this
  // keeps the list in proportion to the file.
  if (static_cast<size_t>(params.n_layers) > file.tensors().size()) {
    return Error{ErrorCode::kInvalidFile, "'" + params.architecture_name + ".block_count' is " +
                                              std::to_string(params.n_layers) +
                                              ", but the file has only " +
                                              std::to_string(file.tensors().size()) + " tensors"};
  }
  std::vector<WeightSlot> slots = SlotList(params, weights).list();
  const bool applies_factors = find_architecture(params.architecture_name)->rope_factors;
  Faults faults;
  std::unordered_set<std::string_view> expected;
  for (WeightSlot& slot : slots) {
    const bool seen = !expected.insert(slot.name).second;
    check_slot(file, slot, seen ? nullptr : &faults);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (expected.contains(tensor.name) || is_harmless(tensor.name, params, applies_factors)) continue;
    faults.add(ErrorCode::kUnsupported,
               "tensor " + quoted(tensor.name) + " " + shape_text(tensor) +
                   " has no place in architecture '" + params.architecture_name + "' with " +
                   std::to_string(params.n_layers) +
                   " layers as this build computes it; leaving it out would change results");
  }
  if (faults.any()) return faults.error();
  return slots;
}

}  // namespace monolith
