// What a tokenizer.json does to text before its model sees it: "normalizer", "pre_tokenizer" and "decoder", brought
// to the few ways that are computed. Used on the thread that opens the model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/hf/json_file.h"

namespace monolith::hf {

struct TextSteps {
  bool byte_level = false;           // bytes as printable characters; else "▁" for spaces
  std::vector<std::string> stages;   // of splitting, with byte_level
  // Without byte_level:
  bool space_prefix = false;         // a space comes in front
  bool prefix_once = false;          // of the first text only, not of those behind special tokens
  bool prefix_spared = false;        // not where there is one
  bool merges_spaces = false;        // several spaces are one
  std::string charsmap;              // precompiled normalization, in base64
};

// Errors: kUnsupported names what is not translated, a regular expression in full.
Result<TextSteps> read_text_steps(const JsonValue& tokenizer);

}  // namespace monolith::hf
