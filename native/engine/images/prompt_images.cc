#include "engine/images/prompt_images.h"

#include <algorithm>
#include <string>

#include "backend/kv_cache.h"

namespace monolith {
namespace {

// Token ID at the positions of image embeddings. Only models with a per-layer token lookup look this token up, in their
// second embedding table. Other models do not use its embedding.
constexpr TokenId kPlaceholder = 0;

std::shared_ptr<const std::vector<RopePosition>> rope_offsets(const ImagePiece& piece) {
  if (!piece.mrope) return nullptr;
  std::vector<RopePosition> offsets;
  offsets.reserve(static_cast<size_t>(piece.n_rows));
  for (int row = 0; row < piece.n_rows; ++row) {
    const RowPosition position = piece.position(row);
    offsets.push_back({position.t, position.y, position.x});
  }
  return std::make_shared<const std::vector<RopePosition>>(std::move(offsets));
}

void append(std::vector<TokenId>& to, const std::vector<TokenId>& tokens) {
  to.insert(to.end(), tokens.begin(), tokens.end());
}

void place(const PreparedImage& image, GenerationRequest& request) {
  for (size_t i = 0; i < image.pieces.size(); ++i) {
    const ImagePiece& piece = image.plan.pieces[i];
    append(request.prompt, image.before[i]);
    InputSpan span{
        .first = static_cast<int>(request.prompt.size()), .n_rows = piece.n_rows, .hash = image.pieces[i]->hash};
    span.piece = image.pieces[i];
    span.bidirectional = piece.bidirectional;
    span.rope_offsets = rope_offsets(piece);
    if (span.rope_offsets) span.n_rope_positions = piece.n_positions();
    request.spans.push_back(std::move(span));
    request.prompt.insert(request.prompt.end(), static_cast<size_t>(piece.n_rows), kPlaceholder);
  }
  append(request.prompt, image.after);
}

std::vector<TokenId> ids_of(const MarkerTokens& markers, const std::vector<std::string>& names) {
  std::vector<TokenId> ids;
  for (const std::string& name : names) ids.push_back(markers.id(name));
  return ids;
}

}  // namespace

size_t PreparedImage::bytes() const {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece->pixels.size();
  return bytes;
}

Status check_markers(const ImagePlan& plan, const MarkerTokens& markers) {
  const auto known = [&](const std::string& name) { return markers.id(name) != kNoToken; };
  for (const ImagePiece& piece : plan.pieces)
    if (const auto at = std::ranges::find_if_not(piece.before, known); at != piece.before.end())
      return Error{ErrorCode::kInvalidArgument, "an image of " + std::to_string(plan.source_width) + " x " +
                                                    std::to_string(plan.source_height) + " needs a token " + *at +
                                                    ", which the model does not have"};
  return {};
}

Result<PreparedImage> prepare_image(std::shared_ptr<const VisionModel> model, const MarkerTokens& markers,
                                    const RgbImage& image, const PlanOptions& options) {
  auto plan = model->plan(image.width, image.height, options);
  if (!plan) return plan.error();
  if (Status status = check_markers(*plan, markers); !status) return status.error();
  auto pieces = model->prepare(*plan, image);
  if (!pieces) return pieces.error();
  PreparedImage prepared;
  for (PreparedPiece& piece : *pieces)
    prepared.pieces.push_back(std::make_shared<const PreparedPiece>(std::move(piece)));
  for (const ImagePiece& piece : plan->pieces) prepared.before.push_back(ids_of(markers, piece.before));
  prepared.after = ids_of(markers, plan->after);
  prepared.plan = std::move(*plan);
  prepared.model = std::move(model);
  return prepared;
}

void place_images(std::span<const TokenId> text, std::span<const PlacedImage> images, GenerationRequest& request) {
  size_t total = text.size();
  for (const PlacedImage& placed : images) total += static_cast<size_t>(placed.image->plan.n_tokens());
  request.prompt.reserve(total);
  size_t from = 0;
  for (const PlacedImage& placed : images) {
    request.prompt.insert(request.prompt.end(), text.begin() + static_cast<ptrdiff_t>(from),
                          text.begin() + static_cast<ptrdiff_t>(placed.at));
    from = placed.at;
    place(*placed.image, request);
  }
  request.prompt.insert(request.prompt.end(), text.begin() + static_cast<ptrdiff_t>(from), text.end());
}

}  // namespace monolith
