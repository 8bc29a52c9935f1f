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
  bool post_norms = false;        // post_attention_layernorm follows attention; else it precedes the feed-forward part
  Activation activation = Activation::kSilu;
};

// Null if there is none.
const Architecture* find_architecture(std::string_view name);
std::string known_architectures();   // for messages

}  // namespace monolith::hf
