#include "support/vision_folder.h"

#include "formats/gguf/tokenizer.h"

namespace monolith::testing {

void join_frames(Weights& weights) {
  FloatTensor& one = weights.at("v.patch_embd.weight");
  const FloatTensor other = std::move(weights.at("v.patch_embd.weight.1"));
  weights.erase("v.patch_embd.weight.1");
  const auto frame = static_cast<ptrdiff_t>(one.shape[2] * one.shape[3]);
  std::vector<float> both;
  for (ptrdiff_t at = 0; at < static_cast<ptrdiff_t>(one.values.size()); at += frame)
    for (const FloatTensor* const part : {&std::as_const(one), &other})
      both.insert(both.end(), part->values.begin() + at, part->values.begin() + at + frame);
  one = {{one.shape[0], 3, 2, one.shape[2], one.shape[3]}, std::move(both)};
}

void join_qkv(Weights& weights) {
  for (const char* const suffix : {".weight", ".bias"})
    take_each(weights, std::string("attn_q") + suffix, [&](const std::string& block, FloatTensor q) {
      for (const char* const part : {"attn_k", "attn_v"}) {
        const FloatTensor& more = weights.at(block + part + suffix);
        q.values.insert(q.values.end(), more.values.begin(), more.values.end());
        q.shape[0] += more.shape[0];
        weights.erase(block + part + suffix);
      }
      weights[block + "attn_qkv" + suffix] = std::move(q);
    });
}

void colors_last(Weights& weights) {
  FloatTensor& kernel = weights.at("v.patch_embd.weight");
  const int64_t width = kernel.shape[0], places = kernel.shape[2] * kernel.shape[3];
  std::vector<float> out;
  for (int64_t row = 0; row < width; ++row)
    for (int64_t place = 0; place < places; ++place)
      for (int64_t color = 0; color < 3; ++color)
        out.push_back(kernel.values[static_cast<size_t>((row * 3 + color) * places + place)]);
  kernel = {{width, places * 3}, std::move(out)};
}

void turn_halves(Weights& weights, int64_t heads) {
  for (const char* const stem : {"attn_q.weight", "attn_k.weight"}) as_halves(weights, stem, heads);
}

void axes_in_turn(Weights& weights, int64_t heads) {
  for (const char* const stem : {"attn_qkv.weight", "attn_qkv.bias"})
    each(weights, stem, [&](FloatTensor& tensor) {
      const int64_t width = tensor.shape[0] / 3, head = width / heads;
      pick_rows(tensor, [&](int64_t row) {
        const int64_t at = row % head, pair = at / 4, axis = at / 2 % 2;
        return row >= 2 * width ? row : row - at + axis * (head / 2) + 2 * pair + at % 2;
      });
    });
}

void as_parameter(FloatTensor& tensor, size_t ones) { tensor.shape.insert(tensor.shape.begin(), ones, 1); }

std::vector<VisionFolder> vision_folders() {
  const std::string eps = R"("layer_norm_eps":0.0010000000474974513)",
                    common = R"("hidden_size":64,"intermediate_size":128,)";
  const std::string usual = R"("num_hidden_layers":2,"num_attention_heads":2,)" + common + eps;
  const std::string deep = R"("depth":3,"num_heads":2,"temporal_patch_size":2,)" + common + eps;
  const auto vision = [](const std::string& members) { return R"("vision_config":{)" + members + "}"; };
  const auto without_break = [](Weights& w) { w.erase("v.token_embd.img_break"); };
  std::vector<VisionFolder> all;
  all.push_back(
      {"idefics3", "Idefics3ForConditionalGeneration", "model.text_model.", R"("model_type":"llama")",
       R"("scale_factor":2,)" + vision(usual + R"(,"model_type":"idefics3","image_size":112,"patch_size":14)"),
       R"("size":{"longest_edge":336},"max_image_size":{"longest_edge":112},"do_image_splitting":true,"resample":1)",
       "model.vision_model.", "model.connector.", "encoder.layers.",
       kSiglip + TensorNames{{"mm.model.fc", "modality_projection.proj"}}});
  all.push_back(
      {"gemma3", "Gemma3ForConditionalGeneration", "model.language_model.",
       R"("model_type":"gemma3_text","sliding_window":64,"sliding_window_pattern":6,"query_pre_attn_scalar":64,"rope_local_base_freq":10000)",
       R"("mm_tokens_per_image":16,)" +
           vision(usual + R"(,"model_type":"siglip_vision_model","image_size":168,"patch_size":14)"),
       R"("size":{"height":168,"width":168},"resample":2)", "model.vision_tower.vision_model.",
       "model.multi_modal_projector.", "encoder.layers.",
       kSiglip +
           TensorNames{{"mm.input_projection", "mm_input_projection_weight"}, {"mm.soft_emb_norm", "mm_soft_emb_norm"}},
       [](Weights& w) { each(w, "mm.soft_emb_norm.weight", as_norm_less_one); }});
  all.push_back(
      {"qwen25vl", "Qwen2_5_VLForConditionalGeneration", "model.",
       R"("model_type":"qwen2_5_vl_text","rope_scaling":{"type":"mrope","mrope_section":[4,6,6]})",
       vision(
           deep +
           R"(,"model_type":"qwen2_5_vl","hidden_act":"silu","patch_size":14,"spatial_merge_size":2,"window_size":112,)"
           R"("fullatt_block_indexes":[1],"out_hidden_size":128)"),
       R"("min_pixels":6272,"max_pixels":12845056,"patch_size":14,"temporal_patch_size":2,"merge_size":2)", "visual.",
       "visual.merger.", "blocks.",
       kQwenEncoder + TensorNames{{"v.post_ln", "merger.ln_q"},
                                  {"mm.0", "mlp.0"},
                                  {"mm.2", "mlp.2"},
                                  {"ffn_gate", "mlp.gate_proj"},
                                  {"ffn_up", "mlp.up_proj"},
                                  {"ffn_down", "mlp.down_proj"}},
       [](Weights& w) { join_frames(w), join_qkv(w); }});
  all.push_back(
      {"qwen25vl",
       "Qwen2VLForConditionalGeneration",
       "model.",
       R"("model_type":"qwen2_vl","rope_scaling":{"type":"mrope","mrope_section":[4,6,6]})",
       vision(
           R"("depth":3,"num_heads":2,"embed_dim":64,"hidden_size":128,"mlp_ratio":2,"in_channels":3,"temporal_patch_size":2,)" +
           eps + R"(,"model_type":"qwen2_vl","hidden_act":"quick_gelu","patch_size":14,"spatial_merge_size":2)"),
       R"("min_pixels":6272,"max_pixels":12845056,"patch_size":14,"temporal_patch_size":2,"merge_size":2)",
       "visual.",
       "visual.merger.",
       "blocks.",
       kQwenEncoder + TensorNames{{"v.post_ln", "merger.ln_q"},
                                  {"mm.0", "mlp.0"},
                                  {"mm.2", "mlp.2"},
                                  {"ffn_up", "mlp.fc1"},
                                  {"ffn_down", "mlp.fc2"}},
       [](Weights& w) { join_frames(w), join_qkv(w); },
       // Changes the weights to those of an encoder that has no gate matrices and has biases in its layer norms.
       [](Weights& w) {
         std::erase_if(w, [](const auto& one) { return one.first.find(".ffn_gate.") != std::string::npos; });
         const FloatTensor some = w.at("v.blk.0.attn_q.bias");
         for (const char* const norm :
              {"v.blk.0.ln1", "v.blk.1.ln1", "v.blk.2.ln1", "v.blk.0.ln2", "v.blk.1.ln2", "v.blk.2.ln2", "v.post_ln"})
           w[std::string(norm) + ".bias"] = some;
       },
       true,
       {"clip.projector_type", "clip.use_silu", "clip.vision.n_wa_pattern"},
       [](GgufBuilder& keys) { keys.string("clip.projector_type", "qwen2vl_merger"); }});
  all.push_back(
      {"qwen3vl", "Qwen3VLForConditionalGeneration", "model.language_model.",
       R"("model_type":"qwen3_vl_text","rope_scaling":{"mrope_interleaved":true,"mrope_section":[6,5,5],"rope_type":"default"})",
       vision(deep + R"(,"model_type":"qwen3_vl","patch_size":16,"spatial_merge_size":2,"num_position_embeddings":64,)"
                     R"("deepstack_visual_indexes":[0,1],"out_hidden_size":128)"),
       R"("size":{"longest_edge":16777216,"shortest_edge":8192},"patch_size":16,"temporal_patch_size":2,"merge_size":2)",
       "model.visual.", "model.visual.merger.", "blocks.",
       kQwenEncoder + TensorNames{{"v.post_ln", "merger.norm"},
                                  {"mm.0", "linear_fc1"},
                                  {"mm.2", "linear_fc2"},
                                  {"ffn_up", "mlp.linear_fc1"},
                                  {"ffn_down", "mlp.linear_fc2"},
                                  {"norm", "norm"},
                                  {"fc1", "linear_fc1"},
                                  {"fc2", "linear_fc2"}},
       join_frames});
  all.push_back(
      {"pixtral", "LlavaForConditionalGeneration", "language_model.model.", R"("model_type":"mistral")",
       R"("vision_feature_layer":-1,"vision_feature_select_strategy":"full",)" +
           vision(
               usual +
               R"(,"model_type":"pixtral","hidden_act":"silu","image_size":1024,"patch_size":16,"rope_theta":10000.0)"),
       R"("size":{"longest_edge":1024},"patch_size":{"height":16,"width":16},"resample":3)", "vision_tower.",
       "multi_modal_projector.", "transformer.layers.", kPixtralEncoder,
       [=](Weights& w) { without_break(w), turn_halves(w, 2); }});
  all.push_back(
      {"mistral3", "Mistral3ForConditionalGeneration", "language_model.model.", R"("model_type":"mistral")",
       R"("vision_feature_layer":-1,"spatial_merge_size":2,)" +
           vision(
               usual +
               R"(,"model_type":"pixtral","hidden_act":"silu","image_size":1024,"patch_size":14,"rope_theta":10000.0)"),
       R"("size":{"longest_edge":1024},"patch_size":14,"resample":3)", "vision_tower.", "multi_modal_projector.",
       "transformer.layers.", kPixtralEncoder, [=](Weights& w) { without_break(w), turn_halves(w, 2); }});
  all.push_back(
      {"internvl",
       "InternVLForConditionalGeneration",
       "language_model.model.",
       R"("model_type":"qwen3")",
       R"("downsample_ratio":0.5,"vision_feature_layer":-1,"vision_feature_select_strategy":"default",)" +
           vision(usual +
                  R"(,"model_type":"internvl_vision","hidden_act":"gelu","image_size":[112,112],"patch_size":[14,14])"),
       R"("size":{"height":112,"width":112},"crop_to_patches":false,"min_patches":1,"max_patches":12,"resample":3)",
       "vision_tower.",
       "multi_modal_projector.",
       "encoder.layer.",
       {{"v.patch_embd", "embeddings.patch_embeddings.projection"},
        {"v.position_embd.weight", "embeddings.position_embeddings"},
        {"v.class_embd", "embeddings.cls_token"},
        {"ln1", "layernorm_before"},
        {"ln2", "layernorm_after"},
        {"attn_q", "attention.q_proj"},
        {"attn_k", "attention.k_proj"},
        {"attn_v", "attention.v_proj"},
        {"attn_out", "attention.projection_layer"},
        {"ffn_up", "mlp.fc1"},
        {"ffn_down", "mlp.fc2"},
        {"ls1.weight", "lambda_1"},
        {"ls2.weight", "lambda_2"},
        {"mm.model.mlp.0", "layer_norm"},
        {"mm.model.mlp.1", "linear_1"},
        {"mm.model.mlp.3", "linear_2"}},
       [](Weights& w) { as_parameter(w.at("v.class_embd"), 2), as_parameter(w.at("v.position_embd.weight"), 1); }});
  all.push_back(
      {"llava15", "LlavaForConditionalGeneration", "language_model.model.", R"("model_type":"llama")",
       R"("vision_feature_layer":-2,"vision_feature_select_strategy":"default",)" +
           vision(R"("num_hidden_layers":3,"num_attention_heads":2,)" + common + eps +
                  R"(,"model_type":"clip_vision_model","image_size":112,"patch_size":14)"),
       R"("size":{"shortest_edge":112},"crop_size":{"height":112,"width":112},"do_center_crop":true,"resample":3)",
       "vision_tower.vision_model.", "multi_modal_projector.", "encoder.layers.",
       kSiglip + TensorNames{{"v.class_embd", "embeddings.class_embedding"},
                             {"v.pre_ln", "pre_layrnorm"},
                             {"mm.0", "linear_1"},
                             {"mm.2", "linear_2"}}});
  // The test runs with the names that older versions of transformers use, and with those of newer versions.
  for (const bool below : {false, true})
    all.push_back(
        {"llava16", "LlavaNextForConditionalGeneration", below ? "model.language_model." : "language_model.model.",
         R"("model_type":"llama")",
         R"("vision_feature_layer":-2,"vision_feature_select_strategy":"default","use_image_newline_parameter":true,)"
         R"("image_grid_pinpoints":[[224,112],[112,224],[224,224],[112,336],[336,112]],)" +
             vision(R"("num_hidden_layers":3,"num_attention_heads":2,)" + common + eps +
                    R"(,"model_type":"clip_vision_model","image_size":112,"patch_size":14)"),
         R"("size":{"shortest_edge":112},"crop_size":{"height":112,"width":112},"do_center_crop":true,"do_pad":true,"resample":3,)"
         R"("aspect_ratio_setting":"anyres","image_grid_pinpoints":[[224,112],[112,224],[224,224],[112,336],[336,112]])",
         below ? "model.vision_tower.vision_model." : "vision_tower.vision_model.",
         below ? "model.multi_modal_projector." : "multi_modal_projector.", "encoder.layers.",
         kSiglip + TensorNames{{"v.class_embd", "embeddings.class_embedding"},
                               {"v.pre_ln", "pre_layrnorm"},
                               {"mm.0", "linear_1"},
                               {"mm.2", "linear_2"}},
         [](Weights&) {},
         // The vision vectors have no newline tensor, because llama.cpp does not read it, so this code generates one.
         [](Weights& w) {
           FloatTensor newline = w.at("mm.2.bias");
           std::ranges::reverse(newline.values);
           w["model.image_newline"] = std::move(newline);
         }});
  all.push_back(
      {"lfm2", "Lfm2VlForConditionalGeneration", "model.language_model.", R"("model_type":"llama")",
       R"("downsample_factor":2,)" +
           vision(usual + R"(,"model_type":"siglip2_vision_model","num_patches":256,"patch_size":16)"),
       R"("min_image_tokens":64,"max_image_tokens":256,"tile_size":512,"max_tiles":10,"do_image_splitting":true,"resample":2)",
       "model.vision_tower.vision_model.", "model.multi_modal_projector.", "encoder.layers.",
       kSiglip + TensorNames{{"mm.input_norm", "layer_norm"}, {"mm.1", "linear_1"}, {"mm.2", "linear_2"}},
       colors_last});
  const std::string kimi = vision(
      R"("vt_hidden_size":64,"vt_intermediate_size":128,"vt_num_hidden_layers":2,"vt_num_attention_heads":2,)" + eps +
      R"(,"patch_size":14,"merge_kernel_size":[2,2],"init_pos_emb_height":8,"init_pos_emb_width":8,"init_pos_emb_time":4,)"
      R"("pos_emb_type":"divided_fixed","merge_type":"sd2_tpool","mm_projector_type":"patchmerger",)"
      R"("projector_hidden_act":"gelu","projector_ln_eps":0.0010000000474974513,"mm_hidden_size":64,"text_hidden_size":128)");
  const TensorNames kimi_encoder = {{"v.patch_embd", "patch_embed.proj"},
                                    {"v.position_embd", "patch_embed.pos_emb"},
                                    {"v.post_ln", "encoder.final_layernorm"},
                                    {"ln1", "norm0"},
                                    {"ln2", "norm1"},
                                    {"attn_qkv", "wqkv"},
                                    {"attn_out", "wo"},
                                    {"ffn_up", "mlp.fc0"},
                                    {"ffn_down", "mlp.fc1"},
                                    {"mm.input_norm", "pre_norm"}};
  all.push_back(
      {"kimik25", "KimiK25ForConditionalGeneration", "language_model.model.", R"("model_type":"kimi_k2")", kimi,
       R"("media_proc_cfg":{"in_patch_limit":1024,"patch_size":14,"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5],"merge_kernel_size":2,)"
       R"("fixed_output_tokens":null,"patch_limit_on_one_side":512})",
       "vision_tower.", "mm_projector.", "encoder.blocks.",
       kimi_encoder + TensorNames{{"mm.1", "proj.0"}, {"mm.2", "proj.2"}}, [](Weights& w) { axes_in_turn(w, 2); },
       [](Weights&) {}, false});
  all.push_back(
      {"kimik25", "KimiVLForConditionalGeneration", "language_model.model.", R"("model_type":"deepseek_v3")",
       vision(
           usual +
           R"(,"model_type":"moonvit","patch_size":14,"merge_kernel_size":[2,2],"init_pos_emb_height":8,"init_pos_emb_width":8)"),
       R"("in_token_limit":1024,"patch_size":14,"pad_input":true,"num_pooled_tokens":256)", "vision_tower.",
       "multi_modal_projector.", "encoder.blocks.",
       kimi_encoder + TensorNames{{"mm.1", "linear_1"}, {"mm.2", "linear_2"}}, [](Weights& w) { axes_in_turn(w, 2); },
       [](Weights&) {}, false});
  // The vision vectors use the default activation of files without an activation key. Published directories set
  // gelu_pytorch_tanh.
  all.push_back(
      {"gemma4v",
       "Gemma4ForConditionalGeneration",
       "model.language_model.",
       R"("model_type":"gemma4_text")",
       vision(
           R"("num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":2,"head_dim":32,"rms_norm_eps":0.0010000000474974513,)" +
           common +
           R"("model_type":"gemma4_vision","hidden_activation":"quick_gelu","patch_size":16,"pooling_kernel_size":3,)"
           R"("position_embedding_size":128,"standardize":true,"use_clipped_linears":true,)"
           R"("rope_parameters":{"rope_type":"default","rope_theta":100.0})"),
       R"("do_normalize":false,"max_soft_tokens":280,"patch_size":16,"pooling_kernel_size":3,"resample":3)",
       "model.vision_tower.",
       "model.embed_vision.",
       "encoder.layers.",
       {{"v.patch_embd", "patch_embedder.input_proj"},
        {"v.position_embd.weight", "patch_embedder.position_embedding_table"},
        {"v.std_bias", "std_bias"},
        {"v.std_scale", "std_scale"},
        {"mm.input_projection", "embedding_projection"},
        {"ln1", "input_layernorm"},
        {"ln2", "pre_feedforward_layernorm"},
        {"attn_post_norm", "post_attention_layernorm"},
        {"ffn_post_norm", "post_feedforward_layernorm"},
        {"attn_q_norm", "self_attn.q_norm"},
        {"attn_k_norm", "self_attn.k_norm"},
        {"attn_q", "self_attn.q_proj"},
        {"attn_k", "self_attn.k_proj"},
        {"attn_v", "self_attn.v_proj"},
        {"attn_out", "self_attn.o_proj"},
        {"attn_q.weight", "self_attn.q_proj.linear.weight"},
        {"attn_k.weight", "self_attn.k_proj.linear.weight"},
        {"attn_v.weight", "self_attn.v_proj.linear.weight"},
        {"attn_out.weight", "self_attn.o_proj.linear.weight"},
        {"ffn_gate.weight", "mlp.gate_proj.linear.weight"},
        {"ffn_up.weight", "mlp.up_proj.linear.weight"},
        {"ffn_down.weight", "mlp.down_proj.linear.weight"},
        {"ffn_down", "mlp.down_proj"}},
       [](Weights& w) {
         colors_last(w);
         for (auto& [name, tensor] : w)
           if (name.ends_with("_min") || name.ends_with("_max")) tensor.shape.clear();  // Scalars.
       },
       [](Weights&) {},
       false});
  return all;
}

std::string encoder_name(const VisionFolder& folder, const std::string& name) {
  std::string prefix = folder.encoder, rest = name;
  const auto numbered = [&](std::string_view begin, const std::string& below) {
    if (!rest.starts_with(begin)) return;
    const size_t dot = rest.find('.', begin.size());
    prefix = folder.encoder + below + rest.substr(begin.size(), dot - begin.size()) + ".";
    rest = rest.substr(dot + 1);
  };
  numbered("v.blk.", folder.layers);
  // In the checkpoint, the deepstack mergers of layers 0 and 1 are numbered in the order of their layers.
  numbered("v.deepstack.", "deepstack_merger_list.");
  if (rest == "model.image_newline")
    return (folder.encoder.starts_with("model.") ? "model." : "") + std::string("image_newline");
  if (rest.starts_with("mm.")) prefix = folder.projector;
  if (const auto whole = folder.names.find(rest); whole != folder.names.end()) return prefix + whole->second;
  const size_t dot = rest.rfind('.');
  const auto stem = folder.names.find(rest.substr(0, dot));
  if (stem == folder.names.end())
    return check::fail(__FILE__, __LINE__, std::string(folder.pair) + ": no checkpoint name for " + name),
           std::string();
  return prefix + stem->second + (stem->second.ends_with("_weight") ? std::string() : rest.substr(dot));
}

void write_vision_folder(const VisionFolder& one, const GgufFile& text, const GgufFile& encoder,
                         const VisionPairFiles& to) {
  const std::string architecture(*text.string("general.architecture").value());
  Weights of_text = weights_of(text), of_encoder = weights_of(encoder);
  one.derive(of_encoder);
  // Rounds norms that checkpoints store as weight - 1, and makes values equal that the checkpoint stores only once.
  if (architecture == "gemma3")
    for (auto& [name, tensor] : of_text)
      if (name.ends_with("norm.weight")) as_rounded_norm(tensor);
  each(of_encoder, "mm.soft_emb_norm.weight", as_rounded_norm);
  auto tokenizer = load_tokenizer(text);
  REQUIRE(tokenizer.ok());
  if (const auto row_break = of_encoder.find("v.token_embd.img_break"); row_break != of_encoder.end()) {
    std::vector<float>& table = of_text.at("token_embd.weight").values;
    const std::vector<float>& row = row_break->second.values;
    std::ranges::copy(row, table.begin() + (*tokenizer)->find("[IMG_BREAK]") * static_cast<ptrdiff_t>(row.size()));
  }
  const Bytes text_bytes = gguf_of(text, of_text), encoder_bytes = gguf_of(encoder, of_encoder, one.without, one.more);
  const auto as_text = [](const Bytes& bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  to.files.write("text.gguf", as_text(text_bytes));
  to.files.write("mmproj.gguf", as_text(encoder_bytes));

  const auto rounded = GgufFile::parse(text_bytes);
  REQUIRE(rounded.ok());
  std::vector<SafetensorData> tensors = checkpoint_of(**rounded, architecture);
  for (SafetensorData& tensor : tensors) {
    if (architecture == "gemma3" && tensor.name.ends_with("norm.weight"))
      for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
        float value;
        std::memcpy(&value, tensor.bytes.data() + at, sizeof value);
        value -= 1;
        std::memcpy(tensor.bytes.data() + at, &value, sizeof value);
      }
    // If this prefix is used, the output matrix is also renamed.
    const bool below = std::string_view(one.text).starts_with("language_model.");
    if (tensor.name.starts_with("model."))
      tensor.name = one.text + tensor.name.substr(6);
    else if (below)
      tensor.name = "language_model." + tensor.name;
  }
  if (!one.whole) tensors.clear();
  one.publish(of_encoder);
  for (const auto& [name, tensor] : of_encoder)
    tensors.push_back({encoder_name(one, name), "F32", tensor.shape, bytes_of(tensor.values)});
  to.folder.write("model.safetensors", safetensors_of(tensors));

  std::string text_config = config_of(text, one.name, architecture, "," + one.text_config);
  if (architecture == "gemma3") text_config.replace(text_config.find("\"silu\""), 6, "\"gelu_pytorch_tanh\"");
  to.folder.write("config.json", "{\"architectures\":[" + json_text(one.name) + "],\"text_config\":" + text_config +
                                     "," + one.config + "}");
  std::string processor = "{" + one.processor;
  for (const char* const key : {"image_mean", "image_std"}) {
    const auto values = encoder.numbers(std::string("clip.vision.") + key);
    char list[120];
    std::snprintf(list, sizeof list, ",\"%s\":[%.9g,%.9g,%.9g]", key, (**values)[0], (**values)[1], (**values)[2]);
    processor += list;
  }
  to.folder.write("preprocessor_config.json", processor + "}");
  std::string splitting;
  const std::string pre(text.string("tokenizer.ggml.pre")->value_or(""));
  if (pre == "llama-bpe" || pre == "qwen2")
    splitting = "{\"type\":\"Split\",\"pattern\":{\"Regex\":" +
                json_text(std::string("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|") +
                          (pre == "qwen2" ? "\\p{N}" : "\\p{N}{1,3}") +
                          "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+") +
                "},\"behavior\":\"Isolated\",\"invert\":false},";
  std::string vocabulary = tokenizer_of(text, splitting, (*tokenizer)->adds_bos());
  if (constexpr std::string_view kSpaceInFront = "{\"type\":\"Prepend\",\"prepend\":\"▁\"},"; architecture == "gemma3")
    vocabulary.erase(vocabulary.find(kSpaceInFront), kSpaceInFront.size());
  to.folder.write("tokenizer.json", vocabulary);
  to.folder.write("tokenizer_config.json", tokenizer_settings_of(text));
}

}  // namespace monolith::testing
