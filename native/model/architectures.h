// Properties of each model architecture that are not stored in GGUF files. Constant tables that may be used from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend/operations.h"
#include "model/model.h"
#include "model/rope_frequencies.h"

namespace monolith {

enum class Windows : uint8_t {
  kRefused,     // No sliding window; a file that states one describes a different kind of model.
  kEveryLayer,  // All layers use `attention.sliding_window`.
  kPattern,     // All layers except every `window_period`-th one use it.
  kChunks,      // Like kPattern, but with attention in chunks of `default_window` positions, unless the key is 0.
};

// The RoPE frequencies of layers with a sliding window. All other layers use the frequencies in the file.
enum class WindowedRope : uint8_t {
  kSame,
  kOwnBase,   // rope.freq_base_swa or windowed_base, and rope.dimension_count_swa, without scaling.
  kUnscaled,  // The base in the file, without its scaling.
};

enum class Experts : uint8_t {
  kNone,
  kOptional,
  kRequired,
  kWhereCarried,  // Required in layers that have a router tensor.
  // Optional. Layers that have a router tensor run the experts in parallel with their dense network
  // (FeedForwardKind::kGatedAndMixture).
  kBesideNetwork,
  // Required. All layers also have a dense network as wide as the residual stream
  // (FeedForwardKind::kGatedBesideMixture); feed_forward_length is the width of an expert.
  kBesideLayer,
};

enum class Sinks : uint8_t { kNone, kAlways, kWhereCarried };

enum class SharedExpert : uint8_t {
  kNone,
  kPlain,    // Present if the file states its width.
  kCounted,  // Present if the file specifies the number of shared experts, which form a single network.
  kGated,    // Always present; its output is multiplied by a sigmoid gate.
};

enum class ParallelResidual : uint8_t {
  kNo,
  kAlways,
  kWithoutFfnNorm,  // Only if the file has no norm for the feed-forward network.
  kStated,          // use_parallel_residual states it. The feed-forward network has its own norm of the layer's input.
};

enum class DeltaNetKind : uint8_t {
  kNone,
  kTiled,     // Value head i uses key head i modulo the number of key heads; beta and decay have separate matrices.
  kRuns,      // Each key head serves consecutive value heads; beta and decay share a matrix.
  kChannels,  // Kimi delta attention: one decay per key dimension.
};

// Which hidden states the MTP layer reads: the model's hidden states and, for each further draft token, the layer's
// own. The choices match the engines that run these models: vLLM and SGLang (GLM, DeepSeek), llama.cpp (Qwen, MiMo,
// Step).
enum class DraftHidden : uint8_t {
  kLeftOut,  // The architecture's MTP layers are not supported.
  kNormed,   // Hidden states after the final norm.
  kRaw,      // The residual stream before the final norm.
};

// Models of this architecture that have this number of layers use ALiBi instead of RoPE; kEveryDepth = all models,
// whatever their number of layers.
inline constexpr int kEveryDepth = -1;

struct ArchitectureTraits {
  std::string_view name;
  NormKind norm = NormKind::kRms;
  ParallelResidual parallel_residual = ParallelResidual::kNo;
  // The mixer of layers with 0 KV heads; kNone = every layer has KV heads. Such models may also have layers without a
  // feed-forward network, whose feed-forward length in the file is 0.
  MixerKind other_mixer = MixerKind::kNone;
  bool one_part = false;  // Layers with a feed-forward network have no mixer.
  DeltaNetKind delta_net = DeltaNetKind::kNone;
  bool rwkv_delta = false;  // For MixerKind::kTimeMix: RWKV 7.
  // For MixerKind::kMamba: whether the state space has heads (PLaMo 2), and whether the steps, B and C have norms.
  bool space_heads = false, space_norms = false;
  // The attention layers are listed in attention.recurrent_layers, or every full_attention_interval-th layer is an
  // attention layer.
  bool attention_interval = false;
  bool output_gate = false;        // See LayerParams::output_gate.
  bool output_gate_apart = false;  // The gate's matrix is attn_gate.weight, not a part of attn_q.weight.
  // M-RoPE: rope.dimension_sections specifies which of the three position components rotates each pair.
  bool rope_sections = false;
  bool interleaved_sections = false;  // The sections are interleaved rather than contiguous.
  bool deepstack = false;             // Reads n_deepstack_layers.
  bool gateless = false;              // Feed-forward networks and experts have no gate.
  RopeStyle rope_style = RopeStyle::kHalves;
  bool rope_factors = false;             // Applies rope_freqs.weight and rope_factors_*.weight.
  bool rope_switch = false;              // rope.scaling.finetuned = false disables RoPE.
  bool rope_alpha = false;               // Reads rope.scaling.alpha, which increases the RoPE base.
  bool full_layers_rotate_half = false;  // Layers without a sliding window rotate half of the dimensions in the file.
  int unrotated_period = 0;  // Every layer whose number is a multiple of this has no RoPE; 0 = all layers have RoPE.
  bool dense_layers_rotate = false;   // With rotates_windows_only: leading dense layers have RoPE in any case.
  bool rotates_windows_only = false;  // If any layer has a sliding window, the layers without one have no RoPE.
  Activation activation = Activation::kSilu;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_optional = false;  // Whether there is a QK norm depends on the file.
  int unnormed_experts = 0;       // Models with this number of experts have no QK norm.
  bool pre_norm = true;
  bool post_norm = false;
  bool weightless_norms = false;  // Norms have neither weights nor biases.
  bool sub_norms = false;         // See HyperParams::sub_norms.
  std::string_view ffn_norm_name = "ffn_norm.weight";
  std::string_view attention_post_norm_name = "post_attention_norm.weight";
  std::string_view ffn_post_norm_name = "post_ffw_norm.weight";
  std::string_view output_norm_name = "output_norm.weight";
  bool qkv_bias = false;
  bool fused_qkv = false;  // Q, K and V are always in one tensor; otherwise, they may be.
  bool fused_gate_up = false;
  bool half_feed_forward = false;    // feed_forward_length is twice the width of the feed-forward network.
  bool embedding_norm = false;       // See HyperParams::embedding_norm.
  bool learned_positions = false;    // Learned position embeddings instead of RoPE.
  int alibi_layers = 0;              // Number of layers of models with ALiBi; 0: the architecture has no ALiBi.
  bool alibi_key = false;            // Reads attention.max_alibi_bias; otherwise 8.
  bool clamp_key = false;            // Reads attention.clamp_kqv.
  bool loop_keys = false;            // Reads num_loops and skip_loop_final_norm.
  bool embedding_root = false;       // Embeddings are multiplied by sqrt(n_embd).
  bool scale_keys = false;           // Reads the scale keys for attention, embeddings, residuals and logits.
  bool scale_keys_required = false;  // The scale keys for embeddings, residuals and logits are required.
  // Scaling factors that the model uses but the file does not contain; 0 = none.
  float embedding_scale = 0.0f, logit_scale = 0.0f;
  float scale_depth = 0.0f;         // The outputs of blocks are multiplied by scale_depth / sqrt(n_layers).
  float dim_model_base = 0.0f;      // Logits are multiplied by dim_model_base / n_embd.
  bool logit_factor = false;        // logit_scale is required and multiplies the logits.
  bool soft_cap_keys = false;       // Reads attn_logit_softcapping and final_logit_softcapping.
  float attention_soft_cap = 0.0f;  // Defaults if the file does not specify the soft caps.
  float logit_soft_cap = 0.0f;
  // If the model has this number of layers, attention scores are scaled by sqrt(n_heads / n_embd).
  int wide_query_layers = 0;
  Windows windows = Windows::kRefused;
  int default_window = 0;
  int window_period = 0;
  // The first layer of each period has no window, instead of the last one.
  bool full_layers_first = false;
  WindowedRope windowed_rope = WindowedRope::kSame;
  double windowed_base = 0;
  Experts experts = Experts::kNone;
  bool one_expert = false;                     // An expert_count of 1 also means no experts.
  bool normalized_weights = true;              // Whether expert weights are normalized if the file does not state it.
  RouterScore router = RouterScore::kSoftmax;  // Router scoring function if the file does not specify it.
  bool latent_experts = false;                 // Reads moe_latent_size.
  bool chunk_experts = false;                  // See ExpertParams::experts_per_chunk.
  bool early_router = false;                   // See ExpertParams::early_router.
  bool expert_biases = false;                  // The router and the expert matrices have biases.
  bool apply_router_weight_on_input = false;   // See Mixture::apply_router_weight_on_input.
  Sinks sinks = Sinks::kNone;
  float attention_scale = 0.0f;       // Scale of the attention scores; 0: 1 / sqrt(key length).
  bool inverse_length_scale = false;  // The scale of the attention scores is 1 / key length.
  std::string_view choice_bias_name = "exp_probs_b.bias";
  bool value_norm = false;
  bool value_scale_key = false;  // Reads attention.value_scale.
  bool key_as_value = false;     // Layers without an attn_v.weight use their keys as values.
  HeadGate head_gate = HeadGate::kSigmoid;
  bool head_gates = false;       // Head gates are used if the file has them.
  bool limit_keys = false;       // Reads swiglu_clamp_exp and swiglu_clamp_shexp.
  bool limits_input = false;     // See Gating::limits_input.
  bool block_attention = false;  // Layers use block attention, and the model uses hyper-connections.
  bool shared_kv = false;        // Reads attention.shared_kv_layers.
  // Used if the file does not specify the number of KV-sharing layers: all layers after the first `own_kv_layers` share
  // KV; 0 = no layer shares KV.
  int own_kv_layers = 0;
  bool per_layer_inputs = false;
  bool streams = false;  // Uses several residual streams (StreamParams); implies per_layer_inputs.
  bool latents = false;  // Attention layers use MLA.
  // If set, the model has a sparse-attention indexer, and this is the RoPE style of the indexer's keys.
  std::optional<RopeStyle> position_index = std::nullopt;
  bool temperature_keys = false;  // Reads attention.temperature_scale and attention.temperature_length.
  YarnLog yarn_log = YarnLog::kRefused;
  bool mtp_layers = false;                           // The last layers may be MTP layers.
  DraftHidden draft_hidden = DraftHidden::kLeftOut;  // Which hidden states the first MTP layer reads.
  SharedExpert shared_expert = SharedExpert::kNone;
  bool averages_shared_expert = false;  // The outputs of the experts and of the shared expert are averaged.
};

// Returns null if the engine does not support an architecture of this name.
const ArchitectureTraits* find_architecture(std::string_view name);
// Returns "llama, qwen2, ...", for error messages.
std::string known_architectures();

}  // namespace monolith
