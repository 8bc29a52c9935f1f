// What the architectures of Hugging Face checkpoints are called in GGUF, and in what their tensors differ from those
// of a GGUF file. Constant tables; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace monolith::hf {

enum class Activation : uint8_t { kSilu, kGelu, kReluSquared, kXielu };

// Architectures whose settings and tensors need more than names: see config_families.cc and family_tensors.cc.
enum class Family : uint8_t {
  kPlain,
  kGemma4,
  kDeltaNet,  // Qwen3-Next and 3.5
  kLatents,   // DeepSeek V2 and what follows it
  kBlocks,    // DeepSeek V4
  kNemotron,
  kGraniteHybrid,
  kFalconH1,
  kMamba2,
  kShortConvolution,  // LFM2
  kLlama4,
  kMiMo2,
  kStep35,
  kEagle,  // heads that guess for another model
};

// Which of the networks of one class a checkpoint holds.
enum class Variant : uint8_t {
  kAny,
  kMistral4,   // its text part's model_type
  kExperts,    // some of its layers are experts
  kAttention,  // all of its layers attend,
  kAttentionAndExperts,
};

// What a YaRN scaling's mscale_all_dim is in GGUF: see YarnLog (model/rope_frequencies.h).
enum class YarnScale : uint8_t { kNone, kTenth, kWhole };

// Where checkpoints have the layers that guess tokens.
enum class Guesses : uint8_t {
  kNone,
  kBehind,  // behind the network's
  kMtp,     // below "mtp." or "model.mtp.", with numbers of their own
};

struct Architecture {
  std::string_view name;  // config.json's "architectures"
  std::string_view gguf;  // general.architecture
  Family family = Family::kPlain;
  Variant variant = Variant::kAny;
  bool interleaves_heads = false;             // GGUF rotates adjacent pairs where the checkpoint rotates halves
  bool norms_from_one = false;                // norm weights are stored less one
  std::string_view second_norm = "ffn_norm";  // GGUF's name of post_attention_layernorm
  Activation activation = Activation::kSilu;
  Guesses guesses = Guesses::kNone;
  std::string_view guess_key = {};  // how many of them there are; nothing: as many as the folder has
  bool window_pattern = false;      // GGUF says layer by layer which have a window
  YarnScale yarn_scale = YarnScale::kNone;
  double rms_eps = 1e-6;     // as all below, where the checkpoint does not say
  double rotated_share = 1;  // of a head's values
  double rope_base = 1e4;
  std::string_view router = {};  // "softmax" or "sigmoid"; nothing: GGUF's default
  bool tied = false;             // the output matrix is the embedding table
};

std::span<const Architecture> architectures();  // variants before what is left of their class

// The first of a class; null if there is none.
const Architecture* find_architecture(std::string_view name);
std::string known_architectures();  // for messages

}  // namespace monolith::hf
