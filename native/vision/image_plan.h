// What becomes of a picture of a given size: pieces, each of which passes the tower alone, the tokens around them, and
// what position each row of embeddings has. Known before any pixel is: services count and reserve by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace monolith {

enum class PiecePart : uint8_t {
  kImage,     // the whole picture, the only piece
  kTile,      // a part of it, at its place in the grid
  kOverview,  // the whole picture beside tiles (or alone, where it is called so: the grid is then 0 x 0)
};

// Relative to the position counter at the piece's first row.
struct RowPosition {
  int t = 0, y = 0, x = 0;
  bool operator==(const RowPosition&) const = default;
};

// Rows of one piece that the tower sees in several views of the same size, one below the other: the whole picture, then its
// tiles row by row (LLaVA 1.6, as its makers do it). The whole picture's rows come first; then, across all tiles, those that
// show the picture and not what is padded around it, row by row, each row with a vector behind it.
struct TiledRows {
  // of tiles; 0 x 0: there are none, and one vector stands behind the whole picture's rows
  int columns = 0, rows = 0;
  int left = 0, top = 0;                // of the rows of embeddings of all tiles, the first that count
  int grid_columns = 0, grid_rows = 1;  // how many do
  int n_views() const { return 1 + columns * rows; }
  int n_rows() const { return grid_rows * (grid_columns + 1); }  // behind the whole picture's
};

struct ImagePiece {
  PiecePart part = PiecePart::kImage;
  int row = 0, column = 0;              // of a tile, from 1; else 0
  int width = 0, height = 0;            // pixels that the tower is given, of all views
  std::vector<std::string> before;      // tokens in front of its rows, by name ("\n" and "\n\n" among them)
  int n_rows = 0;                       // of embeddings
  int grid_rows = 0, grid_columns = 0;  // of those, where `mrope`
  std::optional<TiledRows> tiled = {};  // absent: it is one view
  bool mrope = false;                   // positions are three numbers (below); else they count on, one a row
  bool bidirectional = false;           // its rows see one another; else each sees what stands before it

  // By how much the position counter moves.
  int n_positions() const { return mrope ? (grid_rows > grid_columns ? grid_rows : grid_columns) : n_rows; }
  // Of row `row` in [0, n_rows): without M-RoPE all three are `row`.
  RowPosition position(int row) const {
    return mrope ? RowPosition{0, row / grid_columns, row % grid_columns} : RowPosition{row, row, row};
  }
};

struct ImagePlan {
  int source_width = 0, source_height = 0;
  int columns = 0, rows = 0;                  // of tiles; 1 x 1: one piece; 0 x 0: an overview alone
  int resized_width = 0, resized_height = 0;  // of the picture that tiles are cut from or that is padded; else 0
  std::vector<ImagePiece> pieces;             // in the order of the sequence
  std::vector<std::string> after;             // tokens behind the last piece's rows
  // numbers of a row: those of the decoder's rows, then those of each deepstack part
  int64_t row_width = 0;
  int n_deepstack = 0;  // parts behind the first; part k + 1 is added behind decoder layer k

  int n_rows() const {
    int64_t sum = 0;
    for (const ImagePiece& piece : pieces) sum += piece.n_rows;
    return static_cast<int>(sum);
  }
  // Tokens of the sequence: rows and markers.
  int n_tokens() const {
    size_t sum = static_cast<size_t>(n_rows()) + after.size();
    for (const ImagePiece& piece : pieces) sum += piece.before.size();
    return static_cast<int>(sum);
  }
};

}  // namespace monolith
