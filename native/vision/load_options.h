// Determines the options for VisionModel::load() from a model's files. The functions may be called from any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"
#include "vision/vision.h"

namespace monolith {

// Reads the properties of a text model's file that a vision file must match. The result refers to the file's metadata,
// so the file must outlive the result. Errors: kInvalidFile; the message names a key that is missing or not a number.
Result<TextModelFacts> read_text_facts(const GgufFile& file, const Tokenizer& tokenizer);

// Returns the default kind of image preprocessing. For a Hugging Face folder (formats/hf/folder.h), this is the
// preprocessing of the reference implementation; for a GGUF file, it is that of llama.cpp. The reference preprocessing
// is implemented for all encoders that folders may contain.
VisionResize resize_of(const GgufFile& file);

}  // namespace monolith
