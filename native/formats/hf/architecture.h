// Maps architectures of Hugging Face checkpoints to GGUF architectures, and describes how their tensors differ from the
// tensors in a GGUF file. Constant tables that may be used from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace monolith::hf {

enum class Activation : uint8_t { kSilu, kGelu, kReluSquared, kXielu };

// Architectures for which renaming settings and tensors is not enough (see config_families.cc and family_tensors.cc).
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

// Distinguishes checkpoints that have the same class name but different GGUF architectures.
enum class Variant : uint8_t {
  kAny,
  kMistral4,   // The text section's model_type is mistral4.
  kExperts,    // Some layers are MoE layers.
  kAttention,  // All layers are attention layers.
  kAttentionAndExperts,
};

// How the YaRN parameter mscale_all_dim is stored in GGUF metadata (see YarnLog in model/rope_frequencies.h).
enum class YarnScale : uint8_t { kNone, kTenth, kWhole };

// Where a checkpoint stores its MTP layers.
enum class MtpPlacement : uint8_t {
  kNone,
  kBehind,  // After the network's own layers, numbered consecutively with them.
  kMtp,     // Under "mtp." or "model.mtp.", numbered from 0.
};

struct Architecture {
  std::string_view name;  // Name in "architectures" of config.json.
  std::string_view gguf;  // Value of general.architecture.
  Family family = Family::kPlain;
  Variant variant = Variant::kAny;
  // Whether heads must be reordered: RoPE rotates adjacent pairs in GGUF, but pairs (i, i + n/2) in the checkpoint.
  bool interleaves_heads = false;
  bool norms_from_one = false;                // Norm weights are stored minus one.
  std::string_view second_norm = "ffn_norm";  // GGUF name of post_attention_layernorm.
  Activation activation = Activation::kSilu;
  MtpPlacement drafts = MtpPlacement::kNone;
  std::string_view draft_key = {};  // Setting with the number of MTP layers; empty = use all that the folder contains.
  bool window_pattern = false;      // GGUF metadata lists which layers have a sliding window.
  YarnScale yarn_scale = YarnScale::kNone;
  double rms_eps = 1e-6;     // Default for a setting that the checkpoint omits, as are the fields below.
  double rotated_share = 1;  // Fraction of a head's values to which RoPE is applied.
  double rope_base = 1e4;
  std::string_view router = {};  // "softmax" or "sigmoid"; empty: GGUF's default.
  bool tied = false;             // Whether the output matrix is the embedding table.
};

std::span<const Architecture> architectures();  // Specific variants precede their class's general entry.

// Returns the first entry for a class name, or null if there is none.
const Architecture* find_architecture(std::string_view name);
// Returns up to five class names that start like `name`, most similar first, separated by ", ". Empty if there are
// none. For error messages.
std::string similar_architectures(std::string_view name);

}  // namespace monolith::hf
