// config.json to GGUF's metadata. Used on the thread that opens the model.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/architecture.h"
#include "formats/hf/json_file.h"

namespace monolith::hf {

// What the translation of the tensors needs to know.
struct Config {
  const Architecture* architecture = nullptr;
  int64_t layers = 0, heads = 0, kv_heads = 0, experts = 0;
  bool tied = false;   // no output matrix of its own
};

// Adds the architecture's keys to `file`, and the RoPE factors that some architectures keep as tensors. Errors name
// the key: kInvalidFile, or kUnsupported for architectures, activations, RoPE scalings and quantized checkpoints
// that are not translated.
Result<Config> translate_config(const JsonValue& config, AssembledFile& file);

}  // namespace monolith::hf
