// Sizes of pictures and pieces as the programs of the models' makers choose them (the processors of Hugging Face's
// transformers, August 2026), where these are not llama.cpp's: VisionResize::kOriginal. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "vision/picture_size.h"

namespace monolith {

// Qwen: sides rounded, halves to even, to multiples of `factor`; within `least` to `most` pixels.
PictureSize qwen_size(PictureSize picture, int factor, int64_t least, int64_t most);
// Pixtral: never larger than `longest` pixels a side, then whole patches of `factor`.
PictureSize pixtral_size(PictureSize picture, int longest, int factor);
// Idefics 3: the longer side scaled to `longer`; the other follows, rounded down and then up to an even number.
PictureSize idefics_size(PictureSize picture, int longer);
// ... and that stretched to whole tiles of `side`.
PictureSize idefics_tiled(PictureSize scaled, int side);
// Gemma 4: as large as `most` pixels allow, smaller or larger than the picture; sides rounded down to multiples of `factor`.
PictureSize gemma4_size(PictureSize picture, int factor, int64_t most);
// Kimi: never larger than the picture, at most `most` pixels in whole patches and kKimiSide patches a side.
inline constexpr int kKimiSide = 512;
PictureSize kimi_size(PictureSize picture, int patch, int64_t most);
// ... which is put into the top left of whole squares of `factor`.
PictureSize kimi_padded(PictureSize scaled, int factor);
// CLIP: the shorter side scaled to `side`.
PictureSize clip_size(PictureSize picture, int side);

// LLaVA 1.6. Of the candidates (width, height) the one in which most of the picture's pixels survive; of equals the one that wastes
// least, of these the first.
PictureSize llava_candidate(PictureSize picture, std::span<const std::pair<int, int>> candidates);
// What the picture is scaled to within `place`, its shape kept: the middle of it, black around.
PictureSize llava_scaled(PictureSize picture, PictureSize place);
// Of `grid` rows of embeddings that stand for such a place: how many are the picture's. The others are cut off in equal numbers on
// two opposite sides; none is left of a picture too narrow to fill half of one.
PictureSize llava_kept(PictureSize picture, PictureSize grid);

}  // namespace monolith
