// Implements VisionModel::plan(): splits an image into parts and adds the marker tokens around them.
#include <algorithm>
#include <cmath>
#include <string>

#include "vision/original_size.h"
#include "vision/picture_size.h"
#include "vision/vision.h"
#include "vision/vision_params.h"

namespace monolith {
namespace {

constexpr int kMaxSourceSide = 1 << 16;
constexpr int64_t kLowPixels = 512 * 512;  // Area for PlanOptions::overview_only, if the size depends on the image.
constexpr int kLfm2Whole = 1024;           // LFM2-VL: images with a longer side than this are split into tiles.

std::string tile_marker(std::string_view before, std::string_view between, int row, int column) {
  return std::string(before) + std::to_string(row) + std::string(between) + std::to_string(column);
}

class Planner {
 public:
  Planner(const VisionParams& params, PictureSize picture) : params_(params), picture_(picture) {
    plan_.source_width = picture.width;
    plan_.source_height = picture.height;
    plan_.row_width = params.row_width();
    plan_.n_deepstack = static_cast<int>(params.deepstack.size());
  }

  Result<ImagePlan> make(const PlanOptions& options) {
    if (Status s = params_.original() ? choose_original(options) : (choose(options), Status{}); !s) return s.error();
    return finish();
  }

 private:
  void choose(const PlanOptions& options) {
    const int size = params_.image_size;
    const bool tiles = !options.overview_only && params_.max_tiles > 0;
    int64_t most = params_.most_pixels;
    if (options.overview_only) most = low_pixels();
    const auto smart = [&] { return smart_size(picture_, params_.factor(), params_.least_pixels, most); };
    switch (params_.sizing) {
      case Sizing::kFixed: single({size, size}); break;
      case Sizing::kSmart: single(smart()); break;
      case Sizing::kLongerSide:
        if (tiles) cut(tiled_size(picture_, params_.longer_side, size), size);
        overview({size, size});
        break;
      case Sizing::kCandidates:
        if (tiles && (picture_.width > size || picture_.height > size))
          cut(best_candidate(picture_, params_.candidates), size);
        overview({size, size});
        break;
      case Sizing::kLfm2:
        if (tiles && params_.max_tiles > 1 && (picture_.width > kLfm2Whole || picture_.height > kLfm2Whole)) {
          const PictureSize grid = nearest_grid(picture_, params_.max_tiles, kLfm2Tile);
          cut({grid.width * kLfm2Tile, grid.height * kLfm2Tile}, kLfm2Tile);
        }
        overview(smart());
        break;
    }
  }

  // Plans the same sizes as the reference image processors. prepare() must resize the image to matching sizes.
  Status choose_original(const PlanOptions& options) {
    const int size = params_.image_size;
    const bool tiles = !options.overview_only && params_.max_tiles > 0;
    int64_t most = params_.most_pixels;
    if (options.overview_only) most = low_pixels();
    switch (params_.traits->projector) {
      case Projector::kQwen2Vl:
      case Projector::kQwen25Vl:
      case Projector::kQwen3Vl: single(qwen_size(picture_, params_.factor(), params_.least_pixels, most)); break;
      case Projector::kKimi25: {
        const PictureSize scaled = kimi_size(picture_, params_.patch_size, most);
        plan_.resized_width = scaled.width;
        plan_.resized_height = scaled.height;
        single(kimi_padded(scaled, params_.factor()));
        break;
      }
      case Projector::kGemma4:
        single(gemma4_size(picture_, params_.factor(), std::max(most, int64_t{params_.factor()} * params_.factor())));
        break;
      case Projector::kPixtral: {
        const auto longest = std::min<int64_t>(size, static_cast<int64_t>(std::sqrt(static_cast<double>(most))));
        single(
            pixtral_size(picture_, static_cast<int>(longest / params_.factor() * params_.factor()), params_.factor()));
        break;
      }
      case Projector::kIdefics3: {
        const PictureSize all = idefics_tiled(idefics_size(picture_, params_.longer_side), size);
        if (tiles && (all.width > size || all.height > size)) cut(all, size);
        overview({size, size});
        break;
      }
      case Projector::kInternVl: {
        const PictureSize grid =
            tiles ? nearest_grid(picture_, params_.max_tiles, size, params_.min_tiles) : PictureSize{1, 1};
        if (grid.pixels() > 1) cut({grid.width * size, grid.height * size}, size);
        overview({size, size});
        break;
      }
      case Projector::kMlp:
        if (params_.ends_rows) {
          in_views(tiles ? llava_candidate(picture_, params_.candidates) : PictureSize{});
          break;
        }
        if (clip_size(picture_, size).pixels() > params_.bounds.max_source_pixels) return too_narrow();
        single({size, size});
        break;
      default: choose(options);  // The sizes are the same as in llama.cpp; only filters and aspect ratios differ.
    }
    return {};
  }

  int64_t low_pixels() const { return std::max(params_.least_pixels, std::min(params_.most_pixels, kLowPixels)); }

  Error too_narrow() const {
    return {ErrorCode::kInvalidArgument, "image of " + std::to_string(picture_.width) + " x " +
                                             std::to_string(picture_.height) +
                                             " pixels is too narrow: its aspect ratio does not fit into " +
                                             std::to_string(params_.most_piece_pixels) + " pixels"};
  }

  Result<ImagePlan> finish() {
    for (const ImagePiece& piece : plan_.pieces)
      if (int64_t{piece.width} * piece.height > params_.most_piece_pixels) return too_narrow();
    if (Status s = check_positions(); !s) return s.error();
    mark();
    return std::move(plan_);
  }

  ImagePiece piece(PiecePart part, PictureSize size) const {
    ImagePiece piece;
    piece.part = part;
    piece.width = size.width;
    piece.height = size.height;
    const int patch = params_.patch_size, merge = params_.merge;
    piece.grid_rows = size.height / patch / merge;
    piece.grid_columns = size.width / patch / merge;
    piece.n_rows = piece.grid_rows * piece.grid_columns + (params_.breaks_rows ? piece.grid_rows - 1 : 0);
    piece.mrope = params_.traits->mrope;
    piece.bidirectional = params_.traits->bidirectional;
    return piece;
  }

  void single(PictureSize size) {
    plan_.columns = plan_.rows = 1;
    plan_.pieces.push_back(piece(PiecePart::kImage, size));
  }

  // Adds the only part, which contains the whole image and the tiles of an image of size `all` (0 x 0 = no tiles).
  void in_views(PictureSize all) {
    const int size = params_.image_size, side = params_.side_patches();
    TiledRows tiled{.columns = all.width / size, .rows = all.height / size};
    if (all.pixels() > 0) {
      const PictureSize grid{tiled.columns * side, tiled.rows * side}, kept = llava_kept(picture_, grid);
      tiled.left = (grid.width - kept.width) / 2;
      tiled.top = (grid.height - kept.height) / 2;
      tiled.grid_columns = kept.width;
      tiled.grid_rows = kept.height;
    }
    plan_.columns = tiled.columns;
    plan_.rows = tiled.rows;
    plan_.resized_width = all.width;
    plan_.resized_height = all.height;
    ImagePiece one = piece(PiecePart::kImage, {size, size});
    one.height = size * tiled.n_views();
    one.n_rows += tiled.n_rows();
    one.tiled = tiled;
    plan_.pieces.push_back(std::move(one));
  }

  void overview(PictureSize size) { plan_.pieces.push_back(piece(PiecePart::kOverview, size)); }

  void cut(PictureSize size, int tile) {
    plan_.resized_width = size.width;
    plan_.resized_height = size.height;
    plan_.columns = size.width / tile;
    plan_.rows = size.height / tile;
    for (int row = 1; row <= plan_.rows; ++row)
      for (int column = 1; column <= plan_.columns; ++column) {
        plan_.pieces.push_back(piece(PiecePart::kTile, {tile, tile}));
        plan_.pieces.back().row = row;
        plan_.pieces.back().column = column;
      }
  }

  Status check_positions() const {
    if (params_.traits->positions != PatchPositions::kTwoTables) return {};
    for (const ImagePiece& piece : plan_.pieces)
      if (std::max(piece.width, piece.height) / params_.patch_size > params_.n_positions)
        return Error{ErrorCode::kInvalidArgument, "image of " + std::to_string(picture_.width) + " x " +
                                                      std::to_string(picture_.height) +
                                                      " pixels is too narrow: the vision encoder has positions for " +
                                                      std::to_string(params_.n_positions) + " patches per side"};
    return {};
  }

  void mark() {
    switch (params_.traits->projector) {
      case Projector::kIdefics3: return mark_idefics3();
      case Projector::kLfm2: mark_lfm2(); break;
      default: break;
    }
    if (!params_.traits->before.empty())
      plan_.pieces.front().before.insert(plan_.pieces.front().before.begin(), std::string(params_.traits->before));
    if (!params_.traits->after.empty()) plan_.after.emplace_back(params_.traits->after);
  }

  void mark_idefics3() {
    const std::string around = "<fake_token_around_image>";
    for (ImagePiece& piece : plan_.pieces) {
      const bool tile = piece.part == PiecePart::kTile;
      if (tile && piece.row > 1 && piece.column == 1) piece.before.emplace_back("\n");
      if (!tile && plan_.pieces.size() > 1) piece.before.emplace_back("\n\n");
      piece.before.push_back(around);
      piece.before.push_back(tile ? tile_marker("<row_", "_col_", piece.row, piece.column) + ">" : "<global-img>");
    }
    plan_.after.push_back(around);
  }

  void mark_lfm2() {
    for (ImagePiece& piece : plan_.pieces)
      piece.before.push_back(piece.part == PiecePart::kTile
                                 ? tile_marker("<|img_row_", "_col_", piece.row, piece.column) + "|>"
                                 : "<|img_thumbnail|>");
  }

  const VisionParams& params_;
  PictureSize picture_;
  ImagePlan plan_;
};

}  // namespace

Result<ImagePlan> VisionModel::plan(int width, int height, const PlanOptions& options) const {
  if (width < 1 || height < 1)
    return Error{ErrorCode::kInvalidArgument,
                 "image of " + std::to_string(width) + " x " + std::to_string(height) + " pixels is empty"};
  const PictureSize picture{width, height};
  if (picture.pixels() > params_->bounds.max_source_pixels || std::max(width, height) > kMaxSourceSide)
    return Error{ErrorCode::kInvalidArgument, "image of " + std::to_string(width) + " x " + std::to_string(height) +
                                                  " pixels exceeds the maximum of " +
                                                  std::to_string(params_->bounds.max_source_pixels)};
  return Planner(*params_, picture).make(options);
}

}  // namespace monolith
