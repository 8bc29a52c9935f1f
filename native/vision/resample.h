// Resizes 8-bit RGB images exactly like Pillow, which the reference image processors use. Each target pixel is a
// weighted sum of source pixels. The filter widens when the image shrinks, so no source pixel is skipped. Columns are
// resampled first and rounded to bytes, followed by rows. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "vision/picture_size.h"

namespace monolith {

// Bicubic with a = -0.5; Lanczos with three lobes.
enum class ResampleFilter : uint8_t { kBilinear, kBicubic, kLanczos };

// Resizes all of `source` to size `to` without preserving the aspect ratio. Copies if the size is unchanged. All sides
// must be at least 1.
std::vector<uint8_t> resample(ResampleFilter filter, const uint8_t* source, PictureSize from, PictureSize to);

// Returns the center crop of size `size`, which must not exceed the source.
std::vector<uint8_t> middle_of(const uint8_t* source, PictureSize from, PictureSize size);

}  // namespace monolith
