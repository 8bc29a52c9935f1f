// What a text model's file says of itself that a vision file has to agree with. Any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"
#include "vision/vision.h"

namespace monolith {

// Views into the file's metadata: it must outlive the result. Errors: kInvalidFile names a key that is missing or is no number.
Result<TextModelFacts> read_text_facts(const GgufFile& file, const Tokenizer& tokenizer);

}  // namespace monolith
