// Lists all tensors that a model needs and checks them against the file. The functions that list a layer's tensors are
// next to its blocks.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "model/architectures.h"
#include "formats/gguf/parser.h"
#include "model/weight_list.h"
#include "model/weights.h"

namespace monolith {
namespace {

// Maximum number of problems that an error message lists; a file of the wrong kind may have hundreds.
constexpr size_t kNamedFaults = 8;
// Maximum number of layers that wanted_tensors() accepts, because no file limits the length of its list.
constexpr int kMaxWantedLayers = 4096;

class Faults {
 public:
  void add(ErrorCode code, std::string what) {
    if (code == ErrorCode::kInvalidFile) code_ = code;
    if (count_++ < kNamedFaults) text_ += (text_.empty() ? "" : "; ") + std::move(what);
  }
  bool any() const { return count_ > 0; }
  Error error() const {
    return {code_, count_ > kNamedFaults ? text_ + "; and " + std::to_string(count_ - kNamedFaults) + " more" : text_};
  }

 private:
  ErrorCode code_ = ErrorCode::kUnsupported;
  size_t count_ = 0;
  std::string text_;
};

// In the shape, the row length comes first, as in GGUF.
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
  if (slot.outer) text += ", 1, 1";
  if (slot.shape[2] > 1) text += ", " + std::to_string(slot.shape[2]);
  return text + "]";
}

std::vector<WeightSlot> list_all(const HyperParams& p, Weights& weights) {
  WeightList list(p);
  list.matrix("token_embd.weight", p.n_vocab, p.n_embd, weights.embedding);
  if (p.n_positions > 0) list.matrix("position_embd.weight", p.n_positions, p.n_embd, weights.positions);
  if (p.embedding_norm) list.norm("token_embd_norm.weight", p.n_embd, weights.embedding_norm);
  weights.layers.resize(p.layers.size());
  const size_t n_own = p.layers.size() - (p.draft.eagle ? 1 : 0);  // The layer of an EAGLE-3 head is in another file.
  for (size_t i = 0; i < n_own / static_cast<size_t>(p.n_loops); ++i) {
    list.enter(static_cast<int>(i));
    list_weights(p.layers[i], weights.layers[i], list);
  }
  if (p.draft.used && !p.draft.eagle) {
    weights.draft.resize(static_cast<size_t>(p.draft.n_levels));
    for (int level = 0; level < p.draft.n_levels; ++level) {
      list.enter(p.n_layers + level);
      list_weights(weights.draft[static_cast<size_t>(level)], list);
    }
  }
  list.enter(-1);
  list_weights(weights.per_layer, list);
  list_weights(weights.streams, list);
  if (p.stream_mix.n_streams > 0) list_weights("output_hc", true, weights.output_mix, list);
  list.norm(p.output_norm_name, p.n_embd, weights.output_norm);
  if (!p.tied_output) list.matrix("output.weight", p.n_vocab, p.n_embd, weights.output);
  list.vector_if(p.output_bias, "output.bias", p.n_vocab, weights.output_bias);
  return std::move(list).take();
}

// Whether the tensor is one that HyperParams::read() has already read.
bool read_with_params(std::string_view name, const HyperParams& params) {
  return find_architecture(params.architecture_name)->per_layer_inputs && name.starts_with("blk.") &&
         name.ends_with(".layer_output_scale.weight");
}

// Whether an unknown tensor can be ignored. This is the case if the model does not use the values or HyperParams
// already contains them.
bool is_harmless(std::string_view name, const HyperParams& params, bool applies_factors) {
  if (name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight")
    return applies_factors;
  for (int i = params.n_layers; i < params.n_layers + params.n_mtp_layers; ++i)
    if (name.starts_with("blk." + std::to_string(i) + ".")) return true;
  // Layers that use another layer's keys and values may still contain unused projections.
  for (int i = 0; i < params.n_layers; ++i) {
    if (params.layers[static_cast<size_t>(i)].kv_of < 0) continue;
    const std::string block = "blk." + std::to_string(i) + ".";
    for (const char* unused : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
      if (name == block + unused) return true;
  }
  for (int i = 0; i < params.n_layers; ++i)  // An indexer in a layer that uses another layer's selection.
    if (params.latents.index.most > 0 && !params.layers[static_cast<size_t>(i)].chooses &&
        name.starts_with("blk." + std::to_string(i) + ".indexer."))
      return true;
  // RWKV 7: the first layer computes the values that all other layers mix with their own, so its tensors for mixing are
  // not used.
  if (params.rwkv.delta && name.starts_with("blk.0.time_mix_v") && name.ends_with(".weight") &&
      name != "blk.0.time_mix_value.weight")
    return true;
  // RoPE frequencies, which are computed instead, and each layer's combined key and value matrix if the file also has
  // the two separate matrices.
  return name.starts_with("blk.") &&
         (name.ends_with(".attn_rot_embd.weight") ||
          (params.latents.rank > 0 && params.latents.split && name.ends_with(".attn_kv_b.weight")));
}

// Finds the tensor of a slot and checks it. `faults` is null if the tensor's problems have already been reported for
// another slot.
void check_slot(const GgufFile& file, WeightSlot& slot, Faults* faults) {
  slot.tensor = file.tensor(slot.name);
  if (faults == nullptr) return;
  if (slot.tensor == nullptr) {
    faults->add(ErrorCode::kInvalidFile, "tensor '" + slot.name + "' is missing");
    return;
  }
  const GgufTensor& tensor = *slot.tensor;
  const bool is_vector = slot.vector != nullptr;
  const std::array<int64_t, 4> shape = {slot.shape[0], slot.shape[1], slot.outer ? 1 : slot.shape[2],
                                        slot.outer ? slot.shape[2] : 1};
  const bool fits = std::equal(shape.begin(), shape.end(), tensor.shape.begin());
  if (!fits) {
    faults->add(ErrorCode::kInvalidFile,
                "tensor '" + slot.name + "' has shape " + shape_text(tensor) + ", expected " + shape_text(slot));
  } else if ((tensor.type == TensorType::kI32 || tensor.type == TensorType::kI64) != (slot.numbers != nullptr)) {
    faults->add(ErrorCode::kInvalidFile,
                "tensor '" + slot.name + "' has type " + std::string(traits_of(tensor.type).name) +
                    (slot.numbers != nullptr ? ", expected I32 or I64" : ", which is not a weight type"));
  } else if (is_vector && !slot.any_type && traits_of(tensor.type).block_values != 1) {
    faults->add(ErrorCode::kUnsupported, "tensor '" + slot.name + "' has type " +
                                             std::string(traits_of(tensor.type).name) + ", expected F32, F16 or BF16");
  } else if (const int64_t row = slot.heads.n_heads > 0 || slot.any_type ? slot.shape[0] : slot.cols;
             row % traits_of(tensor.type).block_values != 0) {
    faults->add(ErrorCode::kInvalidFile, "tensor '" + slot.name + "' has rows of " + std::to_string(row) +
                                             " values, which is not a multiple of the block size of " +
                                             std::string(traits_of(tensor.type).name));
  }
}

// Finds the scale stored next to a matrix: one number for the whole matrix, or one per stacked matrix. NVFP4 files need
// such scales because the block scales have only four exponent bits.
void find_scale(const GgufFile& file, WeightSlot& slot, const std::unordered_set<std::string_view>& expected,
                Faults* faults) {
  if (!slot.name.ends_with(".weight")) return;
  const std::string name = slot.name.substr(0, slot.name.size() - 6) + "scale";
  if (expected.contains(name)) return;  // The tensor with that name is itself part of the model.
  const GgufTensor* const found = file.tensor(name);
  if (found == nullptr) return;
  const bool one = found->n_values() == 1, each = found->n_values() == slot.shape[2] && slot.heads.n_heads == 0;
  if (found->n_dims == 1 && (one || each) && traits_of(found->type).block_values == 1 &&
      found->type != TensorType::kI32 && found->type != TensorType::kI64) {
    slot.scale = found;
  } else if (faults != nullptr) {
    faults->add(ErrorCode::kUnsupported, "tensor " + in_quotes(name) + " " + shape_text(*found) + " of " +
                                             std::string(traits_of(found->type).name) +
                                             " must be one number, or one for each matrix of " + in_quotes(slot.name));
  }
}

// Finds the tensors of all slots. Other tensors in the file are reported unless `known` marks them as not needed.
template <typename Known>
Result<std::vector<WeightSlot>> check_all(const GgufFile& file, std::vector<WeightSlot> slots,
                                          const HyperParams& params, Known&& known) {
  Faults faults;
  std::unordered_set<std::string_view> expected;
  for (WeightSlot& slot : slots) {
    const bool seen = !expected.insert(slot.name).second;
    check_slot(file, slot, seen ? nullptr : &faults);
  }
  // Names of scale tensors. Input scales are ignored because inputs are not quantized to FP4.
  std::unordered_set<std::string> beside;
  for (WeightSlot& slot : slots) {
    if (slot.matrix == nullptr) continue;
    const std::string input_scale = slot.name.substr(0, slot.name.rfind('.')) + ".input_scale";
    find_scale(file, slot, expected, beside.insert(input_scale).second ? &faults : nullptr);
    if (slot.scale != nullptr) beside.emplace(slot.scale->name);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (expected.contains(tensor.name) || known(tensor.name) || beside.contains(std::string(tensor.name))) continue;
    faults.add(ErrorCode::kUnsupported, "tensor " + in_quotes(tensor.name) + " " + shape_text(tensor) +
                                            " is not known for architecture '" + params.architecture_name + "' with " +
                                            std::to_string(params.n_layers) +
                                            " layers; ignoring it would change results");
  }
  if (faults.any()) return faults.error();
  return slots;
}

}  // namespace

Result<std::vector<WantedTensor>> wanted_tensors(const GgufFile& file) {
  auto params = HyperParams::read(file, 0, true);
  if (!params) return params.error();
  if (params->n_layers > kMaxWantedLayers)
    return Error{ErrorCode::kUnsupported, "'block_count' is " + std::to_string(params->n_layers) +
                                              ", expected at most " + std::to_string(kMaxWantedLayers)};
  Weights none;
  return wanted_tensors(list_all(*params, none));
}

std::vector<WantedTensor> wanted_tensors(const std::vector<WeightSlot>& slots) {
  std::vector<WantedTensor> wanted;
  std::unordered_set<std::string_view> named;  // Slots may share a tensor.
  for (const WeightSlot& slot : slots) {
    if (!named.insert(slot.name).second) continue;
    const bool is_vector = slot.vector != nullptr && !slot.any_type;
    size_t dims = slot.shape[2] > 1 ? 3 : !is_vector || slot.shape[1] > 1 ? 2 : 1;
    std::vector<int64_t> shape(slot.shape.begin(), slot.shape.begin() + static_cast<ptrdiff_t>(dims));
    if (slot.outer) shape = {slot.shape[0], slot.shape[1], 1, slot.shape[2]};
    wanted.push_back({slot.name, std::move(shape), is_vector, slot.most});
  }
  return wanted;
}

Result<std::vector<WeightSlot>> weight_slots(const GgufFile& file, const HyperParams& params, Weights& weights) {
  // Each layer needs several tensors, so a block_count that exceeds the number of tensors must be wrong. Without this
  // check, the list could become far larger than the file.
  if (static_cast<size_t>(params.stored_layers()) > file.tensors().size()) {
    return Error{ErrorCode::kInvalidFile, "'" + params.architecture_name + ".block_count' is " +
                                              std::to_string(params.stored_layers()) + ", but the file has only " +
                                              std::to_string(file.tensors().size()) + " tensors"};
  }
  const bool applies_factors = find_architecture(params.architecture_name)->rope_factors;
  return check_all(file, list_all(params, weights), params, [&](std::string_view name) {
    return read_with_params(name, params) || is_harmless(name, params, applies_factors) ||
           (params.pooling != Pooling::kNone && PoolingHead::uses(name));
  });
}

Result<std::vector<WeightSlot>> check_slots(const GgufFile& file, std::vector<WeightSlot> slots,
                                            const HyperParams& params,
                                            const std::function<bool(std::string_view)>& is_harmless) {
  return check_all(file, std::move(slots), params, is_harmless);
}

Result<std::vector<WeightSlot>> eagle_slots(const GgufFile& head, const HyperParams& params, Weights& weights) {
  const EagleParams& eagle = *params.draft.eagle;
  WeightList list(eagle.own);
  list_weights(eagle, weights.eagle, list);
  // t2d, the inverse of the token map, can be derived from d2t.
  return check_all(head, std::move(list).take(), eagle.own,
                   [](std::string_view name) { return name == "t2d" || name == "rope_freqs.weight"; });
}

}  // namespace monolith
