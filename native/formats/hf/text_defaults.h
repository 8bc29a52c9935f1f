// What the text part of a checkpoint with several parts leaves out. transformers saves of such a part only what differs
// from its class, so that published config.json files name neither the heads of Gemma 3 nor the width of LLaVA 1.5.
#pragma once

#include <string_view>

#include "formats/hf/json_file.h"

namespace monolith::hf {

// The type of a text part that does not say it, by the class around it; nothing for other classes.
std::string_view usual_text_type(std::string_view around);

// The usual settings of config.json's text_config; absent where there is no such part, or its type always says all.
JsonValue text_defaults(const JsonValue& config);

}  // namespace monolith::hf
