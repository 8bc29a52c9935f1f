#include "model/weights.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "model/gguf/parser.h"

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
  return slot.vector != nullptr
             ? "[" + std::to_string(slot.cols) + "]"
             : "[" + std::to_string(slot.cols) + ", " + std::to_string(slot.rows) + "]";
}

std::vector<WeightSlot> list_slots(const HyperParams& p, Weights& weights) {
  const int64_t q_dim = int64_t{p.n_heads} * p.head_dim;
  const int64_t kv_dim = int64_t{p.n_kv_heads} * p.head_dim;
  std::vector<WeightSlot> slots;
  const auto matrix = [&](std::string name, int64_t rows, int64_t cols,
                          std::unique_ptr<Matrix>& to) {
    slots.push_back({std::move(name), rows, cols, &to, nullptr, nullptr});
  };
  const auto vector = [&](std::string name, int64_t count, const float*& to) {
    slots.push_back({std::move(name), 1, count, nullptr, &to, nullptr});
  };
  matrix("token_embd.weight", p.n_vocab, p.n_embd, weights.embedding);
  weights.layers.resize(static_cast<size_t>(p.n_layers));
  for (int i = 0; i < p.n_layers; ++i) {
    LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    const std::string block = "blk." + std::to_string(i) + ".";
    vector(block + "attn_norm.weight", p.n_embd, layer.attention_norm);
    matrix(block + "attn_q.weight", q_dim, p.n_embd, layer.q);
    matrix(block + "attn_k.weight", kv_dim, p.n_embd, layer.k);
    matrix(block + "attn_v.weight", kv_dim, p.n_embd, layer.v);
    if (p.qkv_bias) {
      vector(block + "attn_q.bias", q_dim, layer.q_bias);
      vector(block + "attn_k.bias", kv_dim, layer.k_bias);
      vector(block + "attn_v.bias", kv_dim, layer.v_bias);
    }
    if (p.qk_norm) {
      vector(block + "attn_q_norm.weight", p.head_dim, layer.q_norm);
      vector(block + "attn_k_norm.weight", p.head_dim, layer.k_norm);
    }
    matrix(block + "attn_output.weight", p.n_embd, q_dim, layer.attention_output);
    vector(block + "ffn_norm.weight", p.n_embd, layer.ffn_norm);
    matrix(block + "ffn_gate.weight", p.n_ff, p.n_embd, layer.gate);
    matrix(block + "ffn_up.weight", p.n_ff, p.n_embd, layer.up);
    matrix(block + "ffn_down.weight", p.n_embd, p.n_ff, layer.down);
  }
  vector("output_norm.weight", p.n_embd, weights.output_norm);
  if (!p.tied_output) matrix("output.weight", p.n_vocab, p.n_embd, weights.output);
  return slots;
}

// Tensors that hold nothing the network would use, found in files in the field.
bool is_harmless(std::string_view name, const HyperParams& params) {
  if (name == "rope_freqs.weight")
    return params.architecture == Architecture::kLlama;  // in HyperParams already
  return name.starts_with("blk.") &&
         name.ends_with(".attn_rot_embd.weight");  // RoPE frequencies, derived
}

void check_slot(const GgufFile& file, WeightSlot& slot, Faults& faults) {
  slot.tensor = file.tensor(slot.name);
  if (slot.tensor == nullptr) {
    faults.add(ErrorCode::kInvalidFile, "tensor '" + slot.name + "' is missing");
    return;
  }
  const GgufTensor& tensor = *slot.tensor;
  const bool is_vector = slot.vector != nullptr;
  const bool fits = tensor.shape[0] == slot.cols && tensor.shape[1] == slot.rows &&
                    tensor.shape[2] == 1 && tensor.shape[3] == 1;
  if (!fits) {
    faults.add(ErrorCode::kInvalidFile, "tensor '" + slot.name + "' has shape " +
                                            shape_text(tensor) + ", expected " + shape_text(slot));
  } else if (is_vector && traits_of(tensor.type).block_values != 1) {
    faults.add(ErrorCode::kUnsupported, "tensor '" + slot.name + "' has type " +
                                            std::string(traits_of(tensor.type).name) +
                                            ", expected F32, F16 or BF16");
  } else if (slot.cols % traits_of(tensor.type).block_values != 0) {
    faults.add(ErrorCode::kInvalidFile, "tensor '" + slot.name + "' has rows of " +
                                            std::to_string(slot.cols) +
                                            " values, not a multiple of the block of " +
                                            std::string(traits_of(tensor.type).name));
  }
}

// Floats a vector takes in the backend.
size_t vector_bytes(const WeightSlot& slot) {
  return static_cast<size_t>(slot.cols) * sizeof(float);
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
  std::vector<WeightSlot> slots = list_slots(params, weights);
  Faults faults;
  std::unordered_set<std::string_view> expected;
  for (WeightSlot& slot : slots) {
    expected.insert(slot.name);
    check_slot(file, slot, faults);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (expected.contains(tensor.name) || is_harmless(tensor.name, params)) continue;
    faults.add(ErrorCode::kUnsupported,
               "tensor " + quoted(tensor.name) + " " + shape_text(tensor) +
                   " has no place in architecture '" + params.architecture_name + "' with " +
                   std::to_string(params.n_layers) +
                   " layers as this build computes it; leaving it out would change results");
  }
  if (faults.any()) return faults.error();
  return slots;
}

size_t weight_bytes(const std::vector<WeightSlot>& slots, const Backend& backend) {
  size_t total = 0;
  for (const WeightSlot& slot : slots) {
    total += slot.vector != nullptr ? vector_bytes(slot)
                                    : backend.matrix_bytes(slot.tensor->type, slot.rows, slot.cols);
  }
  return total;
}

Status load_weights(const GgufFile& file, std::vector<WeightSlot>& slots, Backend& backend,
                    const Model::Progress& progress, size_t& allocated) {
  size_t total = 0, done = 0;
  int64_t longest_vector = 0;
  for (const WeightSlot& slot : slots) {
    total += slot.tensor->bytes();
    if (slot.vector != nullptr) longest_vector = std::max(longest_vector, slot.cols);
  }
  std::vector<float> decoded(static_cast<size_t>(longest_vector));
  std::vector<std::byte> scratch;
  for (WeightSlot& slot : slots) {
    const GgufTensor& tensor = *slot.tensor;
    const std::span<const std::byte> data = file.read(tensor, 0, tensor.bytes(), scratch);
    if (slot.vector != nullptr) {
      auto memory = backend.allocate(slot.cols);
      if (!memory) return memory.error();
      dequantize(tensor.type, data.data(), slot.cols, decoded.data());
      backend.write_floats(*memory, decoded.data(), slot.cols);
      *slot.vector = *memory;
      allocated += vector_bytes(slot);
    } else {
      auto matrix = backend.matrix({tensor.type, slot.rows, slot.cols, data});
      if (!matrix)
        return Error{matrix.error().code, "tensor '" + slot.name + "': " + matrix.error().message};
      *slot.matrix = std::move(*matrix);
      allocated += (*slot.matrix)->bytes;
    }
    // The repacked copy is what will be read from now on: without this, both would count as resident.
    file.give_back(tensor, 0, tensor.bytes());
    done += tensor.bytes();
    if (progress)
      progress(total == 0
                   ? 1.0f
                   : static_cast<float>(static_cast<double>(done) / static_cast<double>(total)));
  }
  return {};
}

}  // namespace monolith
