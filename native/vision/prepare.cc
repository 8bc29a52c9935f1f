// Implements VisionModel::prepare(): computes the pixels of each part in a plan, and the hash of these pixels.
#include <algorithm>
#include <new>
#include <string>

#include "base/sha256.h"
#include "vision/normalization.h"
#include "vision/original_size.h"
#include "vision/resample.h"
#include "vision/resize.h"
#include "vision/vision.h"
#include "vision/vision_params.h"

namespace monolith {
namespace {

ContentHash hash_of(const VisionParams& params, const PreparedPiece& piece) {
  Sha256 hash;
  hash.add_number(params.file.high);
  hash.add_number(params.file.low);
  hash.add_number(static_cast<uint64_t>(piece.width));
  hash.add_number(static_cast<uint64_t>(piece.height));
  // The hash also covers the layout, because images with equal pixels may differ in which pixels are padding.
  if (const auto& tiled = piece.tiled)
    for (const int number :
         {tiled->columns, tiled->rows, tiled->left, tiled->top, tiled->grid_columns, tiled->grid_rows})
      hash.add_number(static_cast<uint64_t>(number));
  hash.add(std::as_bytes(std::span(piece.pixels)));
  return hash.content();
}

// `row` and `column` start at 1.
std::vector<uint8_t> tile_of(const std::vector<uint8_t>& picture, int picture_width, PictureSize size, int row,
                             int column) {
  std::vector<uint8_t> tile(static_cast<size_t>(size.pixels()) * 3);
  const int64_t row_bytes = int64_t{3} * size.width;
  for (int64_t y = 0; y < size.height; ++y) {
    const int64_t from = (row - 1) * int64_t{size.height} + y;
    std::copy_n(picture.data() + (from * picture_width + int64_t{column - 1} * size.width) * 3, row_bytes,
                tile.data() + y * row_bytes);
  }
  return tile;
}

// Returns the image placed on a black canvas of size `size`.
std::vector<uint8_t> placed(const std::vector<uint8_t>& picture, PictureSize picture_size, PictureSize size, int left,
                            int top) {
  std::vector<uint8_t> out(static_cast<size_t>(size.pixels()) * 3);
  const int64_t row = int64_t{3} * picture_size.width;
  for (int64_t y = 0; y < picture_size.height; ++y)
    std::copy_n(picture.data() + y * row, row, out.data() + ((top + y) * size.width + left) * 3);
  return out;
}

// Resizes the pixels of one image to the sizes in its plan.
class Resizing {
 public:
  Resizing(const VisionParams& params, const uint8_t* pixels, PictureSize size)
      : params_(params), pixels_(pixels), size_(size) {}

  std::vector<uint8_t> for_tiles(PictureSize all) const {
    constexpr uint8_t kBlack[3] = {0, 0, 0};
    if (!params_.original())
      return fit_with_padding(resize_kernels(), params_.traits->filter, pixels_, size_, all, kBlack);
    if (projector() == Projector::kMlp) {
      const PictureSize scaled = llava_scaled(size_, all);
      return placed(resample(original_filter(), pixels_, size_, scaled), scaled, all, (all.width - scaled.width) / 2,
                    (all.height - scaled.height) / 2);
    }
    if (projector() != Projector::kIdefics3) return resample(original_filter(), pixels_, size_, all);
    // Idefics 3 resizes twice: first with the aspect ratio preserved, then to whole tiles.
    const PictureSize scaled = idefics_size(size_, params_.longer_side);
    return resample(original_filter(), resample(original_filter(), pixels_, size_, scaled).data(), scaled, all);
  }

  // Returns the image resized to one view, and below it the tiles that are cut from the image resized to size `all`.
  std::vector<uint8_t> views(const TiledRows& tiled, PictureSize all) const {
    const int side = params_.image_size;
    std::vector<uint8_t> out = resample(original_filter(), pixels_, size_, {side, side});
    if (tiled.n_views() == 1) return out;
    out.reserve(out.size() * static_cast<size_t>(tiled.n_views()));
    const std::vector<uint8_t> picture = for_tiles(all);
    for (int row = 1; row <= tiled.rows; ++row)
      for (int column = 1; column <= tiled.columns; ++column) {
        const std::vector<uint8_t> tile = tile_of(picture, all.width, {side, side}, row, column);
        out.insert(out.end(), tile.begin(), tile.end());
      }
    return out;
  }

  // `scaled`: the size given by the plan's resized_width and resized_height.
  std::vector<uint8_t> whole(PictureSize place, PictureSize scaled) const {
    if (!params_.original())
      return fit_with_padding(resize_kernels(), params_.traits->filter, pixels_, size_, place, params_.traits->pad);
    if (projector() == Projector::kKimi25) {  // Pads with black on the right and at the bottom.
      return placed(resample(original_filter(), pixels_, size_, scaled), scaled, place, 0, 0);
    }
    if (projector() != Projector::kMlp) return resample(original_filter(), pixels_, size_, place);
    const PictureSize covering = clip_size(size_, place.width);
    return middle_of(resample(original_filter(), pixels_, size_, covering).data(), covering, place);
  }

  // `tiled`: the result of for_tiles() for size `all`; empty if there are no tiles.
  std::vector<uint8_t> overview(PictureSize place, const std::vector<uint8_t>& tiled, PictureSize all) const {
    if (!params_.original()) return stretch(resize_kernels(), Filter::kBilinear, pixels_, size_, place);
    // The overview is resized from the image that was cut into tiles, not from the original image.
    const bool again = projector() == Projector::kIdefics3 && !tiled.empty();
    return again ? resample(original_filter(), tiled.data(), all, place)
                 : resample(original_filter(), pixels_, size_, place);
  }

 private:
  Projector projector() const { return params_.traits->projector; }
  ResampleFilter original_filter() const {
    switch (projector()) {
      case Projector::kIdefics3: return ResampleFilter::kLanczos;
      case Projector::kGemma3:
      case Projector::kLfm2: return ResampleFilter::kBilinear;
      default: return ResampleFilter::kBicubic;
    }
  }

  const VisionParams& params_;
  const uint8_t* const pixels_;
  const PictureSize size_;
};

}  // namespace

Result<std::vector<PreparedPiece>> VisionModel::prepare(const ImagePlan& plan, const RgbImage& image) const {
  const PictureSize size{image.width, image.height};
  if (image.width != plan.source_width || image.height != plan.source_height ||
      image.pixels.size() != static_cast<size_t>(size.pixels()) * 3)
    return Error{ErrorCode::kInvalidArgument,
                 "image of " + std::to_string(image.width) + " x " + std::to_string(image.height) + " pixels and " +
                     std::to_string(image.pixels.size()) + " bytes does not match the planned size of " +
                     std::to_string(plan.source_width) + " x " + std::to_string(plan.source_height) + " pixels"};
  try {
    const Resizing resizing(*params_, image.pixels.data(), size);
    std::vector<uint8_t> resized;
    const PictureSize scaled{plan.resized_width, plan.resized_height};
    if (std::ranges::any_of(plan.pieces, [](const ImagePiece& piece) { return piece.part == PiecePart::kTile; }))
      resized = resizing.for_tiles(scaled);
    std::vector<PreparedPiece> pieces;
    for (const ImagePiece& piece : plan.pieces) {
      const PictureSize place{piece.width, piece.height};
      PreparedPiece& prepared = pieces.emplace_back(PreparedPiece{piece.width, piece.height, {}, piece.tiled, {}});
      switch (piece.part) {
        case PiecePart::kTile:
          prepared.pixels = tile_of(resized, plan.resized_width, place, piece.row, piece.column);
          break;
        case PiecePart::kImage:
          prepared.pixels = piece.tiled ? resizing.views(*piece.tiled, scaled) : resizing.whole(place, scaled);
          break;
        case PiecePart::kOverview: prepared.pixels = resizing.overview(place, resized, scaled); break;
      }
      prepared.hash = hash_of(*params_, prepared);
    }
    return pieces;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while preparing an image"};
  }
}

std::vector<float> VisionModel::normalized(const PreparedPiece& piece) const {
  const ColorLevels levels = color_levels(params_->mean, params_->deviation);
  const size_t pixels = piece.pixels.size() / 3;
  std::vector<float> out(piece.pixels.size());
  for (size_t i = 0; i < pixels; ++i)
    for (size_t color = 0; color < 3; ++color)
      out[color * pixels + i] = levels[color * 256 + piece.pixels[3 * i + color]];
  return out;
}

}  // namespace monolith
