// A piece's patches in the order in which its tower takes them, and what follows from where each lies: which others it sees
// in layers with windows, how its heads turn, and which learned positions it is given. Made once for each run; the
// backend's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/tower_operations.h"
#include "vision/vision_params.h"

namespace monolith {

class PatchGrid {
 public:
  PatchGrid(const VisionParams& params, int width, int height);

  int n_patches() const { return static_cast<int>(places_.size()); }
  // Rows of the tower: patches, then the class vector where there is one.
  int n_rows() const { return n_patches() + (params_.class_vector ? 1 : 0); }
  // Squares of merge x merge patches lie together, row by row within each.
  std::span<const PatchPlace> places() const { return places_; }
  // Of each square its place among the piece's, row by row.
  int square(int index) const { return squares_[static_cast<size_t>(index)]; }
  int square_rows() const { return square_rows_; }
  int square_columns() const { return square_columns_; }

  // Rows that row i sees: starts[i] .. limits[i] - 1. In full layers all.
  std::span<const int32_t> starts(bool windowed) const { return windowed ? window_starts_ : full_starts_; }
  std::span<const int32_t> limits(bool windowed) const { return windowed ? window_limits_ : full_limits_; }

  // RowRotation::own and partner, [n_patches][head_dim] each.
  void rotations(std::vector<float>& own, std::vector<float>& partner) const;
  RopeStyle rotation_style() const;
  int rotation_section() const;

  // Rows of the table of positions that patches `first` and on are given. The class vector has the table's row
  // params.n_positions, or, where it comes first, row 0.
  int n_taps() const { return n_taps_; }
  void taps(int first, int count, std::vector<int32_t>& rows, std::vector<float>& weights) const;

 private:
  // Of one axis: for each patch some indices into the table's and their weights.
  struct AxisTaps {
    int count = 0;
    std::vector<int32_t> index;
    std::vector<float> weight;
  };
  AxisTaps axis_taps(int n_patches, int n_table) const;
  void order(int rows, int columns);

  const VisionParams& params_;
  int square_rows_, square_columns_;
  std::vector<PatchPlace> places_;
  std::vector<int> squares_;
  std::vector<int32_t> full_starts_, full_limits_, window_starts_, window_limits_;
  int n_taps_ = 0;
  AxisTaps by_row_, by_column_;
};

}  // namespace monolith
