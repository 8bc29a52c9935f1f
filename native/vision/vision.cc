#include "vision/vision.h"

#include <algorithm>
#include <string>

#include "vision/vision_params.h"

namespace monolith {
namespace {

constexpr std::string_view kIdefics3Around = "<fake_token_around_image>", kIdefics3Overview = "<global-img>";
constexpr std::string_view kLfm2Overview = "<|img_thumbnail|>";

// Returns the vocabulary's token with this spelling, which may be a control token or ordinary text.
TokenId token_of(const Tokenizer& tokenizer, std::string_view text) {
  const TokenId id = tokenizer.find(text);
  if (id != kNoToken) return id;
  std::vector<TokenId> ids;
  tokenizer.encode(text, {.continues = true, .verbatim = true}, ids);
  return ids.size() == 1 ? ids[0] : kNoToken;
}

// Returns an alternative spelling under which a vocabulary may contain a marker.
std::string_view other_name(std::string_view marker) {
  if (marker == "<|media_begin|>") return "<|begin_of_image|>";
  if (marker == "<|media_end|>") return "<|end_of_image|>";
  return {};
}

// Returns the spelling to try if the vocabulary contains neither of the other two spellings (Kimi-VL).
std::string_view third_name(std::string_view marker) {
  return marker == "<|media_begin|>" ? "<|media_start|>" : std::string_view();
}

// Returns every marker token that any plan for the model may use. The tile markers, which start at index `tiles_from`,
// may be missing from a vocabulary.
std::vector<std::string> all_markers(const VisionParams& params, size_t& tiles_from) {
  std::vector<std::string> markers;
  for (const std::string_view marker : {params.traits->before, params.traits->after})
    if (!marker.empty()) markers.emplace_back(marker);
  tiles_from = SIZE_MAX;
  const auto tiles = [&](int rows, int columns, const char* before, const char* after) {
    for (int row = 1; row <= rows; ++row)
      for (int column = 1; column <= columns; ++column)
        markers.push_back(before + std::to_string(row) + "_col_" + std::to_string(column) + after);
  };
  if (params.traits->projector == Projector::kIdefics3) {
    for (const std::string_view marker :
         {std::string_view("\n"), std::string_view("\n\n"), kIdefics3Around, kIdefics3Overview})
      markers.emplace_back(marker);
    tiles_from = markers.size();
    const int side = (params.longer_side + params.image_size - 1) / params.image_size;
    tiles(side, side, "<row_", ">");
  } else if (params.traits->projector == Projector::kLfm2) {
    markers.emplace_back(kLfm2Overview);
    tiles_from = markers.size();
    for (int rows = 1; rows <= params.max_tiles; ++rows)
      for (int columns = 1; rows * columns <= params.max_tiles; ++columns)
        markers.push_back("<|img_row_" + std::to_string(rows) + "_col_" + std::to_string(columns) + "|>");
  }
  return markers;
}

Error differs(std::string what) {
  return {ErrorCode::kInvalidArgument, "the vision file does not fit the text model: " + std::move(what)};
}

}  // namespace

TokenId MarkerTokens::id(std::string_view marker) const {
  const auto found = std::ranges::find(ids_, marker, &std::pair<std::string, TokenId>::first);
  return found == ids_.end() ? kNoToken : found->second;
}

VisionModel::VisionModel(std::unique_ptr<const VisionParams> params) : params_(std::move(params)) {}
VisionModel::~VisionModel() = default;

Result<std::shared_ptr<const VisionModel>> VisionModel::load(const GgufFile& file, const VisionBounds& bounds) {
  Result<VisionParams> params = VisionParams::read(file, bounds);
  if (!params) return params.error();
  return std::shared_ptr<const VisionModel>(new VisionModel(std::make_unique<const VisionParams>(std::move(*params))));
}

Result<MarkerTokens> VisionModel::fit(const TextModelFacts& text) const {
  const VisionParams& p = *params_;
  const std::string type(p.traits->name), architecture(text.architecture);
  if (p.n_embd != text.n_embd)
    return differs("its embedding size is " + std::to_string(p.n_embd) + ", but that of the text model is " +
                   std::to_string(text.n_embd));
  if (p.traits->mrope && !text.mrope)
    return differs("projector " + type + " uses M-RoPE positions, which architecture " + architecture +
                   " does not support");
  if (!p.traits->mrope && text.mrope)
    return differs("architecture " + architecture + " requires M-RoPE positions, which projector " + type +
                   " does not provide");
  if (n_deepstack() != text.n_deepstack)
    return differs("it has " + std::to_string(n_deepstack()) + " deepstack layers, but the text model expects " +
                   std::to_string(text.n_deepstack));
  MarkerTokens markers;
  size_t tiles_from = 0;
  std::vector<std::string> wanted = all_markers(p, tiles_from);
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::string& marker = wanted[i];
    TokenId id = other_name(marker).empty() ? kNoToken : text.tokenizer->find(other_name(marker));
    if (id == kNoToken) id = token_of(*text.tokenizer, marker);
    if (id == kNoToken && !third_name(marker).empty()) id = text.tokenizer->find(third_name(marker));
    if (id == kNoToken && i > tiles_from) continue;  // Only the first tile's marker is required.
    if (id == kNoToken) {
      std::string shown;
      for (const char c : marker) shown += c == '\n' ? std::string("\\n") : std::string(1, c);
      return differs("the vocabulary has no token \"" + shown + "\", which projector " + type + " puts around images");
    }
    markers.ids_.emplace_back(std::move(marker), id);
  }
  return markers;
}

std::string_view VisionModel::projector_type() const { return params_->traits->name; }
int64_t VisionModel::row_width() const { return params_->row_width(); }
int VisionModel::n_deepstack() const { return static_cast<int>(params_->deepstack.size()); }
int64_t VisionModel::most_piece_pixels() const { return params_->most_piece_pixels; }

int VisionModel::most_rows() const {
  if (params_->ends_rows) {
    int lines = 1;  // Rows of embeddings, each followed by a newline embedding.
    for (const auto& [width, height] : params_->candidates) lines = std::max(lines, height / params_->patch_size);
    return (1 + params_->max_tiles) * params_->side_patches() * params_->side_patches() + lines;
  }
  const int rows = params_->most_patches / (params_->merge * params_->merge);
  return params_->breaks_rows ? 2 * rows : rows;  // Worst case: a single column of patches.
}

int VisionModel::most_tokens() const {
  if (params_->ends_rows) return most_rows();  // There is a single part, without markers.
  // The bound allows for two markers before each part, one between rows of tiles, and two around the whole image.
  return (params_->max_tiles + 1) * (most_rows() + 3) + 2;
}

}  // namespace monolith
