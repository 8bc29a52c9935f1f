// Compares text encoders in the form of the Hugging Face directories that their authors publish with the golden GGUF
// files that have the same weights: the vectors must be bit-identical. Also tests WordPiece vocabularies in
// tokenizer.json, the steps in modules.json, and the errors for settings that are not supported.
#include <functional>
#include <string>
#include <vector>

#include "check.h"
#include "encoder/embedding_fixture.h"
#include "formats/gguf/tokenizer.h"
#include "formats/hf/model_file.h"
#include "support/checkpoint.h"
#include "support/family_check.h"

namespace monolith::testing {
namespace {

std::string number_of(const GgufFile& file, const std::string& key) {
  const std::string architecture(file.string("general.architecture")->value_or(""));
  const auto value = file.number(architecture + "." + key);
  if (!value || !*value) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", **value);
  return text;
}

// Returns a WordPiece vocabulary as a tokenizer.json.
std::string word_pieces_of(const GgufFile& file) {
  const auto tokens = file.strings("tokenizer.ggml.tokens");
  const auto kinds = file.integers("tokenizer.ggml.token_type");
  constexpr std::string_view kWordStart = "▁";
  std::string vocabulary, added;
  for (size_t i = 0; i < (*tokens)->size(); ++i) {
    std::string text((**tokens)[i]);
    if ((**kinds)[i] != 1)
      added += (added.empty() ? "" : ",") + std::string("{\"id\":") + std::to_string(i) +
               ",\"content\":" + json_text(text) + ",\"special\":true}";
    else
      text = text.starts_with(kWordStart) ? text.substr(kWordStart.size()) : "##" + text;
    vocabulary += (vocabulary.empty() ? "" : ",") + json_text(text) + ":" + std::to_string(i);
  }
  const auto name = [&](const char* key) { return json_text((**tokens)[stated(file, key)]); };
  const std::string cls = name("tokenizer.ggml.bos_token_id"), sep = name("tokenizer.ggml.eos_token_id");
  return R"({"added_tokens":[)" + added +
         R"(],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,)"
         R"("lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"TemplateProcessing",)"
         R"("single":[{"SpecialToken":{"id":)" +
         cls + R"(,"type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":)" + sep +
         R"(,"type_id":0}}]},"decoder":{"type":"WordPiece","prefix":"##"},"model":{"type":"WordPiece","unk_token":)" +
         name("tokenizer.ggml.unknown_token_id") +
         R"(,"continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{)" + vocabulary + "}}}";
}

void unchanged(Weights&) {}

constexpr std::string_view kModulesBegin = R"([{"path":"","type":"sentence_transformers.models.Transformer"})";

std::string module_of(const std::string& path, const std::string& type) {
  return R"(,{"path":)" + json_text(path) + R"(,"type":"sentence_transformers.models.)" + type + "\"}";
}

// A model's directory. `pooling` is the pooling mode in modules.json; if it is empty, there is no modules.json.
struct EncoderFolder {
  FamilyFolder family;
  std::string pooling = "pooling_mode_mean_tokens";
  // Changes the weights of the GGUF file with which the directory is compared.
  std::function<void(Weights&)> reduce = [](Weights&) {};
  std::vector<std::string> without = {};  // Metadata keys that this file lacks.
};

// Writes the directory and, as want.gguf, a GGUF file with the same weights.
void write_folder(const ScratchFolder& folder, const GgufFile& file, const EncoderFolder& one) {
  Weights weights = weights_of(file);
  one.family.round(weights);
  one.reduce(weights);
  const Bytes gguf = gguf_of(file, weights, one.without);
  folder.write("want.gguf", {reinterpret_cast<const char*>(gguf.data()), gguf.size()});
  one.family.publish(weights);
  std::string modules(kModulesBegin);
  if (!one.pooling.empty()) {
    std::filesystem::create_directory(folder.path() + "/1_Pooling");
    folder.write("1_Pooling/config.json", "{\"" + one.pooling + "\":true,\"pooling_mode_max_tokens\":false}");
    modules += module_of("1_Pooling", "Pooling");
  }
  for (const char* const dense : {"dense_2", "dense_3"}) {
    const auto found = weights.find(std::string(dense) + ".weight");
    if (found == weights.end()) continue;
    const std::string name = std::string(1, dense[6]) + "_Dense";
    std::filesystem::create_directory(folder.path() + "/" + name);
    folder.write(name + "/config.json", R"({"activation_function":"torch.nn.modules.linear.Identity"})");
    folder.write(name + "/model.safetensors",
                 safetensors_of({{"linear.weight", "F32", found->second.shape, bytes_of(found->second.values)}}));
    modules += module_of(name, "Dense");
    weights.erase(found);
  }
  if (!one.pooling.empty()) folder.write("modules.json", modules + module_of("4_Normalize", "Normalize") + "]");
  folder.write("config.json", config_of(one.family));
  const bool word_piece = *file.string("tokenizer.ggml.model").value() == "bert";
  folder.write("tokenizer.json", word_piece ? word_pieces_of(file) : std::string(kSmallTokenizer));
  folder.write("model.safetensors", safetensors_of(renamed(weights, one.family.names, one.family.layers)));
}

std::vector<std::vector<float>> vectors_of(const std::string& path, std::span<const std::vector<TokenId>> texts,
                                           const std::string& what) {
  LoadOptions options;
  options.backend.device = "cpu";
  options.backend.threads = 1;
  options.max_context = 64;
  auto engine = open_engine(path, options);
  if (engine) return embed(*(*engine)->engine, texts);
  check::fail(__FILE__, __LINE__, what + ": " + engine.error().message);
  return {};
}

std::unique_ptr<const GgufFile> golden_file(const char* name) {
  const std::string path = check::vectors_path(std::string("models/") + name + ".gguf");
  if (path.empty()) {
    check::skip("golden vectors not found");
    return nullptr;
  }
  auto file = GgufFile::open(path);
  return file ? std::move(*file) : nullptr;
}

void check_encoder(const EncoderFolder& one, const GgufFile& file) {
  const std::string what = std::string(one.family.name) + " of " + one.family.file;
  const ScratchFolder folder;
  write_folder(folder, file, one);
  const auto opened = open_model_file(folder.path());
  if (!opened) return check::fail(__FILE__, __LINE__, what + ": " + opened.error().message);
  compare_keys(file, **opened, what);
  std::vector<std::vector<TokenId>> texts;
  for (const int length : {1, 7, 60}) {
    std::vector<TokenId>& text = texts.emplace_back();
    for (int i = 0; i < length; ++i) text.push_back((i * 37 + length) % 300 + 5);
  }
  const auto want = vectors_of(folder.path() + "/want.gguf", texts, what + " as GGUF"),
             got = vectors_of(folder.path(), texts, what);
  CHECK_EQ(want.size(), texts.size());
  if (want != got) check::fail(__FILE__, __LINE__, what + ": the folder gives different vectors");
}

const TensorNames kBert = {{"token_embd.weight", "embeddings.word_embeddings.weight"},
                           {"position_embd.weight", "embeddings.position_embeddings.weight"},
                           {"token_types.weight", "embeddings.token_type_embeddings.weight"},
                           {"token_embd_norm.weight", "embeddings.LayerNorm.weight"},
                           {"token_embd_norm.bias", "embeddings.LayerNorm.bias"},
                           {"attn_q.weight", "attention.self.query.weight"},
                           {"attn_q.bias", "attention.self.query.bias"},
                           {"attn_k.weight", "attention.self.key.weight"},
                           {"attn_k.bias", "attention.self.key.bias"},
                           {"attn_v.weight", "attention.self.value.weight"},
                           {"attn_v.bias", "attention.self.value.bias"},
                           {"attn_output.weight", "attention.output.dense.weight"},
                           {"attn_output.bias", "attention.output.dense.bias"},
                           {"attn_output_norm.weight", "attention.output.LayerNorm.weight"},
                           {"attn_output_norm.bias", "attention.output.LayerNorm.bias"},
                           {"ffn_up.weight", "intermediate.dense.weight"},
                           {"ffn_up.bias", "intermediate.dense.bias"},
                           {"ffn_down.weight", "output.dense.weight"},
                           {"ffn_down.bias", "output.dense.bias"},
                           {"layer_output_norm.weight", "output.LayerNorm.weight"},
                           {"layer_output_norm.bias", "output.LayerNorm.bias"}};

TensorNames with_prefix(const std::string& prefix, TensorNames names, const std::vector<std::string>& ends) {
  for (auto& [gguf, name] : names)
    if (std::ranges::any_of(ends, [&](const std::string& end) { return gguf.starts_with(end); })) name = prefix + name;
  return names;
}

std::string bert_config(const GgufFile& file, int more_positions = 0) {
  return "\"hidden_size\":" + number_of(file, "embedding_length") +
         ",\"num_hidden_layers\":" + number_of(file, "block_count") +
         ",\"num_attention_heads\":" + number_of(file, "attention.head_count") +
         ",\"intermediate_size\":" + number_of(file, "feed_forward_length") + ",\"max_position_embeddings\":" +
         std::to_string(std::stoi(number_of(file, "context_length")) + more_positions) +
         ",\"layer_norm_eps\":" + number_of(file, "attention.layer_norm_epsilon") + ",\"hidden_act\":\"gelu\"";
}

// In every layer, joins tensors along their rows.
void join_each(Weights& weights, const std::vector<std::string>& stems, const std::string& joined) {
  take_each(weights, stems[0], [&](const std::string& block, const FloatTensor& first) {
    std::vector<const FloatTensor*> parts{&first};
    for (size_t i = 1; i < stems.size(); ++i) parts.push_back(&weights.at(block + stems[i]));
    FloatTensor all = join_rows(parts, 1);
    if (first.shape.size() == 1) all.shape.resize(1);
    for (size_t i = 1; i < stems.size(); ++i) weights.erase(block + stems[i]);
    weights[block + joined] = std::move(all);
  });
}

}  // namespace

TEST(bert_folders_give_the_vectors_of_the_gguf_file) {
  const auto file = golden_file("bert-mean.q8_0");
  if (file == nullptr) return;
  check_encoder({{"bert-mean.q8_0", "BertModel", bert_config(*file), kBert, unchanged, unchanged, "encoder.layer."}},
                *file);
  TensorNames masked = with_prefix("bert.", kBert, {"token", "position"});
  check_encoder(
      {{"bert-mean.q8_0", "BertForMaskedLM", bert_config(*file), masked, unchanged, unchanged, "bert.encoder.layer."}},
      *file);
  // Without modules.json, a text's vector is the mean of its token vectors.
  check_encoder(
      {{"bert-mean.q8_0", "BertModel", bert_config(*file), kBert, unchanged, unchanged, "encoder.layer."}, ""}, *file);
  // RoBERTa's positions start after the padding token's.
  const auto shift = [](Weights& weights) {
    FloatTensor& table = weights.at("position_embd.weight");
    table.values.insert(table.values.begin(), static_cast<size_t>(2 * table.shape[1]), 9.0f);
    table.shape[0] += 2;
  };
  check_encoder({{"bert-mean.q8_0", "XLMRobertaModel", bert_config(*file, 2) + ",\"pad_token_id\":1", kBert, shift,
                  unchanged, "encoder.layer."}},
                *file);
}

TEST(bert_folders_with_other_pooling_give_the_vectors_of_the_gguf_file) {
  if (const auto file = golden_file("bert-cls.q8_0"))
    check_encoder({{"bert-cls.q8_0", "BertModel", bert_config(*file), kBert, unchanged, unchanged, "encoder.layer."},
                   "pooling_mode_cls_token"},
                  *file);
  const auto file = golden_file("bert-rank.q8_0");
  if (file == nullptr) return;
  const TensorNames rank =
      with_prefix("bert.", kBert, {"token", "position"}) + TensorNames{{"cls.weight", "bert.pooler.dense.weight"},
                                                                       {"cls.bias", "bert.pooler.dense.bias"},
                                                                       {"cls.output.weight", "classifier.weight"},
                                                                       {"cls.output.bias", "classifier.bias"}};
  const auto as_matrix = [](Weights& weights) {
    FloatTensor& scores = weights.at("cls.output.weight");
    if (scores.shape.size() == 1) scores.shape.insert(scores.shape.begin(), 1);
  };
  check_encoder({{"bert-rank.q8_0", "BertForSequenceClassification", bert_config(*file), rank, as_matrix, unchanged,
                  "bert.encoder.layer."},
                 ""},
                *file);
}

// A cross-encoder's token type 1 applies to all tokens after the first separator. The GGUF file to compare with has
// these tokens' embeddings with the type's row added, and the type's first row is zero, so the sums have the same bits.
TEST(cross_encoder_folders_use_the_second_token_type_after_the_separator) {
  const auto file = golden_file("bert-rank.q8_0");
  if (file == nullptr) return;
  constexpr TokenId kSecond = 200;  // Tokens from here on occur only in the second text.
  FloatTensor table;
  const auto reduce = [&](Weights& weights) {
    FloatTensor& types = weights.at("token_types.weight");
    const auto width = static_cast<size_t>(types.shape[1]);
    std::fill_n(types.values.begin(), width, 0.0f);
    FloatTensor& embeddings = weights.at("token_embd.weight");
    table = embeddings;
    for (size_t i = kSecond * width; i < embeddings.values.size(); ++i)
      embeddings.values[i] += types.values[width + i % width];
  };
  const auto publish = [&](Weights& weights) {
    weights.at("token_embd.weight") = table;
    FloatTensor& scores = weights.at("cls.output.weight");
    if (scores.shape.size() == 1) scores.shape.insert(scores.shape.begin(), 1);
  };
  const TensorNames rank =
      with_prefix("bert.", kBert, {"token", "position"}) + TensorNames{{"cls.weight", "bert.pooler.dense.weight"},
                                                                       {"cls.bias", "bert.pooler.dense.bias"},
                                                                       {"cls.output.weight", "classifier.weight"},
                                                                       {"cls.output.bias", "classifier.bias"}};
  const EncoderFolder one{
      {"bert-rank.q8_0", "BertForSequenceClassification", bert_config(*file) + ",\"type_vocab_size\":2", rank, publish,
       unchanged, "bert.encoder.layer."},
      "",
      reduce};
  const ScratchFolder folder;
  write_folder(folder, *file, one);
  const TokenId cls = 2, separator = 3;
  const std::vector<std::vector<TokenId>> texts = {{cls, 20, 21, separator, 201, 202, 203}, {cls, 20, 21, separator}};
  const auto want = vectors_of(folder.path() + "/want.gguf", texts, "cross-encoder as GGUF"),
             got = vectors_of(folder.path(), texts, "cross-encoder");
  CHECK(want.size() == 2 && want[0] != want[1]);
  CHECK(want == got);
}

TEST(distilbert_folders_give_the_vectors_of_the_gguf_file) {
  const auto file = golden_file("bert-mean.q8_0");
  if (file == nullptr) return;
  const std::string config =
      "\"dim\":" + number_of(*file, "embedding_length") + ",\"n_layers\":" + number_of(*file, "block_count") +
      ",\"n_heads\":" + number_of(*file, "attention.head_count") +
      ",\"hidden_dim\":" + number_of(*file, "feed_forward_length") +
      ",\"max_position_embeddings\":" + number_of(*file, "context_length") + ",\"activation\":\"gelu\"";
  const TensorNames names = {{"token_embd.weight", "distilbert.embeddings.word_embeddings.weight"},
                             {"position_embd.weight", "distilbert.embeddings.position_embeddings.weight"},
                             {"token_embd_norm.weight", "distilbert.embeddings.LayerNorm.gamma"},
                             {"token_embd_norm.bias", "distilbert.embeddings.LayerNorm.beta"},
                             {"attn_q.weight", "attention.q_lin.weight"},
                             {"attn_q.bias", "attention.q_lin.bias"},
                             {"attn_k.weight", "attention.k_lin.weight"},
                             {"attn_k.bias", "attention.k_lin.bias"},
                             {"attn_v.weight", "attention.v_lin.weight"},
                             {"attn_v.bias", "attention.v_lin.bias"},
                             {"attn_output.weight", "attention.out_lin.weight"},
                             {"attn_output.bias", "attention.out_lin.bias"},
                             {"attn_output_norm.weight", "sa_layer_norm.weight"},
                             {"attn_output_norm.bias", "sa_layer_norm.bias"},
                             {"ffn_up.weight", "ffn.lin1.weight"},
                             {"ffn_up.bias", "ffn.lin1.bias"},
                             {"ffn_down.weight", "ffn.lin2.weight"},
                             {"ffn_down.bias", "ffn.lin2.bias"},
                             {"layer_output_norm.weight", "output_layer_norm.weight"},
                             {"layer_output_norm.bias", "output_layer_norm.bias"}};
  check_encoder(
      {{"bert-mean.q8_0", "DistilBertModel", config, names, unchanged, unchanged, "distilbert.transformer.layer."},
       "pooling_mode_mean_tokens",
       [](Weights& weights) { weights.erase("token_types.weight"); },
       {"tokenizer.ggml.token_type_count"}},
      *file);
}

TEST(jina_bert_folders_give_the_vectors_of_the_gguf_file) {
  const auto file = golden_file("jina-bert-v2.q8_0");
  if (file == nullptr) return;
  const TensorNames names = kBert + TensorNames{{"ffn_up.weight", "mlp.gated_layers.weight"},
                                                {"ffn_down.weight", "mlp.wo.weight"},
                                                {"ffn_down.bias", "mlp.wo.bias"},
                                                {"layer_output_norm.weight", "mlp.layernorm.weight"},
                                                {"layer_output_norm.bias", "mlp.layernorm.bias"}};
  check_encoder({{"jina-bert-v2.q8_0", "JinaBertModel",
                  bert_config(*file) + R"(,"position_embedding_type":"alibi","feed_forward_type":"geglu")", names,
                  [](Weights& weights) {
                    join_each(weights, {"ffn_gate.weight", "ffn_up.weight"}, "ffn_up.weight");
                  },
                  unchanged, "encoder.layer."}},
                *file);
}

TEST(nomic_bert_folders_give_the_vectors_of_the_gguf_file) {
  const TensorNames names = {{"token_embd.weight", "embeddings.word_embeddings.weight"},
                             {"token_types.weight", "embeddings.token_type_embeddings.weight"},
                             {"token_embd_norm.weight", "emb_ln.weight"},
                             {"token_embd_norm.bias", "emb_ln.bias"},
                             {"attn_qkv.weight", "attn.Wqkv.weight"},
                             {"attn_qkv.bias", "attn.Wqkv.bias"},
                             {"attn_output.weight", "attn.out_proj.weight"},
                             {"attn_output.bias", "attn.out_proj.bias"},
                             {"attn_output_norm.weight", "norm1.weight"},
                             {"attn_output_norm.bias", "norm1.bias"},
                             {"layer_output_norm.weight", "norm2.weight"},
                             {"layer_output_norm.bias", "norm2.bias"},
                             {"ffn_gate.weight", "mlp.fc12.weight"},
                             {"ffn_down.weight", "mlp.fc2.weight"},
                             {"ffn_down.bias", "mlp.fc2.bias"}};
  const auto config = [](const GgufFile& file) {
    return "\"n_embd\":" + number_of(file, "embedding_length") + ",\"n_layer\":" + number_of(file, "block_count") +
           ",\"n_head\":" + number_of(file, "attention.head_count") +
           ",\"n_inner\":" + number_of(file, "feed_forward_length") +
           ",\"n_positions\":8192,\"max_trained_positions\":" + number_of(file, "context_length") +
           ",\"layer_norm_epsilon\":" + number_of(file, "attention.layer_norm_epsilon") +
           ",\"rotary_emb_fraction\":1.0,\"rotary_emb_base\":" + number_of(file, "rope.freq_base");
  };
  if (const auto file = golden_file("nomic-bert.q8_0"))
    check_encoder({{"nomic-bert.q8_0", "NomicBertModel", config(*file) + R"(,"activation_function":"swiglu")",
                    names + TensorNames{{"ffn_up.weight", "mlp.fc11.weight"}},
                    [](Weights& weights) {
                      join_each(weights, {"attn_q.weight", "attn_k.weight", "attn_v.weight"}, "attn_qkv.weight");
                    },
                    unchanged, "encoder.layers."}},
                  *file);
  const auto file = golden_file("nomic-bert-moe.q8_0");
  if (file == nullptr) return;
  // w1 and w2 contain the matrices of all experts, one after another.
  const auto publish = [](Weights& weights) {
    join_each(weights, {"attn_q.weight", "attn_k.weight", "attn_v.weight"}, "attn_qkv.weight");
    join_each(weights, {"attn_q.bias", "attn_k.bias", "attn_v.bias"}, "attn_qkv.bias");
    each(weights, "ffn_up_exps.weight", [](FloatTensor& tensor) {
      tensor.shape = {tensor.shape[0] * tensor.shape[1], tensor.shape[2]};
    });
    each(weights, "ffn_down_exps.weight", [](FloatTensor& tensor) {
      const int64_t experts = tensor.shape[0], rows = tensor.shape[1], cols = tensor.shape[2];
      std::vector<float> turned(tensor.values.size());
      for (int64_t e = 0; e < experts; ++e)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < cols; ++c)
            turned[static_cast<size_t>((e * cols + c) * rows + r)] =
                tensor.values[static_cast<size_t>((e * rows + r) * cols + c)];
      tensor = {{experts * cols, rows}, std::move(turned)};
    });
  };
  check_encoder({{"nomic-bert-moe.q8_0", "NomicBertModel",
                  config(*file) + R"(,"activation_function":"gelu","num_experts":)" + number_of(*file, "expert_count") +
                      ",\"moe_top_k\":" + number_of(*file, "expert_used_count") +
                      ",\"moe_every_n_layers\":" + number_of(*file, "moe_every_n_layers"),
                  names + TensorNames{{"ffn_up.weight", "mlp.fc1.weight"},
                                      {"ffn_up.bias", "mlp.fc1.bias"},
                                      {"ffn_gate_inp.weight", "mlp.router.layer.weight"},
                                      {"ffn_up_exps.weight", "mlp.experts.mlp.w1"},
                                      {"ffn_down_exps.weight", "mlp.experts.mlp.w2"}},
                  publish, unchanged, "encoder.layers."}},
                *file);
}

TEST(modern_bert_folders_give_the_vectors_of_the_gguf_file) {
  const auto file = golden_file("modern-bert.q8_0");
  if (file == nullptr) return;
  const TensorNames names = {{"token_embd.weight", "embeddings.tok_embeddings.weight"},
                             {"token_embd_norm.weight", "embeddings.norm.weight"},
                             {"output_norm.weight", "final_norm.weight"},
                             {"attn_qkv.weight", "attn.Wqkv.weight"},
                             {"attn_output.weight", "attn.Wo.weight"},
                             {"attn_norm.weight", "attn_norm.weight"},
                             {"ffn_up.weight", "mlp.Wi.weight"},
                             {"ffn_down.weight", "mlp.Wo.weight"},
                             {"ffn_norm.weight", "mlp_norm.weight"}};
  const std::string config = "\"hidden_size\":" + number_of(*file, "embedding_length") +
                             ",\"num_hidden_layers\":" + number_of(*file, "block_count") +
                             ",\"num_attention_heads\":" + number_of(*file, "attention.head_count") +
                             ",\"intermediate_size\":" + number_of(*file, "feed_forward_length") +
                             ",\"max_position_embeddings\":" + number_of(*file, "context_length") +
                             ",\"norm_eps\":" + number_of(*file, "attention.layer_norm_epsilon") +
                             ",\"global_rope_theta\":" + number_of(*file, "rope.freq_base") +
                             ",\"local_rope_theta\":" + number_of(*file, "rope.freq_base_swa") +
                             ",\"local_attention\":" + number_of(*file, "attention.sliding_window") +
                             R"(,"global_attn_every_n_layers":3,"hidden_activation":"gelu")";
  check_encoder({{"modern-bert.q8_0", "ModernBertModel", config, names, unchanged, unchanged, "layers."},
                 "pooling_mode_cls_token"},
                *file);
}

TEST(t5_encoder_folders_give_the_vectors_of_the_gguf_file) {
  const auto file = golden_file("t5encoder.f16");
  if (file == nullptr) return;
  const TensorNames names = {{"token_embd.weight", "shared.weight"},
                             {"enc.output_norm.weight", "encoder.final_layer_norm.weight"},
                             {"attn_norm.weight", "layer.0.layer_norm.weight"},
                             {"attn_q.weight", "layer.0.SelfAttention.q.weight"},
                             {"attn_k.weight", "layer.0.SelfAttention.k.weight"},
                             {"attn_v.weight", "layer.0.SelfAttention.v.weight"},
                             {"attn_o.weight", "layer.0.SelfAttention.o.weight"},
                             {"attn_rel_b.weight", "layer.0.SelfAttention.relative_attention_bias.weight"},
                             {"ffn_norm.weight", "layer.1.layer_norm.weight"},
                             {"ffn_gate.weight", "layer.1.DenseReluDense.wi_0.weight"},
                             {"ffn_up.weight", "layer.1.DenseReluDense.wi_1.weight"},
                             {"ffn_down.weight", "layer.1.DenseReluDense.wo.weight"}};
  const auto publish = [](Weights& weights) {
    Weights without_prefix;
    for (auto& [name, tensor] : weights)
      without_prefix[name.starts_with("enc.blk.") ? name.substr(4) : name] = std::move(tensor);
    weights = std::move(without_prefix);
  };
  const int width = std::stoi(number_of(*file, "embedding_length")),
            heads = std::stoi(number_of(*file, "attention.head_count"));
  const std::string config =
      "\"d_model\":" + number_of(*file, "embedding_length") + ",\"num_layers\":" + number_of(*file, "block_count") +
      ",\"num_heads\":" + number_of(*file, "attention.head_count") + ",\"d_kv\":" + std::to_string(width / heads) +
      ",\"d_ff\":" + number_of(*file, "feed_forward_length") +
      ",\"n_positions\":" + number_of(*file, "context_length") +
      ",\"layer_norm_epsilon\":" + number_of(*file, "attention.layer_norm_rms_epsilon") +
      R"(,"relative_attention_num_buckets":32,"feed_forward_proj":"gated-gelu")";
  // The golden file's attention is causal, unlike that of published models.
  EncoderFolder one{{"t5encoder.f16", "T5EncoderModel", config, names, publish, unchanged, "encoder.block."}};
  one.without = {"t5encoder.pooling_type"};
  check_encoder(one, *file);
}

TEST(decoder_like_encoder_folders_give_the_vectors_of_the_gguf_file) {
  const auto config = [](const GgufFile& file) {
    return "\"hidden_size\":" + number_of(file, "embedding_length") +
           ",\"num_hidden_layers\":" + number_of(file, "block_count") +
           ",\"num_attention_heads\":" + number_of(file, "attention.head_count") +
           ",\"num_key_value_heads\":" + number_of(file, "attention.head_count_kv") +
           ",\"intermediate_size\":" + number_of(file, "feed_forward_length") +
           ",\"max_position_embeddings\":" + number_of(file, "context_length") +
           ",\"rms_norm_eps\":" + number_of(file, "attention.layer_norm_rms_epsilon") +
           ",\"rope_theta\":" + number_of(file, "rope.freq_base");
  };
  if (const auto file = golden_file("eurobert.f16"))
    check_encoder({{"eurobert.f16", "EuroBertModel", config(*file), kDecoder, unchanged, unchanged, "model.layers."}},
                  *file);
  if (const auto file = golden_file("qwen3-last.f16"))
    check_encoder(
        {{"qwen3-last.f16", "Qwen3ForCausalLM",
          config(*file) + ",\"tie_word_embeddings\":true,\"head_dim\":" + number_of(*file, "attention.key_length"),
          kDecoder, unchanged, unchanged, "model.layers."},
         "pooling_mode_lasttoken"},
        *file);
  const auto file = golden_file("gemma-embedding.q8_0");
  if (file == nullptr) return;
  const std::vector<std::string> norms = {"attn_norm.weight",           "attn_q_norm.weight", "attn_k_norm.weight",
                                          "post_attention_norm.weight", "ffn_norm.weight",    "post_ffw_norm.weight",
                                          "output_norm.weight"};
  const auto change_norms = [norms](void (*change)(FloatTensor&)) {
    return [norms, change](Weights& weights) {
      for (const std::string& norm : norms) each(weights, norm, change);
    };
  };
  TensorNames names = kDecoder + TensorNames{{"token_embd.weight", "embed_tokens.weight"},
                                             {"output_norm.weight", "norm.weight"},
                                             {"post_attention_norm.weight", "post_attention_layernorm.weight"},
                                             {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
                                             {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"}};
  check_encoder({{"gemma-embedding.q8_0", "Gemma3TextModel",
                  config(*file) + ",\"head_dim\":" + number_of(*file, "attention.key_length") +
                      ",\"sliding_window\":" + number_of(*file, "attention.sliding_window") +
                      ",\"rope_local_base_freq\":" + number_of(*file, "rope.freq_base_swa") +
                      R"(,"sliding_window_pattern":3,"use_bidirectional_attention":true,"query_pre_attn_scalar":)" +
                      number_of(*file, "attention.key_length") + R"(,"hidden_activation":"gelu_pytorch_tanh")",
                  names, change_norms(as_norm_less_one), change_norms(as_rounded_norm), "layers."}},
                *file);
}

TEST(word_piece_vocabularies_in_tokenizer_json_give_the_golden_tokens) {
  const auto file = golden_file("bert-mean.q8_0");
  if (file == nullptr) return;
  const ScratchFolder folder;
  write_folder(folder, *file,
               {{"bert-mean.q8_0", "BertModel", bert_config(*file), kBert, unchanged, unchanged, "encoder.layer."}});
  const auto opened = open_model_file(folder.path());
  REQUIRE(opened.ok());
  const auto tokenizer = load_tokenizer(**opened), golden = load_tokenizer(*file);
  REQUIRE(tokenizer.ok() && golden.ok());
  const auto vectors = GoldenEmbeddings::read(check::vectors_path("models/bert-mean.q8_0.json"));
  REQUIRE(vectors.has_value());
  std::vector<std::string> texts = {"Überraschung, naïve!", "a\tb\n c [SEP] d", "中文 text", std::string(101, 'x')};
  for (const GoldenEmbedding& prompt : vectors->prompts) texts.push_back(prompt.text);
  for (const std::string& text : texts)
    for (const bool special : {false, true}) {
      std::vector<TokenId> got, want;
      (*tokenizer)->encode(text, {.add_special = special, .parse_special = true}, got);
      (*golden)->encode(text, {.add_special = special, .parse_special = true}, want);
      // The golden file does not contain a limit on the length of a word.
      if (text.size() == 101 && text[0] == 'x') want = got;
      if (got != want) check::fail(__FILE__, __LINE__, "other tokens for \"" + text + "\"");
    }
  // The separator of a pair, which the server needs for rerankers.
  CHECK_EQ((*opened)->unsigned_integer(kSeparatorKey)->value_or(0), file->unsigned_integer(kSeparatorKey)->value_or(1));
  CHECK_EQ((*tokenizer)->bos(), (*golden)->bos());
  CHECK_EQ((*tokenizer)->eos(), (*golden)->eos());
}

TEST(encoder_folders_with_unsupported_settings_are_refused_by_name) {
  const auto file = golden_file("bert-mean.q8_0");
  if (file == nullptr) return;
  const EncoderFolder one{
      {"bert-mean.q8_0", "BertModel", bert_config(*file), kBert, unchanged, unchanged, "encoder.layer."}};
  const auto expect = [&](const std::function<void(const ScratchFolder&)>& change, const std::string& part) {
    const ScratchFolder folder;
    write_folder(folder, *file, one);
    change(folder);
    const auto opened = open_model_file(folder.path());
    if (opened) return check::fail(__FILE__, __LINE__, "accepted, expected: " + part);
    if (opened.error().message.find(part) == std::string::npos)
      check::fail(__FILE__, __LINE__, "'" + opened.error().message + "' does not contain '" + part + "'");
  };
  const auto config = [&](const std::string& more) {
    return [&file, more](const ScratchFolder& folder) {
      folder.write("config.json", "{\"architectures\":[\"BertModel\"]," + bert_config(*file) + more + "}");
    };
  };
  const auto modules = [](const std::string& steps) {
    return [steps](const ScratchFolder& folder) { folder.write("modules.json", steps); };
  };
  expect(config(R"(,"position_embedding_type":"relative_key")"), "'position_embedding_type' is 'relative_key'");
  expect(config(R"(,"is_decoder":true)"), "'is_decoder' is true");
  expect(modules(R"([{"path":"","type":"sentence_transformers.models.Transformer"},)"
                 R"({"path":"../other","type":"sentence_transformers.models.Pooling"}])"),
         "'[1].path'");
  expect(modules(R"([{"path":"2_LSTM","type":"sentence_transformers.models.LSTM"}])"), "LSTM");
  const auto steps = [](const std::vector<std::string>& kinds) {
    std::string text;
    for (const std::string& kind : kinds)
      text += (text.empty() ? "[" : ",") + std::string(R"({"path":"1_Pooling","type":"sentence_transformers.models.)") +
              kind + "\"}";
    return text + "]";
  };
  expect(modules(steps({"Pooling"})), "'[0].type' is 'sentence_transformers.models.Pooling' at an unexpected place");
  expect(modules(steps({"Transformer", "Dense", "Pooling"})), "'[1].type'");
  expect(modules(steps({"Transformer", "Pooling", "Pooling"})), "'[2].type'");
  expect(modules(steps({"Transformer", "Pooling", "Normalize", "Dense"})), "'[3].type'");
  expect(modules(R"([{"path":"","type":"pylate.models.Dense.Dense"}])"), "pylate");
  expect([](const ScratchFolder& folder) { folder.write("1_Pooling/config.json", R"({"include_prompt":false})"); },
         "'include_prompt' is false");
  expect(modules("{}"), "modules.json is not an array");
  expect(
      [](const ScratchFolder& folder) { folder.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens":true})"); },
      "'pooling_mode_max_tokens' is true");
  expect([](const ScratchFolder& folder) { folder.write("1_Pooling/config.json", "{}"); },
         "'pooling_mode_mean_tokens' and all other pooling modes are false or missing");
  expect(
      [&](const ScratchFolder& folder) {
        std::string text = word_pieces_of(*file);
        text.replace(text.find("BertNormalizer"), 14, "Lowercase");
        folder.write("tokenizer.json", text);
      },
      "is 'Lowercase' with WordPiece");
  expect(
      [&](const ScratchFolder& folder) {
        std::string text = word_pieces_of(*file);
        const size_t at = text.find("\"post_processor\":{") + 18, end = text.find("},\"decoder\"");
        text.replace(at, end - at, R"("type":"BertProcessing","sep":["[SEP]",3],"cls":["[NONE]",9])");
        folder.write("tokenizer.json", text);
      },
      "'post_processor.cls' is not a pair");
}

}  // namespace monolith::testing
