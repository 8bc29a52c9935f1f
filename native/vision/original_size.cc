#include "vision/original_size.h"

#include <algorithm>
#include <cmath>

namespace monolith {
namespace {

// Limits the result so that it cannot overflow. No image part is as large as this limit.
int whole(double count, int factor) { return static_cast<int>(std::min(count * factor, 0x1p30)); }
int up_to(int side, int tile) { return static_cast<int>((int64_t{side} + tile - 1) / tile * tile); }

}  // namespace

PictureSize qwen_size(PictureSize picture, int factor, int64_t least, int64_t most) {
  const double f = factor, w = picture.width, h = picture.height;
  const auto at_least_one = [&](double count) { return std::max(factor, whole(count, factor)); };
  PictureSize size{at_least_one(std::nearbyint(w / f)), at_least_one(std::nearbyint(h / f))};
  if (size.pixels() > most) {
    const double shrink = std::sqrt(h * w / static_cast<double>(most));
    size = {at_least_one(std::floor(w / shrink / f)), at_least_one(std::floor(h / shrink / f))};
  } else if (size.pixels() < least) {
    const double grow = std::sqrt(static_cast<double>(least) / (h * w));
    size = {whole(std::ceil(w * grow / f), factor), whole(std::ceil(h * grow / f), factor)};
  }
  return size;
}

PictureSize pixtral_size(PictureSize picture, int longest, int factor) {
  const double w = picture.width, h = picture.height, ratio = std::max(w, h) / longest;
  PictureSize size = picture;
  if (ratio > 1)
    size = {std::max(1, static_cast<int>(std::floor(w / ratio))), std::max(1, static_cast<int>(std::floor(h / ratio)))};
  return {up_to(size.width, factor), up_to(size.height, factor)};
}

PictureSize idefics_size(PictureSize picture, int longer) {
  const bool wide = picture.width >= picture.height;
  const double ratio = static_cast<double>(picture.width) / picture.height;
  int shorter = static_cast<int>(wide ? longer / ratio : longer * ratio);
  shorter = std::max(1, shorter + shorter % 2);
  return wide ? PictureSize{longer, shorter} : PictureSize{shorter, longer};
}

PictureSize idefics_tiled(PictureSize scaled, int side) {
  const double ratio = static_cast<double>(scaled.width) / scaled.height;
  if (scaled.width >= scaled.height) {
    const int width = up_to(scaled.width, side);
    return {width, std::max(side, up_to(static_cast<int>(width / ratio), side))};
  }
  const int height = up_to(scaled.height, side);
  return {std::max(side, up_to(static_cast<int>(height * ratio), side)), height};
}

PictureSize gemma4_size(PictureSize picture, int factor, int64_t most) {
  const double f = factor, w = picture.width, h = picture.height,
               scale = std::sqrt(static_cast<double>(most) / (w * h));
  const auto longest = static_cast<int>(most / (int64_t{factor} * factor)) * factor;
  PictureSize size{whole(std::floor(scale * w / f), factor), whole(std::floor(scale * h / f), factor)};
  const auto other = [&](double longer, double shorter) {
    return std::max(factor, std::min(whole(std::floor(longer / shorter), factor), longest));
  };
  if (size.width == 0 && size.height == 0) return {factor, factor};
  if (size.height == 0) return {other(w, h), factor};
  if (size.width == 0) return {factor, other(h, w)};
  return size;
}

PictureSize kimi_size(PictureSize picture, int patch, int64_t most) {
  const double w = picture.width, h = picture.height, patches = static_cast<double>(most / (int64_t{patch} * patch)),
               longest = double{kKimiSide} * patch;
  const double area = std::max(1.0, std::floor(w / patch)) * std::max(1.0, std::floor(h / patch));
  const double scale = std::min({1.0, std::sqrt(patches / area), longest / w, longest / h});
  const auto side = [&](double length) {
    return static_cast<int>(std::clamp(std::floor(length * scale), 1.0, longest));
  };
  return {side(w), side(h)};
}

PictureSize kimi_padded(PictureSize scaled, int factor) {
  return {up_to(scaled.width, factor), up_to(scaled.height, factor)};
}

PictureSize clip_size(PictureSize picture, int side) {
  const auto other = [&](int longer, int shorter) {
    return static_cast<int>(std::min<int64_t>(int64_t{side} * longer / shorter, 1 << 30));
  };
  return picture.width <= picture.height ? PictureSize{side, other(picture.height, picture.width)}
                                         : PictureSize{other(picture.width, picture.height), side};
}

PictureSize llava_candidate(PictureSize picture, std::span<const std::pair<int, int>> candidates) {
  PictureSize best;
  int64_t most = 0, least_wasted = INT64_MAX;
  const double w = picture.width, h = picture.height;
  for (const auto& [width, height] : candidates) {
    const double scale = std::min(width / w, height / h);
    const int64_t survives =
        std::min(static_cast<int64_t>(w * scale) * static_cast<int64_t>(h * scale), picture.pixels());
    const int64_t wasted = int64_t{width} * height - survives;
    if (survives < most || (survives == most && wasted >= least_wasted)) continue;
    best = {width, height};
    most = survives;
    least_wasted = wasted;
  }
  return best;
}

PictureSize llava_scaled(PictureSize picture, PictureSize place) {
  const double by_width = static_cast<double>(place.width) / picture.width,
               by_height = static_cast<double>(place.height) / picture.height;
  if (by_width < by_height)
    return {place.width, std::clamp(static_cast<int>(std::ceil(picture.height * by_width)), 1, place.height)};
  return {std::clamp(static_cast<int>(std::ceil(picture.width * by_height)), 1, place.width), place.height};
}

PictureSize llava_kept(PictureSize picture, PictureSize grid) {
  const double w = picture.width, h = picture.height;
  // A value within 5e-8 below an integer counts as that integer, because the reference implementation first rounds to
  // seven decimal places.
  const auto cut = [](double own, int all) {
    return all - (all - std::min(all, static_cast<int>(own + 5e-8))) / 2 * 2;
  };
  if (w / h > static_cast<double>(grid.width) / grid.height)
    return {grid.width, cut(h * (grid.width / w), grid.height)};
  return {cut(w * (grid.height / h), grid.width), grid.height};
}

}  // namespace monolith
