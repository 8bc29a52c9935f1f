// What an architecture's name stands for: the part of a network's description that files leave to
// it. Constant tables; any thread.
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
  kRefused,     // the architecture has none: a file that states one is another kind of model
  kEveryLayer,  // `attention.sliding_window` is every layer's
  kPattern,     // it is that of all layers but each `window_period`-th
  kChunks,      // likewise, in chunks of `default_window`, unless the key is 0
};

// The frequencies of layers with a window, where the others have those the file describes.
enum class WindowedRope : uint8_t {
  kSame,
  kOwnBase,   // rope.freq_base_swa, or windowed_base, and rope.dimension_count_swa, without scaling
  kUnscaled,  // the file's base without its scaling
};

enum class Experts : uint8_t {
  kNone,
  kOptional,
  kRequired,
  kWhereCarried,   // required by layers that carry a router
  kBesideNetwork,  // likewise, but optional, and beside the layer's network (FeedForwardKind::kGatedAndMixture)
};

enum class Sinks : uint8_t { kNone, kAlways, kWhereCarried };

enum class SharedExpert : uint8_t {
  kNone,
  kPlain,    // where the file states its size
  kCounted,  // where the file states how many there are; they are one network
  kGated,    // always, its result scaled by a sigmoid of the row
};

enum class ParallelResidual : uint8_t {
  kNo,
  kAlways,
  kWithoutFfnNorm,  // where the file has no norm of the feed-forward network's own
};

enum class DeltaNetKind : uint8_t {
  kNone,
  kTiled,     // key heads are dealt out to value heads in turn; beta and decay have matrices of their own
  kRuns,      // a key head serves a run of value heads; beta and decay lie in one matrix
  kChannels,  // Kimi delta attention: a decay for each dimension of a key
};

// What the layer that guesses reads of the network, and of itself for the guess after next. As engines have it that run
// these models: vLLM and SGLang (GLM, DeepSeek), llama.cpp (Qwen, MiMo, Step).
enum class GuessHidden : uint8_t {
  kLeftOut,  // this build does not compute such layers of the architecture
  kNormed,   // rows past the last norm
  kRaw,      // the residual stream before it
};

struct ArchitectureTraits {
  std::string_view name;
  NormKind norm = NormKind::kRms;
  ParallelResidual parallel_residual = ParallelResidual::kNo;
  // The mixer of layers that state no KV heads; kNone: every layer has some. Such networks may also have layers
  // without a feed-forward network, which state a length of 0.
  MixerKind other_mixer = MixerKind::kNone;
  bool one_part = false;  // layers with a feed-forward network have no mixer
  DeltaNetKind delta_net = DeltaNetKind::kNone;
  // layers attend as attention.recurrent_layers has it, else each full_attention_interval-th
  bool attention_interval = false;
  bool output_gate = false;  // LayerParams::output_gate
  // M-RoPE: rope.dimension_sections says which pairs turn by which of three numbers,
  bool rope_sections = false;
  bool interleaved_sections = false;  // in runs, or in turns as far as each section goes
  bool deepstack = false;             // reads n_deepstack_layers
  bool gateless = false;              // its feed-forward networks have no gate, nor have its experts
  RopeStyle rope_style = RopeStyle::kHalves;
  bool rope_factors = false;             // applies rope_freqs.weight and rope_factors_*.weight
  bool rope_switch = false;              // rope.scaling.finetuned = false: nothing rotates
  bool rope_alpha = false;               // reads rope.scaling.alpha, by which the base grows
  bool full_layers_rotate_half = false;  // of the dimensions stated, where layers see all positions
  int unrotated_period = 0;              // each so-manieth layer does not rotate; 0: all do
  bool rotates_windows_only = false;     // if any layer has a window, those without do not rotate
  Activation activation = Activation::kSilu;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_optional = false;  // where the file carries it
  int unnormed_experts = 0;       // with so many experts there is none
  bool pre_norm = true;
  bool post_norm = false;
  std::string_view ffn_norm_name = "ffn_norm.weight";
  std::string_view output_norm_name = "output_norm.weight";
  bool qkv_bias = false;
  bool fused_gate_up = false;
  bool embedding_root = false;       // embeddings are scaled by sqrt(n_embd)
  bool scale_keys = false;           // reads those of attention, embeddings, residuals, logits
  bool scale_keys_required = false;  // the last three must be there
  bool logit_factor = false;         // logit_scale multiplies the logits; it must be there
  bool soft_cap_keys = false;        // reads attn_logit_softcapping and final_logit_softcapping
  float attention_soft_cap = 0.0f;   // where the file states none
  float logit_soft_cap = 0.0f;
  int wide_query_layers = 0;  // with so many, scores are scaled by sqrt(n_heads / n_embd)
  Windows windows = Windows::kRefused;
  int default_window = 0;
  int window_period = 0;
  WindowedRope windowed_rope = WindowedRope::kSame;
  double windowed_base = 0;
  Experts experts = Experts::kNone;
  bool one_expert = false;                     // without experts an expert_count of 1 means none as well
  bool normalized_weights = true;              // of experts, where the file does not state it
  RouterScore router = RouterScore::kSoftmax;  // likewise
  bool latent_experts = false;                 // reads moe_latent_size
  bool expert_biases = false;                  // of the router and of the experts' matrices
  bool weighs_input = false;                   // Mixture::weighs_input
  Sinks sinks = Sinks::kNone;
  float attention_scale = 0.0f;  // of scores; 0: as key lengths have it
  bool value_norm = false;
  bool value_scale_key = false;  // reads attention.value_scale
  bool key_as_value = false;     // in layers that carry no attn_v.weight
  bool head_gates = false;       // where carried
  bool limit_keys = false;       // reads swiglu_clamp_exp and swiglu_clamp_shexp
  bool limits_input = false;     // Gating::limits_input
  bool block_attention = false;  // layers have block attention, and residual streams are mixed
  bool shared_kv = false;        // reads attention.shared_kv_layers
  int own_kv_layers = 0;         // where the file does not state them, layers behind so many share; 0: none do
  bool per_layer_inputs = false;
  bool streams = false;  // see StreamParams; it implies per_layer_inputs
  bool latents = false;  // layers that attend have latent attention
  // rows choose what they attend to; how the index's keys rotate
  std::optional<RopeStyle> position_index = std::nullopt;
  bool temperature_keys = false;  // reads attention.temperature_scale and attention.temperature_length
  YarnLog yarn_log = YarnLog::kRefused;
  bool guess_layers = false;                         // its last layers may guess tokens
  GuessHidden guess_hidden = GuessHidden::kLeftOut;  // what the first of these reads
  SharedExpert shared_expert = SharedExpert::kNone;
};

// Null if this build does not compute it.
const ArchitectureTraits* find_architecture(std::string_view name);
// "llama, qwen2, ...", for messages.
std::string known_architectures();

}  // namespace monolith
