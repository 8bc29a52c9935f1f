// Image and tile sizes for VisionResize::kOriginal, as computed by the reference image processors (Hugging Face
// transformers, August 2026). Covers the processors from which llama.cpp differs. Pure functions that may be called
// from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "vision/picture_size.h"

namespace monolith {

// Qwen: rounds each side to a multiple of `factor` (half to even) and keeps the total number of pixels between `least`
// and `most`.
PictureSize qwen_size(PictureSize picture, int factor, int64_t least, int64_t most);
// Pixtral: shrinks the image to at most `longest` pixels per side, then rounds up to whole patches of `factor` pixels.
PictureSize pixtral_size(PictureSize picture, int longest, int factor);
// Idefics 3: scales the longer side to `longer`. The other side is scaled proportionally, rounded down to an integer
// and then up to an even number.
PictureSize idefics_size(PictureSize picture, int longer);
// Idefics 3, second step: stretches the scaled image to whole tiles of `side` x `side` pixels.
PictureSize idefics_tiled(PictureSize scaled, int side);
// Gemma 4: scales the image up or down to fill at most `most` pixels, with sides rounded down to multiples of `factor`.
PictureSize gemma4_size(PictureSize picture, int factor, int64_t most);
// Kimi: limits the image to `most` pixels in whole patches and to kKimiSide patches per side; never enlarges it.
inline constexpr int kKimiSide = 512;
PictureSize kimi_size(PictureSize picture, int patch, int64_t most);
// Kimi, second step: returns the size of the canvas, which consists of whole merge blocks of `factor` pixels. The
// scaled image is placed at the canvas's top left.
PictureSize kimi_padded(PictureSize scaled, int factor);
// CLIP: scales the shorter side to `side`.
PictureSize clip_size(PictureSize picture, int side);

// LLaVA 1.6: returns the candidate (width, height) that preserves the most pixels of the image. Among equal candidates,
// the one that wastes the fewest pixels is chosen, then the first one.
PictureSize llava_candidate(PictureSize picture, std::span<const std::pair<int, int>> candidates);
// LLaVA 1.6: returns the image's size when scaled to fit in `place` with its aspect ratio preserved. The image is
// centered on a black background.
PictureSize llava_scaled(PictureSize picture, PictureSize place);
// LLaVA 1.6: returns the size of the part of the embedding grid `grid` that shows the image rather than padding. The
// same amount of padding is removed from two opposite sides. The result is empty if the image is too narrow to fill
// half an embedding.
PictureSize llava_kept(PictureSize picture, PictureSize grid);

}  // namespace monolith
