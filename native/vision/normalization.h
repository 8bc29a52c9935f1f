// Normalization of 8-bit color values. May be called from any thread.
#pragma once

#include <array>

namespace monolith {

using ColorLevels = std::array<float, 3 * 256>;

// Returns (byte / 255 - mean) / deviation for each color channel, with every step rounded to float32.
inline ColorLevels color_levels(const std::array<float, 3>& mean, const std::array<float, 3>& deviation) {
  ColorLevels levels;
  for (size_t color = 0; color < 3; ++color)
    for (size_t byte = 0; byte < 256; ++byte)
      levels[color * 256 + byte] = (static_cast<float>(byte) / 255.0f - mean[color]) / deviation[color];
  return levels;
}

}  // namespace monolith
