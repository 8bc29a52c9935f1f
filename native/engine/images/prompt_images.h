// Inserts images into a prompt: the marker tokens around each image, and an embedding span per tile, whose rows the
// engine's vision encoder computes later. The functions have no side effects and may be called from any thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"
#include "vision/vision.h"

namespace monolith {

// An image that has been cut into tiles and resized for a given vision encoder. Immutable; may be shared by any number
// of requests.
struct PreparedImage {
  std::shared_ptr<const VisionModel> model;
  ImagePlan plan;
  // Pixels of the image's tiles, in the order of plan.pieces.
  std::vector<std::shared_ptr<const PreparedPiece>> pieces;
  std::vector<std::vector<TokenId>> before;  // Marker tokens before the embeddings of each tile.
  std::vector<TokenId> after;                // Marker tokens after the last tile.

  size_t bytes() const;
};

// Checks that the text model has all marker tokens that the plan uses. Error: kInvalidArgument.
Status check_markers(const ImagePlan& plan, const MarkerTokens& markers);

// `markers`: the text model's marker tokens (VisionModel::fit()). Returns any error from plan(), check_markers() or
// prepare().
Result<PreparedImage> prepare_image(std::shared_ptr<const VisionModel> model, const MarkerTokens& markers,
                                    const RgbImage& image, const PlanOptions& options);

// An image to insert into the prompt before the token at index `at`.
struct PlacedImage {
  size_t at = 0;
  std::shared_ptr<const PreparedImage> image;
};

// Sets request.prompt and request.spans from the text's tokens and the images. The insertion indices must be ascending
// and within the text.
void place_images(std::span<const TokenId> text, std::span<const PlacedImage> images, GenerationRequest& request);

}  // namespace monolith
