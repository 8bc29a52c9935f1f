// Selects the default image preprocessing (VisionResize). Any thread.
#pragma once

#include "vision/vision.h"

namespace monolith {

// Returns the reference preprocessing for a Hugging Face folder (formats/hf/vision_folder.h), and llama.cpp's for a
// GGUF file. The reference preprocessing is implemented for all encoders that folders may contain.
VisionResize resize_of(const GgufFile& file);

}  // namespace monolith
