// Resizing of 8-bit RGB as the programs of the models' makers do it: Pillow's resampling, byte for byte. Each target pixel is
// a weighted sum of the source pixels under a filter that widens where the picture shrinks, so that nothing is skipped;
// columns first, rounded to bytes, then rows. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "vision/picture_size.h"

namespace monolith {

enum class ResampleFilter : uint8_t { kBilinear, kBicubic, kLanczos };  // bicubic: a = -0.5; Lanczos: three lobes

// The whole of `source` in `to` pixels, its shape given up; of the same size a copy. All sides at least 1.
std::vector<uint8_t> resample(ResampleFilter filter, const uint8_t* source, PictureSize from, PictureSize to);

// The middle `size` of `source`, which is no smaller.
std::vector<uint8_t> middle_of(const uint8_t* source, PictureSize from, PictureSize size);

}  // namespace monolith
