// Reads the text processing steps in tokenizer.json ("normalizer", "pre_tokenizer" and "decoder") and maps them to the
// options that the tokenizer supports. Used on the thread that opens the model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/hf/json_file.h"
#include "text/tokenizer/normalization.h"

namespace monolith::hf {

struct TextSteps {
  bool byte_level = false;  // Bytes are written as printable characters; otherwise spaces are written as "▁".
  NormalForm normal_form = NormalForm::kNone;  // Applied before all other steps.
  bool normalizes = false;                     // Whether the file has any normalizer.
  std::vector<std::string> stages;             // Pre-tokenizer split stages, if byte_level is set.
  // The remaining fields apply only if byte_level is not set.
  bool space_prefix = false;        // Add a space at the start of the text.
  bool prefix_once = false;         // Add the space only to the first text, not after special tokens.
  bool prefix_spared = false;       // Do not add the space if the text already starts with one.
  bool words_apart = false;         // Each space starts a new word, and tokens never merge across words.
  bool collapses_spaces = false;    // Collapse runs of spaces to one space.
  bool splits_whitespace = false;   // Unigram: collapse runs of white space, and remove white space at both ends.
  bool strips_first_space = false;  // Decoding removes the first space.
  std::string charsmap;             // Precompiled normalization table, in base64.
};

// Returns kUnsupported for a step that is not supported. The message names the step and quotes any regular expression
// in full.
Result<TextSteps> read_text_steps(const JsonValue& tokenizer);

}  // namespace monolith::hf
