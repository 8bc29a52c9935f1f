// Reads the properties of a text model's file that a vision file must match. Any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"
#include "vision/vision.h"

namespace monolith {

// The result points into the file's metadata, so the file must outlive it. Errors: kInvalidFile names a key that is
// missing or not a number.
Result<TextModelFacts> read_text_facts(const GgufFile& file, const Tokenizer& tokenizer);

}  // namespace monolith
