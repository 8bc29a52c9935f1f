#include "vision/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "backend/cpu/machine/isa.h"

namespace monolith {
namespace {

#include "vision/resize-inl.h"

// For each value in a target row: the two or four source values from which it is interpolated, and its position between
// them.
struct Columns {
  std::array<std::vector<int32_t>, 4> at;
  std::array<const int32_t*, 4> pointers;
  std::vector<float> t;
};

// Returns the position of target value `i` of `n` among the `n_in` source values. The integer part is the index of the
// first neighbor.
float aligned_at_corners(int i, int n, int n_in) {
  if (n == 1) return 0.0f;
  return static_cast<float>(i) * (static_cast<float>(n_in - 1) / static_cast<float>(n - 1));
}
float aligned_at_zero(int i, int n, int n_in) {
  return static_cast<float>(n_in) / static_cast<float>(n) * static_cast<float>(i);
}

struct Place {
  int first;
  float t;
};
Place place_of(Filter filter, int i, int n, int n_in) {
  const float at = filter == Filter::kBilinear ? aligned_at_corners(i, n, n_in) : aligned_at_zero(i, n, n_in);
  const int first = std::min(static_cast<int>(at), n_in - 1);
  return {first, at - static_cast<float>(first)};
}
// The offset of the first neighbor, and the number of neighbors.
constexpr int first_neighbor(Filter filter) { return filter == Filter::kBilinear ? 0 : -1; }
constexpr int neighbors(Filter filter) { return filter == Filter::kBilinear ? 2 : 4; }

Columns columns_of(Filter filter, int width, int from) {
  Columns columns;
  const auto count = static_cast<size_t>(3) * static_cast<size_t>(width);
  columns.t.resize(count);
  for (size_t n = 0; n < 4; ++n) columns.at[n].resize(static_cast<int>(n) < neighbors(filter) ? count : 0);
  for (int x = 0; x < width; ++x) {
    const Place place = place_of(filter, x, width, from);
    for (int color = 0; color < 3; ++color) {
      const auto i = static_cast<size_t>(3 * x + color);
      columns.t[i] = place.t;
      for (int n = 0; n < neighbors(filter); ++n)
        columns.at[static_cast<size_t>(n)][i] =
            3 * std::clamp(place.first + first_neighbor(filter) + n, 0, from - 1) + color;
    }
  }
  for (size_t n = 0; n < 4; ++n) columns.pointers[n] = columns.at[n].data();
  return columns;
}

}  // namespace

const ResizeKernels& resize_kernels(bool plain) {
#if defined(__x86_64__)
  static const bool has_avx2 = cpu_has(CpuIsa::kAvx2);
  if (has_avx2 && !plain) return resize_kernels_avx2();
#endif
  static_cast<void>(plain);
  return kKernels;
}

void resize(const ResizeKernels& kernels, Filter filter, const uint8_t* source, PictureSize from, PictureSize to,
            uint8_t* out, int64_t out_stride) {
  const Columns columns = columns_of(filter, to.width, from.width);
  const int64_t count = int64_t{3} * to.width, source_count = int64_t{3} * from.width;
  std::vector<float> row(static_cast<size_t>(source_count));
  // Horizontally resized source rows, cached at index row % 4, so that neighboring rows never share a slot.
  std::array<std::vector<float>, 4> kept;
  std::array<int, 4> kept_row = {-1, -1, -1, -1};
  for (std::vector<float>& each : kept) each.resize(static_cast<size_t>(count));
  const auto passed = [&](int y) {
    const auto slot = static_cast<size_t>(y % 4);
    if (kept_row[slot] != y) {
      kernels.to_floats(source + int64_t{y} * source_count, source_count, row.data());
      const auto pass = filter == Filter::kBilinear ? kernels.lerp_columns : kernels.cubic_columns;
      pass(row.data(), columns.pointers.data(), columns.t.data(), count, kept[slot].data());
      kept_row[slot] = y;
    }
    return kept[slot].data();
  };
  for (int y = 0; y < to.height; ++y) {
    const Place place = place_of(filter, y, to.height, from.height);
    std::array<const float*, 4> rows{};
    for (int n = 0; n < neighbors(filter); ++n)
      rows[static_cast<size_t>(n)] = passed(std::clamp(place.first + first_neighbor(filter) + n, 0, from.height - 1));
    const auto pass = filter == Filter::kBilinear ? kernels.lerp_rows : kernels.cubic_rows;
    pass(rows.data(), place.t, count, out + y * out_stride);
  }
}

std::vector<uint8_t> fit_with_padding(const ResizeKernels& kernels, Filter filter, const uint8_t* source,
                                      PictureSize from, PictureSize place, const uint8_t (&pad)[3]) {
  std::vector<uint8_t> out(static_cast<size_t>(place.pixels()) * 3);
  if (from == place) {
    std::copy_n(source, out.size(), out.begin());
    return out;
  }
  const PictureSize inner = fitted_size(from, place);
  for (size_t i = 0; i < out.size(); i += 3) std::memcpy(&out[i], pad, 3);
  const int64_t left = (place.width - inner.width) / 2, top = (place.height - inner.height) / 2;
  resize(kernels, filter, source, from, inner, out.data() + (top * place.width + left) * 3, int64_t{3} * place.width);
  return out;
}

std::vector<uint8_t> stretch(const ResizeKernels& kernels, Filter filter, const uint8_t* source, PictureSize from,
                             PictureSize to) {
  std::vector<uint8_t> out(static_cast<size_t>(to.pixels()) * 3);
  if (from == to)
    std::copy_n(source, out.size(), out.begin());
  else
    resize(kernels, filter, source, from, to, out.data(), int64_t{3} * to.width);
  return out;
}

}  // namespace monolith
