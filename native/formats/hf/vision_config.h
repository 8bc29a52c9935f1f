// Translates the vision settings in a folder's config.json and image processor to the keys of a GGUF vision file
// (docs/reference/vision.md). Class names and defaults match transformers as of August 2026. Used on the thread that
// opens the model.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/json_file.h"

namespace monolith::hf {

enum class EncoderKind : uint8_t {
  kIdefics3,
  kGemma3,
  kQwen2Vl,
  kQwen25Vl,
  kQwen3Vl,
  kPixtral,
  kInternVl,
  kLlava,
  kLfm2,
  kGemma4,
  kKimi
};

// The settings needed to translate the vision encoder's tensors.
struct Encoder {
  EncoderKind kind{};
  int64_t layers = 0;  // Number of layers in use; tensors of later layers are ignored.
  int64_t heads = 0, patch = 0;
  std::vector<int64_t> deepstack = {};  // The layers after which deepstack features are taken.
  // Gemma 4 only: whether the encoder has clamp tensors and standardization tensors.
  bool clamps = false, standardizes = false;
  bool breaks_rows = false;  // The text model's [IMG_BREAK] token separates image rows.
  bool ends_rows = false;    // LLaVA 1.6: the image is a grid of tiles, and image_newline follows each row.
};

// Whether the folder has a vision encoder.
bool has_encoder(const JsonValue& config);

// Adds the metadata keys. `processor` is preprocessor_config.json, or "image_processor" in processor_config.json.
// Errors name the file and the key. kUnsupported: a class whose vision encoder is not supported, or unsupported
// settings. kInvalidFile: invalid values.
Result<Encoder> translate_encoder(const JsonValue& config, const JsonValue& processor, AssembledFile& out);

}  // namespace monolith::hf
