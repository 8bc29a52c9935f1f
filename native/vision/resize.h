// Resizes 8-bit RGB images exactly like llama.cpp: float32 and double arithmetic in a fixed order, without FMA. The
// vector versions are compiled from the same source for wider registers and produce the same bytes, which
// resize_test.cc checks. Pure functions that may be called from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "vision/picture_size.h"
#include "vision/projectors.h"

namespace monolith {

// Kernels for the two passes: source rows are first converted to floats and resized horizontally, then resized
// vertically. `count` is 3 times the target width.
struct ResizeKernels {
  void (*to_floats)(const uint8_t* bytes, int64_t count, float* out);
  // Interpolates out[i] between row[at[0][i]] and row[at[1][i]] by t[i].
  void (*lerp_columns)(const float* row, const int32_t* const* at, const float* t, int64_t count, float* out);
  // Truncates to bytes.
  void (*lerp_rows)(const float* const* rows, float t, int64_t count, uint8_t* out);
  void (*cubic_columns)(const float* row, const int32_t* const* at, const float* t, int64_t count, float* out);
  // Clamps the result and rounds half away from zero.
  void (*cubic_rows)(const float* const* rows, float t, int64_t count, uint8_t* out);
};
// Returns the fastest kernels for this CPU or, with `plain`, the kernels without wider registers.
const ResizeKernels& resize_kernels(bool plain = false);

// The kernels for one instruction set, defined in the source file that is compiled for it.
#if defined(__x86_64__)
const ResizeKernels& resize_kernels_avx2();
#endif

// Resizes the source and writes the result to `out`, whose rows are `out_stride` bytes apart. Bilinear: the corner
// pixels of source and result are aligned, the results are truncated, and there is no antialiasing. Bicubic: only the
// top left pixels are aligned. All sides must be at least 1.
void resize(const ResizeKernels& kernels, Filter filter, const uint8_t* source, PictureSize from, PictureSize to,
            uint8_t* out, int64_t out_stride);

// Returns the source scaled with its aspect ratio preserved, centered in an image of size `place` that is filled with
// `pad`. Copies the source if the size is unchanged.
std::vector<uint8_t> fit_with_padding(const ResizeKernels& kernels, Filter filter, const uint8_t* source,
                                      PictureSize from, PictureSize place, const uint8_t (&pad)[3]);
std::vector<uint8_t> stretch(const ResizeKernels& kernels, Filter filter, const uint8_t* source, PictureSize from,
                             PictureSize to);

}  // namespace monolith
