#include "vision/tiny_vision.h"

namespace monolith::testing {

TinyVision::TinyVision(const std::string& type) : TinyModel("clip", 0) {
  keys.clear();
  tensors.clear();
  const ProjectorTraits& traits = *projector_traits(type);
  const bool qwen25 = type == "qwen2.5vl_merger", gemma4 = type == "gemma4v", pixtral = type == "pixtral";
  const bool rms = qwen25 || gemma4 || pixtral;
  const uint32_t patch = qwen25           ? 14
                         : type == "lfm2" ? 16
                                          : 4,
                 n_layers = type == "mlp" ? 3 : 2, merge = gemma4 ? 3 : 2;
  const uint32_t image = type == "lfm2" ? 64 : 24, side = image / patch, merged = kWidth * merge * merge;
  keys["general.architecture"] = std::string("clip");
  keys["clip.projector_type"] = type;
  key("image_size", image);
  key("patch_size", patch);
  key("embedding_length", kWidth);
  key("feed_forward_length", kInner);
  key("block_count", n_layers);
  key("attention.head_count", kHeads);
  key("attention.layer_norm_epsilon", 1e-3f);
  key("image_mean", std::vector<float>{0.48f, 0.46f, 0.41f});
  key("image_std", std::vector<float>{0.27f, 0.26f, 0.28f});
  if (!traits.merge_key.empty() && !pixtral) key(std::string(traits.merge_key), merge);
  if (type == "mlp") key("image_grid_pinpoints", std::vector<uint32_t>{24, 48, 48, 24, 48, 48});
  if (type == "idefics3") key("preproc_image_size", 72u);
  if (qwen25) key("n_wa_pattern", 2u);
  if (qwen25 || pixtral) keys["clip.use_silu"] = true;
  if (!qwen25 && !pixtral && !gemma4 && type != "mlp" && type != "qwen2vl_merger") keys["clip.use_gelu"] = true;

  tensors["v.patch_embd.weight"] = {{patch, patch, 3, kWidth}, TensorType::kF32, 0.1f};
  if (traits.mrope) tensors["v.patch_embd.weight.1"] = {{patch, patch, 3, kWidth}, TensorType::kF32, 0.1f};
  if (!rms && type != "mlp" && type != "qwen2vl_merger") bias("v.patch_embd.bias", kWidth);
  if (traits.class_vector) bias("v.class_embd", kWidth);
  if (traits.positions == PatchPositions::kTwoTables)
    tensors["v.position_embd.weight"] = {{kWidth, 64, 2}};
  else if (traits.positions == PatchPositions::kBicubic)
    tensors["v.position_embd.weight"] = {{kWidth, side, side}};
  else if (traits.positions != PatchPositions::kNone)
    matrix("v.position_embd.weight", side * side + traits.class_vector, kWidth);
  if (type == "mlp") layer_norm("v.pre_ln", kWidth);
  if (pixtral) norm("v.pre_ln.weight", kWidth);
  for (uint32_t i = 0; i < n_layers; ++i) add_layer("v.blk." + std::to_string(i) + ".", rms, type);
  if (type != "mlp" && type != "internvl" && !gemma4 && !pixtral) {
    if (rms)
      norm("v.post_ln.weight", kWidth);
    else
      layer_norm("v.post_ln", kWidth);
  }
  const auto two = [&](const std::string& one, const std::string& other, uint32_t from) {
    matrix(one + ".weight", 40, from);
    bias(one + ".bias", 40);
    matrix(other + ".weight", kRow, 40);
    bias(other + ".bias", kRow);
  };
  if (type == "idefics3") matrix("mm.model.fc.weight", kRow, merged);
  if (type == "gemma3") norm("mm.soft_emb_norm.weight", kWidth), matrix("mm.input_projection.weight", kWidth, kRow);
  if (traits.mrope) two("mm.0", "mm.2", merged);
  if (type == "mlp") two("mm.0", "mm.2", kWidth);
  if (pixtral) {
    key("spatial_merge_size", merge);
    norm("mm.input_norm.weight", kWidth), matrix("mm.patch_merger.weight", kWidth, merged);
    two("mm.1", "mm.2", kWidth), bias("v.token_embd.img_break", kRow);
  }
  if (type == "internvl") layer_norm("mm.model.mlp.0", merged), two("mm.model.mlp.1", "mm.model.mlp.3", merged);
  if (type == "lfm2") layer_norm("mm.input_norm", merged), two("mm.1", "mm.2", merged);
  if (gemma4)
    bias("v.std_bias", kWidth), norm("v.std_scale", kWidth), matrix("mm.input_projection.weight", kRow, kWidth);
  if (type == "kimik25") layer_norm("mm.input_norm", kWidth), two("mm.1", "mm.2", merged);
  if (type == "qwen3vl_merger")
    layer_norm("v.deepstack.0.norm", merged), two("v.deepstack.0.fc1", "v.deepstack.0.fc2", merged);
}

void TinyVision::layer_norm(const std::string& name, uint64_t count) {
  norm(name + ".weight", count);
  bias(name + ".bias", count);
}

void TinyVision::add_layer(const std::string& at, bool rms, const std::string& type) {
  const bool gemma4 = type == "gemma4v", pixtral = type == "pixtral", biased = !gemma4 && !pixtral;
  const auto linear = [&](const std::string& name, uint64_t rows, uint64_t cols) {
    matrix(at + name + ".weight", rows, cols);
    if (biased) bias(at + name + ".bias", rows);
  };
  for (const char* name : {"ln1", "ln2"}) {
    if (rms)
      norm(at + name + ".weight", kWidth);
    else
      layer_norm(at + name, kWidth);
  }
  if (type == "qwen3vl_merger" || type == "kimik25")
    linear("attn_qkv", 3 * kWidth, kWidth);
  else
    for (const char* name : {"attn_q", "attn_k", "attn_v"}) linear(name, kWidth, kWidth);
  linear("attn_out", kWidth, kWidth);
  linear("ffn_up", kInner, kWidth);
  linear("ffn_down", kWidth, kInner);
  if (rms) linear("ffn_gate", kInner, kWidth);
  if (type == "internvl") norm(at + "ls1.weight", kWidth), norm(at + "ls2.weight", kWidth);
  if (!gemma4) return;
  for (const char* name : {"attn_q_norm", "attn_k_norm"}) norm(at + name + ".weight", kWidth / kHeads);
  for (const char* name : {"attn_post_norm", "ffn_post_norm"}) norm(at + name + ".weight", kWidth);
  for (const auto& [name, bound] : {std::pair{"input_min", -1.5f}, std::pair{"input_max", 1.25f},
                                    std::pair{"output_min", -0.75f}, std::pair{"output_max", 1.0f}}) {
    tensors[at + "attn_q." + name] = {{1}, TensorType::kF32, 0, bound};
    tensors[at + "ffn_down." + name] = {{1}, TensorType::kF32, 0, bound};
  }
}

std::vector<uint8_t> striped_picture(int width, int height) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int color = 0; color < 3; ++color)
        pixels.push_back(
            static_cast<uint8_t>((x * (3 + 2 * color) + y * (7 - 2 * color) + x * y / 16 + (x / 9 % 2) * 60) % 256));
  return pixels;
}

}  // namespace monolith::testing
