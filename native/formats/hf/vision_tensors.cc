#include "formats/hf/vision_tensors.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "formats/gguf/parser.h"
#include "formats/hf/rows.h"
#include "formats/hf/translator.h"

namespace monolith::hf {
namespace {

struct Name {
  std::string_view hf, gguf;
};

// Tensor names without the encoder prefix, which part_of() strips. Each stem has a weight and a bias.
constexpr Name kOfEncoder[] = {
    {"embeddings.patch_embedding", "v.patch_embd"},  // SigLIP and CLIP.
    {"embeddings.position_embedding", "v.position_embd"},
    {"pre_layrnorm", "v.pre_ln"},
    {"post_layernorm", "v.post_ln"},
    {"embeddings.patch_embeddings.projection", "v.patch_embd"},  // InternVL.
    {"patch_conv", "v.patch_embd"},                              // Pixtral.
    {"ln_pre", "v.pre_ln"},
    {"patch_embed.proj", "v.patch_embd"},  // Qwen.
    {"pos_embed", "v.position_embd"},
    {"merger.ln_q", "v.post_ln"},
    {"merger.norm", "v.post_ln"},
    {"merger.mlp.0", "mm.0"},
    {"merger.mlp.2", "mm.2"},
    {"merger.linear_fc1", "mm.0"},
    {"merger.linear_fc2", "mm.2"},
    {"patch_embedder.input_proj", "v.patch_embd"},  // Gemma 4.
};
// Full names of tensors that are not split into a weight and a bias.
constexpr Name kWhole[] = {
    {"embeddings.class_embedding", "v.class_embd"},
    {"embeddings.cls_token", "v.class_embd"},
    {"embeddings.position_embeddings", "v.position_embd.weight"},
    {"patch_embedder.position_embedding_table", "v.position_embd.weight"},  // Gemma 4.
};
constexpr Name kOfLayer[] = {
    {"layer_norm1", "ln1"},
    {"layer_norm2", "ln2"},  // SigLIP and CLIP.
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.out_proj", "attn_out"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {"layernorm_before", "ln1"},
    {"layernorm_after", "ln2"},  // InternVL.
    {"attention.q_proj", "attn_q"},
    {"attention.k_proj", "attn_k"},  // Also Pixtral.
    {"attention.v_proj", "attn_v"},
    {"attention.projection_layer", "attn_out"},
    {"attention.o_proj", "attn_out"},
    {"attention_norm", "ln1"},
    {"ffn_norm", "ln2"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"norm1", "ln1"},
    {"norm2", "ln2"},  // Qwen.
    {"attn.qkv", "attn_qkv"},
    {"attn.proj", "attn_out"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.linear_fc1", "ffn_up"},
    {"mlp.linear_fc2", "ffn_down"},
};
constexpr Name kOfGemma4Layer[] = {
    {"input_layernorm", "ln1"},           {"post_attention_layernorm", "attn_post_norm"},
    {"pre_feedforward_layernorm", "ln2"}, {"post_feedforward_layernorm", "ffn_post_norm"},
    {"self_attn.q_norm", "attn_q_norm"},  {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.q_proj", "attn_q"},       {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},       {"self_attn.o_proj", "attn_out"},
    {"mlp.gate_proj", "ffn_gate"},        {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
constexpr Name kOfKimi[] = {
    {"patch_embed.proj", "v.patch_embd"},
    {"patch_embed.pos_emb", "v.position_embd"},
    {"encoder.final_layernorm", "v.post_ln"},
};
constexpr Name kOfKimiLayer[] = {
    {"norm0", "ln1"},   {"norm1", "ln2"},      {"wqkv", "attn_qkv"},
    {"wo", "attn_out"}, {"mlp.fc0", "ffn_up"}, {"mlp.fc1", "ffn_down"},
};
// Limits for clamping the input and output of a linear layer. They are scalar tensors, stored next to "linear.weight".
constexpr std::string_view kClamps[] = {"input_min", "input_max", "output_min", "output_max"};
constexpr Name kOfStandardization[] = {{"std_bias", "v.std_bias"}, {"std_scale", "v.std_scale"}};
constexpr Name kWholeOfLayer[] = {{"lambda_1", "ls1.weight"}, {"lambda_2", "ls2.weight"}};
constexpr Name kOfDeepstack[] = {{"norm", "norm"}, {"linear_fc1", "fc1"}, {"linear_fc2", "fc2"}};

struct ProjectorName {
  EncoderKind kind;
  std::string_view hf, gguf;
};
constexpr ProjectorName kOfProjector[] = {
    {EncoderKind::kIdefics3, "modality_projection.proj", "mm.model.fc"},
    {EncoderKind::kGemma3, "mm_soft_emb_norm", "mm.soft_emb_norm"},
    {EncoderKind::kPixtral, "norm", "mm.input_norm"},
    {EncoderKind::kPixtral, "patch_merger.merging_layer", "mm.patch_merger"},
    {EncoderKind::kPixtral, "linear_1", "mm.1"},
    {EncoderKind::kPixtral, "linear_2", "mm.2"},
    {EncoderKind::kInternVl, "layer_norm", "mm.model.mlp.0"},
    {EncoderKind::kInternVl, "linear_1", "mm.model.mlp.1"},
    {EncoderKind::kInternVl, "linear_2", "mm.model.mlp.3"},
    {EncoderKind::kLlava, "linear_1", "mm.0"},
    {EncoderKind::kLlava, "linear_2", "mm.2"},
    {EncoderKind::kLfm2, "layer_norm", "mm.input_norm"},
    {EncoderKind::kLfm2, "linear_1", "mm.1"},
    {EncoderKind::kLfm2, "linear_2", "mm.2"},
    {EncoderKind::kGemma4, "embedding_projection", "mm.input_projection"},
    {EncoderKind::kKimi, "pre_norm", "mm.input_norm"},
    {EncoderKind::kKimi, "linear_1", "mm.1"},  // Kimi-VL.
    {EncoderKind::kKimi, "linear_2", "mm.2"},
    {EncoderKind::kKimi, "proj.0", "mm.1"},  // Kimi K2.5.
    {EncoderKind::kKimi, "proj.2", "mm.2"},
};

// Tensors of vision encoders that the engine ignores: pooling heads, mask tokens, and tables that can be derived from
// the settings.
constexpr std::string_view kUnused[] = {"head.",           "embeddings.mask_token",           "embeddings.position_ids",
                                        "rotary_pos_emb.", "patch_embed.pos_emb.time_weight", "encoder.rope_2d."};

constexpr std::string_view kLayers[] = {"encoder.layers.", "encoder.layer.", "transformer.layers.", "encoder.blocks.",
                                        "blocks."};

template <size_t n>
std::string_view find(const Name (&names)[n], std::string_view hf) {
  const auto* const found = std::ranges::find(names, hf, &Name::hf);
  return found != std::end(names) ? found->gguf : std::string_view();
}

bool take(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

constexpr std::string_view kNewline = "image_newline";  // LLaVA 1.6 inserts this embedding after each row of an image.

enum class Part : uint8_t { kNone, kEncoder, kProjector };

// Strips the encoder or projector prefix from `name` and returns which of the two the tensor belongs to.
Part part_of(std::string_view& name) {
  take(name, "model.");
  if (name == kNewline) return Part::kProjector;
  if (take(name, "multi_modal_projector.") || take(name, "connector.") || take(name, "embed_vision.") ||
      take(name, "mm_projector."))
    return Part::kProjector;
  const bool inner = take(name, "vision_tower.");
  if (take(name, "vision_model.") || inner || take(name, "visual.")) return Part::kEncoder;
  return Part::kNone;
}

std::optional<TensorType> type_of(std::string_view name) {
  if (name == "F32") return TensorType::kF32;
  if (name == "F16") return TensorType::kF16;
  if (name == "BF16") return TensorType::kBF16;
  return std::nullopt;
}

float plus_one(float value) { return value + 1; }

class EncoderTensors {
 public:
  EncoderTensors(const Encoder& encoder, AssembledFile& file) : encoder_(encoder), file_(file) {}

  Status add(const Safetensor& tensor) {
    std::string_view rest = tensor.name;
    const Part part = part_of(rest);
    const auto unused = [&](std::string_view prefix) { return rest.starts_with(prefix); };
    if (part == Part::kEncoder && std::ranges::any_of(kUnused, unused)) return {};
    const auto type = type_of(tensor.type);
    if (!type)
      return Error{ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) + " has type " +
                                                in_quotes(tensor.type) +
                                                ", which is not supported for vision encoders (known: F32, F16, BF16)"};
    const bool clamp =
        encoder_.clamps && std::ranges::any_of(kClamps, [&](std::string_view name) { return rest.ends_with(name); });
    if ((tensor.shape.empty() && !clamp) || tensor.shape.size() > 5 ||
        std::ranges::any_of(tensor.shape, [](int64_t length) { return length < 1; }))
      return invalid(tensor, "has a shape that is not valid for a vision encoder tensor");
    const std::string name = part == Part::kProjector ? projector_name(rest) : encoder_name(rest);
    if (name == kPassedOver) return {};
    if (name.empty())
      return Error{ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) +
                                                " is not known for this kind of vision encoder"};
    return put(name, tensor, *type);
  }

  // Adds the row of the text model's embedding table for `token`, the token between image rows.
  Status add_row_break(const Safetensor& table, int64_t token) {
    const auto type = type_of(table.type);
    if (!type || table.shape.size() != 2 || token >= table.shape[0])
      return invalid(table, "must have a float row for the token between image rows, " + std::to_string(token));
    const size_t row = static_cast<size_t>(table.shape[1]) * static_cast<size_t>(traits_of(*type).block_bytes);
    file_.tensor("v.token_embd.img_break", {table.shape[1]}, *type,
                 table.data.subspan(static_cast<size_t>(token) * row, row));
    return {};
  }

 private:
  static constexpr std::string_view kPassedOver = "-";

  std::string projector_name(std::string_view rest) const {
    if (encoder_.kind == EncoderKind::kGemma3 && rest == "mm_input_projection_weight")
      return "mm.input_projection.weight";
    if (encoder_.ends_rows && rest == kNewline) return "model.image_newline";
    const auto [stem, suffix] = split_suffix(rest);
    for (const ProjectorName& name : kOfProjector)
      if (name.kind == encoder_.kind && name.hf == stem && !suffix.empty())
        return std::string(name.gguf) + std::string(suffix);
    return {};
  }

  std::string encoder_name(std::string_view rest) const {
    if (const std::string_view whole = find(kWhole, rest); !whole.empty()) return std::string(whole);
    if (const std::string_view whole = find(kOfStandardization, rest); !whole.empty())
      return encoder_.standardizes ? std::string(whole) : std::string();
    for (const std::string_view layers : kLayers) {
      std::string_view inner = rest;
      if (!take(inner, layers)) continue;
      const int64_t layer = take_number(inner);
      if (layer >= encoder_.layers) return std::string(kPassedOver);
      if (layer >= 0 && encoder_.kind == EncoderKind::kGemma4)
        return gemma4_name("v.blk." + std::to_string(layer) + ".", inner);
      if (layer >= 0 && encoder_.kind == EncoderKind::kKimi)
        return joined("v.blk." + std::to_string(layer) + ".", {}, kOfKimiLayer, inner);
      return layer < 0 ? std::string()
                       : joined("v.blk." + std::to_string(layer) + ".", find(kWholeOfLayer, inner), kOfLayer, inner);
    }
    if (take(rest, "deepstack_merger_list.")) {
      const int64_t part = take_number(rest);
      if (part < 0 || part >= static_cast<int64_t>(encoder_.deepstack.size())) return {};
      return joined("v.deepstack." + std::to_string(encoder_.deepstack[static_cast<size_t>(part)]) + ".", {},
                    kOfDeepstack, rest);
    }
    return encoder_.kind == EncoderKind::kKimi ? joined({}, {}, kOfKimi, rest) : joined({}, {}, kOfEncoder, rest);
  }

  std::string gemma4_name(const std::string& prefix, std::string_view rest) const {
    const size_t dot = rest.rfind('.');
    if (dot == std::string_view::npos) return {};
    std::string_view stem = rest.substr(0, dot);
    const std::string_view last = rest.substr(dot + 1);
    const bool clamp = std::ranges::find(kClamps, last) != std::end(kClamps);
    if (clamp ? !encoder_.clamps : last != "weight") return {};
    if (!clamp && stem.ends_with(".linear")) stem.remove_suffix(std::string_view(".linear").size());
    const std::string_view name = find(kOfGemma4Layer, stem);
    return name.empty() ? std::string() : prefix + std::string(name) + "." + std::string(last);
  }

  template <size_t n>
  static std::string joined(const std::string& prefix, std::string_view whole, const Name (&names)[n],
                            std::string_view rest) {
    if (!whole.empty()) return prefix + std::string(whole);
    const auto [stem, suffix] = split_suffix(rest);
    const std::string_view name = find(names, stem);
    return name.empty() || suffix.empty() ? std::string() : prefix + std::string(name) + std::string(suffix);
  }

  Status put(const std::string& name, const Safetensor& tensor, TensorType type) {
    std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    if (shape.empty()) shape = {1};
    if (name == "v.patch_embd.weight") return put_kernel(name, tensor, type);
    // Some checkpoints store vectors and tables with extra leading dimensions of length 1. They are removed here.
    const bool positions = name == "v.position_embd.weight";
    const bool tables = positions && (encoder_.kind == EncoderKind::kGemma4 || encoder_.kind == EncoderKind::kKimi);
    const size_t dimensions = name == "v.class_embd" ? 1 : positions && !tables ? 2 : shape.size();
    while (shape.size() > dimensions && shape.back() == 1) shape.pop_back();
    if (shape.size() > (tables ? 3 : 2)) return invalid(tensor, "is not a matrix");
    const bool turns = encoder_.kind == EncoderKind::kPixtral &&
                       (name.find(".attn_q.") != std::string::npos || name.find(".attn_k.") != std::string::npos);
    if (encoder_.kind == EncoderKind::kKimi && name.find(".attn_qkv.") != std::string::npos)
      return put_by_axis(name, shape, tensor, type);
    if (turns) return put_neighbors(name, shape, tensor, type);
    if (name == "mm.soft_emb_norm.weight") {  // The checkpoint stores this norm minus one.
      put_rows(name, shape, mapped_rows(plain_rows(type, 1, tensor.data), plus_one));
      return {};
    }
    file_.tensor(name, shape, type, tensor.data);
    return {};
  }

  // Adds the patch kernels. Kernels for one frame have the shape [width][3][p][p], or [width][p * p * 3] with the color
  // channel varying fastest. Kernels for two frames have the shape [width][3][2][p][p] and become two tensors.
  Status put_kernel(const std::string& name, const Safetensor& tensor, TensorType type) {
    const int64_t p = encoder_.patch, width = tensor.shape[0];
    if (tensor.shape == std::vector<int64_t>{width, 3, p, p}) {
      file_.tensor(name, {p, p, 3, width}, type, tensor.data);
      return {};
    }
    if (tensor.shape == std::vector<int64_t>{width, p * p * 3}) {
      std::vector<int32_t> order;
      for (int64_t i = 0; i < 3 * p * p; ++i) order.push_back(static_cast<int32_t>(i % (p * p) * 3 + i / (p * p)));
      put_rows(name, {p, p, 3, width}, moved_columns(plain_rows(type, 3 * p * p, tensor.data), 1, std::move(order)));
      return {};
    }
    if (tensor.shape != std::vector<int64_t>{width, 3, 2, p, p})
      return invalid(tensor, "has a shape that does not fit kernels for patches of " + std::to_string(p) + " x " +
                                 std::to_string(p) + " pixels");
    const Rows all = plain_rows(type, p * p, tensor.data);
    for (const int32_t frame : {0, 1}) {
      std::vector<int32_t> order;
      for (int64_t i = 0; i < 3 * width; ++i) order.push_back(static_cast<int32_t>(2 * i) + frame);
      put_rows(frame == 0 ? name : name + ".1", {p, p, 3, width}, picked_rows(all, std::move(order)));
    }
    return {};
  }

  // Reorders the rows of each head: RoPE rotates pairs (i, i + n/2) in the checkpoint, but adjacent pairs in a vision
  // file.
  Status put_neighbors(const std::string& name, const std::vector<int64_t>& shape, const Safetensor& tensor,
                       TensorType type) {
    const int64_t n = tensor.shape[0], head = n / encoder_.heads;
    if (n % encoder_.heads != 0 || head % 2 != 0 || n > INT32_MAX)
      return invalid(tensor, "has " + std::to_string(n) + " rows, which are not " + std::to_string(encoder_.heads) +
                                 " heads of even size");
    std::vector<int32_t> order;
    for (int64_t row = 0; row < n; ++row)
      order.push_back(static_cast<int32_t>(row / head * head + row % head / 2 + row % 2 * (head / 2)));
    put_rows(name, shape, picked_rows(rows_of(tensor, type), std::move(order)));
    return {};
  }

  // Reorders the query and key rows of each head. In the checkpoint, pairs rotated by column and pairs rotated by row
  // alternate; in a vision file, the pairs rotated by column come first. Value rows keep their order.
  Status put_by_axis(const std::string& name, const std::vector<int64_t>& shape, const Safetensor& tensor,
                     TensorType type) {
    const int64_t n = tensor.shape[0], width = n / 3, head = width / encoder_.heads;
    if (n % 3 != 0 || width % encoder_.heads != 0 || head % 4 != 0 || head == 0 || n > INT32_MAX)
      return invalid(tensor, "has " + std::to_string(n) + " rows, which are not three times " +
                                 std::to_string(encoder_.heads) + " heads with a size that is a multiple of 4");
    std::vector<int32_t> order;
    for (int64_t row = 0; row < n; ++row) {
      const int64_t at = row % head, axis = at / (head / 2), pair = at % (head / 2) / 2;
      order.push_back(static_cast<int32_t>(row < 2 * width ? row - at + pair * 4 + axis * 2 + at % 2 : row));
    }
    put_rows(name, shape, picked_rows(rows_of(tensor, type), std::move(order)));
    return {};
  }

  void put_rows(const std::string& name, const std::vector<int64_t>& shape, Rows rows) {
    const TensorType type = rows->exact_type();
    const int64_t cols = rows->cols();
    file_.tensor(name, shape, type, TensorSource{.type = type, .cols = cols, .maker = std::move(rows)});
  }

  const Encoder& encoder_;
  AssembledFile& file_;
};

bool is_table(std::string_view name) { return name.ends_with("embed_tokens.weight") && !name.starts_with("mtp."); }

}  // namespace

bool is_of_encoder(std::string_view name) { return part_of(name) != Part::kNone; }

Status translate_encoder_tensors(const std::vector<const Safetensor*>& tensors, const Encoder& encoder,
                                 int64_t row_break, AssembledFile& file) {
  EncoderTensors to(encoder, file);
  bool broken = false;
  int standards = 0;
  for (const Safetensor* const tensor : tensors) {
    Status status;
    if (is_of_encoder(tensor->name)) {
      status = to.add(*tensor);
      for (const Name& name : kOfStandardization) standards += tensor->name.ends_with(name.hf) ? 1 : 0;
    } else if (encoder.breaks_rows && !broken && is_table(tensor->name)) {
      status = to.add_row_break(*tensor, row_break);
      broken = true;
    }
    if (!status) return status;
  }
  if (encoder.standardizes && standards < 2)
    return Error{ErrorCode::kInvalidFile,
                 "tensors 'std_bias' and 'std_scale' are missing, but 'vision_config.standardize' requires them"};
  if (encoder.breaks_rows && !broken)
    return Error{ErrorCode::kInvalidFile,
                 "embedding table is missing, but the embedding of the token between image rows comes from it"};
  return {};
}

}  // namespace monolith::hf
