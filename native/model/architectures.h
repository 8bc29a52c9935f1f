// What an architecture's name stands for: the part of a network's description that files leave to
// it. Constant tables; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/operations.h"
#include "model/model.h"

namespace monolith {

enum class Windows : uint8_t {
  kRefused,      // the architecture has none: a file that states one is another kind of model
  kEveryLayer,   // `attention.sliding_window` is every layer's
  kPattern,      // it is that of all layers but each `window_period`-th
};

// The frequencies of layers with a window, where the others have those the file describes.
enum class WindowedRope : uint8_t {
  kSame,
  kOwnBase,    // rope.freq_base_swa, or windowed_base, without scaling
  kUnscaled,   // the file's base without its scaling
};

enum class Experts : uint8_t { kNone, kOptional, kRequired };

enum class SharedExpert : uint8_t {
  kNone,
  kPlain,     // where the file states its size
  kCounted,   // where the file states how many there are; they are one network
  kGated,   // always, its result scaled by a sigmoid of the row
};

struct ArchitectureTraits {
  std::string_view name;
  RopeStyle rope_style = RopeStyle::kHalves;
  bool rope_factors = false;          // applies rope_freqs.weight and rope_factors_*.weight
  bool rope_switch = false;           // rope.scaling.finetuned = false: nothing rotates
  int unrotated_period = 0;           // each so-manieth layer does not rotate; 0: all do
  bool rotates_windows_only = false;  // if any layer has a window, those without do not rotate
  Activation activation = Activation::kSilu;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_optional = false;      // where the file carries it
  bool pre_norm = true;
  bool post_norm = false;
  std::string_view ffn_norm_name = "ffn_norm.weight";
  bool qkv_bias = false;
  bool fused_gate_up = false;
  bool embedding_root = false;        // embeddings are scaled by sqrt(n_embd)
  bool scale_keys = false;            // reads those of attention, embeddings, residuals, logits
  bool scale_keys_required = false;   // the last three must be there
  bool soft_cap_keys = false;         // reads attn_logit_softcapping and final_logit_softcapping
  float attention_soft_cap = 0.0f;    // where the file states none
  float logit_soft_cap = 0.0f;
  int wide_query_layers = 0;          // with so many, scores are scaled by sqrt(n_heads / n_embd)
  Windows windows = Windows::kRefused;
  int default_window = 0;
  int window_period = 0;
  WindowedRope windowed_rope = WindowedRope::kSame;
  double windowed_base = 0;
  Experts experts = Experts::kNone;
  bool normalized_weights = true;     // of experts, where the file does not state it
  RouterScore router = RouterScore::kSoftmax;   // likewise
  bool expert_biases = false;         // of the router and of the experts' matrices
  bool attention_sinks = false;
  bool guess_layers = false;          // its last layers may guess tokens: left out
  SharedExpert shared_expert = SharedExpert::kNone;
};

// Null if this build does not compute it.
const ArchitectureTraits* find_architecture(std::string_view name);
// "llama, qwen2, ...", for messages.
std::string known_architectures();

}  // namespace monolith
