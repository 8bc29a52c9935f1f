// Tests the translation of the files in a Hugging Face directory, and the errors for invalid directories: every message
// names the file and the key.
#include <cmath>
#include <functional>

#include "check.h"
#include "formats/hf/folder.h"
#include "formats/hf/model_file.h"
#include "support/hf_folder.h"
#include "formats/gguf/tokenizer.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

std::string floats(size_t count, float first, float step) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    const float value = first + step * static_cast<float>(i);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
}

// A small model directory. Tests may replace parts of it before it is written.
struct Parts {
  std::string config =
      R"({"architectures":["LlamaForCausalLM"],"hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,
          "num_key_value_heads":1,"intermediate_size":8,"max_position_embeddings":64,"rms_norm_eps":1e-5,"head_dim":4})";
  std::string tokenizer =
      R"({"added_tokens":[{"id":3,"content":"<s>","special":true},{"id":4,"content":"<tool>","special":false}],
          "normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
          "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}})";
  std::string ranks = "";  // Content of tiktoken.model.
  std::string settings =
      R"({"bos_token":"<s>","chat_template":[{"name":"other","template":"x"},{"name":"default","template":"y"}]})";
  std::string generation = R"({"eos_token_id":[3,2]})";
  std::vector<SafetensorData> tensors = {{"model.embed_tokens.weight", "F32", {6, 4}, floats(24, 0, 1)},
                                         {"model.layers.0.self_attn.q_proj.weight", "F32", {8, 4}, floats(32, 0, 1)},
                                         {"model.layers.0.self_attn.q_proj.bias", "F32", {8}, floats(8, 0, 1)},
                                         {"model.layers.0.input_layernorm.weight", "F32", {4}, floats(4, 0, 1)},
                                         {"model.layers.0.mystery.weight", "F32", {1}, floats(1, 0, 1)}};
};

std::unique_ptr<GgufFile> open(const Parts& parts, std::string* error = nullptr) {
  const ScratchFolder folder;
  folder.write("config.json", parts.config);
  if (!parts.tokenizer.empty()) folder.write("tokenizer.json", parts.tokenizer);
  if (!parts.ranks.empty()) folder.write("tiktoken.model", parts.ranks);
  if (!parts.settings.empty()) folder.write("tokenizer_config.json", parts.settings);
  if (!parts.generation.empty()) folder.write("generation_config.json", parts.generation);
  if (!parts.tensors.empty()) folder.write("model.safetensors", safetensors_of(parts.tensors));
  auto file = hf::open_folder(folder.path());
  if (file) return std::move(*file);
  if (error == nullptr)
    check::fail(__FILE__, __LINE__, file.error().message);
  else
    *error = file.error().message;
  CHECK(file.error().message.starts_with(folder.path()));
  return nullptr;
}

void expect_refused(const std::function<void(Parts&)>& change, const std::string& part) {
  Parts parts;
  change(parts);
  std::string error;
  if (open(parts, &error) != nullptr) return check::fail(__FILE__, __LINE__, "accepted, expected: " + part);
  if (error.find(part) == std::string::npos)
    check::fail(__FILE__, __LINE__, "'" + error + "' does not contain '" + part + "'");
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

// Returns a tensor's values as seen by the loader.
std::vector<float> values_of(const GgufFile& file, std::string_view name) {
  const GgufTensor* tensor = file.tensor(name);
  if (tensor == nullptr) return {};
  std::vector<std::byte> scratch;
  const auto data = file.read(*tensor, 0, tensor->bytes(), scratch);
  std::vector<float> out(static_cast<size_t>(tensor->n_values()));
  dequantize(tensor->type, data.data(), tensor->n_values(), out.data());
  return out;
}

}  // namespace

TEST(folders_are_translated_to_gguf_keys_and_names) {
  const auto file = open({});
  REQUIRE(file != nullptr);
  CHECK(*file->string("general.architecture").value() == "llama");
  CHECK_EQ(stated(*file, "llama.embedding_length"), uint64_t{4});
  CHECK_EQ(stated(*file, "llama.attention.key_length"), uint64_t{4});
  CHECK_EQ(stated(*file, "llama.attention.head_count_kv"), uint64_t{1});
  CHECK(*file->string("tokenizer.chat_template").value() == "y");
  CHECK(file->tensor("blk.0.attn_norm.weight") != nullptr);
  // Unknown tensors keep their names, so that an error can mention them.
  CHECK(file->tensor("model.layers.0.mystery.weight") != nullptr);
  CHECK(file->tensor("model.embed_tokens.weight") == nullptr);
  // Two heads with four rows each, which are reordered to 0 2 1 3. Each row has four values.
  CHECK(values_of(*file, "blk.0.attn_q.bias") == (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  const auto q = values_of(*file, "blk.0.attn_q.weight");
  REQUIRE(q.size() == 32);
  CHECK(q[4] == 8 && q[8] == 4 && q[12] == 12 && q[16] == 16 && q[20] == 24);

  const auto tokenizer = load_tokenizer(*file);
  REQUIRE(tokenizer.ok());
  CHECK_EQ((*tokenizer)->n_vocab(), 6);  // The vocabulary has one token per row of the embedding table.
  CHECK_EQ((*tokenizer)->bos(), 3);
  CHECK_EQ((*tokenizer)->eos(), 3);
  CHECK((*tokenizer)->is_end_of_generation(2));
  CHECK((*tokenizer)->kind(3) == TokenKind::kControl && (*tokenizer)->kind(4) == TokenKind::kUserDefined &&
        (*tokenizer)->kind(5) == TokenKind::kUnused);
  std::vector<TokenId> ids;
  (*tokenizer)->encode("ab<s>ba", {.parse_special = true}, ids);
  CHECK(ids == (std::vector<TokenId>{2, 3, 1, 0}));
}

// In the section for the text model, transformers saves only the settings that differ from the class defaults.
TEST(text_configs_use_the_defaults_of_their_class) {
  const auto with_text = [](const std::string& name, const std::string& text) {
    Parts parts;
    parts.config =
        "{\"architectures\":[\"" + name + "\"],\"vision_config\":{\"hidden_size\":8},\"text_config\":{" + text + "}}";
    parts.tensors = {{"language_model.model.embed_tokens.weight", "F32", {6, 4}, floats(24, 0, 1)}};
    return open(parts);
  };
  const auto number = [](const GgufFile& file, const char* key) { return file.unsigned_integer(key)->value_or(0); };
  {
    const auto file =
        with_text("Gemma3ForConditionalGeneration",
                  R"("hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text","num_hidden_layers":34,)"
                  R"("rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024)");
    if (file == nullptr) return;
    CHECK_EQ(number(*file, "gemma3.embedding_length"), 2560u);
    CHECK_EQ(number(*file, "gemma3.attention.head_count"), 8u);
    CHECK_EQ(number(*file, "gemma3.attention.head_count_kv"), 4u);
    // The head size is the default of the class rather than 2560 / 8.
    CHECK_EQ(number(*file, "gemma3.attention.key_length"), 256u);
    CHECK_EQ(number(*file, "gemma3.context_length"), 131072u);
    CHECK_EQ(number(*file, "gemma3.attention.sliding_window"), 1024u);
    CHECK_EQ(file->number("gemma3.rope.freq_base")->value_or(0), 1e6);
    CHECK_EQ(static_cast<float>(file->number("gemma3.attention.layer_norm_rms_epsilon")->value_or(0)), 1e-6f);
  }
  {
    const auto file =
        with_text("LlavaForConditionalGeneration",
                  R"("model_type":"llama","max_position_embeddings":4096,"rms_norm_eps":1e-05,"vocab_size":32064)");
    if (file == nullptr) return;
    CHECK_EQ(number(*file, "llama.embedding_length"), 4096u);
    CHECK_EQ(number(*file, "llama.feed_forward_length"), 11008u);
    CHECK_EQ(number(*file, "llama.block_count"), 32u);
    CHECK_EQ(number(*file, "llama.attention.head_count_kv"), 32u);
    CHECK_EQ(number(*file, "llama.context_length"), 4096u);
  }
  {
    const auto file = with_text(
        "LlavaForConditionalGeneration",
        R"("head_dim":128,"hidden_size":5120,"intermediate_size":14336,"max_position_embeddings":1024000,"model_type":"mistral",)"
        R"("num_hidden_layers":40,"num_key_value_heads":8,"rope_theta":1000000000.0,"sliding_window":null)");
    if (file == nullptr) return;
    CHECK_EQ(number(*file, "llama.attention.head_count"), 32u);
    CHECK_EQ(number(*file, "llama.attention.key_length"), 128u);
  }
  {
    // A setting with a null value counts as present. Model types whose files always contain all sizes have no default
    // sizes.
    std::string error;
    Parts parts;
    for (const char* const text : {R"("model_type":"llama","hidden_size":null)", R"("model_type":"qwen3")"}) {
      parts.config = std::string(R"({"architectures":["LlavaForConditionalGeneration"],"text_config":{)") + text + "}}";
      CHECK(open(parts, &error) == nullptr);
      CHECK(error.find("'hidden_size' is missing") != std::string::npos);
    }
    parts.config = R"({"architectures":["LlamaForCausalLM"],"num_hidden_layers":1,"model_type":"llama"})";
    CHECK(open(parts, &error) == nullptr);
    CHECK(error.find("'hidden_size' is missing") != std::string::npos);
  }
}

// GGUF stores the magnitude (mscale) divided by 0.1 ln(factor) + 1.
TEST(yarn_magnitude_is_translated) {
  for (const auto& [stated_there, want] :
       {std::pair{"1.2079441541679836", 1.0}, std::pair{"0.6039720770839918", 0.5}}) {
    Parts parts;
    replace(parts.config, "\"hidden_size\"",
            std::string("\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8.0,\"attention_factor\":") +
                stated_there + "},\"hidden_size\"");
    const auto file = open(parts);
    REQUIRE(file != nullptr);
    const auto factor = file->number("llama.rope.scaling.attn_factor");
    REQUIRE(factor.ok() && factor->has_value());
    CHECK(std::abs(**factor - want) < 1e-7);
    CHECK(file->find("llama.rope.scaling.yarn_attn_factor") == nullptr);
  }
}

// Based on modeling_phimoe.py.
TEST(phi_moe_states_the_rope_magnitude) {
  Parts parts;
  replace(parts.config, "LlamaForCausalLM", "PhiMoEForCausalLM");
  replace(parts.config, "\"hidden_size\"",
          "\"num_local_experts\":2,\"num_experts_per_tok\":1,\"rope_scaling\":{\"type\":\"longrope\","
          "\"short_factor\":[1,2],\"long_factor\":[3,4],\"short_mscale\":1.25,\"long_mscale\":1.25,\"original_max_"
          "position_embeddings\":16},\"hidden_size\"");
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  CHECK_EQ(**file->number("phimoe.rope.scaling.attn_factor"), 1.25);
  CHECK_EQ(stated(*file, "phimoe.rope.scaling.original_context_length"), uint64_t{16});
  CHECK(values_of(*file, "rope_factors_long.weight") == (std::vector<float>{3, 4}));
  expect_refused(
      [&](Parts& p) {
        p = parts;
        replace(p.config, "\"short_mscale\":1.25", "\"short_mscale\":1.5");
      },
      "short_mscale' differs from 'long_mscale'");
}

// Arrays with one number per layer are built before the model checks the number of layers, so the number is limited
// earlier.
TEST(layer_count_is_limited_before_memory_is_allocated) {
  for (const char* name : {"LlamaForCausalLM", "DeepseekV4ForCausalLM", "Gemma3nForConditionalGeneration"})
    expect_refused(
        [&](Parts& p) {
          replace(p.config, "LlamaForCausalLM", name);
          replace(p.config, "\"num_hidden_layers\":1", "\"num_hidden_layers\":2147483647");
        },
        "'num_hidden_layers' is 2147483647, expected an integer from 1 to 1024");
}

// Python writes Infinity and NaN to JSON. In settings that nothing reads, they are harmless.
TEST(infinity_and_nan_are_accepted_in_settings) {
  Parts parts;
  replace(parts.config, "\"hidden_size\"",
          "\"time_step_limit\":[0.0,Infinity,-Infinity,NaN],\"note\":\"NaN \\\"Infinity\",\"hidden_size\"");
  CHECK(open(parts) != nullptr);
  expect_refused([](Parts& p) { replace(p.config, "\"rms_norm_eps\":1e-5", "\"rms_norm_eps\":Infinity"); },
                 "'rms_norm_eps' is out of range");
}

// modeling_hunyuan_v1_dense.py: the RoPE base is base * alpha^(dim / (dim - 2)). With a head size of 4, alpha is
// squared.
TEST(hunyuan_scales_the_rope_base) {
  Parts parts;
  replace(parts.config, "LlamaForCausalLM", "HunYuanDenseV1ForCausalLM");
  replace(parts.config, "\"hidden_size\"",
          "\"rope_theta\":10000,\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":50.0},\"hidden_size\"");
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  CHECK_EQ(**file->number("hunyuan-dense.rope.freq_base"), 10000.0 * 2500);
}

TEST(norms_of_gemma_are_increased_by_one) {
  Parts parts;
  replace(parts.config, "LlamaForCausalLM", "Gemma2ForCausalLM");
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  CHECK(values_of(*file, "blk.0.attn_norm.weight") == (std::vector<float>{1, 2, 3, 4}));
  CHECK(values_of(*file, "blk.0.attn_q.bias") == (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(experts_are_joined) {
  Parts parts;
  replace(parts.config, "LlamaForCausalLM", "MixtralForCausalLM");
  replace(parts.config, "\"hidden_size\"", "\"num_local_experts\":2,\"num_experts_per_tok\":1,\"hidden_size\"");
  for (const int expert : {1, 0})
    for (const char* w : {"w1", "w2", "w3"})
      parts.tensors.push_back(
          {"model.layers.0.block_sparse_moe.experts." + std::to_string(expert) + "." + w + ".weight",
           "F32",
           {2, 2},
           floats(4, static_cast<float>(expert * 10), 1)});
  parts.tensors.push_back({"model.layers.0.block_sparse_moe.gate.weight", "F32", {2, 4}, floats(8, 0, 1)});
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  CHECK_EQ(stated(*file, "llama.expert_count"), uint64_t{2});
  const GgufTensor* tensor = file->tensor("blk.0.ffn_up_exps.weight");
  REQUIRE(tensor != nullptr && tensor->n_dims == 3 && tensor->shape[2] == 2);
  CHECK(values_of(*file, "blk.0.ffn_up_exps.weight") == (std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13}));
  CHECK(file->tensor("blk.0.ffn_gate_inp.weight") != nullptr);

  parts.tensors.erase(parts.tensors.begin() + 5);
  std::string error;
  CHECK(open(parts, &error) == nullptr);
  CHECK(error.find("'blk.0.ffn_gate_exps.weight' has 1 experts, expected 2") != std::string::npos);
}

TEST(fused_experts_are_split) {
  Parts parts;
  replace(parts.config, "LlamaForCausalLM", "GraniteMoeForCausalLM");
  replace(parts.config, "\"hidden_size\"", "\"num_local_experts\":2,\"num_experts_per_tok\":1,\"hidden_size\"");
  parts.tensors.push_back({"model.layers.0.block_sparse_moe.input_linear.weight", "F32", {2, 4, 1}, floats(8, 0, 1)});
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  CHECK(values_of(*file, "blk.0.ffn_gate_exps.weight") == (std::vector<float>{0, 1, 4, 5}));
  CHECK(values_of(*file, "blk.0.ffn_up_exps.weight") == (std::vector<float>{2, 3, 6, 7}));
}

// MiMo-V2-Flash: sliding-window layers have a separate RoPE base.
TEST(sliding_window_layers_of_mimo_have_their_own_rope_base) {
  Parts parts;
  replace(parts.config, "LlamaForCausalLM", "MiMoV2FlashForCausalLM");
  replace(parts.config, "\"hidden_size\"",
          "\"rope_theta\":5000000,\"swa_rope_theta\":12345,\"hybrid_layer_pattern\":[1],\"sliding_window\":8,"
          "\"swa_num_key_value_heads\":1,\"v_head_dim\":4,\"layernorm_epsilon\":1e-5,\"n_routed_experts\":2,\"num_"
          "experts_per_tok\":1,"
          "\"moe_intermediate_size\":4,\"moe_layer_freq\":[0],\"scoring_func\":\"sigmoid\",\"hidden_size\"");
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  CHECK_EQ(**file->number("mimo2.rope.freq_base"), 5000000.0);
  CHECK_EQ(**file->number("mimo2.rope.freq_base_swa"), 12345.0);
}

namespace {

// A Kimi directory whose tokens, in order of rank, are "a", "b", "ab", " ", "aba" and " ab", followed by two special
// tokens.
Parts kimi() {
  Parts parts;
  parts.tokenizer = "";
  parts.ranks = "YQ== 0\nYg== 1\nYWI= 2\nIA== 3\nYWJh 4\nIGFi 5\n";
  parts.settings =
      R"({"bos_token":"[BOS]","auto_map":{"AutoTokenizer":["tokenization_kimi.TikTokenTokenizer",null]},)"
      R"("added_tokens_decoder":{"6":{"content":"[BOS]","special":true},"8":{"content":"[x]","special":false}}})";
  parts.generation = R"({"eos_token_id":6})";
  parts.tensors[0] = {"model.embed_tokens.weight", "F32", {10, 4}, floats(40, 0, 1)};
  return parts;
}

}  // namespace

TEST(kimi_folders_have_tokens_by_rank) {
  const auto file = open(kimi());
  REQUIRE(file != nullptr);
  auto tokenizer = load_tokenizer(*file);
  REQUIRE(tokenizer.ok());
  const auto ids = [&](std::string_view text) {
    std::vector<TokenId> out;
    (*tokenizer)->encode(text, {.add_special = true, .parse_special = true}, out);
    return out;
  };
  using Ids = std::vector<TokenId>;
  CHECK(ids("abab") == (Ids{2, 2}));  // The token "ab" ranks before "aba", so it is merged first.
  CHECK(ids("aba") == (Ids{4}));
  CHECK(ids("b ab[x]a[BOS]") == (Ids{1, 5, 8, 0, 6}));
  CHECK_EQ((*tokenizer)->n_vocab(), 10);
  CHECK((*tokenizer)->kind(7) == TokenKind::kUnused && (*tokenizer)->kind(8) == TokenKind::kUserDefined);
  CHECK_EQ((*tokenizer)->bos(), 6);

  const auto refused = [](std::string_view from, std::string_view to, const std::string& part) {
    expect_refused(
        [&](Parts& p) {
          p = kimi();
          replace(p.ranks.find(from) != p.ranks.npos ? p.ranks : p.settings, from, to);
        },
        part);
  };
  refused("YWI= 2", "YWI= 3", "tiktoken.model: line 3 has rank '3', expected 2");
  refused("YWI= 2", "YWI 2", "tiktoken.model: line 3 is not a base64 token followed by its rank");
  refused("YWI= 2", "YWI=", "tiktoken.model: line 3 is not a base64 token");
  refused("IA== 3", "YQ== 3", "tiktoken.model: contains the token of rank 3 twice");
  refused("tokenization_kimi", "tokenization_other", "'auto_map' names 'tokenization_other.TikTokenTokenizer'");
  refused("\"6\":", "\"six\":", "must have an id and content");
  refused("\"6\":", "\"5\":", "gives the id 5 to");
}

TEST(special_tokens_remove_adjacent_white_space) {
  Parts parts;
  replace(parts.tokenizer, "\"content\":\"<s>\"", "\"lstrip\":true,\"rstrip\":true,\"content\":\"<s>\"");
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  const auto tokenizer = load_tokenizer(*file);
  REQUIRE(tokenizer.ok());
  std::vector<TokenId> ids;
  (*tokenizer)->encode("a \u3000\n<s>  \t\u00A0b <s><s> ", {.parse_special = true}, ids);
  CHECK(ids == (std::vector<TokenId>{0, 3, 1, 3, 3}));
}

TEST(invalid_configurations_are_rejected_by_name) {
  const auto config = [](std::string_view from, std::string_view to) {
    return [=](Parts& parts) { replace(parts.config, from, to); };
  };
  expect_refused([](Parts& parts) { parts.config = "{"; }, "config.json: not valid JSON");
  expect_refused([](Parts& parts) { parts.config = "[]"; }, "config.json: not a JSON object");
  expect_refused(config("LlamaForCausalLM", "BertForTokenClassification"),
                 "'BertForTokenClassification' is not supported (docs/reference/models.md lists");
  expect_refused(
      config("LlamaForCausalLM", "Gemma3ForTokenClassification"),
      "is not supported (similar classes: Gemma3ForCausalLM, Gemma3ForConditionalGeneration, Gemma3TextModel, "
      "Gemma3nForConditionalGeneration, Gemma3nForCausalLM; docs/reference/models.md lists");
  expect_refused(config("\"hidden_size\"", "\"is_causal\":false,\"hidden_size\""),
                 "'is_causal' requests attention in both directions");
  expect_refused(config("[\"LlamaForCausalLM\"]", "[]"), "config.json: 'architectures' is missing or empty");
  expect_refused(config("\"hidden_size\":4", "\"x\":4"), "config.json: 'hidden_size' is missing");
  expect_refused(config("\"hidden_size\":4", "\"hidden_size\":\"4\""), "'hidden_size' is not a number");
  expect_refused(config("\"hidden_size\":4", "\"hidden_size\":1e300"), "'hidden_size' is 1e300");
  expect_refused(config("\"hidden_size\"", "\"hidden_act\":\"relu\",\"hidden_size\""), "'hidden_act' is 'relu'");
  expect_refused(
      config("\"hidden_size\"", "\"quantization_config\":{\"quant_method\":\"bitsandbytes\"},\"hidden_size\""),
      "'quantization_config' (method 'bitsandbytes')");
  expect_refused(config("\"hidden_size\"", "\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2},\"hidden_size\""),
                 "'rope_scaling.type' is 'ntk'");
  expect_refused(config("\"hidden_size\"", "\"rope_scaling\":7,\"hidden_size\""), "'rope_scaling' is not an object");
  expect_refused(config("\"hidden_size\"", "\"clip_qkv\":8,\"hidden_size\""), "'clip_qkv' is set");
  expect_refused(config("\"hidden_size\"", "\"sliding_window\":9,\"layer_types\":[],\"hidden_size\""),
                 "'layer_types' does not have one name per layer");
  expect_refused(config("\"hidden_size\"", "\"sliding_window\":9,\"layer_types\":[\"x\"],\"hidden_size\""),
                 "'layer_types[0]' is 'x', which is not supported");
  expect_refused(
      [](Parts& parts) {
        replace(
            parts.config, "\"num_hidden_layers\":1",
            "\"num_hidden_layers\":2,\"sliding_window\":9,\"layer_types\":[\"sliding_attention\",\"full_attention\"]");
      },
      "'layer_types' gives only some layers a window");
  expect_refused([](Parts& parts) { replace(parts.config, "LlamaForCausalLM", "MiniCPMForCausalLM"); },
                 "'scale_emb' is missing");
}

TEST(invalid_tensors_are_rejected_by_name) {
  const auto tensor = [](size_t i, SafetensorData data) { return [=](Parts& parts) { parts.tensors[i] = data; }; };
  expect_refused(tensor(1, {"model.layers.0.self_attn.q_proj.weight", "F8_E4M3", {8, 4}, std::string(32, 'x')}),
                 "'model.layers.0.self_attn.q_proj.weight' has type 'F8_E4M3'");
  expect_refused(tensor(1, {"model.layers.0.self_attn.q_proj.weight", "F32", {6, 4}, floats(24, 0, 1)}),
                 "has 6 rows, which are not 2 heads of even size");
  expect_refused(tensor(1, {"model.embed_tokens.bias", "F32", {}, floats(1, 0, 1)}), "has 0 dimensions");
  expect_refused(tensor(1, {"model.embed_tokens.bias", "F32", {0, 1}, ""}), "has a dimension of length 0");
  expect_refused(tensor(0, {"x", "F32", {1}, floats(1, 0, 1)}),
                 "embedding table ('model.embed_tokens.weight') is missing");
  expect_refused(tensor(1, {"model.layers.0.attention.wqkv.weight", "F32", {5, 4}, floats(20, 0, 1)}),
                 "must hold 2 query heads and 1 key and value heads each");
  const auto gpt_oss = [](const char* name, const char* type, std::vector<int64_t> shape, std::string bytes) {
    return [=](Parts& parts) {
      replace(parts.config, "LlamaForCausalLM", "GptOssForCausalLM");
      parts.tensors[4] = {std::string("model.layers.0.mlp.experts.") + name, type, shape, bytes};
    };
  };
  expect_refused(gpt_oss("gate_up_proj_blocks", "U8", {1, 2, 1, 16}, std::string(32, 'x')),
                 "'model.layers.0.mlp.experts.gate_up_proj_scales' is missing");
  expect_refused(gpt_oss("down_proj_scales", "U8", {1, 2, 1}, "xy"),
                 "'model.layers.0.mlp.experts.down_proj_blocks' is missing");
  expect_refused(
      [&](Parts& parts) {
        gpt_oss("gate_up_proj_blocks", "U8", {1, 3, 1, 16}, std::string(48, 'x'))(parts);
        parts.tensors.push_back({"model.layers.0.mlp.experts.gate_up_proj_scales", "U8", {1, 3, 1}, "xyz"});
      },
      "'model.layers.0.mlp.experts.gate_up_proj_blocks' and its '_scales' must have the shapes");
  expect_refused(gpt_oss("gate_up_proj", "F32", {1, 2, 2}, floats(4, 0, 1)), "experts must be in MXFP4");
  expect_refused(gpt_oss("odd_bytes", "U8", {1}, "x"), "has type 'U8', which is not supported");
  expect_refused([](Parts& parts) { parts.tensors.clear(); }, "contains no model.safetensors");
  const ScratchFolder folder;
  folder.write("config.json", Parts().config);
  for (const char* name : {"../up.safetensors", "", "x.bin"}) {
    folder.write("model.safetensors.index.json", "{\"weight_map\":{\"a\":" + json_text(name) + "}}");
    const auto opened = hf::open_folder(folder.path());
    REQUIRE(!opened.ok());
    CHECK(opened.error().message.find("model.safetensors.index.json: 'weight_map' names the file") !=
          std::string::npos);
  }
  folder.write("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"gone.safetensors\"}}");
  CHECK(!hf::open_folder(folder.path()).ok());
}

TEST(invalid_tokenizers_are_rejected_by_name) {
  const auto tokenizer = [](std::string_view from, std::string_view to) {
    return [from = std::string(from), to = std::string(to)](Parts& parts) { replace(parts.tokenizer, from, to); };
  };
  const std::string pre = R"({"type":"ByteLevel","add_prefix_space":false})";
  expect_refused([](Parts& parts) { parts.tokenizer.clear(); }, "tokenizer.json");
  expect_refused(tokenizer("\"BPE\"", "\"WordLevel\""), "tokenizer.json: 'model.type' is 'WordLevel'");
  expect_refused(
      tokenizer(
          pre,
          R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?<=x)y"},"behavior":"Isolated"},)" +
              pre + "]}"),
      "expression that is not supported: '(?<=x)y'");
  expect_refused(
      tokenizer(
          pre,
          R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{N}"},"behavior":"MergedWithNext"},)" +
              pre + "]}"),
      "'pre_tokenizer.pretokenizers[0].behavior' is 'MergedWithNext'");
  expect_refused(tokenizer("\"add_prefix_space\":false", "\"add_prefix_space\":true"), "add_prefix_space' is true");
  expect_refused(tokenizer("\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}"),
                 "'normalizer.type' is 'Lowercase'");
  const auto normalizer = [&](const std::string& step) {
    return tokenizer("\"normalizer\":null", "\"normalizer\":" + step);
  };
  expect_refused(normalizer(R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"StripAccents"}]})"),
                 "'normalizer.normalizers[1].type' is 'StripAccents', which is not supported here");
  expect_refused(normalizer(R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFD"}]})"),
                 "'normalizer.normalizers[1].type' is 'NFD' after another step");
  expect_refused(tokenizer(pre, R"({"type":"Whitespace"})"), "'pre_tokenizer.type' is 'Whitespace'");
  expect_refused(tokenizer(pre, R"({"type":"Sequence","pretokenizers":[)" + pre + R"(,{"type":"Punctuation"}]})"),
                 "'pre_tokenizer.pretokenizers[1].type' is 'Punctuation'");
  expect_refused(
      tokenizer(
          pre,
          R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{N}"},"behavior":"Removed","invert":true},)" +
              pre + "]}"),
      "'pre_tokenizer.pretokenizers[0].behavior' is 'Removed'");
  expect_refused(tokenizer(pre, "null"), "'pre_tokenizer' leaves spaces as they are");
  expect_refused(normalizer(R"(null,"decoder":{"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"CTC"}]})"),
                 "'decoder.decoders[1].type' is 'CTC'");
  expect_refused(tokenizer("\"merges\"", "\"dropout\":0.1,\"merges\""), "'model.dropout' is not 0");
  expect_refused(tokenizer("\"content\":\"<tool>\"", "\"single_word\":true,\"content\":\"<tool>\""),
                 "'added_tokens[1].single_word' is true");
  expect_refused(tokenizer("\"b\":1", "\"b\":2"), "gives the id 2 to");
  expect_refused(tokenizer("\"b\":1", "\"b\":-1"), "'model.vocab' is -1");
  expect_refused(tokenizer("\"b\":1", "\"b\":1e15"), "'model.vocab' is 1e15");
  expect_refused(tokenizer("\"id\":4", "\"id\":6"), "has 7 tokens, but the embedding table has only 6 rows");
  expect_refused(tokenizer("[[\"a\",\"b\"]]", "[3]"), "'model.merges[0]' is neither a string nor a pair");
  expect_refused(tokenizer("\"normalizer\":null", R"("normalizer":null,"post_processor":{"type":"SplitProcessing"})"),
                 "'post_processor.type' is 'SplitProcessing'");
  expect_refused([](Parts& parts) { parts.generation = R"({"eos_token_id":99})"; },
                 "generation_config.json: 'eos_token_id' is beyond the vocabulary");
}

TEST(normalizers_of_folders_are_applied) {
  Parts parts;
  replace(parts.tokenizer, "\"normalizer\":null",
          R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"}]})");
  // The token's spelling is also normalized, to "aa".
  replace(parts.tokenizer, "\"content\":\"<tool>\"", "\"normalized\":true,\"content\":\"\u00AA\u00AA\"");
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  CHECK_EQ(**file->string(kNormalFormKey), std::string("NFKC"));
  const auto tokenizer = load_tokenizer(*file);
  REQUIRE(tokenizer.ok());
  std::vector<TokenId> ids;
  (*tokenizer)->encode("\uFF41\uFF42 \u00AAa<s>b", {.parse_special = true}, ids);
  CHECK(ids == (std::vector<TokenId>{2, 4, 3, 1}));
}

TEST(escapes_in_regular_expressions_equal_their_characters) {
  // Escapes as written in JSON. DeepSeek V3's file contains a carriage return and a line feed as characters; other
  // files contain them as escapes, in several spellings.
  for (const char* newline : {R"(\r\n)", R"(\\r\\n)", R"(\\x0D\\x0a)", R"(\\x{d}\\u000A)"}) {
    Parts parts;
    const std::string n = newline;
    replace(
        parts.tokenizer, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
        R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^)" +
            n + R"(\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[)" + n + R"(]*|\\s*[)" + n +
            R"(]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated"},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})");
    const auto file = open(parts);
    REQUIRE(file != nullptr);
    const auto stages = file->strings(kSplitStagesKey);
    REQUIRE(stages.ok() && *stages && (*stages)->size() == 1);
    CHECK_EQ(std::string(*(*stages)->begin()), std::string("deepseek-words"));
  }
}

TEST(damaged_json_never_crashes) {
  uint32_t random = 23;
  const auto next = [&] { return random = random * 1664525 + 1013904223; };
  const Parts whole;
  const ScratchFolder folder;
  folder.write("model.safetensors", safetensors_of(whole.tensors));
  size_t opened = 0;
  for (int round = 0; round < 600; ++round) {
    std::string texts[] = {whole.config, whole.tokenizer, whole.settings, whole.generation};
    std::string& text = texts[next() >> 30];
    for (int i = 0; i < 2; ++i) {
      const size_t at = (next() >> 8) % text.size();
      switch (next() >> 30) {
        case 0: text.erase(at, 1 + (next() >> 29)); break;
        case 1: text[at] = "0123456789-e.,:[]{}\"\\"[(next() >> 8) % 21]; break;
        case 2: text.insert(at, 1, "0123456789-e.,:[]{}\"\\"[(next() >> 8) % 21]); break;
        default: text[at] = static_cast<char>(next() >> 24);
      }
    }
    const char* const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"};
    for (size_t i = 0; i < 4; ++i) folder.write(names[i], texts[i]);
    const auto file = open_model_file(folder.path());
    if (!file) continue;
    ++opened;
    (void)load_tokenizer(**file).ok();
  }
  CHECK(opened > 0);
}

TEST(unigram_tokenizers_are_translated) {
  Parts parts;
  parts.tokenizer = R"({"added_tokens":[{"id":0,"content":"<unk>","special":true}],
    "normalizer":{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}]},
    "pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},
    "post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"</s>"}}]},
    "model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁a",-1],["b",-2],["</s>",-3],["▁",-4]]}})";
  parts.settings = R"({"eos_token":"</s>"})";
  parts.generation.clear();
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  const auto tokenizer = load_tokenizer(*file);
  REQUIRE(tokenizer.ok());
  std::vector<TokenId> ids;
  (*tokenizer)->encode("ab  a ?", {.add_special = true}, ids);
  CHECK(ids == (std::vector<TokenId>{1, 2, 1, 4, 0, 3}));
  CHECK((*tokenizer)->bos() == kNoToken);
}

// The normalization table replaces tabs by spaces.
TEST(unigram_tokenizers_split_at_white_space) {
  Parts parts;
  const std::string tokenizer =
      R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"QAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA)"
      R"(CQUAAAAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgAA=="},"pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
      R"({"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","add_prefix_space":true}]},)"
      R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁a",-1],["b",-2],["</s>",-3],["▁",-4]]}})";
  parts.tokenizer = tokenizer;
  parts.settings = R"({"eos_token":"</s>"})";
  parts.generation.clear();
  const auto file = open(parts);
  REQUIRE(file != nullptr);
  const auto loaded = load_tokenizer(*file);
  REQUIRE(loaded.ok());
  std::vector<TokenId> ids;
  (*loaded)->encode("  ab \t a  ", {}, ids);
  CHECK(ids == (std::vector<TokenId>{1, 2, 1}));
  // Without a table, other white space than spaces would remain.
  expect_refused(
      [&](Parts& parts) {
        parts.tokenizer = tokenizer;
        replace(parts.tokenizer, R"("normalizer":{"type":"Precompiled")", R"("normalizer":null,"unused":{"type":"x")");
      },
      "'WhitespaceSplit'");
}
