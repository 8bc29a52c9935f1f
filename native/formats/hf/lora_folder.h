// Opens LoRA adapters as the PEFT library stores them: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/lora_file.h"

namespace monolith::hf {

// The properties of the base model that determine the names and the order of rows in a PEFT folder.
struct LoraBase {
  std::string architecture;              // The model's general.architecture.
  std::vector<int> n_heads, n_kv_heads;  // Per layer.
};

// Translates the names of modules as open_folder() does, and reorders the rows of query and key heads where
// open_folder() does. Errors name the file, and the key or tensor in it: kIo, kInvalidFile, and kUnsupported for
// everything besides plain LoRA for the text model (DoRA, initializations that change the base model, biases, retrained
// modules, embeddings, experts, modules of vision or audio encoders).
Result<LoraFile> open_lora_folder(const std::string& folder, const LoraBase& base);

}  // namespace monolith::hf
