// A vision file's hyper-parameters, checked. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/mixture.h"
#include "base/content_hash.h"
#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "vision/projectors.h"
#include "vision/vision.h"

namespace monolith {

inline constexpr int kLfm2Tile = 512;  // LFM2-VL: pixels of a tile's side

struct VisionParams {
  const ProjectorTraits* traits = nullptr;
  Sizing sizing = Sizing::kFixed;  // the traits', or what the file's candidates make of it
  VisionBounds bounds;

  int image_size = 0, patch_size = 0;  // pixels
  int width = 0, n_ff = 0, n_layers = 0, n_heads = 0;
  int n_file_layers = 0;  // of which the first n_layers are run
  int merge = 1;
  float eps = 0;
  Activation activation = Activation::kQuickGelu;
  std::array<float, 3> mean{}, deviation{};
  int64_t n_embd = 0;          // numbers of a decoder's row
  std::vector<int> deepstack;  // layers that a part is taken behind, ascending
  int full_every = 0;          // of layers with windows every so-manieth has none; 0: no windows
  int window_blocks = 0;       // width and height of a window, in blocks of merge x merge patches
  int n_positions = 0, position_rows = 0, position_columns = 0;  // of the table of learned positions
  bool class_vector = false;                                     // one row more, behind those of the patches
  bool breaks_rows = false;                                      // a vector between rows of embeddings (Pixtral)
  bool ends_rows = false;  // a vector behind each, and all tiles in one piece (LLaVA 1.6 as its makers do it)

  int64_t least_pixels = 0, most_pixels = 0;    // Sizing::kSmart, kLfm2
  int longer_side = 0;                          // Sizing::kLongerSide
  std::vector<std::pair<int, int>> candidates;  // Sizing::kCandidates: width, height in pixels
  int min_tiles = 1, max_tiles = 0;             // at least where there are any; at most, 0: no tiles

  ContentHash file;  // of metadata, names and shapes of tensors, and samples of their data

  bool original() const { return bounds.resize == VisionResize::kOriginal; }
  // The class vector and the first position belong together; otherwise it has the last, and patches those before their own.
  bool class_first() const { return original() && class_vector; }
  int head_dim() const { return width / n_heads; }
  int side_patches() const { return image_size / patch_size; }
  int factor() const { return patch_size * merge; }
  int64_t row_width() const { return n_embd * static_cast<int64_t>(1 + deepstack.size()); }
  int64_t patch_values() const { return int64_t{3} * patch_size * patch_size; }
  // The most pixels that a piece may have, and the most patches that are in the tower at a time.
  int64_t most_piece_pixels = 0;
  int most_patches = 0;

  // Errors: as VisionModel::load.
  static Result<VisionParams> read(const GgufFile& file, const VisionBounds& bounds);
};

}  // namespace monolith
