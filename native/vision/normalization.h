// Normalization of 8-bit color values. May be called from any thread.
#pragma once

#include <array>

namespace monolith {

using ColourLevels = std::array<float, 3 * 256>;

// Returns (byte / 255 - mean) / deviation for each color channel, with every step rounded to float32.
inline ColourLevels colour_levels(const std::array<float, 3>& mean, const std::array<float, 3>& deviation) {
  ColourLevels levels;
  for (size_t colour = 0; colour < 3; ++colour)
    for (size_t byte = 0; byte < 256; ++byte)
      levels[colour * 256 + byte] = (static_cast<float>(byte) / 255.0f - mean[colour]) / deviation[colour];
  return levels;
}

}  // namespace monolith
