// The encoding plan for an image of a given size: the parts that the vision encoder processes separately (the whole
// image, tiles, an overview), the marker tokens around them, and the position of each embedding. The plan is known
// before any pixel is decoded, so callers use it to count tokens and to reserve memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace monolith {

enum class PiecePart : uint8_t {
  kImage,  // The whole image, as the only part.
  kTile,   // A tile, which has a place in the grid.
  // The whole image, in addition to tiles. Some models also use this kind for an image without tiles, in which case the
  // grid is 0 x 0.
  kOverview,
};

// A position relative to the value of the position counter at the part's first embedding.
struct RowPosition {
  int t = 0, y = 0, x = 0;
  bool operator==(const RowPosition&) const = default;
};

// Layout of the embeddings of a part that consists of several views of the same size, stacked vertically: the whole
// image, followed by its tiles row by row (LLaVA 1.6, as in the reference implementation). The embeddings of the whole
// image come first. The embeddings of all tiles follow as one grid, row by row, without the embeddings of padding. A
// newline embedding follows each row of the grid.
struct TiledRows {
  // Tile grid. 0 x 0 means that there are no tiles and a single newline embedding follows the embeddings of the whole
  // image.
  int columns = 0, rows = 0;
  int left = 0, top = 0;                // First column and row of the tiles' embedding grid that are not padding.
  int grid_columns = 0, grid_rows = 1;  // Number of columns and rows that are not padding.
  int n_views() const { return 1 + columns * rows; }
  int n_rows() const { return grid_rows * (grid_columns + 1); }  // Embeddings that follow the whole image's embeddings.
};

struct ImagePiece {
  PiecePart part = PiecePart::kImage;
  int row = 0, column = 0;          // Position of a tile in the grid, counted from 1; 0 for other parts.
  int width = 0, height = 0;        // Size of the encoder input in pixels, over all views.
  std::vector<std::string> before;  // Marker tokens before the part's embeddings, by name (including "\n" and "\n\n").
  int n_rows = 0;                   // Number of embeddings.
  int grid_rows = 0, grid_columns = 0;  // Grid of the embeddings, for `mrope`.
  std::optional<TiledRows> tiled = {};  // Absent for a part with a single view.
  // Whether positions are three-dimensional (M-RoPE, see position()). Otherwise they increase by one per embedding.
  bool mrope = false;
  // Whether the embeddings attend to each other in both directions. Otherwise attention is causal.
  bool bidirectional = false;

  // Returns the number of positions by which the part advances the position counter.
  int n_positions() const { return mrope ? (grid_rows > grid_columns ? grid_rows : grid_columns) : n_rows; }
  // Returns the position of embedding `row` in [0, n_rows). Without M-RoPE, all three coordinates are `row`.
  RowPosition position(int row) const {
    return mrope ? RowPosition{0, row / grid_columns, row % grid_columns} : RowPosition{row, row, row};
  }
};

struct ImagePlan {
  int source_width = 0, source_height = 0;
  int columns = 0, rows = 0;  // Tile grid. 1 x 1 = a single part; 0 x 0 = only an overview.
  // Size of the image that is cut into tiles or padded; 0 if neither applies.
  int resized_width = 0, resized_height = 0;
  std::vector<ImagePiece> pieces;  // In the order in which they occur in the sequence.
  std::vector<std::string> after;  // Marker tokens after the last part's embeddings.
  // Values per embedding: the decoder's embedding size, plus the same number for each deepstack layer.
  int64_t row_width = 0;
  // Number of deepstack features per embedding. Feature k is added to the hidden state after decoder layer k.
  int n_deepstack = 0;

  int n_rows() const {
    int64_t sum = 0;
    for (const ImagePiece& piece : pieces) sum += piece.n_rows;
    return static_cast<int>(sum);
  }
  // Returns the number of tokens that the image occupies in the sequence: embeddings and markers.
  int n_tokens() const {
    size_t sum = static_cast<size_t>(n_rows()) + after.size();
    for (const ImagePiece& piece : pieces) sum += piece.before.size();
    return static_cast<int>(sum);
  }
};

}  // namespace monolith
