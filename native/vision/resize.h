// Resizing of 8-bit RGB, byte for byte as llama.cpp does it: float32 and double in a fixed order, nothing fused. Vector
// versions are the plain source compiled for wider registers, so that they give the same bytes (resize_test.cc). Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "vision/picture_size.h"
#include "vision/projectors.h"

namespace monolith {

// Rows of a source as floats pass over columns first, then over rows. `count` is 3 * width of the target.
struct ResizeKernels {
  void (*to_floats)(const uint8_t* bytes, int64_t count, float* out);
  // out[i] = row[at[0][i]] to row[at[1][i]], by t[i].
  void (*lerp_columns)(const float* row, const int32_t* const* at, const float* t, int64_t count, float* out);
  // Truncated.
  void (*lerp_rows)(const float* const* rows, float t, int64_t count, uint8_t* out);
  void (*cubic_columns)(const float* row, const int32_t* const* at, const float* t, int64_t count, float* out);
  // Rounded half away from zero, clamped.
  void (*cubic_rows)(const float* const* rows, float t, int64_t count, uint8_t* out);
};
// Of this processor; `plain`: without wider registers.
const ResizeKernels& resize_kernels(bool plain = false);

// Writes the resized source to `out`, whose rows are `out_stride` bytes apart. Bilinear: corners aligned, truncated, without
// antialiasing; bicubic: aligned at 0. All sides at least 1.
void resize(const ResizeKernels& kernels, Filter filter, const uint8_t* source, PictureSize from, PictureSize to,
            uint8_t* out, int64_t out_stride);

// The source, its shape kept, in the middle of a picture of `place` pixels of colour `pad`. Of the same size: a copy.
std::vector<uint8_t> fit_with_padding(const ResizeKernels& kernels, Filter filter, const uint8_t* source,
                                      PictureSize from, PictureSize place, const uint8_t (&pad)[3]);
std::vector<uint8_t> stretch(const ResizeKernels& kernels, Filter filter, const uint8_t* source, PictureSize from,
                             PictureSize to);

}  // namespace monolith
