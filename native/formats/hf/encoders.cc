#include "formats/hf/encoders.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "formats/gguf/parser.h"
#include "formats/gguf/tokenizer.h"
#include "formats/hf/architecture.h"
#include "formats/hf/translation.h"
#include "formats/hf/translator.h"

namespace monolith::hf {

enum class EncoderFamily : uint8_t { kBert, kRoberta, kDistil, kJina, kNomic, kModern, kT5 };

namespace {

// Names of a tensor without ".weight" or ".bias": in the checkpoint and in GGUF.
struct EncoderName {
  std::string_view hf, gguf;
};

constexpr EncoderName kBertModel[] = {{"embeddings.word_embeddings", "token_embd"},
                                      {"embeddings.position_embeddings", "position_embd"},
                                      {"embeddings.token_type_embeddings", "token_types"},
                                      {"embeddings.LayerNorm", "token_embd_norm"}};
constexpr EncoderName kBertLayer[] = {{"attention.self.query", "attn_q"},
                                      {"attention.self.key", "attn_k"},
                                      {"attention.self.value", "attn_v"},
                                      {"attention.output.dense", "attn_output"},
                                      {"attention.output.LayerNorm", "attn_output_norm"},
                                      {"intermediate.dense", "ffn_up"},
                                      {"output.dense", "ffn_down"},
                                      {"output.LayerNorm", "layer_output_norm"},
                                      // Jina's second generation.
                                      {"mlp.gated_layers", "ffn_up"},
                                      {"mlp.wo", "ffn_down"},
                                      {"mlp.layernorm", "layer_output_norm"}};
constexpr EncoderName kBertRank[] = {{"pooler.dense", "cls"}, {"classifier", "cls.output"}};
constexpr EncoderName kRobertaRank[] = {{"classifier.dense", "cls"}, {"classifier.out_proj", "cls.output"}};

constexpr EncoderName kDistilModel[] = {{"embeddings.word_embeddings", "token_embd"},
                                        {"embeddings.position_embeddings", "position_embd"},
                                        {"embeddings.LayerNorm", "token_embd_norm"}};
constexpr EncoderName kDistilLayer[] = {{"attention.q_lin", "attn_q"},
                                        {"attention.k_lin", "attn_k"},
                                        {"attention.v_lin", "attn_v"},
                                        {"attention.out_lin", "attn_output"},
                                        {"sa_layer_norm", "attn_output_norm"},
                                        {"ffn.lin1", "ffn_up"},
                                        {"ffn.lin2", "ffn_down"},
                                        {"output_layer_norm", "layer_output_norm"}};

constexpr EncoderName kNomicModel[] = {{"embeddings.word_embeddings", "token_embd"},
                                       {"embeddings.token_type_embeddings", "token_types"},
                                       {"emb_ln", "token_embd_norm"}};
constexpr EncoderName kNomicLayer[] = {
    {"attn.Wqkv", "attn_qkv"},      {"attn.out_proj", "attn_output"}, {"norm1", "attn_output_norm"},
    {"norm2", "layer_output_norm"}, {"mlp.fc11", "ffn_up"},           {"mlp.fc12", "ffn_gate"},
    {"mlp.fc1", "ffn_up"},          {"mlp.fc2", "ffn_down"},          {"mlp.router.layer", "ffn_gate_inp"}};

constexpr EncoderName kModernModel[] = {
    {"embeddings.tok_embeddings", "token_embd"}, {"embeddings.norm", "token_embd_norm"}, {"final_norm", "output_norm"}};
constexpr EncoderName kModernLayer[] = {{"attn.Wqkv", "attn_qkv"},  {"attn.Wo", "attn_output"},
                                        {"attn_norm", "attn_norm"}, {"mlp.Wi", "ffn_up"},
                                        {"mlp.Wo", "ffn_down"},     {"mlp_norm", "ffn_norm"}};
constexpr EncoderName kModernRank[] = {{"head.dense", "cls"}, {"head.norm", "cls.norm"}, {"classifier", "cls.output"}};

constexpr EncoderName kT5Model[] = {
    {"shared", "token_embd"}, {"encoder.embed_tokens", "token_embd"}, {"encoder.final_layer_norm", "enc.output_norm"}};
constexpr EncoderName kT5Layer[] = {{"layer.0.SelfAttention.q", "attn_q"},
                                    {"layer.0.SelfAttention.k", "attn_k"},
                                    {"layer.0.SelfAttention.v", "attn_v"},
                                    {"layer.0.SelfAttention.o", "attn_o"},
                                    {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
                                    {"layer.0.layer_norm", "attn_norm"},
                                    {"layer.1.layer_norm", "ffn_norm"},
                                    {"layer.1.DenseReluDense.wi", "ffn_up"},
                                    {"layer.1.DenseReluDense.wi_0", "ffn_gate"},
                                    {"layer.1.DenseReluDense.wi_1", "ffn_up"},
                                    {"layer.1.DenseReluDense.wo", "ffn_down"}};

struct EncoderTensors {
  std::string_view layers;  // What precedes a layer's number.
  std::span<const EncoderName> model, layer, rank;
};

EncoderTensors tensors_of(EncoderFamily family) {
  switch (family) {
    case EncoderFamily::kRoberta: return {"encoder.layer.", kBertModel, kBertLayer, kRobertaRank};
    case EncoderFamily::kDistil: return {"transformer.layer.", kDistilModel, kDistilLayer, {}};
    case EncoderFamily::kNomic: return {"encoder.layers.", kNomicModel, kNomicLayer, {}};
    case EncoderFamily::kModern: return {"layers.", kModernModel, kModernLayer, kModernRank};
    case EncoderFamily::kT5: return {"encoder.block.", kT5Model, kT5Layer, {}};
    case EncoderFamily::kBert:
    case EncoderFamily::kJina: break;
  }
  return {"encoder.layer.", kBertModel, kBertLayer, kBertRank};
}

// Tensors that encoders do not use: prediction heads for tokens, and a list of position numbers.
constexpr std::string_view kUnused[] = {"cls.",
                                        "lm_head.",
                                        "decoder.",
                                        "embeddings.position_ids",
                                        "vocab_transform.",
                                        "vocab_layer_norm.",
                                        "vocab_projector."};
// Tensors that only rerankers use.
constexpr std::string_view kRankOnly[] = {"pooler.", "head.", "classifier."};
constexpr std::string_view kEncoderPrefixes[] = {"bert.", "roberta.", "distilbert.", "model."};

}  // namespace

struct EncoderClass {
  std::string_view name;
  EncoderFamily family;
  std::string_view gguf;
  bool ranks = false;  // The class adds a classification head.
};

namespace {

constexpr EncoderClass kClasses[] = {
    {"BertModel", EncoderFamily::kBert, "bert"},
    {"BertForMaskedLM", EncoderFamily::kBert, "bert"},
    {"BertForPreTraining", EncoderFamily::kBert, "bert"},
    {"BertForSequenceClassification", EncoderFamily::kBert, "bert", true},
    {"RobertaModel", EncoderFamily::kRoberta, "bert"},
    {"RobertaForMaskedLM", EncoderFamily::kRoberta, "bert"},
    {"RobertaForSequenceClassification", EncoderFamily::kRoberta, "bert", true},
    {"XLMRobertaModel", EncoderFamily::kRoberta, "bert"},
    {"XLMRobertaForMaskedLM", EncoderFamily::kRoberta, "bert"},
    {"XLMRobertaForSequenceClassification", EncoderFamily::kRoberta, "bert", true},
    {"CamembertModel", EncoderFamily::kRoberta, "bert"},
    {"DistilBertModel", EncoderFamily::kDistil, "bert"},
    {"DistilBertForMaskedLM", EncoderFamily::kDistil, "bert"},
    {"JinaBertModel", EncoderFamily::kJina, "jina-bert-v2"},
    {"JinaBertForMaskedLM", EncoderFamily::kJina, "jina-bert-v2"},
    {"NomicBertModel", EncoderFamily::kNomic, "nomic-bert"},
    {"NomicBertForMaskedLM", EncoderFamily::kNomic, "nomic-bert"},
    {"ModernBertModel", EncoderFamily::kModern, "modern-bert"},
    {"ModernBertForMaskedLM", EncoderFamily::kModern, "modern-bert"},
    {"ModernBertForSequenceClassification", EncoderFamily::kModern, "modern-bert", true},
    {"T5EncoderModel", EncoderFamily::kT5, "t5encoder"},
};

// Translates one encoder. Keeps only the first error.
class EncoderTranslator {
 public:
  EncoderTranslator(const EncoderClass& known, const JsonValue& config, AssembledFile& out)
      : known_(known),
        architecture_{.name = known.name, .gguf = known.gguf},
        t_(config, architecture_, out),
        out_(out),
        tensors_(tensors_of(known.family)) {}

  Result<TranslatedEncoder> run(const std::vector<Safetensor>& tensors) {
    const bool has_experts = known_.family == EncoderFamily::kNomic && t_.integer("num_experts", 0) > 0;
    if (has_experts) architecture_.gguf = "nomic-bert-moe";
    put_settings(has_experts);
    for (const Safetensor& tensor : tensors)
      if (t_.status()) add(tensor);
    if (!t_.status()) return t_.status().error();
    if (table_rows_ == 0) return Error{ErrorCode::kInvalidFile, "the embedding table is missing"};
    if (known_.ranks) put_labels();
    return TranslatedEncoder{table_rows_, architecture_.gguf, known_.ranks};
  }

 private:
  void size(std::string_view name, int64_t value) { out_.integer(t_.key(name), static_cast<uint64_t>(value)); }

  void put_settings(bool has_experts) {
    out_.string("general.architecture", architecture_.gguf);
    const int64_t heads = t_.needed({"num_attention_heads", "n_head", "n_heads", "num_heads"}, kMaxHeads);
    layers_ = t_.needed({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, kMaxLayers);
    size("embedding_length", t_.needed({"hidden_size", "n_embd", "dim", "d_model"}));
    size("block_count", layers_);
    n_ff_ = t_.needed({"intermediate_size", "n_inner", "hidden_dim", "d_ff"});
    size("feed_forward_length", n_ff_);
    size("attention.head_count", heads);
    out_.boolean(t_.key("attention.causal"), false);
    if (known_.ranks) size("pooling_type", 4);
    if (const int64_t types = t_.integer("type_vocab_size", 0); types > 1) {
      out_.integer("tokenizer.ggml.token_type_count", static_cast<uint64_t>(types));
      // Cross-encoders are trained with token type 1 for the second text and the separator after it.
      if (known_.ranks && known_.family == EncoderFamily::kBert) out_.boolean(kPairTypesKey, true);
    }
    const JsonValue eps = t_.first_of({"layer_norm_eps", "layer_norm_epsilon", "norm_eps"});
    out_.number(t_.key(known_.family == EncoderFamily::kT5 ? "attention.layer_norm_rms_epsilon"
                                                           : "attention.layer_norm_epsilon"),
                t_.take(eps.number(), default_eps()));
    size("context_length", context());
    if (t_.boolean("is_decoder", false) && known_.family != EncoderFamily::kT5)
      t_.fail(t_.find("is_decoder").unsupported("is true: the model is not an encoder"));
    switch (known_.family) {
      case EncoderFamily::kBert:
      case EncoderFamily::kRoberta: return put_bert("absolute");
      case EncoderFamily::kDistil: return expect("activation", {"gelu", "gelu_new", "gelu_pytorch_tanh"});
      case EncoderFamily::kJina:
        if (const JsonValue type = t_.find("feed_forward_type"); type.text() != "geglu" && type.text() != "original")
          t_.fail(type.unsupported("is " + in_quotes(type.text()) + " (known: geglu, original)"));
        return put_bert("alibi");
      case EncoderFamily::kNomic: return put_nomic(has_experts);
      case EncoderFamily::kModern: return put_modern();
      case EncoderFamily::kT5: return put_t5();
    }
  }

  double default_eps() const {
    switch (known_.family) {
      case EncoderFamily::kT5: return 1e-6;
      case EncoderFamily::kNomic:
      case EncoderFamily::kModern: return 1e-5;
      default: return 1e-12;
    }
  }

  int64_t context() {
    if (known_.family == EncoderFamily::kT5) return t_.integer("n_positions", 512);
    const int64_t stated = t_.needed({"max_position_embeddings", "n_positions"});
    if (known_.family == EncoderFamily::kRoberta) {
      first_position_ = t_.integer("pad_token_id", 1) + 1;
      if (stated <= first_position_) {
        t_.fail(t_.find("max_position_embeddings").invalid("leaves no positions"));
        return 1;
      }
      return stated - first_position_;
    }
    // For texts beyond this length, Nomic's code can scale RoPE depending on the length of the text
    // (rotary_scaling_factor), which is not supported.
    return known_.family == EncoderFamily::kNomic ? std::min(stated, t_.integer("max_trained_positions", stated))
                                                  : stated;
  }

  void expect(std::string_view name, std::initializer_list<std::string_view> values) {
    const JsonValue value = t_.find(name);
    if (!value.exists() || std::ranges::find(values, value.text()) != values.end()) return;
    t_.fail(value.unsupported("is " + in_quotes(value.text()) + ", expected " + in_quotes(*values.begin())));
  }

  void put_bert(std::string_view positions) {
    expect("position_embedding_type", {positions});
    expect("hidden_act", {"gelu", "gelu_new", "gelu_pytorch_tanh"});
  }

  void put_nomic(bool has_experts) {
    if (has_experts) {
      experts_ = t_.integer("num_experts", 0);
      size("expert_count", experts_);
      size("expert_used_count", t_.needed({"moe_top_k"}));
      size("moe_every_n_layers", t_.needed({"moe_every_n_layers"}));
      expect("activation_function", {"gelu", "gelu_new", "gelu_pytorch_tanh"});
    } else {
      expect("activation_function", {"swiglu"});
    }
    for (const std::string_view name :
         {"prenorm", "use_rms_norm", "parallel_block", "causal", "rotary_emb_interleaved",
          "scale_attn_by_inverse_layer_idx", "moe_normalize_expert_weights", "expert_choice_router"})
      if (t_.boolean(name, false)) t_.fail(t_.find(name).unsupported("is true, which is not supported"));
    if (!t_.boolean("scale_attn_weights", true))
      t_.fail(t_.find("scale_attn_weights").unsupported("is false, which is not supported"));
    for (const std::string_view name : {"rotary_emb_scale_base", "rope_scaling"})
      if (t_.find(name).exists()) t_.fail(t_.find(name).unsupported("is set, which is not supported"));
    if (t_.integer("num_shared_experts", 0) != 0)
      t_.fail(t_.find("num_shared_experts").unsupported("is not 0, which is not supported"));
    if (t_.number("rotary_emb_fraction", 0) != 1)
      t_.fail(t_.find("rotary_emb_fraction").unsupported("is not 1: a part of a head without RoPE is not supported"));
    out_.number(t_.key("rope.freq_base"), t_.number("rotary_emb_base", 10000));
  }

  void put_modern() {
    expect("hidden_activation", {"gelu", "silu"});
    out_.string(t_.key("hidden_act"), t_.find("hidden_activation").text() == "silu" ? "silu" : "gelu");
    const JsonValue rope = t_.find("rope_parameters");
    const auto base = [&](std::string_view kind, double fallback) {
      const JsonValue parameters = rope[kind], type = parameters["rope_type"];
      if (type.exists() && type.text() != "default")
        t_.fail(type.unsupported("is " + in_quotes(type.text()) + ", expected 'default'"));
      return t_.take(parameters["rope_theta"].number(), fallback);
    };
    const double global = base("full_attention", t_.number("global_rope_theta", 160000));
    out_.number(t_.key("rope.freq_base"), global);
    // An explicit null selects the base of the other layers.
    const bool same = t_.find("local_rope_theta").is(json::Document::Kind::kNull);
    out_.number(t_.key("rope.freq_base_swa"),
                base("sliding_attention", same ? global : t_.number("local_rope_theta", 10000)));
    size("attention.sliding_window", t_.integer("local_attention", 128));
    const int64_t period = t_.take(t_.find("global_attn_every_n_layers").integer(1, kMaxLayers), int64_t{3});
    size("attention.sliding_window_pattern", period);
    if (const JsonValue types = t_.find("layer_types"); types.exists()) {
      bool regular = static_cast<int64_t>(types.items().size()) == layers_;
      for (size_t i = 0; regular && i < types.items().size(); ++i)
        regular =
            types.item(i).text() == (static_cast<int64_t>(i) % period == 0 ? "full_attention" : "sliding_attention");
      if (!regular)
        t_.fail(types.unsupported("must list one kind per layer, with the pattern of 'global_attn_every_n_layers'"));
    }
    if (known_.ranks) expect("classifier_pooling", {"mean"});
    if (known_.ranks) expect("classifier_activation", {"gelu"});
    if (known_.ranks && !t_.find("classifier_pooling").exists())
      t_.fail(t_.find("classifier_pooling").unsupported("is missing: its default, 'cls', is not supported"));
  }

  void put_t5() {
    const int64_t dim = t_.needed({"d_kv"}, kMaxHeads);
    size("attention.key_length", dim);
    size("attention.value_length", dim);
    size("attention.relative_buckets_count", t_.integer("relative_attention_num_buckets", 32));
    if (t_.integer("relative_attention_max_distance", 128) != 128)
      t_.fail(t_.find("relative_attention_max_distance").unsupported("is not 128"));
    expect("feed_forward_proj", {"relu", "gated-gelu"});
  }

  void add(const Safetensor& tensor) {
    std::string name = tensor.name;
    // Checkpoints that were converted from TensorFlow name the parameters of norms differently.
    for (const auto& [old, current] : {std::pair{".gamma", ".weight"}, std::pair{".beta", ".bias"}})
      if (name.ends_with(old)) name.replace(name.rfind('.'), std::string::npos, current);
    std::string_view rest = name;
    for (const std::string_view prefix : kEncoderPrefixes)
      if (rest.starts_with(prefix)) {
        rest.remove_prefix(prefix.size());
        break;
      }
    const auto [stem, suffix] = split_suffix(rest);
    std::string gguf;
    if (std::string_view inner = rest; inner.starts_with(tensors_.layers)) {
      inner.remove_prefix(tensors_.layers.size());
      const int64_t layer = take_number(inner);
      if (layer >= 0 && inner == "mlp.experts.bias" && experts_ > 0) {
        if (std::ranges::any_of(tensor.data, [](std::byte byte) { return byte != std::byte{0}; }))
          t_.fail({ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) +
                                                " is not zero: a bias of all experts is not supported"});
        return;
      }
      const std::string block = (known_.family == EncoderFamily::kT5 ? "enc.blk." : "blk.") +
                                std::to_string(std::max<int64_t>(layer, 0)) + ".";
      constexpr std::string_view kExperts = "mlp.experts.mlp.w";
      if (layer >= 0 && experts_ > 0 && inner.starts_with(kExperts))
        return add_experts(block, inner.substr(kExperts.size()), tensor);
      const auto [part, kind] = split_suffix(inner);
      if (const auto known = name_in(tensors_.layer, part); layer >= 0 && !known.empty() && !kind.empty())
        gguf = block + std::string(known) + std::string(kind);
    } else if (const auto known = name_in(tensors_.model, stem); !known.empty() && !suffix.empty()) {
      gguf = std::string(known) + std::string(suffix);
    } else if (const auto head = known_.ranks ? name_in(tensors_.rank, stem) : std::string_view();
               !head.empty() && !suffix.empty()) {
      gguf = std::string(head) + std::string(suffix);
    } else {
      const auto starts = [&](std::string_view part) { return rest.starts_with(part); };
      if (std::ranges::any_of(kUnused, starts) || (!known_.ranks && std::ranges::any_of(kRankOnly, starts))) return;
    }
    put(gguf.empty() ? tensor.name : gguf, tensor);
  }

  static std::string_view name_in(std::span<const EncoderName> names, std::string_view stem) {
    const auto found = std::ranges::find(names, stem, &EncoderName::hf);
    return found == names.end() ? std::string_view() : found->gguf;
  }

  std::optional<TensorType> checked_type(const Safetensor& tensor) {
    const auto type = type_of(tensor);
    if (!type)
      t_.fail({ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) + " has type " +
                                            in_quotes(tensor.type) +
                                            ", which is not supported (known: F32, F16, BF16)"});
    else if (tensor.shape.empty() || tensor.shape.size() > 4 ||
             std::ranges::any_of(tensor.shape, [](int64_t length) { return length < 1; }))
      t_.fail(invalid(tensor, "must have 1 to 4 dimensions, none of which is 0"));
    return t_.status() ? type : std::nullopt;
  }

  void put(const std::string& name, const Safetensor& tensor) {
    const auto type = checked_type(tensor);
    if (!type) return;
    const std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    if (name == "token_embd.weight" && shape.size() == 2) {
      // T5 may store its table under two names.
      if (table_rows_ > 0 && known_.family == EncoderFamily::kT5 && table_rows_ == shape[1]) return;
      table_rows_ = shape[1];
    }
    if (name == "cls.output.weight") labels_ = shape.size() == 2 ? shape[1] : 1;
    if (name == "position_embd.weight" && first_position_ > 0) {
      if (shape.size() != 2 || shape[1] <= first_position_)
        return t_.fail(invalid(tensor, "has no row for the first position"));
      return put_rows(name, {shape[0], shape[1] - first_position_},
                      joined_rows({{rows_of(tensor, *type), first_position_, shape[1] - first_position_}}));
    }
    if (tensor.rows != nullptr) return put_rows(name, shape, tensor.rows);
    out_.tensor(name, shape, *type, tensor.data);
  }

  void put_rows(const std::string& name, const std::vector<int64_t>& shape, const Rows& rows) {
    const TensorType type = rows->exact_type();
    out_.tensor(name, shape, type, {.type = type, .cols = rows->cols(), .maker = rows});
  }

  // Both matrices of all experts have shape [experts * n_ff, embedding]. The second one is used transposed.
  void add_experts(const std::string& block, std::string_view which, const Safetensor& tensor) {
    const auto type = checked_type(tensor);
    if (!type) return;
    if (tensor.shape.size() != 2 || tensor.shape[0] != experts_ * n_ff_)
      return t_.fail(invalid(tensor, "does not have num_experts * n_inner rows"));
    const Rows rows = rows_of(tensor, *type);
    const int64_t embedding = tensor.shape[1];
    if (which == "1") return put_rows(block + "ffn_up_exps.weight", {embedding, n_ff_, experts_}, rows);
    if (which != "2") return t_.fail(invalid(tensor, "is unknown"));
    put_rows(block + "ffn_down_exps.weight", {n_ff_, embedding, experts_}, transposed_heads(rows, experts_, 0, n_ff_));
  }

  // A reranker has a single output, which has no label.
  void put_labels() {
    const JsonValue names = t_.find("id2label");
    if (labels_ < 2 || static_cast<int64_t>(names.members().size()) != labels_) return;
    std::vector<std::string_view> labels;
    for (int64_t i = 0; i < labels_; ++i) labels.push_back(names[std::to_string(i)].text());
    out_.strings(t_.key("classifier.output_labels"), labels);
  }

  const EncoderClass& known_;
  Architecture architecture_;
  Translation t_;
  AssembledFile& out_;
  EncoderTensors tensors_;
  int64_t layers_ = 0, n_ff_ = 0, experts_ = 0, table_rows_ = 0, labels_ = 0;
  int64_t first_position_ = 0;  // Row of the position table for the first token.
};

}  // namespace

const EncoderClass* find_encoder_class(const JsonValue& config) {
  const auto* const found = std::ranges::find(kClasses, config["architectures"].item(0).text(), &EncoderClass::name);
  return found == std::end(kClasses) ? nullptr : found;
}

Result<TranslatedEncoder> translate_encoder(const EncoderClass& known, const JsonValue& config,
                                            const std::vector<Safetensor>& tensors, AssembledFile& file) {
  return EncoderTranslator(known, config, file).run(tensors);
}

}  // namespace monolith::hf
