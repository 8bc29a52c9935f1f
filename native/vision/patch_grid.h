// The patches of an image part in the encoder's order, and everything that depends on their positions: attention
// windows, the rotation of queries and keys (RoPE), and position embeddings. Created once per run; used on the
// backend's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/encoder_operations.h"
#include "vision/vision_params.h"

namespace monolith {

class PatchGrid {
 public:
  PatchGrid(const VisionParams& params, int width, int height);

  int n_patches() const { return static_cast<int>(places_.size()); }
  // Returns the number of encoder rows: the patches, plus the class token if there is one.
  int n_rows() const { return n_patches() + (params_.class_vector ? 1 : 0); }
  // Returns the patches in encoder order. The patches of a merge block (merge x merge) are consecutive, row by row.
  std::span<const PatchPlace> places() const { return places_; }
  // Returns the row-major index, within the part, of the merge block at position `index` in encoder order.
  int square(int index) const { return squares_[static_cast<size_t>(index)]; }
  int square_rows() const { return square_rows_; }
  int square_columns() const { return square_columns_; }

  // Row i attends to rows starts[i] .. limits[i] - 1. In layers with full attention, this range covers all rows.
  std::span<const int32_t> starts(bool windowed) const { return windowed ? window_starts_ : full_starts_; }
  std::span<const int32_t> limits(bool windowed) const { return windowed ? window_limits_ : full_limits_; }

  // Computes RowRotation::own and RowRotation::partner, each of shape [n_patches][head_dim].
  void rotations(std::vector<float>& own, std::vector<float>& partner) const;
  RopeStyle rotation_style() const;
  int rotation_section() const;

  // taps() returns, for `count` patches starting at `first`, rows of the position table and their interpolation
  // weights. For the class token, it returns row params.n_positions of the table, or row 0 if the class token comes
  // first.
  int conv_kernel_size() const { return n_taps_; }
  void taps(int first, int count, std::vector<int32_t>& rows, std::vector<float>& weights) const;

 private:
  // Interpolation along one axis: the table indices for each patch, and their weights.
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
