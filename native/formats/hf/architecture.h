// What the architectures of Hugging Face checkpoints are called in GGUF, and in what their tensors differ from those
// of a GGUF file. Constant tables; any thread.
#pragma once

#include <string>
#include <string_view>

namespace monolith::hf {

enum class Activation { kSilu, kGelu };

struct Architecture {
  std::string_view name;          // config.json's "architectures"
  std::string_view gguf;          // general.architecture
  bool interleaves_heads = false; // GGUF rotates adjacent pairs where the checkpoint rotates halves
  bool norms_from_one = false;    // norm weights are stored less one
  std::string_view second_norm = "ffn_norm";   // GGUF's name of post_attention_layernorm
  Activation activation = Activation::kSilu;
  bool guess_layers = false;      // further layers that guess tokens may follow: left out
  bool window_pattern = false;    // GGUF says layer by layer which have a window
  double rms_eps = 1e-6;          // as all below, where the checkpoint does not say
  double rotated_share = 1;       // of a head's values
};

// Null if there is none.
const Architecture* find_architecture(std::string_view name);
std::string known_architectures();   // for messages

}  // namespace monolith::hf
