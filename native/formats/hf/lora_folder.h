// Opens LoRA adapters in the format of Hugging Face PEFT: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/lora_file.h"

namespace monolith::hf {

// The properties of the base model that determine the tensor names and the order of rows in a PEFT folder.
struct LoraBase {
  std::string architecture;              // The model's general.architecture.
  std::vector<int> n_heads, n_kv_heads;  // One entry per layer.
};

// Maps module names to GGUF names and reorders the rows of query and key heads in the same way as open_folder(). Error
// messages name the file, and the key or tensor in it. Errors: kIo, kInvalidFile, and kUnsupported for everything other
// than plain LoRA for the text model: DoRA, initializations that change the base model, biases, fully trained modules
// (modules_to_save), embeddings, experts, and modules of vision or audio encoders.
Result<LoraFile> open_lora_folder(const std::string& folder, const LoraBase& base);

}  // namespace monolith::hf
