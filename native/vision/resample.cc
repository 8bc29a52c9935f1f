#include "vision/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace monolith {
namespace {

// Weights are integers in units of 2^-22, so the weighted sums of bytes fit in 32 bits.
constexpr int kWeightBits = 22;

double reach(ResampleFilter filter) {
  return filter == ResampleFilter::kBilinear ? 1 : filter == ResampleFilter::kBicubic ? 2 : 3;
}

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

double weight_at(ResampleFilter filter, double x) {
  if (filter == ResampleFilter::kLanczos) return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
  x = std::abs(x);
  if (filter == ResampleFilter::kBilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// Describes the resampling along one axis: the source pixels and their weights for each target pixel.
struct Axis {
  struct Place {
    int first = 0, count = 0;
    size_t weights = 0;  // Index of the first weight.
  };
  std::vector<Place> places;
  std::vector<int32_t> weights;

  Axis(ResampleFilter filter, int from, int to) {
    const double scale = static_cast<double>(from) / to, widened = std::max(scale, 1.0),
                 support = reach(filter) * widened;
    std::vector<double> own;
    for (int i = 0; i < to; ++i) {
      const double center = (i + 0.5) * scale;
      const int first = std::max(0, static_cast<int>(center - support + 0.5));
      const int end = std::min(from, static_cast<int>(center + support + 0.5));
      own.clear();
      double sum = 0;
      for (int j = first; j < end; ++j) {
        own.push_back(weight_at(filter, (j - center + 0.5) * (1 / widened)));
        sum += own.back();
      }
      places.push_back({first, end - first, weights.size()});
      for (const double weight : own) {
        const double whole = (sum != 0 ? weight / sum : weight) * (1 << kWeightBits);
        weights.push_back(static_cast<int32_t>(whole < 0 ? whole - 0.5 : whole + 0.5));
      }
    }
  }
};

constexpr int32_t kHalf = 1 << (kWeightBits - 1);
uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

std::vector<uint8_t> columns(const Axis& axis, const uint8_t* source, PictureSize from, int to) {
  std::vector<uint8_t> out(static_cast<size_t>(from.height) * static_cast<size_t>(to) * 3);
  uint8_t* at = out.data();
  for (int64_t y = 0; y < from.height; ++y)
    for (const Axis::Place& place : axis.places) {
      const uint8_t* pixel = source + (y * from.width + place.first) * 3;
      const int32_t* const weights = axis.weights.data() + place.weights;
      int32_t sums[3] = {kHalf, kHalf, kHalf};
      for (int i = 0; i < place.count; ++i, pixel += 3)
        for (int color = 0; color < 3; ++color) sums[color] += pixel[color] * weights[i];
      for (const int32_t sum : sums) *at++ = to_byte(sum);
    }
  return out;
}

std::vector<uint8_t> rows(const Axis& axis, const std::vector<uint8_t>& source, int width) {
  const size_t row = static_cast<size_t>(width) * 3;
  std::vector<uint8_t> out(axis.places.size() * row);
  std::vector<int32_t> sums(row);
  uint8_t* at = out.data();
  for (const Axis::Place& place : axis.places) {
    std::ranges::fill(sums, kHalf);
    for (int i = 0; i < place.count; ++i) {
      const uint8_t* const from = source.data() + static_cast<size_t>(place.first + i) * row;
      const int32_t weight = axis.weights[place.weights + static_cast<size_t>(i)];
      for (size_t x = 0; x < row; ++x) sums[x] += from[x] * weight;
    }
    for (const int32_t sum : sums) *at++ = to_byte(sum);
  }
  return out;
}

}  // namespace

std::vector<uint8_t> resample(ResampleFilter filter, const uint8_t* source, PictureSize from, PictureSize to) {
  std::vector<uint8_t> picture;
  if (from.width != to.width)
    picture = columns(Axis(filter, from.width, to.width), source, from, to.width);
  else
    picture.assign(source, source + from.pixels() * 3);
  return from.height == to.height ? picture : rows(Axis(filter, from.height, to.height), picture, to.width);
}

std::vector<uint8_t> middle_of(const uint8_t* source, PictureSize from, PictureSize size) {
  const int64_t left = (from.width - size.width) / 2, top = (from.height - size.height) / 2,
                row = int64_t{3} * size.width;
  std::vector<uint8_t> out(static_cast<size_t>(size.pixels()) * 3);
  for (int64_t y = 0; y < size.height; ++y)
    std::memcpy(out.data() + y * row, source + ((top + y) * from.width + left) * 3, static_cast<size_t>(row));
  return out;
}

}  // namespace monolith
