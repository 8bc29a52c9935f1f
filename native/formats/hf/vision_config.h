// What a folder's config.json and its image processor say of a vision tower, in the keys of a vision file (docs/reference/vision.md).
// Facts of the classes and their defaults: transformers, August 2026. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/json_file.h"

namespace monolith::hf {

enum class TowerKind : uint8_t {
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

// What the translation of its tensors needs to know.
struct Tower {
  TowerKind kind{};
  int64_t layers = 0;  // those that count: tensors of later ones are left out
  int64_t heads = 0, patch = 0;
  std::vector<int64_t> deepstack = {};        // the layer that each deepstack part is taken behind
  bool clamps = false, standardizes = false;  // Gemma 4: tensors that it has then, and not otherwise
  bool breaks_rows = false;                   // the text model's [IMG_BREAK] stands between rows
  bool ends_rows = false;                     // LLaVA 1.6: grids of tiles, and the tensor image_newline behind each row
};

// Whether the folder tells of a tower at all.
bool has_tower(const JsonValue& config);

// Adds the keys. `processor`: preprocessor_config.json, or what processor_config.json has as "image_processor". Errors name file
// and key: kUnsupported for a class whose tower is not read and for settings that are not computed, kInvalidFile.
Result<Tower> translate_tower(const JsonValue& config, const JsonValue& processor, AssembledFile& out);

}  // namespace monolith::hf
