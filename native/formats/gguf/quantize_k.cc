// Quantizes to Q4_K and Q6_K. The scale of each sub-block is found as in llama.cpp's reference quantization without an
// importance matrix: about twenty candidates are tried in addition to an initial scale derived from the extremes, and
// the one with the least squared error is taken. Every sum is accumulated in float32 in the order of the values, so the
// resulting bytes are identical to llama.cpp's. The sub-blocks of a block are independent; they form the lanes of the
// loops below, which compilers vectorize.
#include "formats/gguf/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace monolith {
namespace {

// 1.5 * 2^23: adding it to a small number leaves the nearest integer in the mantissa, with ties to even.
constexpr float kRounder = 12582912.0f;

float rounded(float value) { return (value + kRounder) - kRounder; }

// Like rounded(), but also accepts NaN and out-of-range numbers, for which it returns an arbitrary integer.
int32_t nearest(float value) { return (std::bit_cast<int32_t>(value + kRounder) & 0x7fffff) - 0x400000; }

float least(float a, float b) { return a < b ? a : b; }
float most(float a, float b) { return a > b ? a : b; }

void store_half(float value, uint8_t* out) {
  const uint16_t bits = float_to_half(value);
  std::memcpy(out, &bits, sizeof bits);
}

// A block's values, transposed so that values at the same position in each sub-block are adjacent.
template <int parts>
struct Lanes {
  static constexpr int kCount = kSuperBlock / parts;  // Values per sub-block.
  using Row = std::array<float, parts>;

  explicit Lanes(const float* values) {
    for (int part = 0; part < parts; ++part)
      for (int i = 0; i < kCount; ++i) x[i][part] = values[part * kCount + i];
  }
  std::array<Row, kCount> x;
};

// --- Q4_K: 8 sub-blocks of 32 values, each value scale * q + minimum, q in 0..15, minimum <= 0 ---

constexpr int kParts4 = 8;

class Q4Parts : Lanes<kParts4> {
 public:
  explicit Q4Parts(const float* values) : Lanes(values) {
    weigh();
    find_range();
    for (int p = 0; p < kParts4; ++p) {
      draft[p] = 15.0f / (high[p] - low[p]);
      scale[p] = 1 / draft[p];
      chosen_draft[p] = draft[p];
      chosen_low[p] = low[p];
    }
    measure(scale, low);
    least_error = error;
    for (int step = 0; step <= 20; ++step) improve(step);
    for (int p = 0; p < kParts4; ++p)
      if (flat(p)) scale[p] = 0;
  }

  float scale_of(int part) const { return scale[part]; }
  float minimum_of(int part) const { return -low[part]; }  // The magnitude of the minimum, which is never positive.
  uint8_t number_of(int part, int i) const {
    if (flat(part)) return 0;
    return static_cast<uint8_t>(std::clamp(nearest(chosen_draft[part] * (x[i][part] - chosen_low[part])), 0, 15));
  }

 private:
  bool flat(int part) const { return high[part] == first_low[part]; }

  // Sets the weight of each value's error: errors of large values count more.
  void weigh() {
    Row squares{};
    for (const Row& row : x)
      for (int p = 0; p < kParts4; ++p) squares[p] += row[p] * row[p];
    for (int p = 0; p < kParts4; ++p) squares[p] = std::sqrt(squares[p] / 32);
    for (int i = 0; i < kCount; ++i)
      for (int p = 0; p < kParts4; ++p) weight[i][p] = squares[p] + std::fabs(x[i][p]);
  }

  void find_range() {
    low = high = x[0];
    sum_w = weight[0];
    for (int p = 0; p < kParts4; ++p) sum_x[p] = sum_w[p] * x[0][p];
    for (int i = 1; i < kCount; ++i)
      for (int p = 0; p < kParts4; ++p) {
        low[p] = least(x[i][p], low[p]);
        high[p] = most(x[i][p], high[p]);
        sum_w[p] += weight[i][p];
        sum_x[p] += weight[i][p] * x[i][p];
      }
    for (int p = 0; p < kParts4; ++p) low[p] = low[p] > 0 ? 0 : low[p];
    first_low = low;
  }

  // Computes the error of scale * q + minimum, where q is derived from `draft` and `low`.
  void measure(const Row& by, const Row& minimum) {
    error.fill(0);
    for (int i = 0; i < kCount; ++i)
      for (int p = 0; p < kParts4; ++p) {
        const float q = least(most(rounded(draft[p] * (x[i][p] - low[p])), 0.0f), 15.0f);
        const float off = by[p] * q + minimum[p] - x[i][p];
        error[p] += weight[i][p] * (off * off);
      }
  }

  // Tries another candidate for the inverse scale, and fits a line through the resulting codes by least squares.
  void improve(int step) {
    Row sum_q{}, sum_qq{}, sum_qx{}, new_scale, new_low;
    for (int p = 0; p < kParts4; ++p) draft[p] = (-1.0f + 0.1f * static_cast<float>(step) + 15.0f) / (high[p] - low[p]);
    for (int i = 0; i < kCount; ++i)
      for (int p = 0; p < kParts4; ++p) {
        const float q = least(most(rounded(draft[p] * (x[i][p] - low[p])), 0.0f), 15.0f);
        const float weighted = weight[i][p] * q;
        sum_q[p] += weighted;
        sum_qq[p] += weighted * q;
        sum_qx[p] += weighted * x[i][p];
      }
    Row determinant;
    for (int p = 0; p < kParts4; ++p) {
      determinant[p] = sum_w[p] * sum_qq[p] - sum_q[p] * sum_q[p];
      new_scale[p] = (sum_w[p] * sum_qx[p] - sum_x[p] * sum_q[p]) / determinant[p];
      new_low[p] = (sum_qq[p] * sum_x[p] - sum_q[p] * sum_qx[p]) / determinant[p];
      if (new_low[p] > 0) {
        new_low[p] = 0;
        new_scale[p] = sum_qx[p] / sum_qq[p];
      }
    }
    measure(new_scale, new_low);
    for (int p = 0; p < kParts4; ++p) {
      if (!(determinant[p] > 0) || !(error[p] < least_error[p])) continue;
      least_error[p] = error[p];
      chosen_draft[p] = draft[p];
      chosen_low[p] = low[p];
      scale[p] = new_scale[p];
      low[p] = new_low[p];  // The next candidate starts from this minimum.
    }
  }

  std::array<Row, kCount> weight;
  Row low, first_low, high, sum_w, sum_x, draft, scale, error, least_error, chosen_draft, chosen_low;
};

// --- Q6_K: 16 sub-blocks of 16 values, each value scale * q, q in -32..31 ---

constexpr int kParts6 = 16;

class Q6Parts : Lanes<kParts6> {
 public:
  explicit Q6Parts(const float* values) : Lanes(values) {
    greatest.fill(0);
    extreme.fill(0);
    for (const Row& row : x)
      for (int p = 0; p < kParts6; ++p) {
        const bool greater = std::fabs(row[p]) > greatest[p];
        greatest[p] = greater ? std::fabs(row[p]) : greatest[p];
        extreme[p] = greater ? row[p] : extreme[p];
      }
    try_steps(32.0f);
    for (int p = 0; p < kParts6; ++p) {
      scale[p] = sum_qq[p] != 0 ? sum_qx[p] / sum_qq[p] : 0.0f;
      best[p] = scale[p] * sum_qx[p];
    }
    chosen_draft = draft;
    for (int step = -9; step <= 9; ++step) {
      if (step == 0) continue;
      try_steps(32.0f + 0.1f * static_cast<float>(step));
      for (int p = 0; p < kParts6; ++p) {
        if (!(sum_qq[p] > 0) || !(sum_qx[p] * sum_qx[p] > best[p] * sum_qq[p])) continue;
        scale[p] = sum_qx[p] / sum_qq[p];
        best[p] = scale[p] * sum_qx[p];
        chosen_draft[p] = draft[p];
      }
    }
    for (int p = 0; p < kParts6; ++p)
      if (nothing(p)) scale[p] = 0;
  }

  float scale_of(int part) const { return scale[part]; }
  // Returns the code plus 32, which makes it non-negative.
  uint8_t number_of(int part, int i) const {
    if (nothing(part)) return 0;
    return static_cast<uint8_t>(std::clamp(nearest(chosen_draft[part] * x[i][part]), -32, 31) + 32);
  }

 private:
  bool nothing(int part) const { return greatest[part] < 1e-15f; }

  // Maps the extreme value to -steps, and computes the sums that measure how well a scale without an offset fits the
  // resulting codes.
  void try_steps(float steps) {
    sum_qx.fill(0);
    sum_qq.fill(0);
    for (int p = 0; p < kParts6; ++p) draft[p] = -steps / extreme[p];
    for (const Row& row : x)
      for (int p = 0; p < kParts6; ++p) {
        const float q = least(most(rounded(draft[p] * row[p]), -32.0f), 31.0f);
        const float weight = row[p] * row[p];
        sum_qx[p] += weight * row[p] * q;
        sum_qq[p] += weight * q * q;
      }
  }

  Row greatest, extreme, draft, chosen_draft, sum_qx, sum_qq, scale, best;
};

}  // namespace

void store_q4_k(const float* values, uint8_t* out) {
  const Q4Parts parts(values);
  float top_scale = 0, top_minimum = 0;
  for (int p = 0; p < kParts4; ++p) {
    top_scale = most(parts.scale_of(p), top_scale);
    top_minimum = most(parts.minimum_of(p), top_minimum);
  }
  const float by_scale = top_scale > 0 ? 63.0f / top_scale : 0.0f;
  const float by_minimum = top_minimum > 0 ? 63.0f / top_minimum : 0.0f;
  uint8_t scales[kParts4], minimums[kParts4];
  for (int p = 0; p < kParts4; ++p) {
    scales[p] = std::min<uint8_t>(63, static_cast<uint8_t>(nearest(by_scale * parts.scale_of(p))));
    minimums[p] = std::min<uint8_t>(63, static_cast<uint8_t>(nearest(by_minimum * parts.minimum_of(p))));
  }
  store_half(top_scale / 63.0f, out);
  store_half(top_minimum / 63.0f, out + 2);
  // Packs 6 bits each. The low nibbles of the last four scales and minima share bytes 8..11, and their upper two bits
  // fill the spare bits of bytes 0..7.
  uint8_t* const packed = out + 4;
  for (int p = 0; p < 4; ++p) {
    packed[p] = static_cast<uint8_t>(scales[p] | scales[p + 4] >> 4 << 6);
    packed[p + 4] = static_cast<uint8_t>(minimums[p] | minimums[p + 4] >> 4 << 6);
    packed[p + 8] = static_cast<uint8_t>((scales[p + 4] & 15) | (minimums[p + 4] & 15) << 4);
  }
  // Recomputes the codes with the scales as they are stored, that is, after rounding.
  const float d = half_to_float(float_to_half(top_scale / 63.0f));
  const float d_minimum = half_to_float(float_to_half(top_minimum / 63.0f));
  uint8_t numbers[kSuperBlock];
  for (int p = 0; p < kParts4; ++p) {
    const float scale = d * static_cast<float>(scales[p]), minimum = d_minimum * static_cast<float>(minimums[p]);
    for (int i = 0; i < 32; ++i) {
      const int at = p * 32 + i;
      numbers[at] = scale == 0 ? parts.number_of(p, i)
                               : static_cast<uint8_t>(std::clamp(nearest((values[at] + minimum) / scale), 0, 15));
    }
  }
  uint8_t* const nibbles = out + 16;
  for (int pair = 0; pair < kParts4 / 2; ++pair)
    for (int i = 0; i < 32; ++i)
      nibbles[pair * 32 + i] = static_cast<uint8_t>(numbers[pair * 64 + i] | numbers[pair * 64 + 32 + i] << 4);
}

void store_q6_k(const float* values, uint8_t* out) {
  const Q6Parts parts(values);
  float greatest = 0, top = 0;
  for (int p = 0; p < kParts6; ++p) {
    if (!(std::fabs(parts.scale_of(p)) > greatest)) continue;
    greatest = std::fabs(parts.scale_of(p));
    top = parts.scale_of(p);
  }
  constexpr size_t kBytes = 210;
  if (greatest < 1e-15f) {
    std::memset(out, 0, kBytes);
    return;
  }
  const float by_scale = -128.0f / top;
  uint8_t *const low_bits = out, *const high_bits = out + 128, *const scales = out + 192;
  store_half(1 / by_scale, out + 208);
  const float d = half_to_float(float_to_half(1 / by_scale));
  uint8_t numbers[kSuperBlock];
  for (int p = 0; p < kParts6; ++p) {
    const auto stored = static_cast<int8_t>(std::min(127, nearest(by_scale * parts.scale_of(p))));
    scales[p] = static_cast<uint8_t>(stored);
    const float scale = d * static_cast<float>(stored);
    for (int i = 0; i < 16; ++i) {
      const int at = p * 16 + i;
      numbers[at] = scale == 0 ? parts.number_of(p, i)
                               : static_cast<uint8_t>(std::clamp(nearest(values[at] / scale), -32, 31) + 32);
    }
  }
  for (int half = 0; half < 2; ++half) {
    const uint8_t* const from = numbers + half * 128;
    for (int i = 0; i < 32; ++i) {
      low_bits[half * 64 + i] = static_cast<uint8_t>((from[i] & 15) | (from[i + 64] & 15) << 4);
      low_bits[half * 64 + 32 + i] = static_cast<uint8_t>((from[i + 32] & 15) | (from[i + 96] & 15) << 4);
      high_bits[half * 32 + i] =
          static_cast<uint8_t>(from[i] >> 4 | from[i + 32] >> 4 << 2 | from[i + 64] >> 4 << 4 | from[i + 96] >> 4 << 6);
    }
  }
}

}  // namespace monolith
