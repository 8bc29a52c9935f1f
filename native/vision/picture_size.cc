#include "vision/picture_size.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace monolith {
namespace {

// Limits the result so that it cannot overflow. No image part is as large as this limit.
constexpr float kLargest = 1 << 28;

// The number of multiples of `factor` is computed in float32 and then multiplied as an integer.
int times(float count, int factor) {
  return static_cast<int>(
      std::min<int64_t>(static_cast<int64_t>(std::min(count, kLargest)) * factor, int64_t{1} << 30));
}

}  // namespace

PictureSize smart_size(PictureSize picture, int factor, int64_t least, int64_t most) {
  const auto f = static_cast<float>(factor);
  const auto w = static_cast<float>(picture.width), h = static_cast<float>(picture.height);
  const auto area = static_cast<float>(picture.pixels());
  PictureSize size{std::max(factor, times(std::round(w / f), factor)),
                   std::max(factor, times(std::round(h / f), factor))};
  if (size.pixels() > most) {
    const float shrink = std::sqrt(area / static_cast<float>(most));
    size = {std::max(factor, times(std::floor(w / shrink / f), factor)),
            std::max(factor, times(std::floor(h / shrink / f), factor))};
  } else if (size.pixels() < least) {
    const float grow = std::sqrt(static_cast<float>(least) / area);
    size = {times(std::ceil(w * grow / f), factor), times(std::ceil(h * grow / f), factor)};
  }
  return size;
}

PictureSize fitted_size(PictureSize picture, PictureSize place) {
  const auto w = static_cast<float>(picture.width), h = static_cast<float>(picture.height);
  const float scale = std::min(static_cast<float>(place.width) / w, static_cast<float>(place.height) / h);
  return {std::clamp(static_cast<int>(std::ceil(w * scale)), 1, place.width),
          std::clamp(static_cast<int>(std::ceil(h * scale)), 1, place.height)};
}

PictureSize tiled_size(PictureSize picture, int longer, int side) {
  const auto w = static_cast<float>(picture.width), h = static_cast<float>(picture.height),
             s = static_cast<float>(side);
  const float scale = std::min(static_cast<float>(longer) / w, static_cast<float>(longer) / h);
  return {std::max(side, times(std::ceil(w * scale / s), side)), std::max(side, times(std::ceil(h * scale / s), side))};
}

PictureSize best_candidate(PictureSize picture, std::span<const std::pair<int, int>> candidates) {
  PictureSize best;
  int64_t best_effective = 0, least_wasted = INT64_MAX;
  const auto w = static_cast<float>(picture.width), h = static_cast<float>(picture.height);
  for (const auto& [width, height] : candidates) {
    const float scale = std::min(static_cast<float>(width) / w, static_cast<float>(height) / h);
    const int64_t scaled = static_cast<int64_t>(w * scale) * static_cast<int64_t>(h * scale);
    const int64_t effective = std::min(scaled, picture.pixels()), wasted = int64_t{width} * height - effective;
    if (effective > best_effective || (effective == best_effective && wasted < least_wasted)) {
      best = {width, height};
      best_effective = effective;
      least_wasted = wasted;
    }
  }
  return best;
}

PictureSize nearest_grid(PictureSize picture, int most, int tile, int least) {
  std::vector<PictureSize> grids;
  for (int width = 1; width <= most; ++width)
    for (int height = 1; width * height <= most; ++height)
      if (width * height >= least) grids.push_back({width, height});
  std::ranges::stable_sort(grids, {}, &PictureSize::pixels);
  PictureSize best{1, 1};
  const float shape = static_cast<float>(picture.width) / static_cast<float>(picture.height);
  float nearest = INFINITY;
  for (const PictureSize grid : grids) {
    const float distance = std::abs(shape - static_cast<float>(grid.width) / static_cast<float>(grid.height));
    const bool filled = static_cast<float>(picture.pixels()) > 0.5f * static_cast<float>(grid.pixels() * tile * tile);
    if (distance < nearest || (distance == nearest && filled)) {
      nearest = distance;
      best = grid;
    }
  }
  return best;
}

}  // namespace monolith
