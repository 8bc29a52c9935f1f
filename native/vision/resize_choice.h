// Whose way of making pieces of a picture counts where nobody says (VisionResize). Any thread.
#pragma once

#include "vision/vision.h"

namespace monolith {

// For a folder (formats/hf/vision_folder.h) that of the model's makers, for a GGUF file llama.cpp's. All towers that are read of
// folders have the makers' way.
VisionResize resize_of(const GgufFile& file);

}  // namespace monolith
