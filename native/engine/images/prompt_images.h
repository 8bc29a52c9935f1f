// From pictures to the positions of a prompt: the tokens around them, and a span of embeddings for each piece, whose rows the
// engine's tower computes later. Pure; any thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"
#include "vision/vision.h"

namespace monolith {

// A picture cut and resized for one tower. Immutable; any number of requests share it.
struct PreparedImage {
  std::shared_ptr<const VisionModel> model;
  ImagePlan plan;
  std::vector<std::shared_ptr<const PreparedPiece>> pieces;  // as the plan's
  std::vector<std::vector<TokenId>> before;                  // of each piece: the tokens in front of its rows
  std::vector<TokenId> after;                                // behind the last piece's

  size_t bytes() const;
};

// Whether the text model has all tokens that the plan names. kInvalidArgument: it has not.
Status check_markers(const ImagePlan& plan, const MarkerTokens& markers);

// `markers`: of the text model that it is for (VisionModel::fit). Errors: those of plan(), check_markers() and prepare().
Result<PreparedImage> prepare_image(std::shared_ptr<const VisionModel> model, const MarkerTokens& markers,
                                    const RgbImage& image, const PlanOptions& options);

// Before which token of a prompt's text an image stands.
struct PlacedImage {
  size_t at = 0;
  std::shared_ptr<const PreparedImage> image;
};

// Fills request.prompt and request.spans from the text's tokens and the images, whose places ascend and are within it.
void place_images(std::span<const TokenId> text, std::span<const PlacedImage> images, GenerationRequest& request);

}  // namespace monolith
