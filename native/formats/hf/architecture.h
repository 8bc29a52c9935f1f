// Maps architectures of Hugging Face checkpoints to their GGUF names, and describes how their tensors differ from those
// of a GGUF file. Constant tables; can be used from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace monolith::hf {

enum class Activation : uint8_t { kSilu, kGelu, kReluSquared, kXielu };

// Architectures whose settings and tensors need more than renaming; see config_families.cc and family_tensors.cc.
enum class Family : uint8_t {
  kPlain,
  kGemma4,
  kDeltaNet,  // Qwen3-Next and Qwen3.5.
  kLatents,   // Multi-head latent attention (MLA): DeepSeek V2 and its successors.
  kBlocks,    // Sliding window plus compressed blocks: DeepSeek V4.
  kNemotron,
  kGraniteHybrid,
  kFalconH1,
  kMamba2,
  kShortConvolution,  // LFM2.
  kLlama4,
  kMiMo2,
  kStep35,
  kEagle,  // EAGLE-3 heads that draft tokens for another model.
};

// Distinguishes checkpoints with the same class name but different GGUF architectures.
enum class Variant : uint8_t {
  kAny,
  kMistral4,   // The model_type of the text section is mistral4.
  kExperts,    // Some layers are MoE layers.
  kAttention,  // All layers are attention layers.
  kAttentionAndExperts,
};

// How the YaRN parameter mscale_all_dim is stored in the GGUF metadata; see YarnLog (model/rope_frequencies.h).
enum class YarnScale : uint8_t { kNone, kTenth, kWhole };

// Where a checkpoint stores its MTP layers.
enum class MtpPlacement : uint8_t {
  kNone,
  kBehind,  // After the network's own layers, with continued numbers.
  kMtp,     // Under "mtp." or "model.mtp.", with numbers of their own.
};

struct Architecture {
  std::string_view name;  // Name in "architectures" of config.json.
  std::string_view gguf;  // Value of general.architecture.
  Family family = Family::kPlain;
  Variant variant = Variant::kAny;
  bool interleaves_heads = false;             // GGUF rotates adjacent pairs; the checkpoint rotates pairs (i, i + n/2).
  bool norms_from_one = false;                // Norm weights are stored minus one.
  std::string_view second_norm = "ffn_norm";  // GGUF name of post_attention_layernorm.
  Activation activation = Activation::kSilu;
  MtpPlacement drafts = MtpPlacement::kNone;
  std::string_view draft_key = {};  // The setting with the number of MTP layers; empty: as many as the folder contains.
  bool window_pattern = false;      // GGUF states for each layer whether it has a sliding window.
  YarnScale yarn_scale = YarnScale::kNone;
  double rms_eps = 1e-6;     // This and the following fields are defaults for settings that the checkpoint omits.
  double rotated_share = 1;  // Rotated share of a head's values.
  double rope_base = 1e4;
  std::string_view router = {};  // "softmax" or "sigmoid"; empty: GGUF's default.
  bool tied = false;             // Whether the output matrix is the embedding table.
};

std::span<const Architecture> architectures();  // Specific variants precede the general entry of their class.

// Returns the first entry of a class, or null if there is none.
const Architecture* find_architecture(std::string_view name);
std::string known_architectures();  // For error messages.

}  // namespace monolith::hf
