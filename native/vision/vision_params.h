// The checked hyperparameters of a vision file. Immutable; may be used from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/moe.h"
#include "base/content_hash.h"
#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "vision/projectors.h"
#include "vision/vision.h"

namespace monolith {

inline constexpr int kLfm2Tile = 512;  // LFM2-VL: side of a tile, in pixels.

struct VisionParams {
  const ProjectorTraits* traits = nullptr;
  Sizing sizing = Sizing::kFixed;  // From the traits, unless the file's tile grid candidates change it.
  VisionBounds bounds;

  int image_size = 0, patch_size = 0;  // Side lengths in pixels.
  int width = 0, n_ff = 0, n_layers = 0, n_heads = 0;
  int n_file_layers = 0;  // Layers in the file, of which the first n_layers are used.
  int merge = 1;
  float eps = 0;
  Activation activation = Activation::kQuickGelu;
  std::array<float, 3> mean{}, deviation{};
  int64_t n_embd = 0;          // Embedding size of the decoder.
  std::vector<int> deepstack;  // Layers after which a deepstack feature is computed, ascending.
  int full_every = 0;          // Every full_every-th layer uses full attention, the others windows; 0 = no windows.
  int window_blocks = 0;       // Width and height of a window, in merge blocks.
  int n_positions = 0, position_rows = 0, position_columns = 0;  // Size of the position embedding table.
  bool class_vector = false;                                     // A class token follows the patches.
  bool breaks_rows = false;  // A break embedding is inserted between rows of embeddings (Pixtral).
  // A newline embedding follows each row, and all tiles are views in a single part (LLaVA 1.6, reference
  // implementation).
  bool ends_rows = false;

  int64_t least_pixels = 0, most_pixels = 0;    // For Sizing::kSmart and kLfm2.
  int longer_side = 0;                          // For Sizing::kLongerSide.
  std::vector<std::pair<int, int>> candidates;  // For Sizing::kCandidates: width and height, in pixels.
  // The minimum number of tiles of an image that is split into tiles, and the maximum number. A maximum of 0 means that
  // images are never tiled.
  int min_tiles = 1, max_tiles = 0;

  ContentHash file;  // Hash of the metadata, the names and shapes of tensors, and samples of their data.

  bool original() const { return bounds.resize == VisionResize::kOriginal; }
  // If true, the class token uses the first position embedding. If false, it uses the last one, after the position
  // embeddings of the patches.
  bool class_first() const { return original() && class_vector; }
  int head_dim() const { return width / n_heads; }
  int side_patches() const { return image_size / patch_size; }
  int factor() const { return patch_size * merge; }
  int64_t row_width() const { return n_embd * static_cast<int64_t>(1 + deepstack.size()); }
  int64_t patch_values() const { return int64_t{3} * patch_size * patch_size; }
  // Maximum number of pixels in a part, and maximum number of patches that are encoded at a time.
  int64_t most_piece_pixels = 0;
  int most_patches = 0;

  // Errors: as for VisionModel::load.
  static Result<VisionParams> read(const GgufFile& file, const VisionBounds& bounds);
};

}  // namespace monolith
