// Reads a model's hyperparameters from GGUF metadata. All values are checked against limits such that the product of
// any two of them fits in 64 bits, so later arithmetic is safe.
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "model/architectures.h"
#include "model/eagle_params.h"
#include "formats/gguf/parser.h"
#include "model/layer_params.h"
#include "model/metadata_reader.h"
#include "model/model.h"

namespace monolith {
namespace {

// Limits, set several times higher than the values in the largest published models.
constexpr int64_t kMaxVocab = 1 << 22;
constexpr int64_t kMaxEmbedding = 1 << 17;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxMtpLayers = 16;
constexpr int64_t kMaxLoops = 64;
constexpr int64_t kMaxContext = 1 << 27;

// Metadata keys that change what a model computes, each with the value that means "not used". If `computed` is set,
// architectures with that trait support the key and read it elsewhere.
struct RefusedKey {
  std::string_view name;
  double harmless;
  std::string_view what;
  bool ArchitectureTraits::*computed = nullptr;
};

constexpr std::array kRefusedKeys = {
    RefusedKey{"attn_logit_softcapping", 0, "a soft cap on attention scores", &ArchitectureTraits::soft_cap_keys},
    RefusedKey{"final_logit_softcapping", 0, "a soft cap on logits", &ArchitectureTraits::soft_cap_keys},
    RefusedKey{"router_logit_softcapping", 0, "a soft cap on router logits"},
    RefusedKey{"attention.scale", 0, "a custom attention scale", &ArchitectureTraits::scale_keys},
    RefusedKey{"attention.clamp_kqv", 0, "clamping of queries, keys and values", &ArchitectureTraits::clamp_key},
    RefusedKey{"attention.max_alibi_bias", 0, "an ALiBi bias", &ArchitectureTraits::alibi_key},
    RefusedKey{"num_loops", 1, "layers that run several times", &ArchitectureTraits::loop_keys},
    RefusedKey{"attention.causal", 1, "non-causal attention"},
    RefusedKey{"attention.temperature_length", 0, "attention temperature by position",
               &ArchitectureTraits::temperature_keys},
    RefusedKey{"attention.temperature_scale", 0, "attention temperature by position",
               &ArchitectureTraits::temperature_keys},
    RefusedKey{"attention.output_scale", 0, "a scale on the attention output"},
    RefusedKey{"attention.value_scale", 0, "a scale on values", &ArchitectureTraits::value_scale_key},
    RefusedKey{"attention.shared_kv_layers", 0, "sharing keys and values between layers",
               &ArchitectureTraits::shared_kv},
    RefusedKey{"embedding_length_per_layer_input", 0, "per-layer inputs", &ArchitectureTraits::per_layer_inputs},
    RefusedKey{"altup.num_inputs", 1, "several residual streams", &ArchitectureTraits::streams},
    RefusedKey{"altup.active_idx", 0, "an active residual stream other than the first"},
    RefusedKey{"swiglu_clamp_exp", 0, "a limit on gated activations", &ArchitectureTraits::limit_keys},
    RefusedKey{"swiglu_clamp_shexp", 0, "a limit on gated activations", &ArchitectureTraits::limit_keys},
    RefusedKey{"activation_sparsity_scale", 0, "sparse activations", &ArchitectureTraits::streams},
    RefusedKey{"logit_scale", 1, "a scale on logits", &ArchitectureTraits::scale_keys},
    RefusedKey{"embedding_scale", 1, "a scale on embeddings", &ArchitectureTraits::scale_keys},
    RefusedKey{"residual_scale", 1, "a scale on residuals", &ArchitectureTraits::scale_keys},
    RefusedKey{"deepstack_mapping", -1, "DeepStack image features in inner layers"},
    RefusedKey{"nextn_predict_layers", 0, "multi-token prediction layers", &ArchitectureTraits::mtp_layers},
    RefusedKey{"rope.scaling.alpha", 0, "a RoPE base scaled by 'alpha'", &ArchitectureTraits::rope_alpha},
    RefusedKey{"rope.dimension_sections", 0, "sectioned RoPE", &ArchitectureTraits::rope_sections},
};

Result<const ArchitectureTraits*> read_architecture(const GgufFile& file) {
  auto name = file.string("general.architecture");
  if (!name) return name.error();
  if (!*name) return Error{ErrorCode::kInvalidFile, "metadata key 'general.architecture' is missing"};
  if (auto kind = file.string("general.type"); kind && *kind && **kind == "adapter")
    return Error{ErrorCode::kUnsupported,
                 "the file is an adapter (LoRA), which is not supported; merge it into its model first"};
  if (const ArchitectureTraits* known = find_architecture(**name)) return known;
  if (is_eagle_head(file))
    return Error{ErrorCode::kUnsupported,
                 "architecture 'eagle3' is a draft head for another model; configure it as that model's draft"};
  if (**name == "clip")
    return Error{
        ErrorCode::kUnsupported,
        "architecture 'clip' is a vision encoder; serve its text model, and place this file next to it or set it as "
        "models.<id>.vision"};
  return Error{ErrorCode::kUnsupported,
               "architecture " + in_quotes(**name) + " is not supported (known: " + known_architectures() + ")"};
}

// The vocabulary size is the number of rows in the embedding table. The tokenizer and the vocab_size key must match it.
Result<int> read_vocab(const GgufFile& file, const MetadataReader& read) {
  const GgufTensor* table = file.tensor("token_embd.weight");
  if (table == nullptr) return Error{ErrorCode::kInvalidFile, "tensor 'token_embd.weight' is missing"};
  const int64_t rows = table->shape[1];
  if (rows < 1 || rows > kMaxVocab) {
    return Error{ErrorCode::kInvalidFile, "tensor 'token_embd.weight' has " + std::to_string(rows) +
                                              " rows, expected 1 to " + std::to_string(kMaxVocab)};
  }
  const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->type == GgufValueType::kArray && tokens->count != static_cast<uint64_t>(rows)) {
    return Error{ErrorCode::kInvalidFile, "'tokenizer.ggml.tokens' has " + std::to_string(tokens->count) +
                                              " tokens, but tensor 'token_embd.weight' has " + std::to_string(rows) +
                                              " rows"};
  }
  // A file whose vocabulary was extended may still contain the old vocab_size, so this key is ignored if there is a
  // tokenizer.
  if (tokens != nullptr) return static_cast<int>(rows);
  auto stated = read.integer("vocab_size", 1, kMaxVocab, rows);
  if (!stated) return stated;
  if (*stated != rows) {
    return Error{ErrorCode::kInvalidFile, "'" + read.key("vocab_size") + "' is " + std::to_string(*stated) +
                                              ", but tensor 'token_embd.weight' has " + std::to_string(rows) + " rows"};
  }
  return stated;
}

Status refuse_what_is_not_computed(const MetadataReader& read, const ArchitectureTraits& traits) {
  for (const RefusedKey& refused : kRefusedKeys) {
    if (traits.logit_factor && refused.name == "logit_scale") continue;
    if (refused.computed != nullptr && traits.*refused.computed) continue;
    if (Status status = read.refuse_unless(refused.name, refused.harmless, refused.what); !status) return status;
  }
  return {};
}

// Uses the first MTP layer and each following one whose tensors are all present: some files declare MTP layers but do
// not contain them.
void read_mtp_layer(const GgufFile& file, const ArchitectureTraits& traits, HyperParams& params) {
  const auto carries = [&](int level, std::string_view name) {
    return file.tensor("blk." + std::to_string(params.n_layers + level) + "." + std::string(name)) != nullptr;
  };
  const auto carried = [&](std::string_view name) { return carries(0, name); };
  if (params.n_mtp_layers == 0 || traits.draft_hidden == DraftHidden::kLeftOut || !carried("nextn.eh_proj.weight"))
    return;
  // An MTP layer cannot run without this tensor, which belongs to its sparse-attention indexer.
  constexpr std::string_view kIndex = "indexer.proj.weight";
  if (traits.position_index && !carried(kIndex)) return;
  MtpLayerParams& draft = params.draft;
  draft.used = true;
  draft.normed = traits.draft_hidden == DraftHidden::kNormed;
  draft.own_embedding = carried("nextn.embed_tokens.weight");
  draft.own_head = carried("nextn.shared_head_head.weight");
  for (const std::string_view name : {"nextn.shared_head_norm.weight", "layer_output_norm.weight"})
    if (draft.head_norm_name.empty() && carried(name)) draft.head_norm_name = name;
  const auto like_the_first = [&](int level) {
    return carries(level, "nextn.eh_proj.weight") &&
           carries(level, "nextn.embed_tokens.weight") == draft.own_embedding &&
           (!traits.position_index || carries(level, kIndex)) &&
           carries(level, "nextn.shared_head_head.weight") == draft.own_head &&
           (draft.head_norm_name.empty() || carries(level, draft.head_norm_name));
  };
  while (draft.n_levels < params.n_mtp_layers && like_the_first(draft.n_levels)) ++draft.n_levels;
}

// Reads n_vocab, n_embd, n_layers and norm_eps.
Status read_sizes(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits, bool mtp_layer,
                  HyperParams& params) {
  // Assigns a result to a field, or keeps the first error, so that the code below can be a plain list of calls.
  Status failed;
  const auto set = [&failed](auto& field, auto&& result) {
    if (!failed) return;
    if (result) {
      field = static_cast<std::remove_reference_t<decltype(field)>>(*result);
    } else {
      failed = result.error();
    }
  };
  set(params.n_embd, read.integer("embedding_length", 1, kMaxEmbedding));
  set(params.n_layers, read.integer("block_count", 1, kMaxLayers));
  set(params.norm_eps,
      read.number(traits.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
                  1e-30, 1.0));
  if (!failed) return failed;
  if (traits.mtp_layers) {
    set(params.n_mtp_layers, read.integer("nextn_predict_layers", 0, kMaxMtpLayers, 0));
    if (!failed) return failed;
    if (params.n_mtp_layers >= params.n_layers) {
      return Error{ErrorCode::kInvalidFile, "'" + read.key("nextn_predict_layers") + "' is " +
                                                std::to_string(params.n_mtp_layers) + " of " +
                                                std::to_string(params.n_layers) + " layers"};
    }
    params.n_layers -= params.n_mtp_layers;
    if (mtp_layer) read_mtp_layer(file, traits, params);
  }
  if (traits.loop_keys) {
    set(params.n_loops, read.integer("num_loops", 1, kMaxLoops, 1));
    auto skips = read.boolean("skip_loop_final_norm", false);
    if (!skips) return skips.error();
    params.loop_norm = params.n_loops > 1 && !*skips;
    params.n_layers *= params.n_loops;
  }
  set(params.n_vocab, read_vocab(file, read));
  return failed;
}

// Reads scales and soft caps. For each of these keys, 0 means "none".
Status read_scales(const MetadataReader& read, const ArchitectureTraits& traits, HyperParams& params) {
  const bool wide_queries = traits.wide_query_layers > 0 && params.n_layers == traits.wide_query_layers;
  for (LayerParams& layer : params.layers) {
    if (layer.n_heads == 0) continue;
    const int query_width = wide_queries     ? params.n_embd / layer.n_heads
                            : layer.latent() ? params.latents.key_dim
                                             : layer.key_dim;
    layer.attention_scale = traits.attention_scale > 0    ? traits.attention_scale
                            : traits.inverse_length_scale ? 1.0f / static_cast<float>(query_width)
                                                          : 1.0f / std::sqrt(static_cast<float>(query_width));
    if (layer.latent() && layer.rope >= 0)
      layer.attention_scale *= params.ropes[static_cast<size_t>(layer.rope)].score_factor;
  }
  if (traits.embedding_root) params.embedding_scale = std::sqrt(static_cast<float>(params.n_embd));
  if (traits.embedding_scale > 0) params.embedding_scale = traits.embedding_scale;
  if (traits.logit_scale > 0) params.logit_scale = traits.logit_scale;
  if (traits.scale_depth > 0)
    params.residual_scale = traits.scale_depth / std::sqrt(static_cast<float>(params.n_layers));
  if (traits.dim_model_base > 0) params.logit_scale = traits.dim_model_base / static_cast<float>(params.n_embd);
  const auto read_factor = [&](std::string_view key, float& field) -> Status {
    const bool required = traits.scale_keys_required && key != "attention.scale";
    auto value = required ? read.number(key, 0, 1e6) : read.number(key, 0, 1e6, 0.0);
    if (!value) return value.error();
    if (*value > 0) field = static_cast<float>(*value);
    return {};
  };
  if (traits.scale_keys) {
    float attention_scale = 0;
    for (const auto& [key, field] :
         {std::pair{"attention.scale", &attention_scale}, std::pair{"embedding_scale", &params.embedding_scale},
          std::pair{"residual_scale", &params.residual_scale}, std::pair{"logit_scale", &params.logit_scale}}) {
      if (Status s = read_factor(key, *field); !s) return s;
    }
    params.logit_scale = 1.0f / params.logit_scale;  // The key is a divisor.
    for (LayerParams& layer : params.layers) {
      if (attention_scale > 0) layer.attention_scale = attention_scale;
    }
  }
  if (traits.logit_factor) {
    auto factor = read.number("logit_scale", 1e-6, 1e6);
    if (!factor) return factor.error();
    params.logit_scale = static_cast<float>(*factor);
  }
  if (traits.value_scale_key) {
    if (Status s = read_factor("attention.value_scale", params.value_scale); !s) return s;
  }
  if (traits.soft_cap_keys) {
    auto attention = read.number("attn_logit_softcapping", 0, 1e6, traits.attention_soft_cap);
    if (!attention) return attention.error();
    auto logits = read.number("final_logit_softcapping", 0, 1e6, traits.logit_soft_cap);
    if (!logits) return logits.error();
    params.attention_soft_cap = static_cast<float>(*attention);
    params.logit_soft_cap = static_cast<float>(*logits);
  }
  return {};
}

// Reads the parameters by which positions affect attention other than RoPE, and the limit for the values of queries,
// keys and values.
Status read_positions(const MetadataReader& read, const ArchitectureTraits& traits, HyperParams& params) {
  constexpr double kUsualBias = 8;
  if (traits.learned_positions) params.n_positions = params.context_length;
  const bool alibi = traits.alibi_layers == kEveryDepth || traits.alibi_layers == params.n_layers;
  if (alibi && traits.alibi_layers != 0) {
    auto bias = traits.alibi_key ? read.number("attention.max_alibi_bias", 0, 1e3, 0.0) : Result<double>(kUsualBias);
    if (!bias) return bias.error();
    params.max_alibi_bias = static_cast<float>(*bias);
    for (LayerParams& layer : params.layers) layer.rope = -1;
  }
  if (!traits.clamp_key) return {};
  auto limit = read.number("attention.clamp_kqv", 0, 1e6, 0.0);
  if (!limit) return limit.error();
  params.clamp_qkv = static_cast<float>(*limit);
  return {};
}

// Reads whether the feed-forward network runs in parallel with the mixer.
Status read_parallel_residual(const MetadataReader& read, const ArchitectureTraits& traits, HyperParams& params) {
  constexpr std::string_view kKey = "use_parallel_residual";
  // StableLM files contain this key too, but for them, the value is derived from the tensors.
  if (traits.parallel_residual == ParallelResidual::kNo) return read.refuse_unless(kKey, 0, "a parallel residual");
  if (traits.parallel_residual != ParallelResidual::kStated) return {};
  auto stated = read.boolean(kKey, true);
  if (!stated) return stated.error();
  params.parallel_residual = params.parallel_norm = *stated;
  return {};
}

// Detects which optional tensors the file contains. An optional tensor must be present in all layers of a kind or in
// none.
void read_carried_tensors(const GgufFile& file, const ArchitectureTraits& traits, HyperParams& params) {
  const auto carried = [&](std::string_view name) {
    for (int i = 0; i < params.n_layers; ++i)
      if (file.tensor("blk." + std::to_string(i) + "." + std::string(name)) != nullptr) return true;
    return false;
  };
  params.tied_output = file.tensor("output.weight") == nullptr;
  // Delta-net layers also have a tensor named attn_qkv, but with different contents.
  const bool fused_qkv = traits.fused_qkv || (carried("attn_qkv.weight") && traits.delta_net == DeltaNetKind::kNone);
  for (LayerParams& layer : params.layers) layer.fused_qkv = fused_qkv;
  for (size_t i = static_cast<size_t>(params.n_layers); i < params.layers.size(); ++i)
    params.layers[i].fused_qkv = file.tensor("blk." + std::to_string(i) + ".attn_qkv.weight") != nullptr;
  params.fused_gate_up = traits.fused_gate_up;
  params.qkv_bias = traits.qkv_bias || carried("attn_q.bias") || carried("attn_qkv.bias");
  params.attention_bias = carried("attn_output.bias");
  params.value_norm = traits.value_norm;
  params.head_gate = traits.head_gate;
  params.head_gates = traits.head_gates && carried("attn_gate.weight");
  params.norm_bias = file.tensor("output_norm.bias") != nullptr;
  params.output_bias = file.tensor("output.bias") != nullptr;
  params.parallel_residual |=
      traits.parallel_residual == ParallelResidual::kAlways ||
      (traits.parallel_residual == ParallelResidual::kWithoutFfnNorm && !carried(traits.ffn_norm_name));
  if (traits.qk_norm_optional && !carried("attn_q_norm.weight")) params.qk_norm = QkNorm::kNone;
  params.gate_bias = carried("ffn_gate.bias");
  params.up_bias = carried("ffn_up.bias");
  params.down_bias = carried("ffn_down.bias");
}

}  // namespace

Result<HyperParams> HyperParams::read(const GgufFile& file, int max_context, bool mtp_layer) {
  auto known = read_architecture(file);
  if (!known) return known.error();
  const ArchitectureTraits& traits = **known;
  HyperParams params{};
  params.architecture_name = traits.name;
  params.rope_style = traits.rope_style;
  params.norm = traits.norm;
  params.activation = traits.activation;
  params.qk_norm = traits.qk_norm;
  params.pre_norm = traits.pre_norm;
  params.post_norm = traits.post_norm;
  params.norm_weights = !traits.weightless_norms;
  params.sub_norms = traits.sub_norms;
  params.embedding_norm = traits.embedding_norm;
  params.ffn_norm_name = traits.ffn_norm_name;
  params.attention_post_norm_name = traits.attention_post_norm_name;
  params.ffn_post_norm_name = traits.ffn_post_norm_name;
  params.output_norm_name = traits.output_norm_name;
  const MetadataReader read(file, params.architecture_name);
  auto context = read.integer("context_length", 1, kMaxContext);
  if (!context) return context.error();
  params.context_length = *context;
  if (Status s = refuse_what_is_not_computed(read, traits); !s) return s.error();
  if (Status s = read_sizes(file, read, traits, mtp_layer, params); !s) return s.error();
  if (Status s = read_layers(file, read, traits, max_context, params); !s) return s.error();
  if (traits.deepstack) {
    auto layers = read.integer("n_deepstack_layers", 0, params.n_layers, 0);
    if (!layers) return layers.error();
    params.n_deepstack = *layers;
  }
  if (Status s = read_delta_nets(file, read, traits, params); !s) return s.error();
  if (Status s = read_state_spaces(file, read, traits, params); !s) return s.error();
  if (Status s = read_rwkv(file, read, traits, params); !s) return s.error();
  if (Status s = read_scales(read, traits, params); !s) return s.error();
  if (Status s = read_positions(read, traits, params); !s) return s.error();
  if (Status s = read_parallel_residual(read, traits, params); !s) return s.error();
  if (Status s = read_experts(file, read, traits, params); !s) return s.error();
  if (Status s = read_layer_extras(file, read, traits, params); !s) return s.error();
  read_carried_tensors(file, traits, params);
  auto pooling = read_pooling(file, params.architecture_name, Pooling::kNone);
  if (!pooling) return pooling.error();
  params.pooling = *pooling;
  return params;
}

}  // namespace monolith
