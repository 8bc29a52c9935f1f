// Resizes 8-bit RGB images exactly like Pillow, which the reference image processors use. Each target pixel is a
// weighted sum of source pixels. If the image is made smaller, the filter becomes wider, so that no source pixel is
// skipped. Images are first resampled horizontally and rounded to bytes, then vertically. Pure functions that may be
// called from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "vision/picture_size.h"

namespace monolith {

// The bicubic filter has the parameter a = -0.5, and the Lanczos filter has three lobes.
enum class ResampleFilter : uint8_t { kBilinear, kBicubic, kLanczos };

// Resizes the whole `source` to size `to` without preserving the aspect ratio. Copies the image if the size is
// unchanged. All sides must be at least 1.
std::vector<uint8_t> resample(ResampleFilter filter, const uint8_t* source, PictureSize from, PictureSize to);

// Returns the center of the source, cropped to `size`, which must not exceed the source.
std::vector<uint8_t> middle_of(const uint8_t* source, PictureSize from, PictureSize size);

}  // namespace monolith
