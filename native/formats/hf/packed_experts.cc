// Translates gpt-oss experts, which are stored in MXFP4 with separate tensors for codes and scales.
#include <algorithm>

#include "formats/gguf/parser.h"
#include "formats/hf/translator.h"

namespace monolith::hf {

// Collects the two tensors of one gpt-oss expert matrix, which may come in either order: codes [experts, rows, blocks,
// 16] and scales [experts, rows, blocks].
Status Translator::add_packed(const Safetensor& tensor) {
  for (const std::string_view part : {"_blocks", "_scales"}) {
    if (!tensor.name.ends_with(part)) continue;
    Packed& packed = packed_[tensor.name.substr(0, tensor.name.size() - part.size())];
    (part == "_blocks" ? packed.numbers : packed.scales) = &tensor;
    return {};
  }
  return Error{ErrorCode::kUnsupported,
               tensor.file + ": tensor " + in_quotes(tensor.name) + " has type 'U8', which is not supported"};
}

Status Translator::put_packed(const std::string& name, const Packed& packed) {
  const auto& [numbers, scales] = packed;
  if (numbers == nullptr || scales == nullptr)
    return Error{ErrorCode::kInvalidFile,
                 "tensor " + in_quotes(name + (numbers == nullptr ? "_blocks" : "_scales")) + " is missing"};
  const std::vector<int64_t>& shape = scales->shape;
  std::vector<int64_t> expected = shape;
  expected.push_back(16);
  std::string_view inner = name;
  int64_t layer = -1;
  if (constexpr std::string_view kLayers = "model.layers."; inner.starts_with(kLayers)) {
    inner.remove_prefix(kLayers.size());
    layer = take_number(inner);
  }
  const bool gate_and_up = inner == "mlp.experts.gate_up_proj";
  if (layer < 0 || (!gate_and_up && inner != "mlp.experts.down_proj"))
    return Error{ErrorCode::kUnsupported, "tensor " + in_quotes(numbers->name) + " is not known for gpt-oss models"};
  const bool right = shape.size() == 3 && numbers->shape == expected &&
                     std::ranges::all_of(shape, [](int64_t length) { return length >= 1; }) &&
                     (!gate_and_up || shape[1] % 2 == 0);
  if (!right)
    return invalid(*numbers,
                   "and its '_scales' must have the shapes [experts, rows, blocks, 16] and [experts, rows, blocks]");
  const std::string block = "blk." + std::to_string(layer) + ".";
  TensorSource source{
      .type = TensorType::kMXFP4, .cols = shape[2] * 32, .parts = {numbers->data}, .scales = scales->data};
  if (!gate_and_up) {
    file_.tensor(block + "ffn_down_exps.weight", {source.cols, shape[1], shape[0]}, source.type, source);
    return {};
  }
  source.row_step = 2;  // Gate rows and up rows alternate.
  for (const char* which : {"ffn_gate_exps.weight", "ffn_up_exps.weight"}) {
    file_.tensor(block + which, {source.cols, shape[1] / 2, shape[0]}, source.type, source);
    source.first_row = 1;
  }
  return {};
}

// Expert biases have the shape [experts, rows]; in gate_up_proj_bias, gate and up rows alternate.
Status Translator::add_expert_bias(const std::string& block, std::string_view rest, const Safetensor& tensor,
                                   TensorType type) {
  const std::vector<int64_t>& shape = tensor.shape;
  if (shape.size() == 2 && rest == "mlp.experts.down_proj_bias") return put(block + "ffn_down_exps.bias", tensor, type);
  if (shape.size() != 2 || shape[1] % 2 != 0 || rest != "mlp.experts.gate_up_proj_bias")
    return Error{ErrorCode::kUnsupported, "tensor " + in_quotes(tensor.name) +
                                              " is not supported: experts must be in MXFP4 ('_blocks' and '_scales')"};
  TensorSource source{.type = type, .cols = 1, .parts = {tensor.data}, .row_step = 2};
  for (const char* which : {"ffn_gate_exps.bias", "ffn_up_exps.bias"}) {
    file_.tensor(block + which, {shape[1] / 2, shape[0]}, type, source);
    source.first_row = 1;
  }
  return {};
}

}  // namespace monolith::hf
