// Default settings for the text section of a multimodal checkpoint. The transformers library saves only settings that
// differ from the class defaults, so published config.json files omit, for example, the number of heads of Gemma 3 and
// the width of LLaVA 1.5.
#pragma once

#include <string_view>

#include "formats/hf/json_file.h"

namespace monolith::hf {

// Returns the text model type that a multimodal class uses if its text section does not specify one; empty for other
// classes.
std::string_view usual_text_type(std::string_view around);

// Returns the default settings for config.json's text_config. The result is absent if there is no text section, or if
// checkpoints of this type always contain all settings.
JsonValue text_defaults(const JsonValue& config);

}  // namespace monolith::hf
