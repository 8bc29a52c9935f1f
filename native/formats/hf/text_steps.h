// What a tokenizer.json does to text before its model sees it: "normalizer", "pre_tokenizer" and "decoder", brought
// to the few ways that are computed. Used on the thread that opens the model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/hf/json_file.h"
#include "text/tokenizer/normalization.h"

namespace monolith::hf {

struct TextSteps {
  bool byte_level = false;                     // bytes as printable characters; else "▁" for spaces
  NormalForm normal_form = NormalForm::kNone;  // comes before everything else
  bool normalizes = false;                     // there is any normalizer
  std::vector<std::string> stages;             // of splitting, with byte_level
  // Without byte_level:
  bool space_prefix = false;        // a space comes in front
  bool prefix_once = false;         // of the first text only, not of those behind special tokens
  bool prefix_spared = false;       // not where there is one
  bool words_apart = false;         // every space begins a word, and words merge on their own
  bool collapses_spaces = false;    // several spaces in a row are one
  bool strips_first_space = false;  // decoding does
  std::string charsmap;             // precompiled normalization, in base64
};

// Errors: kUnsupported names the step that is not applied, a regular expression in full.
Result<TextSteps> read_text_steps(const JsonValue& tokenizer);

}  // namespace monolith::hf
