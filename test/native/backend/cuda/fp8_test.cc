// Tests the conversion of weights to FP8 on the device: rows of every size, every float type, transfer buffers of any
// size, and weights that cannot be converted.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/dense/dense.h"
#include "backend/cuda/dense/fp8.h"
#include "emulator/emulator.h"
#include "backend/cuda/loader.h"
#include "backend/cuda/matmul/matrix.h"
#include "base/float8.h"
#include "base/half.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

// Returns values in the format of a model file.
std::vector<std::byte> stored(TensorType type, const std::vector<float>& values) {
  std::vector<std::byte> data(values.size() * static_cast<size_t>(traits_of(type).block_bytes));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = type == TensorType::kBF16 ? float_to_bfloat16(values[i]) : float_to_half(values[i]);
    if (type == TensorType::kF32)
      std::memcpy(&data[i * 4], &values[i], 4);
    else
      std::memcpy(&data[i * 2], &bits, 2);
  }
  return data;
}

// Returns all rows of a matrix.
std::vector<float> rows_of(Runtime& runtime, const Matrix& matrix) {
  const auto n = static_cast<size_t>(matrix.rows * matrix.cols);
  std::vector<int32_t> tokens(static_cast<size_t>(matrix.rows));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  auto there = runtime.allocate(tokens.size() * sizeof(int32_t)), out = runtime.allocate(n * sizeof(float));
  std::vector<float> values(n);
  if (!there || !out) return values;
  runtime.upload(*there, tokens.data(), tokens.size() * sizeof(int32_t));
  embed_dense(runtime, static_cast<const CudaMatrix&>(matrix), static_cast<const int32_t*>(*there),
              static_cast<int>(matrix.rows), static_cast<float*>(*out));
  runtime.download(values.data(), *out, n * sizeof(float));
  runtime.synchronize();
  runtime.free(*there), runtime.free(*out);
  return values;
}

std::vector<std::byte> bytes_of(Runtime& runtime, const Matrix& matrix) {
  std::vector<std::byte> bytes(matrix.bytes);
  runtime.download(bytes.data(), static_cast<const CudaMatrix&>(matrix).data(), bytes.size());
  runtime.synchronize();
  return bytes;
}

}  // namespace

TEST(fp8_packing_preserves_every_code) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 127) == 127) continue;
    const auto byte = static_cast<uint8_t>(code), other = static_cast<uint8_t>(code ^ 0x95);
    const uint32_t word =
        fp8_bits(byte, false) | fp8_bits(other, true) | fp8_bits(other, false) << 16 | fp8_bits(byte, true) << 16;
    const Words2 halves = fp8_halves(word);
    CHECK_EQ(half_to_float(static_cast<uint16_t>(halves.x)) * kFp8Raise, e4m3_to_float(byte));
    CHECK_EQ(half_to_float(static_cast<uint16_t>(halves.y >> 16)) * kFp8Raise, e4m3_to_float(byte));
    if ((other & 127) == 127) continue;
    CHECK_EQ(half_to_float(static_cast<uint16_t>(halves.y)) * kFp8Raise, e4m3_to_float(other));
    CHECK_EQ(half_to_float(static_cast<uint16_t>(halves.x >> 16)) * kFp8Raise, e4m3_to_float(other));
  }
}

TEST(fp8_rows_of_every_size_are_rounded_correctly) {
  auto runtime = Runtime::open(0);
  REQUIRE(runtime.ok());
  using enum emulator::Order;
  constexpr int64_t kRows = 45, kCols = 70;
  std::mt19937 source(11);
  std::normal_distribution<float> normal;
  for (const auto& [type, order] : {std::pair{TensorType::kF32, kAscending}, std::pair{TensorType::kBF16, kDescending},
                                    std::pair{TensorType::kF16, kShuffled}}) {
    emulator::set_order(order);
    const bool wide = type != TensorType::kF16;
    std::vector<float> values(kRows * kCols);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t k = 0; k < kCols; ++k) {
        float& value = values[static_cast<size_t>(row * kCols + k)];
        value = normal(source);
        if (row == 3) value = 0;                       // A row of zeros.
        if (row == 4) value *= wide ? 1e37f : 1e4f;    // A row with the largest possible numbers.
        if (row == 5) value *= wide ? 1e-37f : 1e-7f;  // A row with almost the smallest possible numbers.
        if (row == 6) value = std::ldexp(value, -static_cast<int>(k % 20));  // A row with FP8 codes of every magnitude.
        if (row == 7) value = k == 8 ? -0.0f : k == 9 ? 1.0f : 0.0f;
      }
    const std::vector<std::byte> data = stored(type, values);
    dequantize(type, data.data(), kRows * kCols, values.data());
    auto matrix = make_matrix(**runtime, {type, kRows, kCols, data, true}, false);
    REQUIRE(matrix.ok());
    CHECK_EQ((*matrix)->bytes, fp8_bytes(kRows, kCols));
    CHECK((*matrix)->type == TensorType::kF8E4M3);
    const std::vector<float> there = rows_of(**runtime, **matrix);
    int wrong = 0;
    // The error relative to the row's largest value, in rows that are not at the limits of the range.
    double worst = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const float* const own = &values[static_cast<size_t>(row * kCols)];
      float most = 0;
      for (int64_t k = 0; k < kCols; ++k) most = std::max(most, std::abs(own[k]));
      const float scale = fp8_scale(most);
      for (int64_t k = 0; k < kCols; ++k) {
        const float got = there[static_cast<size_t>(row * kCols + k)];
        wrong += got != e4m3_to_float(float_to_e4m3(own[k] / scale)) * scale || !std::isfinite(got);
        if (row > 7) worst = std::max(worst, std::abs(double{got} - own[k]) / std::max(std::abs(own[k]), most / 28672));
      }
    }
    CHECK_EQ(wrong, 0);
    CHECK(worst <= 1 / 16.0 + 1e-6);
    // The same weights in binary32 produce the same numbers, and small transfer buffers produce the same bytes.
    auto exact = make_matrix(**runtime, {type, kRows, kCols, data, true}, true);
    REQUIRE(exact.ok());
    CHECK(std::memcmp(bytes_of(**runtime, **exact).data(), there.data(), there.size() * sizeof(float)) == 0);
    Loader small(**runtime, 5000);
    REQUIRE(small.start().ok());
    auto pieces = make_matrix(small, {type, kRows, kCols, data, true}, false);
    REQUIRE(pieces.ok());
    CHECK(bytes_of(**runtime, **pieces) == bytes_of(**runtime, **matrix));
  }
  emulator::set_order(kAscending);
}

TEST(fp8_of_nonfinite_weights_is_rejected) {
  auto runtime = Runtime::open(0);
  REQUIRE(runtime.ok());
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const bool exact : {false, true}) {
      std::vector<float> values(40 * 20, 1.0f);
      values[33 * 20 + 7] = -bad;
      const std::vector<std::byte> data = stored(TensorType::kBF16, values);
      const auto matrix = make_matrix(**runtime, {TensorType::kBF16, 40, 20, data, true}, exact);
      REQUIRE(!matrix.ok());
      CHECK(matrix.error().message.find("row 33 has a non-finite weight") != std::string::npos);
    }
  const std::vector<std::byte> blocks(34 * 4);
  CHECK(!make_matrix(**runtime, {TensorType::kQ8_0, 4, 32, blocks, true}, false).ok());
}
