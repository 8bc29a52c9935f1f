#include "formats/hf/quantized_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float8.h"
#include "base/half.h"

namespace monolith::hf {
namespace {

constexpr int kBlockValues = 32;     // Values per block of Q4_0, Q5_0 and Q8_0.
constexpr int64_t kRowsAtOnce = 16;  // The packed int32 words of 16 outputs fill a 64-byte cache line.

uint32_t word_at(std::span<const std::byte> words, int64_t i) {
  uint32_t word;
  std::memcpy(&word, words.data() + static_cast<size_t>(i) * sizeof word, sizeof word);
  return word;
}

// True for a power of two within 2^-100..2^100. E4M3 values have four significant bits, so the product of an E4M3 value
// and such a scale is exact in BF16 and within BF16's range.
bool is_moderate_power_of_two(float scale) {
  const uint32_t bits = std::bit_cast<uint32_t>(scale);
  const int exponent = static_cast<int>(bits >> 23 & 0xffu) - 127;
  return (bits & 0x7fffffu) == 0 && exponent >= -100 && exponent <= 100;
}

class Fp8Rows final : public RowMaker {
 public:
  Fp8Rows(std::span<const std::byte> codes, int64_t cols, const ScaleGrid& scales, int64_t block_rows,
          int64_t block_cols)
      : codes_(codes), cols_(cols), scales_(scales), block_rows_(block_rows), block_cols_(block_cols) {
    bool exact = true, moderate = true;
    for (int64_t row = 0; row < scales.rows && moderate; ++row)
      for (int64_t col = 0; col < scales.cols && moderate; ++col) {
        const float scale = scales.at(row, col);
        exact = exact && is_moderate_power_of_two(scale);
        moderate = std::fabs(scale) < kMaxScale;
      }
    float_type_ = exact && moderate ? TensorType::kBF16 : TensorType::kF32;
    const bool whole = cols % kStored == 0 && (block_cols % kStored == 0 || block_cols >= cols);
    type_ = whole && moderate ? TensorType::kF8Scaled : float_type_;
    for (int code = 0; code < 256; ++code) values_[code] = e4m3_to_float(static_cast<uint8_t>(code));
  }

  int64_t rows() const override { return static_cast<int64_t>(codes_.size()) / cols_; }
  int64_t cols() const override { return cols_; }
  TensorType exact_type() const override { return type_; }
  TensorType float_type() const override { return float_type_; }
  // The scale of a block that contains a NaN code is set to NaN. This does not change any result, because every dot
  // product with the row is NaN in any case.
  void store(int64_t first, int64_t count, std::byte* out) const override {
    if (type_ != TensorType::kF8Scaled) return RowMaker::store(first, count, out);
    for (int64_t row = first; row < first + count; ++row) {
      const std::byte* codes = codes_.data() + row * cols_;
      for (int64_t begin = 0; begin < cols_; begin += kStored, codes += kStored) {
        const bool numbers = std::none_of(codes, codes + kStored,
                                          [](std::byte code) { return (code & std::byte{0x7f}) == std::byte{0x7f}; });
        const float scale =
            numbers ? scales_.at(row / block_rows_, begin / block_cols_) : std::numeric_limits<float>::quiet_NaN();
        std::memcpy(out, &scale, sizeof scale);
        out = std::copy_n(codes, kStored, out + sizeof scale);
      }
    }
  }
  void make(int64_t first, int64_t count, float* out) const override {
    for (int64_t row = first; row < first + count; ++row) {
      const std::byte* const codes = codes_.data() + row * cols_;
      for (int64_t begin = 0, block = 0; begin < cols_; begin += block_cols_, ++block) {
        const float scale = scales_.at(row / block_rows_, block);
        const int64_t end = std::min(begin + block_cols_, cols_);
        for (int64_t i = begin; i < end; ++i) *out++ = values_[static_cast<uint8_t>(codes[i])] * scale;
      }
    }
  }
  void add_slots(std::vector<std::span<const std::byte>>& places) const override {
    places.push_back(codes_);
    places.push_back(scales_.data);
  }

 private:
  std::span<const std::byte> codes_;
  int64_t cols_;
  ScaleGrid scales_;
  static constexpr int64_t kStored = 128;
  static constexpr float kMaxScale = 0x1p100f;

  int64_t block_rows_, block_cols_;
  TensorType type_, float_type_;
  float values_[256];
};

class Fp4Rows final : public RowMaker {
 public:
  explicit Fp4Rows(const Fp4Matrix& matrix) : m_(matrix) {
    const float factor = m_.divides ? 1 / m_.factor : m_.factor;
    const bool holds =
        m_.cols % kStored == 0 && std::isfinite(factor) &&
        std::ranges::all_of(m_.scales, [](std::byte scale) { return static_cast<uint8_t>(scale) < kE4m3Nan; });
    type_ = holds ? TensorType::kNVFP4 : TensorType::kF32;
    factor_ = holds ? factor : 1;
  }

  int64_t rows() const override { return static_cast<int64_t>(m_.codes.size()) * 2 / m_.cols; }
  int64_t cols() const override { return m_.cols; }
  TensorType exact_type() const override { return type_; }
  float factor() const override { return factor_; }
  // Blocks of 64 values: four scales, then for each 16 values eight bytes, with the first eight values in the low
  // nibbles and the last eight in the high nibbles.
  void store(int64_t first, int64_t count, std::byte* out) const override {
    if (type_ == TensorType::kF32) return make(first, count, reinterpret_cast<float*>(out));
    const std::byte* codes = m_.codes.data() + first * m_.cols / 2;
    const std::byte* scales = m_.scales.data() + first * m_.cols / kFp4Block;
    const auto code = [&codes](int64_t i) { return i % 2 == 0 ? codes[i / 2] & std::byte{15} : codes[i / 2] >> 4; };
    for (int64_t i = 0; i < count * m_.cols; i += kStored) {
      out = std::copy_n(scales, kStored / kFp4Block, out);
      scales += kStored / kFp4Block;
      for (int64_t block = 0; block < kStored / kFp4Block; ++block, codes += kFp4Block / 2)
        for (int64_t j = 0; j < kFp4Block / 2; ++j) *out++ = code(j) | code(j + kFp4Block / 2) << 4;
    }
  }
  void make(int64_t first, int64_t count, float* out) const override {
    const std::byte* codes = m_.codes.data() + first * m_.cols / 2;
    const std::byte* scales = m_.scales.data() + first * m_.cols / kFp4Block;
    for (int64_t i = 0; i < count * m_.cols; i += kFp4Block, out += kFp4Block) {
      const float scale = e4m3_to_float(static_cast<uint8_t>(*scales++));
      const float step = m_.divides ? scale / m_.factor : scale * m_.factor;
      for (int64_t j = 0; j < kFp4Block; j += 2, ++codes) {
        const auto pair = static_cast<uint8_t>(*codes);
        out[j] = value(pair & 15) * step;
        out[j + 1] = value(pair >> 4) * step;
      }
    }
  }
  void add_slots(std::vector<std::span<const std::byte>>& places) const override {
    places.push_back(m_.codes);
    places.push_back(m_.scales);
  }

 private:
  static constexpr int64_t kFp4Block = 16, kStored = 64;
  static constexpr uint8_t kE4m3Nan = 0x7f;  // Codes of 0x7f and above are NaN or negative.
  static float value(int code) { return 0.5f * static_cast<float>(kMxfp4Levels[code]); }

  Fp4Matrix m_;
  TensorType type_;
  float factor_;
};

class Mxfp4Rows final : public RowMaker {
 public:
  Mxfp4Rows(std::span<const std::byte> codes, int64_t cols, std::span<const std::byte> scales)
      : codes_(codes), scales_(scales), cols_(cols) {}

  int64_t rows() const override { return static_cast<int64_t>(codes_.size()) * 2 / cols_; }
  int64_t cols() const override { return cols_; }
  TensorType exact_type() const override { return TensorType::kMXFP4; }
  void make(int64_t first, int64_t count, float* out) const override {
    std::vector<std::byte> blocks(
        static_cast<size_t>(count * cols_ / kBlockValues * traits_of(TensorType::kMXFP4).block_bytes));
    store(first, count, blocks.data());
    dequantize(TensorType::kMXFP4, blocks.data(), count * cols_, out);
  }
  // A block is the exponent, then 16 bytes: the first sixteen values in the low nibbles, the last sixteen in the high
  // nibbles.
  void store(int64_t first, int64_t count, std::byte* out) const override {
    const std::byte* codes = codes_.data() + first * cols_ / 2;
    const std::byte* scale = scales_.data() + first * cols_ / kBlockValues;
    const auto code = [&codes](int i) { return i % 2 == 0 ? codes[i / 2] & std::byte{15} : codes[i / 2] >> 4; };
    for (int64_t i = 0; i < count * cols_; i += kBlockValues, codes += kBlockValues / 2) {
      *out++ = *scale++;
      for (int j = 0; j < kBlockValues / 2; ++j) *out++ = code(j) | code(j + kBlockValues / 2) << 4;
    }
  }
  void add_slots(std::vector<std::span<const std::byte>>& places) const override {
    places.push_back(codes_);
    places.push_back(scales_);
  }

 private:
  std::span<const std::byte> codes_, scales_;
  int64_t cols_;
};

class IntegerRows final : public RowMaker {
 public:
  explicit IntegerRows(const IntegerMatrix& matrix) : m_(matrix), type_(holding_type()) {}

  int64_t rows() const override { return m_.out; }
  int64_t cols() const override { return m_.in; }
  TensorType exact_type() const override { return type_; }

  void make(int64_t first, int64_t count, float* out) const override {
    std::vector<float> scales(static_cast<size_t>(m_.groups));
    each(first, count, [&](int64_t row, const int16_t* codes) {
      for (int64_t group = 0; group < m_.groups; ++group) scales[static_cast<size_t>(group)] = scale(group, row);
      for (int64_t i = 0; i < m_.in; ++i)
        *out++ = static_cast<float>(codes[i]) * scales[static_cast<size_t>(group_of(i))];
    });
  }

  void store(int64_t first, int64_t count, std::byte* out) const override {
    if (type_ == TensorType::kF32) return make(first, count, reinterpret_cast<float*>(out));
    each(first, count, [&](int64_t row, const int16_t* codes) {
      for (int64_t i = 0; i < m_.in; i += kBlockValues) {
        const uint16_t bits = float_to_half(scale(group_of(i), row));
        std::memcpy(out, &bits, sizeof bits);
        out = put_block(codes + i, out + sizeof bits);
      }
    });
  }

  void add_slots(std::vector<std::span<const std::byte>>& places) const override {
    places.insert(places.end(), {m_.words, m_.zeros, m_.scales.data, m_.group_of});
  }

 private:
  int per_word() const { return 32 / m_.bits; }
  uint32_t mask() const { return (1u << m_.bits) - 1; }
  int middle() const { return 1 << (m_.bits - 1); }
  float scale(int64_t group, int64_t row) const {
    return m_.layout == IntegerMatrix::Layout::kRowsPacked ? m_.scales.at(row, group) : m_.scales.at(group, row);
  }
  int64_t group_of(int64_t input) const {
    if (m_.group_of.empty()) return input / (m_.in / m_.groups);
    return word_at(m_.group_of, input);
  }
  // Returns the bit position of an output's code within its packed word.
  int place(int64_t output) const {
    constexpr int kAwq[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // The inverse of the permutation 0 2 4 6 1 3 5 7.
    const auto at = static_cast<int>(output % per_word());
    return (m_.layout == IntegerMatrix::Layout::kOutputsPacked ? kAwq[at] : at) * m_.bits;
  }
  int zero(int64_t group, int64_t output) const {
    if (m_.zeros.empty()) return middle();
    const int64_t n = per_word(), words = (m_.out + n - 1) / n;
    const int64_t at =
        m_.layout == IntegerMatrix::Layout::kRowsPacked ? output / n * m_.groups + group : group * words + output / n;
    return static_cast<int>(word_at(m_.zeros, at) >> place(output) & mask()) + m_.added_to_zeros;
  }
  int code(int64_t input, int64_t output) const {
    const int64_t n = per_word();
    switch (m_.layout) {
      case IntegerMatrix::Layout::kInputsPacked:
        return static_cast<int>(word_at(m_.words, input / n * m_.out + output) >> (input % n * m_.bits) & mask());
      case IntegerMatrix::Layout::kOutputsPacked:
        return static_cast<int>(word_at(m_.words, input * (m_.out / n) + output / n) >> place(output) & mask());
      case IntegerMatrix::Layout::kRowsPacked: break;
    }
    return static_cast<int>(word_at(m_.words, output * ((m_.in + n - 1) / n) + input / n) >> (input % n * m_.bits) &
                            mask());
  }

  TensorType holding_type() const {
    const int64_t group = m_.in / m_.groups;
    if (m_.in % kBlockValues != 0) return TensorType::kF32;
    if (m_.group_of.empty()) {
      if (group % kBlockValues != 0) return TensorType::kF32;
    } else {
      for (int64_t i = 0; i < m_.in; ++i)
        if (group_of(i) != group_of(i / kBlockValues * kBlockValues)) return TensorType::kF32;
    }
    if (m_.scales.type != ScaleGrid::Type::kF16)
      for (int64_t row = 0; row < m_.scales.rows; ++row)
        for (int64_t col = 0; col < m_.scales.cols; ++col)
          if (const float value = m_.scales.at(row, col); half_to_float(float_to_half(value)) != value)
            return TensorType::kF32;
    bool symmetric = true;
    for (int64_t g = 0; g < m_.groups && symmetric && !m_.zeros.empty(); ++g)
      for (int64_t row = 0; row < m_.out && symmetric; ++row) symmetric = zero(g, row) == middle();
    if (m_.bits == 4) return symmetric ? TensorType::kQ4_0 : TensorType::kQ5_0;
    return symmetric ? TensorType::kQ8_0 : TensorType::kF32;
  }

  // Writes the codes of 32 values that share a scale. The caller has already written the scale.
  std::byte* put_block(const int16_t* codes, std::byte* out) const {
    const auto nibbles = [&](int added) {
      for (int i = 0; i < kBlockValues / 2; ++i)
        *out++ = static_cast<std::byte>(((codes[i] + added) & 15) | ((codes[i + kBlockValues / 2] + added) & 15) << 4);
    };
    if (type_ == TensorType::kQ4_0) {
      nibbles(8);
    } else if (type_ == TensorType::kQ5_0) {
      uint32_t fifth = 0;
      for (int i = 0; i < kBlockValues; ++i) fifth |= static_cast<uint32_t>((codes[i] + 16) >> 4 & 1) << i;
      std::memcpy(out, &fifth, sizeof fifth);
      out += sizeof fifth;
      nibbles(16);
    } else {
      for (int i = 0; i < kBlockValues; ++i) *out++ = static_cast<std::byte>(static_cast<int8_t>(codes[i]));
    }
    return out;
  }

  // Calls use(row, (q - z) of all inputs) for each row. Several rows are unpacked at a time, because a packed word may
  // hold values of several rows.
  template <typename Use>
  void each(int64_t first, int64_t count, const Use& use) const {
    const int64_t most = std::min(kRowsAtOnce, count);
    std::vector<int16_t> codes(static_cast<size_t>(most * m_.in));
    std::vector<int16_t> zeros(static_cast<size_t>(most * m_.groups));
    for (int64_t begin = first; begin < first + count; begin += most) {
      const int64_t n = std::min(most, first + count - begin);
      for (int64_t row = 0; row < n; ++row)
        for (int64_t g = 0; g < m_.groups; ++g)
          zeros[static_cast<size_t>(row * m_.groups + g)] = static_cast<int16_t>(zero(g, begin + row));
      for (int64_t i = 0; i < m_.in; ++i)
        for (int64_t row = 0, g = group_of(i); row < n; ++row)
          codes[static_cast<size_t>(row * m_.in + i)] =
              static_cast<int16_t>(code(i, begin + row) - zeros[static_cast<size_t>(row * m_.groups + g)]);
      for (int64_t row = 0; row < n; ++row) use(begin + row, codes.data() + row * m_.in);
    }
  }

  IntegerMatrix m_;
  TensorType type_;
};

class FloatRows final : public RowMaker {
 public:
  explicit FloatRows(Rows of) : of_(std::move(of)) {}
  int64_t rows() const override { return of_->rows(); }
  int64_t cols() const override { return of_->cols(); }
  void make(int64_t first, int64_t count, float* out) const override { of_->make(first, count, out); }
  void add_slots(std::vector<std::span<const std::byte>>& places) const override { of_->add_slots(places); }

 private:
  Rows of_;
};

}  // namespace

float ScaleGrid::at(int64_t row, int64_t col) const {
  const auto i = static_cast<size_t>(row * cols + col);
  if (type == Type::kE8M0) {  // The value is 2^(e - 127); e = 255 is NaN.
    const auto e = static_cast<uint32_t>(data[i]);
    return std::bit_cast<float>(e == 255 ? 0x7fc00000u : e == 0 ? 0x00400000u : e << 23);
  }
  if (type == Type::kF32) return std::bit_cast<float>(word_at(data, static_cast<int64_t>(i)));
  uint16_t bits;
  std::memcpy(&bits, data.data() + i * sizeof bits, sizeof bits);
  return type == Type::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

Rows fp8_rows(std::span<const std::byte> codes, int64_t cols, const ScaleGrid& scales, int64_t block_rows,
              int64_t block_cols) {
  return std::make_shared<Fp8Rows>(codes, cols, scales, block_rows, block_cols);
}

Rows fp4_rows(const Fp4Matrix& matrix) { return std::make_shared<Fp4Rows>(matrix); }

Rows mxfp4_rows(std::span<const std::byte> codes, int64_t cols, std::span<const std::byte> scales) {
  return std::make_shared<Mxfp4Rows>(codes, cols, scales);
}

Rows integer_rows(const IntegerMatrix& matrix) { return std::make_shared<IntegerRows>(matrix); }

Rows float_rows(const Rows& of) { return of->exact_type() == TensorType::kF32 ? of : std::make_shared<FloatRows>(of); }

}  // namespace monolith::hf
