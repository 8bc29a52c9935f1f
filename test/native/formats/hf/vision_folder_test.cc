// Tests the errors for directories with invalid vision encoders: every message names the file and the key, or the
// tensor. engine/hf_vision_test.cc tests the results for valid directories.
#include "formats/hf/folder.h"

#include <string>
#include <tuple>

#include "check.h"
#include "formats/hf/model_file.h"
#include "support/hf_folder.h"

namespace monolith {
namespace {

using namespace testing;

struct Parts {
  std::string name = "Gemma3ForConditionalGeneration";
  std::string config =
      R"("vision_config":{"model_type":"siglip_vision_model","hidden_size":8,"num_hidden_layers":2,"image_size":56,"patch_size":14},)"
      R"("mm_tokens_per_image":4)";
  std::string processor = R"({"size":{"height":56,"width":56},"resample":2})";
  std::vector<SafetensorData> tensors = {
      {"model.vision_tower.vision_model.post_layernorm.weight", "F32", {8}, std::string(32, 'a')},
      {"model.vision_tower.vision_model.head.probe", "F32", {8}, std::string(32, 'a')},
      {"model.language_model.norm.weight", "F8_E4M3", {2}, "aa"}};
};

Result<std::unique_ptr<GgufFile>> opened(const Parts& parts) {
  const ScratchFolder folder;
  folder.write("config.json", "{\"architectures\":[" + json_text(parts.name) + "]," + parts.config + "}");
  if (!parts.processor.empty()) folder.write("preprocessor_config.json", parts.processor);
  folder.write("model.safetensors", safetensors_of(parts.tensors));
  auto file = hf::open_vision_folder(folder.path());
  if (!file) CHECK(file.error().message.starts_with(folder.path()));
  return file;
}

void refused(const Parts& parts, const std::string& message) {
  const auto file = opened(parts);
  if (file) return check::fail(__FILE__, __LINE__, "not refused: " + message);
  if (file.error().message.find(message) == std::string::npos)
    check::fail(__FILE__, __LINE__, message + ": " + file.error().message);
}

Parts with(std::string Parts::*member, const std::string& from, const std::string& to) {
  Parts parts;
  std::string& text = parts.*member;
  text.replace(text.find(from), from.size(), to);
  return parts;
}

}  // namespace

TEST(vision_encoders_of_folders_are_translated_to_gguf_keys_and_names) {
  const auto file = opened({});
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  CHECK_EQ((*file)->string("clip.projector_type")->value_or(""), "gemma3");
  CHECK_EQ((*file)->unsigned_integer("clip.vision.projector.scale_factor")->value_or(0), 2u);
  // The setting is missing, so the class default is used.
  CHECK_EQ((*file)->unsigned_integer("clip.vision.feed_forward_length")->value_or(0), 3072u);
  CHECK_EQ((*file)->tensors().size(), 1u);  // Neither the head for other purposes nor the text model's tensors.
  CHECK((*file)->tensor("v.post_ln.weight") != nullptr);
}

TEST(invalid_vision_encoders_are_rejected_by_name) {
  refused(with(&Parts::name, "Gemma3ForConditionalGeneration", "Llama4ForConditionalGeneration"),
          "'architectures' is 'Llama4ForConditionalGeneration', whose vision encoder is not supported in Hugging Face "
          "folders (known: "
          "Idefics3");
  refused(with(&Parts::name, "Gemma3ForConditionalGeneration", "LlavaForConditionalGeneration"),
          "'vision_config.model_type' is 'siglip_vision_model': this kind of vision encoder is not supported in "
          "Hugging Face folders");
  refused(with(&Parts::config, "\"vision_config\":{", "\"other_config\":{"), "config.json: 'vision_config' is missing");
  refused(with(&Parts::config, "\"hidden_size\":8", "\"hidden_size\":0"),
          "'vision_config.hidden_size' is 0, expected an integer");
  refused(with(&Parts::config, "\"hidden_size\":8", "\"hidden_size\":8,\"hidden_act\":\"relu\""),
          "'vision_config.hidden_act' is 'relu'");
  refused(with(&Parts::config, "\"image_size\":56", "\"image_size\":[56,28]"),
          "'vision_config.image_size' is not square");
  refused(with(&Parts::processor, "56,", "112,"), "'size' is not square");
  refused(with(&Parts::processor, "\"resample\":2", "\"resample\":3"), "preprocessor_config.json: 'resample' is not 2");
  refused(with(&Parts::processor, "\"resample\":2", "\"do_normalize\":false"), "'do_normalize' is false");
  refused(with(&Parts::processor, "\"resample\":2", "\"image_mean\":[0.5]"), "'image_mean' must have three numbers");
  Parts parts;
  parts.processor.clear();
  refused(parts, "contains no preprocessor_config.json");
}

TEST(invalid_settings_of_qwen2_vl_are_rejected_by_name) {
  Parts whole;
  whole.name = "Qwen2VLForConditionalGeneration";
  whole.config =
      R"("vision_config":{"depth":2,"embed_dim":8,"hidden_size":64,"mlp_ratio":4,"num_heads":2,"patch_size":14})";
  whole.processor = R"({"min_pixels":3136,"max_pixels":12845056,"patch_size":14,"merge_size":2,"resample":3})";
  whole.tensors = {{"visual.merger.ln_q.weight", "F32", {8}, std::string(32, 'a')}};
  const auto file = opened(whole);
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  CHECK_EQ((*file)->string("clip.projector_type")->value_or(""), "qwen2vl_merger");
  // This is the embedding size of the encoder, not of the text model.
  CHECK_EQ((*file)->unsigned_integer("clip.vision.embedding_length")->value_or(0), 8u);
  CHECK_EQ((*file)->unsigned_integer("clip.vision.feed_forward_length")->value_or(0), 32u);
  for (const auto& [member, from, to, message] :
       std::vector<std::tuple<std::string Parts::*, std::string, std::string, std::string>>{
           {&Parts::config, "\"mlp_ratio\":4", "\"mlp_ratio\":0.3",
            "'vision_config.mlp_ratio' times the width 8 is not a whole number"},
           {&Parts::config, "\"mlp_ratio\":4", "\"mlp_ratio\":-1", "'vision_config.mlp_ratio' times the width"},
           {&Parts::config, "\"mlp_ratio\":4", "\"mlp_ratio\":1e300", "'vision_config.mlp_ratio' times the width"},
           {&Parts::config, "\"mlp_ratio\":4", "\"mlp_ratio\":\"4\"", "'vision_config.mlp_ratio'"},
           {&Parts::config, "\"embed_dim\":8", "\"embed_dim\":0",
            "'vision_config.embed_dim' is 0, expected an integer"},
           {&Parts::config, "\"depth\":2", "\"depth\":2,\"in_channels\":1", "'vision_config.in_channels' is not 3"},
           {&Parts::processor, "\"merge_size\":2", "\"merge_size\":4",
            "'merge_size' differs from the 2 in config.json"}}) {
    Parts parts = whole;
    std::string& text = parts.*member;
    text.replace(text.find(from), from.size(), to);
    refused(parts, message);
  }
}

TEST(invalid_settings_of_gemma_4_are_rejected_by_name) {
  Parts whole;
  whole.name = "Gemma4ForConditionalGeneration";
  whole.config =
      R"("vision_config":{"model_type":"gemma4_vision","num_hidden_layers":2,"hidden_size":8,"num_attention_heads":2,"head_dim":4,)"
      R"("use_clipped_linears":true,"standardize":true,"rope_parameters":{"rope_type":"default","rope_theta":100.0}})";
  whole.processor =
      R"({"max_soft_tokens":560,"patch_size":16,"pooling_kernel_size":3,"do_normalize":false,"image_mean":[9,9,9],"resample":3})";
  const std::string at = "model.vision_tower.", q = at + "encoder.layers.0.self_attn.q_proj.";
  whole.tensors = {{at + "std_bias", "F32", {8}, std::string(32, 'a')},
                   {at + "std_scale", "F32", {8}, std::string(32, 'a')},
                   {q + "input_min", "F32", {}, "aaaa"}};
  const auto file = opened(whole);
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  CHECK_EQ((*file)->unsigned_integer("clip.vision.image_max_pixels")->value_or(0), 560u * 48 * 48);
  const auto mean = (*file)->numbers("clip.vision.image_mean");
  CHECK(mean.ok() && (**mean)[0] == 0.0f);  // Images are not normalized.
  // The default activation is gelu_pytorch_tanh.
  CHECK((*file)->boolean("clip.use_gelu")->value_or(false));
  CHECK((*file)->tensor("v.blk.0.attn_q.input_min") != nullptr);
  for (const auto& [member, from, to, message] :
       std::vector<std::tuple<std::string Parts::*, std::string, std::string, std::string>>{
           {&Parts::processor, "560", "300", "'max_soft_tokens' is 300, expected 70, 140, 280, 560 or 1120"},
           {&Parts::processor, "560", "-1", "'max_soft_tokens' is -1, expected an integer"},
           {&Parts::processor, "\"patch_size\":16", "\"patch_size\":14",
            "'patch_size' differs from the 16 in config.json"},
           {&Parts::processor, "\"pooling_kernel_size\":3", "\"pooling_kernel_size\":2",
            "'pooling_kernel_size' differs from the 3 in config.json"},
           {&Parts::processor, "\"do_normalize\":false", "\"do_normalize\":0", "'do_normalize'"},
           {&Parts::config, "\"head_dim\":4", "\"head_dim\":16", "'vision_config.head_dim' is not 4"},
           {&Parts::config, "\"head_dim\":4", "\"num_key_value_heads\":1",
            "'vision_config.num_key_value_heads' is not 2"},
           {&Parts::config, "\"head_dim\":4", "\"attention_bias\":true", "'vision_config.attention_bias' is true"},
           {&Parts::config, "\"head_dim\":4", "\"hidden_activation\":\"relu\"",
            "'vision_config.hidden_activation' is 'relu'"},
           {&Parts::config, "\"head_dim\":4", "\"pooling_kernel_size\":1048576",
            "'pooling_kernel_size' differs from the 1048576 in config.json"},
           {&Parts::config, "100.0", "10000.0", "'vision_config.rope_parameters.rope_theta' is not 100"},
           {&Parts::config, "\"default\"", "\"yarn\"", "'vision_config.rope_parameters.rope_type' is 'yarn'"},
           {&Parts::config, "\"standardize\":true", "\"standardize\":false", "std_bias' is not known"},
           {&Parts::config, "\"use_clipped_linears\":true", "\"use_clipped_linears\":false",
            "input_min' has a shape that is not valid"}}) {
    Parts parts = whole;
    std::string& text = parts.*member;
    text.replace(text.find(from), from.size(), to);
    refused(parts, message);
  }
  whole.tensors.erase(whole.tensors.begin());
  refused(whole, "tensors 'std_bias' and 'std_scale' are missing, but 'vision_config.standardize' requires them");
}

TEST(invalid_settings_of_kimi_are_rejected_by_name) {
  Parts whole;
  whole.name = "KimiK25ForConditionalGeneration";
  whole.config =
      R"("vision_config":{"vt_hidden_size":8,"vt_num_hidden_layers":2,"vt_num_attention_heads":2,"merge_kernel_size":[2,2],"projector_ln_eps":1e-5})";
  whole.processor =
      R"({"media_proc_cfg":{"in_patch_limit":16384,"patch_size":14,"merge_kernel_size":2,"fixed_output_tokens":null}})";
  whole.tensors = {{"vision_tower.encoder.blocks.0.wqkv.bias", "F32", {24}, std::string(96, 'a')},
                   {"vision_tower.patch_embed.pos_emb.time_weight", "F32", {4, 1, 8}, std::string(128, 'a')}};
  const auto file = opened(whole);
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  CHECK_EQ((*file)->unsigned_integer("clip.vision.image_max_pixels")->value_or(0), 16384u * 196);
  CHECK_EQ((*file)->tensors().size(), 1u);  // The position embeddings for video frames are left out.
  for (const auto& [member, from, to, message] :
       std::vector<std::tuple<std::string Parts::*, std::string, std::string, std::string>>{
           {&Parts::processor, "16384", "0", "'media_proc_cfg.in_patch_limit' is 0, expected an integer"},
           {&Parts::processor, "16384", "70000", "'media_proc_cfg.in_patch_limit' is 70000, expected an integer"},
           {&Parts::processor, "null", "64", "'media_proc_cfg.fixed_output_tokens' is set"},
           {&Parts::processor, "null", "null,\"patch_limit_on_one_side\":64",
            "'media_proc_cfg.patch_limit_on_one_side' is not 512"},
           {&Parts::processor, "null", "null,\"pad_input\":false", "'media_proc_cfg.pad_input' is not true"},
           {&Parts::processor, "\"patch_size\":14", "\"patch_size\":16",
            "'media_proc_cfg.patch_size' differs from the 14 in config.json"},
           {&Parts::config, "[2,2]", "[2,4]", "'vision_config.merge_kernel_size' is not square"},
           {&Parts::config, "[2,2]", "32", "has a merge size or patch size that is too large: 32"},
           {&Parts::config, "1e-5", "1e-3", "'vision_config.projector_ln_eps' differs from 'layer_norm_eps'"},
           {&Parts::config, "[2,2]", "2,\"merge_type\":\"other\"", "'vision_config.merge_type' is 'other'"},
           {&Parts::config, "[2,2]", "2,\"pos_emb_type\":\"other\"", "'vision_config.pos_emb_type' is 'other'"},
           {&Parts::config, "\"vt_num_attention_heads\":2", "\"vt_num_attention_heads\":3",
            "are not three times 3 heads"}}) {
    Parts parts = whole;
    std::string& text = parts.*member;
    text.replace(text.find(from), from.size(), to);
    refused(parts, message);
  }
}

TEST(invalid_settings_of_llava_16_are_rejected_by_name) {
  Parts whole;
  whole.name = "LlavaNextForConditionalGeneration";
  whole.config =
      R"("image_grid_pinpoints":[[112,56],[56,168]],"vision_config":{"model_type":"clip_vision_model","hidden_size":8,"num_hidden_layers":3,)"
      R"("image_size":56,"patch_size":14})";
  whole.processor =
      R"({"size":{"shortest_edge":56},"crop_size":{"height":56,"width":56},"image_grid_pinpoints":[[112,56],[56,168]],"resample":3})";
  whole.tensors = {{"model.image_newline", "F32", {8}, std::string(32, 'a')}};
  const auto file = opened(whole);
  if (!file) return check::fail(__FILE__, __LINE__, file.error().message);
  const auto points = (*file)->integers("clip.vision.image_grid_pinpoints");
  // Grid sizes are stored with the width first.
  CHECK(points.ok() && *points && **points == (std::vector<int64_t>{56, 112, 168, 56}));
  CHECK((*file)->tensor("model.image_newline") != nullptr);
  Parts usual = whole;
  for (std::string* const text : {&usual.config, &usual.processor}) {
    const std::string stated = R"("image_grid_pinpoints":[[112,56],[56,168]],)";
    text->erase(text->find(stated), stated.size());
  }
  const auto unsaid = opened(usual);
  if (!unsaid) return check::fail(__FILE__, __LINE__, unsaid.error().message);
  // The setting is missing, so the class default is used.
  CHECK_EQ((**(*unsaid)->integers("clip.vision.image_grid_pinpoints")).size(), 10u);
  for (const auto& [member, from, to, message] :
       std::vector<std::tuple<std::string Parts::*, std::string, std::string, std::string>>{
           {&Parts::config, "[[112,56],[56,168]]", "[]", "'image_grid_pinpoints' is not a list of 1 to 4096 pairs"},
           {&Parts::config, "[[112,56],[56,168]]", "7", "'image_grid_pinpoints' is not a list of 1 to 4096 pairs"},
           {&Parts::config, "[112,56]", "[112]", "'image_grid_pinpoints[0]' is not a pair of height and width"},
           {&Parts::config, "[56,168]", "168", "'image_grid_pinpoints[1]' is not a pair of height and width"},
           {&Parts::config, "[112,56]", "[112,-56]", "'image_grid_pinpoints[0][1]' is -56, expected an integer"},
           {&Parts::config, "[112,56]", "[4611686018427387904,56]", "'image_grid_pinpoints[0][0]'"},
           {&Parts::processor, "[112,56]", "[56,112]", "'image_grid_pinpoints' differs from config.json"},
           {&Parts::processor, "\"shortest_edge\":56", "\"height\":28,\"width\":28",
            "'size' differs from the encoder's image size, 56"},
           {&Parts::processor, "\"width\":56", "\"width\":28", "'crop_size' is not square"},
           {&Parts::config, "clip_vision_model", "siglip_vision_model",
            "'vision_config.model_type' is 'siglip_vision_model': this kind of vision encoder is not supported"}}) {
    Parts parts = whole;
    std::string& text = parts.*member;
    text.replace(text.find(from), from.size(), to);
    refused(parts, message);
  }
  // LLaVA 1.5 has no such tensor.
  whole.name = "LlavaForConditionalGeneration";
  refused(whole, "'model.image_newline' is not known for this kind of vision encoder");
}

TEST(invalid_tensors_of_vision_encoders_are_rejected_by_name) {
  const std::string at = "model.vision_tower.vision_model.";
  for (const auto& [tensor, message] : std::vector<std::pair<SafetensorData, std::string>>{
           {{at + "other.weight", "F32", {8}, std::string(32, 'a')},
            "other.weight' is not known for this kind of vision encoder"},
           {{at + "encoder.layers.0.mlp.fc1.weight", "I8", {8, 1}, std::string(8, 'a')}, "has type 'I8'"},
           {{at + "embeddings.patch_embedding.weight", "F32", {2, 1}, std::string(8, 'a')},
            "patches of 14 x 14 pixels"},
           {{"multi_modal_projector.linear_1.weight", "F32", {1, 1}, std::string(4, 'a')}, "is not known"}}) {
    Parts parts;
    parts.tensors.push_back(tensor);
    refused(parts, message);
  }
  // Layers after the last layer in use are ignored.
  Parts parts;
  parts.tensors.push_back({at + "encoder.layers.7.mlp.fc1.bias", "F32", {2}, std::string(8, 'a')});
  CHECK(opened(parts).ok());
}

TEST(damaged_settings_of_vision_encoders_never_crash) {
  const Parts whole;
  for (size_t cut = 0; cut < whole.config.size(); cut += 3) {
    Parts parts;
    parts.config = whole.config.substr(0, cut) + "7" + whole.config.substr(cut + 1);
    (void)opened(parts);  // The damaged directory may open or be rejected, but must not crash.
    parts = {};
    parts.processor = whole.processor.substr(0, cut % whole.processor.size());
    (void)opened(parts);  // The damaged directory may open or be rejected, but must not crash.
  }
}

TEST(invalid_tile_sizes_of_lfm2_are_rejected_by_name) {
  Parts parts;
  parts.name = "Lfm2VlForConditionalGeneration";
  parts.config =
      R"("downsample_factor":1048576,"vision_config":{"hidden_size":8,"num_hidden_layers":2,"patch_size":1048576})";
  parts.processor = R"({"resample":2})";
  refused(parts, "'vision_config' has a merge size or patch size that is too large: 1048576 and 1048576");
}

}  // namespace monolith
