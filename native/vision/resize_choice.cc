#include "vision/resize_choice.h"

namespace monolith {

VisionResize resize_of(const GgufFile& file) {
  const auto folder = file.boolean("clip.vision.from_folder");
  return folder && folder->value_or(false) ? VisionResize::kOriginal : VisionResize::kLlamaCpp;
}

}  // namespace monolith
