// Image sizes as computed by the models' image processors. Uses the same float32 arithmetic as llama.cpp, so rounding
// never differs. Pure functions that may be called from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace monolith {

struct PictureSize {
  int width = 0, height = 0;
  int64_t pixels() const { return int64_t{width} * height; }
  bool operator==(const PictureSize&) const = default;
};

// Returns the size closest to the image's own size whose sides are multiples of `factor` and whose area is between
// `least` and `most` pixels. The area may be larger if a side would otherwise become zero. For huge images, the result
// is limited to a maximum, so that callers can detect that it is too large.
PictureSize smart_size(PictureSize picture, int factor, int64_t least, int64_t most);

// Returns the image's size when scaled to fit in `place` with its aspect ratio preserved; never larger than `place`.
PictureSize fitted_size(PictureSize picture, PictureSize place);

// Scales the image's longer side to `longer` and returns the size of the smallest grid of tiles (`side` x `side`
// pixels) that contains the result.
PictureSize tiled_size(PictureSize picture, int longer, int side);

// Returns the candidate (width, height) that preserves the most pixels of the image. Among equal candidates, the one
// that wastes the fewest pixels is chosen.
PictureSize best_candidate(PictureSize picture, std::span<const std::pair<int, int>> candidates);

// Returns the grid (columns, rows) of `least` to `most` tiles whose aspect ratio is closest to that of the image. LFM2
// uses at least two tiles.
PictureSize nearest_grid(PictureSize picture, int most, int tile, int least = 2);

}  // namespace monolith
