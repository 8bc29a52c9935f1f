// How large a picture becomes: the rules of the models' image processors, in the float32 arithmetic that llama.cpp does them
// in, so that no rounding falls otherwise. Pure functions; any thread.
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

// The size next to the picture's own whose sides are multiples of `factor` and which has least to most pixels; more where a
// side would vanish. Saturates, so that whoever checks the result sees one that is too large.
PictureSize smart_size(PictureSize picture, int factor, int64_t least, int64_t most);

// What the picture is scaled to, to fit into `place`, its shape kept: never larger than that.
PictureSize fitted_size(PictureSize picture, PictureSize place);

// Whole tiles of `side` pixels that hold the picture scaled so that its longer side is `longer`.
PictureSize tiled_size(PictureSize picture, int longer, int side);

// The candidate (width, height) in which most of the picture's pixels survive; of equals the one that wastes least.
PictureSize best_candidate(PictureSize picture, std::span<const std::pair<int, int>> candidates);

// Columns and rows of tiles, `least` to `most` of them (LFM2: at least two): the grid whose shape is nearest.
PictureSize nearest_grid(PictureSize picture, int most, int tile, int least = 2);

}  // namespace monolith
