// Tests the quantization of floats. The results match files written by llama.cpp, and errors are within the bound for
// rounding to nearest.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/quantize.h"
#include "formats/gguf/tensor_source.h"

using namespace monolith;

TEST(quantized_matrices_equal_those_of_llama_cpp) {
  const std::string source = check::vectors_path("models/llama.f32.gguf");
  if (source.empty()) return check::skip("golden vectors not found");
  const auto floats = GgufFile::open(source);
  REQUIRE(floats.ok());
  for (const auto& [name, type] :
       {std::pair{"models/llama.q8_0.gguf", TensorType::kQ8_0}, std::pair{"models/llama.q4_0.gguf", TensorType::kQ4_0},
        std::pair{"models/llama.q4_k.gguf", TensorType::kQ4_K},
        std::pair{"models/llama.q6_k.gguf", TensorType::kQ6_K}}) {
    const auto file = GgufFile::open(check::vectors_path(name));
    REQUIRE(file.ok());
    size_t compared = 0;
    for (const GgufTensor& want : (*file)->tensors()) {
      if (want.type != type) continue;
      const GgufTensor* from = (*floats)->tensor(want.name);
      REQUIRE(from != nullptr && from->type == TensorType::kF32);
      std::vector<std::byte> got(want.data.size());
      read_rows({.type = TensorType::kF32, .cols = from->shape[0], .parts = {from->data}}, type, 0, from->shape[1], 3,
                got.data());
      CHECK(std::equal(got.begin(), got.end(), want.data.begin(), want.data.end()));
      ++compared;
    }
    CHECK(compared > 5);
  }
}

TEST(quantization_error_is_within_the_rounding_error) {
  uint32_t random = 9;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values(64), back(64);
    for (float& value : values) {  // Large enough that no scale is a subnormal binary16 number.
      random = random * 1664525 + 1013904223;
      value = (static_cast<float>(random >> 8) / 8388608.0f - 1) * std::exp2(static_cast<float>(round % 14));
    }
    for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0}) {
      std::vector<std::byte> stored(256);
      quantize(type, values.data(), 64, stored.data());
      dequantize(type, stored.data(), 64, back.data());
      for (size_t block = 0; block < 64; block += 32) {
        float most = 0;
        for (size_t i = block; i < block + 32; ++i) most = std::max(most, std::fabs(values[i]));
        // The bound is half a step plus the rounding error of the binary16 scale at the largest value. 4-bit codes have
        // one more step on one side than on the other.
        const float step = most / (type == TensorType::kQ8_0 ? 127.0f : 8.0f);
        const float bound = step * (type == TensorType::kQ8_0 ? 0.57f : 1.01f) + 1e-7f;
        for (size_t i = block; i < block + 32; ++i) CHECK(std::fabs(values[i] - back[i]) <= bound);
      }
    }
  }
  // Tests types with blocks of 256 values. Q4_K is more precise than 4-bit types without a minimum, and Q6_K is more
  // precise still. Non-finite values are harmless.
  for (const auto& [type, bound] : {std::pair{TensorType::kQ4_K, 0.09f}, std::pair{TensorType::kQ6_K, 0.04f}}) {
    std::vector<float> values(256), back(256);
    for (float& value : values) {
      random = random * 1664525 + 1013904223;
      value = static_cast<float>(random >> 8) / 8388608.0f - 1;
    }
    std::vector<std::byte> stored(256);
    quantize(type, values.data(), 256, stored.data());
    dequantize(type, stored.data(), 256, back.data());
    for (size_t i = 0; i < 256; ++i) CHECK(std::fabs(values[i] - back[i]) <= bound);
    for (const float odd : {std::numeric_limits<float>::infinity(), std::nanf(""), 1e38f, -1e-40f}) {
      values[77] = odd;
      quantize(type, values.data(), 256, stored.data());
    }
    std::ranges::fill(values, 0.0f);
    quantize(type, values.data(), 256, stored.data());
    dequantize(type, stored.data(), 256, back.data());
    CHECK(back == values);
  }
  // Zeros stay zero, and non-finite values are harmless.
  std::vector<float> odd(32, 0.0f), back(32);
  std::vector<std::byte> stored(64);
  quantize(TensorType::kQ8_0, odd.data(), 32, stored.data());
  dequantize(TensorType::kQ8_0, stored.data(), 32, back.data());
  CHECK(back == odd);
  odd[3] = std::numeric_limits<float>::infinity();
  odd[7] = std::nanf("");
  quantize(TensorType::kQ8_0, odd.data(), 32, stored.data());
  quantize(TensorType::kQ4_0, odd.data(), 32, stored.data());
}

TEST(rows_are_gathered) {
  std::vector<float> a(8), b(16);
  for (size_t i = 0; i < 8; ++i) a[i] = static_cast<float>(i);
  for (size_t i = 0; i < 16; ++i) b[i] = static_cast<float>(8 + i);
  TensorSource source{
      .type = TensorType::kF32, .cols = 2, .parts = {std::as_bytes(std::span(a)), std::as_bytes(std::span(b))}};
  REQUIRE(source.rows() == 12);
  std::vector<float> out(8);
  // These four rows extend over both parts of the source.
  read_rows(source, TensorType::kF32, 2, 4, 1, reinterpret_cast<std::byte*>(out.data()));
  CHECK(out == (std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11}));
  CHECK(can_store(source, TensorType::kF32));
  CHECK(!can_store(source, TensorType::kQ8_0));  // Rows of two values do not fill a block.
  CHECK(!can_store(source, TensorType::kQ4_K));
}
