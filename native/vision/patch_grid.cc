#include "vision/patch_grid.h"

#include <algorithm>
#include <cmath>

namespace monolith {

PatchGrid::PatchGrid(const VisionParams& params, int width, int height) : params_(params) {
  square_rows_ = height / params.patch_size / params.merge;
  square_columns_ = width / params.patch_size / params.merge;
  const int rows = square_rows_ * params.merge, columns = square_columns_ * params.merge;
  order(rows, columns);
  full_starts_.assign(static_cast<size_t>(n_rows()), 0);
  full_limits_.assign(static_cast<size_t>(n_rows()), n_rows());
  switch (params.traits->positions) {
    case PatchPositions::kNone: break;
    case PatchPositions::kLearned: n_taps_ = 1; break;
    case PatchPositions::kTwoTables: n_taps_ = 2; break;
    case PatchPositions::kBilinear:
    case PatchPositions::kTriangle:
    case PatchPositions::kBicubic:
      by_row_ = axis_taps(rows, params.position_rows);
      by_column_ = axis_taps(columns, params.position_columns);
      n_taps_ = by_row_.count * by_column_.count;
      break;
  }
}

// Orders the windows, the merge blocks within each window, and the patches within each merge block row by row from the
// top left. Without windows, the whole part is one window.
void PatchGrid::order(int rows, int columns) {
  const int merge = params_.merge;
  const bool windows = params_.full_every > 0;
  const int side = windows ? params_.window_blocks : std::max(square_rows_, square_columns_);
  places_.reserve(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (int top = 0; top < square_rows_; top += side)
    for (int left = 0; left < square_columns_; left += side) {
      const auto first = static_cast<int32_t>(places_.size());
      for (int y = top; y < std::min(top + side, square_rows_); ++y)
        for (int x = left; x < std::min(left + side, square_columns_); ++x) {
          squares_.push_back(y * square_columns_ + x);
          for (int i = 0; i < merge * merge; ++i) places_.push_back({y * merge + i / merge, x * merge + i % merge});
        }
      if (!windows) continue;
      window_starts_.resize(places_.size(), first);
      window_limits_.resize(places_.size(), static_cast<int32_t>(places_.size()));
    }
}

RopeStyle PatchGrid::rotation_style() const {
  const PatchRotation rotation = params_.traits->rotation;
  return rotation == PatchRotation::kPixtral || rotation == PatchRotation::kKimi ? RopeStyle::kAdjacentPairs
                                                                                 : RopeStyle::kHalves;
}

int PatchGrid::rotation_section() const {
  return params_.traits->rotation == PatchRotation::kGemma4 ? params_.head_dim() / 2 : params_.head_dim();
}

void PatchGrid::rotations(std::vector<float>& own, std::vector<float>& partner) const {
  const PatchRotation rotation = params_.traits->rotation;
  if (rotation == PatchRotation::kNone) return;
  const int dim = params_.head_dim(), pairs = dim / 2, quarter = dim / 4;
  const bool row_first = rotation == PatchRotation::kQwen || rotation == PatchRotation::kPixtral;
  const int longest = std::max(square_rows_, square_columns_) * params_.merge;
  // The cosine and the sine by which pair i is rotated at position p. The first quarter of the pairs rotates along one
  // axis, the second along the other.
  std::vector<float> cosines(static_cast<size_t>(longest) * static_cast<size_t>(pairs)), sines(cosines.size());
  for (int i = 0; i < pairs; ++i) {
    double exponent = -4.0 * (i % quarter) / dim;
    if (rotation == PatchRotation::kPixtral && i >= quarter) exponent = -(4.0 * (i % quarter) + 2) / dim;
    const double frequency = std::pow(params_.traits->rope_base, exponent);
    for (int p = 0; p < longest; ++p) {
      cosines[static_cast<size_t>(p * pairs + i)] = static_cast<float>(std::cos(p * frequency));
      sines[static_cast<size_t>(p * pairs + i)] = static_cast<float>(std::sin(p * frequency));
    }
  }
  // The two dimensions of each pair.
  std::vector<std::pair<int, int>> dims;
  for (int i = 0; i < pairs; ++i) {
    if (rotation_style() == RopeStyle::kAdjacentPairs)
      dims.emplace_back(2 * i, 2 * i + 1);
    else if (rotation_section() == dim)
      dims.emplace_back(i, i + pairs);
    else
      dims.emplace_back(i / quarter * pairs + i % quarter, i / quarter * pairs + i % quarter + quarter);
  }
  own.resize(places_.size() * static_cast<size_t>(dim));
  partner.resize(own.size());
  for (size_t patch = 0; patch < places_.size(); ++patch)
    for (int i = 0; i < pairs; ++i) {
      const int p = (i < quarter) == row_first ? places_[patch].row : places_[patch].column;
      const float cosine = cosines[static_cast<size_t>(p * pairs + i)],
                  sine = sines[static_cast<size_t>(p * pairs + i)];
      const auto [one, two] = dims[static_cast<size_t>(i)];
      float* const at = own.data() + patch * static_cast<size_t>(dim);
      float* const other = partner.data() + patch * static_cast<size_t>(dim);
      at[one] = at[two] = cosine;
      other[one] = -sine;
      other[two] = sine;
    }
}

// Every patch gets the same number of interpolation taps; unused taps have weight 0.
PatchGrid::AxisTaps PatchGrid::axis_taps(int n_patches, int n_table) const {
  AxisTaps taps;
  std::vector<std::vector<std::pair<int, double>>> all(static_cast<size_t>(n_patches));
  for (int i = 0; i < n_patches; ++i) {
    auto& own = all[static_cast<size_t>(i)];
    const double ratio = static_cast<double>(n_table) / n_patches;
    if (params_.traits->positions == PatchPositions::kBilinear) {
      const double at = n_patches > 1 ? static_cast<double>(i) * (n_table - 1) / (n_patches - 1) : 0;
      const int low = std::min(static_cast<int>(at), n_table - 1);
      own = {{low, 1 - (at - low)}, {std::min(low + 1, n_table - 1), at - low}};
    } else if (params_.traits->positions == PatchPositions::kTriangle) {
      const double support = std::max(1.0, ratio), center = (i + 0.5) * ratio;
      const int low = std::max(0, static_cast<int>(std::floor(center - support)));
      double sum = 0;
      for (int j = low; j < std::min<double>(n_table, center + support); ++j) {
        const double weight = std::max(0.0, 1 - std::abs(j + 0.5 - center) / support);
        if (weight <= 0) continue;
        own.emplace_back(j, weight);
        sum += weight;
      }
      for (auto& [j, weight] : own) weight /= sum;
    } else {
      constexpr double kA = -0.75;
      const double at = (i + 0.5) * ratio - 0.5, low = std::floor(at), t = at - low;
      for (int j = -1; j <= 2; ++j) {
        const double x = std::abs(t - j);
        const double weight =
            x <= 1 ? ((kA + 2) * x - (kA + 3)) * x * x + 1 : ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
        own.emplace_back(std::clamp(static_cast<int>(low) + j, 0, n_table - 1), weight);
      }
    }
    taps.count = std::max(taps.count, static_cast<int>(own.size()));
  }
  for (const auto& own : all)
    for (int tap = 0; tap < taps.count; ++tap) {
      const bool there = tap < static_cast<int>(own.size());
      taps.index.push_back(there ? own[static_cast<size_t>(tap)].first : 0);
      taps.weight.push_back(there ? static_cast<float>(own[static_cast<size_t>(tap)].second) : 0.0f);
    }
  return taps;
}

void PatchGrid::taps(int first, int count, std::vector<int32_t>& rows, std::vector<float>& weights) const {
  rows.clear();
  weights.clear();
  for (int i = first; i < first + count; ++i) {
    const PatchPlace place = places_[static_cast<size_t>(i)];
    switch (params_.traits->positions) {
      case PatchPositions::kNone: break;
      case PatchPositions::kLearned:
        rows.push_back(place.row * params_.side_patches() + place.column + (params_.class_first() ? 1 : 0));
        weights.push_back(1);
        break;
      case PatchPositions::kTwoTables:
        rows.insert(rows.end(), {place.column, params_.n_positions + place.row});
        weights.insert(weights.end(), {1, 1});
        break;
      case PatchPositions::kBilinear:
      case PatchPositions::kTriangle:
      case PatchPositions::kBicubic:
        for (int y = place.row * by_row_.count; y < (place.row + 1) * by_row_.count; ++y)
          for (int x = place.column * by_column_.count; x < (place.column + 1) * by_column_.count; ++x) {
            rows.push_back(by_row_.index[static_cast<size_t>(y)] * params_.position_columns +
                           by_column_.index[static_cast<size_t>(x)]);
            weights.push_back(by_row_.weight[static_cast<size_t>(y)] * by_column_.weight[static_cast<size_t>(x)]);
          }
        break;
    }
  }
}

}  // namespace monolith
