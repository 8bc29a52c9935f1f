// VisionModel::prepare: the bytes of each piece of a plan, and what they are called.
#include <algorithm>
#include <new>
#include <string>

#include "base/sha256.h"
#include "vision/normalization.h"
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
  hash.add(std::as_bytes(std::span(piece.pixels)));
  return hash.content();
}

std::vector<uint8_t> tile_of(const std::vector<uint8_t>& picture, int picture_width, const ImagePiece& piece) {
  std::vector<uint8_t> tile(static_cast<size_t>(piece.width) * static_cast<size_t>(piece.height) * 3);
  const int64_t row_bytes = int64_t{3} * piece.width;
  for (int64_t y = 0; y < piece.height; ++y) {
    const int64_t from = (piece.row - 1) * int64_t{piece.height} + y;
    std::copy_n(picture.data() + (from * picture_width + int64_t{piece.column - 1} * piece.width) * 3, row_bytes,
                tile.data() + y * row_bytes);
  }
  return tile;
}

}  // namespace

Result<std::vector<PreparedPiece>> VisionModel::prepare(const ImagePlan& plan, const RgbImage& image) const {
  const PictureSize size{image.width, image.height};
  if (image.width != plan.source_width || image.height != plan.source_height ||
      image.pixels.size() != static_cast<size_t>(size.pixels()) * 3)
    return Error{ErrorCode::kInvalidArgument,
                 "a picture of " + std::to_string(image.width) + " x " + std::to_string(image.height) + " pixels and " +
                     std::to_string(image.pixels.size()) + " bytes is not the one of " + std::to_string(plan.source_width) +
                     " x " + std::to_string(plan.source_height) + " that was planned"};
  constexpr uint8_t kBlack[3] = {0, 0, 0};
  const ResizeKernels& kernels = resize_kernels();
  const Filter filter = params_->traits->filter;
  try {
    std::vector<uint8_t> resized;
    if (plan.resized_width > 0)
      resized = fit_with_padding(kernels, filter, image.pixels.data(), size, {plan.resized_width, plan.resized_height}, kBlack);
    std::vector<PreparedPiece> pieces;
    for (const ImagePiece& piece : plan.pieces) {
      const PictureSize place{piece.width, piece.height};
      PreparedPiece& prepared = pieces.emplace_back(PreparedPiece{piece.width, piece.height, {}, {}});
      switch (piece.part) {
        case PiecePart::kTile: prepared.pixels = tile_of(resized, plan.resized_width, piece); break;
        case PiecePart::kImage:
          prepared.pixels = fit_with_padding(kernels, filter, image.pixels.data(), size, place, params_->traits->pad);
          break;
        case PiecePart::kOverview:
          prepared.pixels = stretch(kernels, Filter::kBilinear, image.pixels.data(), size, place);
          break;
      }
      prepared.hash = hash_of(*params_, prepared);
    }
    return pieces;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "no memory for a picture's pieces"};
  }
}

std::vector<float> VisionModel::normalized(const PreparedPiece& piece) const {
  const ColourLevels levels = colour_levels(params_->mean, params_->deviation);
  const size_t pixels = piece.pixels.size() / 3;
  std::vector<float> out(piece.pixels.size());
  for (size_t i = 0; i < pixels; ++i)
    for (size_t colour = 0; colour < 3; ++colour)
      out[colour * pixels + i] = levels[colour * 256 + piece.pixels[3 * i + colour]];
  return out;
}

}  // namespace monolith
