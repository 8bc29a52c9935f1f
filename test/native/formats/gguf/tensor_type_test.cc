// Tests dequantization: hand-made blocks with known results, all 16-bit floats, and the golden files. Quantized tensors
// in the golden files must agree with the same tensors in F32 to within the rounding error of each format.
#include "formats/gguf/tensor_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/half.h"
#include "check.h"
#include "formats/gguf/gguf.h"

using namespace monolith;

namespace {

template <size_t N>
std::vector<float> decode(TensorType type, const std::array<uint8_t, N>& block) {
  const TensorTypeTraits& traits = traits_of(type);
  std::vector<float> out(N / static_cast<size_t>(traits.block_bytes) * static_cast<size_t>(traits.block_values));
  dequantize(type, block.data(), static_cast<int64_t>(out.size()), out.data());
  return out;
}

template <size_t N>
void put_half(std::array<uint8_t, N>& block, size_t at, float value) {
  const uint16_t bits = float_to_half(value);
  std::memcpy(block.data() + at, &bits, sizeof bits);
}

}  // namespace

TEST(tensor_types_have_sizes_and_names) {
  CHECK_EQ(traits_of(TensorType::kQ4_K).block_values, 256);
  CHECK_EQ(traits_of(TensorType::kQ4_K).block_bytes, 144);
  CHECK_EQ(traits_of(TensorType::kQ6_K).block_bytes, 210);
  CHECK_EQ(traits_of(TensorType::kBF16).name, "BF16");
  for (uint32_t unsupported : {4u, 5u, 9u, 24u, 31u, 41u, 1000u, 0xffffffffu})
    CHECK(tensor_type_traits(unsupported) == nullptr);
  // The two tables must agree on the types that are in both of them.
  for (uint32_t type = 0; type < 64; ++type)
    if (const TensorTypeTraits* traits = tensor_type_traits(type)) CHECK_EQ(traits->name, tensor_type_name(type));
  CHECK_EQ(tensor_type_name(13), "Q5_K");
  CHECK_EQ(tensor_type_name(20), "IQ4_NL");
  CHECK_EQ(tensor_type_name(39), "MXFP4");
  CHECK_EQ(tensor_type_name(0xffffffffu), "unknown");
}

// Compares both conversions with the definition, sign * 2^exponent * mantissa, for every bit pattern.
TEST(half_conversions_are_exact) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const int exponent = half >> 10 & 31, mantissa = half & 1023;
    const float got = half_to_float(half);
    if (exponent == 31 && mantissa != 0) {
      CHECK(std::isnan(got) && std::isnan(half_to_float(float_to_half(got))));
      continue;
    }
    float magnitude = exponent == 31  ? std::numeric_limits<float>::infinity()
                      : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                      : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    const float want = half & 0x8000 ? -magnitude : magnitude;
    if (std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(want) || float_to_half(got) != half)
      return check::fail(__FILE__, __LINE__, "half " + std::to_string(bits));
    // A value halfway to the next bit pattern is rounded to the even one, and any larger value is rounded up.
    if (exponent == 31) continue;
    const float next = half_to_float(static_cast<uint16_t>((half & 0x7fff) + 1));
    const float tie = std::isinf(next) ? 65520.0f : (magnitude + next) / 2;
    const auto up = static_cast<uint16_t>((half & 0x7fff) + 1), even = half & 1 ? up : static_cast<uint16_t>(up - 1);
    if (float_to_half(tie) != even || float_to_half(std::nextafter(tie, 1e9f)) != up ||
        float_to_half(std::nextafter(tie, 0.0f)) != up - 1)
      return check::fail(__FILE__, __LINE__, "rounding above half " + std::to_string(bits & 0x7fff));
  }
  CHECK_EQ(bfloat16_to_float(0x3fc0), 1.5f);
  CHECK_EQ(float_to_bfloat16(1.5f), 0x3fc0);
  CHECK_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // The tie rounds down to even.
  CHECK_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // The tie rounds up to even.
  CHECK_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  CHECK(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(dequantize_plain_types) {
  CHECK(decode(TensorType::kF32, std::array<uint8_t, 8>{0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0}) ==
        std::vector<float>({1.5f, -2.0f}));
  CHECK(decode(TensorType::kF16, std::array<uint8_t, 6>{0x00, 0x3e, 0x00, 0xc0, 0x01, 0x00}) ==
        std::vector<float>({1.5f, -2.0f, 0x1p-24f}));
  CHECK(decode(TensorType::kBF16, std::array<uint8_t, 4>{0xc0, 0x3f, 0x00, 0xc0}) == std::vector<float>({1.5f, -2.0f}));
}

TEST(dequantize_q8_0) {
  std::array<uint8_t, 68> blocks{};
  put_half(blocks, 0, 0.25f);
  put_half(blocks, 34, -2.0f);
  for (int i = 0; i < 32; ++i) {
    blocks[2 + static_cast<size_t>(i)] = static_cast<uint8_t>(i - 16);
    blocks[36 + static_cast<size_t>(i)] = static_cast<uint8_t>(i % 2 ? 127 : -128);
  }
  const std::vector<float> out = decode(TensorType::kQ8_0, blocks);
  for (int i = 0; i < 32; ++i) {
    CHECK_EQ(out[static_cast<size_t>(i)], 0.25f * static_cast<float>(i - 16));
    CHECK_EQ(out[static_cast<size_t>(32 + i)], i % 2 ? -254.0f : 256.0f);
  }
}

TEST(dequantize_q4_0) {
  std::array<uint8_t, 18> block{};
  put_half(block, 0, 0.5f);
  for (size_t i = 0; i < 16; ++i) block[2 + i] = static_cast<uint8_t>(i | (15 - i) << 4);
  const std::vector<float> out = decode(TensorType::kQ4_0, block);
  for (int i = 0; i < 16; ++i) {
    CHECK_EQ(out[static_cast<size_t>(i)], 0.5f * static_cast<float>(i - 8));
    CHECK_EQ(out[static_cast<size_t>(16 + i)], 0.5f * static_cast<float>(7 - i));
  }
}

TEST(dequantize_q4_k) {
  const std::array<uint8_t, 8> scale = {1, 17, 34, 63, 5, 21, 38, 60}, minimum = {63, 2, 16, 40, 33, 0, 50, 19};
  std::array<uint8_t, 144> block{};
  put_half(block, 0, 0.125f);
  put_half(block, 2, 0.5f);
  for (size_t i = 0; i < 4; ++i) {
    block[4 + i] = static_cast<uint8_t>(scale[i] | scale[i + 4] >> 4 << 6);
    block[8 + i] = static_cast<uint8_t>(minimum[i] | minimum[i + 4] >> 4 << 6);
    block[12 + i] = static_cast<uint8_t>((scale[i + 4] & 15) | (minimum[i + 4] & 15) << 4);
  }
  const auto quant = [](size_t i) { return (7 * i + i / 32) % 16; };
  for (size_t i = 0; i < 256; ++i)
    block[16 + i / 64 * 32 + i % 32] |= static_cast<uint8_t>(quant(i) << (i % 64 < 32 ? 0 : 4));
  const std::vector<float> out = decode(TensorType::kQ4_K, block);
  for (size_t i = 0; i < 256; ++i)
    CHECK_EQ(out[i], 0.125f * scale[i / 32] * static_cast<float>(quant(i)) - 0.5f * minimum[i / 32]);
}

TEST(dequantize_q6_k) {
  std::array<uint8_t, 210> block{};
  put_half(block, 208, 0.0625f);
  const auto scale = [](size_t i) { return static_cast<int>(i * 37 % 256) - 128; };
  const auto quant = [](size_t i) { return static_cast<int>((11 * i + i / 16) % 64); };
  for (size_t i = 0; i < 16; ++i) block[192 + i] = static_cast<uint8_t>(scale(i));
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, group = i % 128 / 32, column = i % 32;
    block[64 * half + 32 * (group % 2) + column] |= static_cast<uint8_t>((quant(i) & 15) << (group < 2 ? 0 : 4));
    block[128 + 32 * half + column] |= static_cast<uint8_t>(quant(i) >> 4 << 2 * group);
  }
  const std::vector<float> out = decode(TensorType::kQ6_K, block);
  for (size_t i = 0; i < 256; ++i)
    CHECK_EQ(out[i], 0.0625f * static_cast<float>(scale(i / 16)) * static_cast<float>(quant(i) - 32));
}

// Writes a code in the layout shared by all types that store 32 values in 16 bytes, and its fifth bit in the layout of
// Q5_0 and Q5_1.
template <size_t N>
void put_nibble(std::array<uint8_t, N>& block, size_t quants, size_t i, size_t q) {
  block[quants + i % 16] |= static_cast<uint8_t>((q & 15) << (i < 16 ? 0 : 4));
}
template <size_t N>
void put_fifth(std::array<uint8_t, N>& block, size_t bits, size_t i, size_t q) {
  block[bits + i / 8] |= static_cast<uint8_t>(q >> 4 << i % 8);
}

TEST(dequantize_q4_1) {
  std::array<uint8_t, 20> block{};
  put_half(block, 0, 0.5f);
  put_half(block, 2, -3.25f);
  for (size_t i = 0; i < 32; ++i) put_nibble(block, 4, i, 5 * i % 16);
  const std::vector<float> out = decode(TensorType::kQ4_1, block);
  for (size_t i = 0; i < 32; ++i) CHECK_EQ(out[i], 0.5f * static_cast<float>(5 * i % 16) - 3.25f);
}

TEST(dequantize_q5_0_and_q5_1) {
  std::array<uint8_t, 22> without{};
  std::array<uint8_t, 24> with_minimum{};
  put_half(without, 0, 0.25f);
  put_half(with_minimum, 0, 0.25f);
  put_half(with_minimum, 2, 7.5f);
  const auto quant = [](size_t i) { return 11 * i % 32; };
  for (size_t i = 0; i < 32; ++i) {
    put_fifth(without, 2, i, quant(i));
    put_nibble(without, 6, i, quant(i));
    put_fifth(with_minimum, 4, i, quant(i));
    put_nibble(with_minimum, 8, i, quant(i));
  }
  const std::vector<float> a = decode(TensorType::kQ5_0, without), b = decode(TensorType::kQ5_1, with_minimum);
  for (size_t i = 0; i < 32; ++i) {
    CHECK_EQ(a[i], 0.25f * (static_cast<float>(quant(i)) - 16));
    CHECK_EQ(b[i], 0.25f * static_cast<float>(quant(i)) + 7.5f);
  }
}

TEST(dequantize_iq4_nl) {
  std::array<uint8_t, 18> block{};
  put_half(block, 0, 2.0f);
  for (size_t i = 0; i < 32; ++i) put_nibble(block, 2, i, 7 * i % 16);
  const std::vector<float> out = decode(TensorType::kIQ4_NL, block);
  for (size_t i = 0; i < 32; ++i) CHECK_EQ(out[i], 2.0f * kIq4Levels[7 * i % 16]);
}

// E2M1: a sign bit, two exponent bits with bias 1 (0 is subnormal), and one mantissa bit.
TEST(dequantize_mxfp4) {
  for (int e : {0, 1, 2, 120, 127, 128, 250}) {
    std::array<uint8_t, 17> block{};
    block[0] = static_cast<uint8_t>(e);
    for (size_t i = 0; i < 32; ++i) put_nibble(block, 1, i, 3 * i % 16);
    const std::vector<float> out = decode(TensorType::kMXFP4, block);
    for (size_t i = 0; i < 32; ++i) {
      const size_t q = 3 * i % 16;
      const int exponent = static_cast<int>(q >> 1 & 3);
      const float mantissa = (exponent == 0 ? 0.0f : 1.0f) + 0.5f * static_cast<float>(q & 1);
      const float size = std::ldexp(mantissa, (exponent == 0 ? 0 : exponent - 1) + e - 127);
      CHECK_EQ(out[i], q & 8 ? -size : size);
    }
  }
}

TEST(dequantize_q2_k) {
  std::array<uint8_t, 84> block{};
  put_half(block, 80, 0.5f);
  put_half(block, 82, 0.125f);
  const auto quant = [](size_t i) { return (3 * i + i / 16) % 4; };
  for (size_t i = 0; i < 16; ++i) block[i] = static_cast<uint8_t>(i | (15 - i) << 4);
  for (size_t i = 0; i < 256; ++i)  // In each half of the block, four groups of 32 values share 32 bytes.
    block[16 + 32 * (i / 128) + i % 32] |= static_cast<uint8_t>(quant(i) << 2 * (i % 128 / 32));
  const std::vector<float> out = decode(TensorType::kQ2_K, block);
  for (size_t i = 0; i < 256; ++i) {
    const float scale = static_cast<float>(i / 16), minimum = static_cast<float>(15 - i / 16);
    CHECK_EQ(out[i], 0.5f * scale * static_cast<float>(quant(i)) - 0.125f * minimum);
  }
}

TEST(dequantize_q3_k) {
  std::array<uint8_t, 110> block{};
  put_half(block, 108, 0.25f);
  const auto scale = [](size_t i) { return 23 * i % 64; };  // Q3_K stores scales with an offset: 32 represents 0.
  const auto quant = [](size_t i) { return (5 * i + i / 8) % 8; };
  for (size_t i = 0; i < 16; ++i) {
    block[96 + i % 8] |= static_cast<uint8_t>((scale(i) & 15) << (i < 8 ? 0 : 4));
    block[104 + i % 4] |= static_cast<uint8_t>(scale(i) >> 4 << 2 * (i / 4));
  }
  for (size_t i = 0; i < 256; ++i) {
    block[i % 32] |= static_cast<uint8_t>(quant(i) >> 2 << i / 32);
    block[32 + 32 * (i / 128) + i % 32] |= static_cast<uint8_t>((quant(i) & 3) << 2 * (i % 128 / 32));
  }
  const std::vector<float> out = decode(TensorType::kQ3_K, block);
  for (size_t i = 0; i < 256; ++i)
    CHECK_EQ(out[i], 0.25f * (static_cast<float>(scale(i / 16)) - 32) * (static_cast<float>(quant(i)) - 4));
}

TEST(dequantize_q5_k) {
  const std::array<uint8_t, 8> scale = {1, 17, 34, 63, 5, 21, 38, 60}, minimum = {63, 2, 16, 40, 33, 0, 50, 19};
  std::array<uint8_t, 176> block{};
  put_half(block, 0, 0.125f);
  put_half(block, 2, 0.5f);
  for (size_t i = 0; i < 4; ++i) {
    block[4 + i] = static_cast<uint8_t>(scale[i] | scale[i + 4] >> 4 << 6);
    block[8 + i] = static_cast<uint8_t>(minimum[i] | minimum[i + 4] >> 4 << 6);
    block[12 + i] = static_cast<uint8_t>((scale[i + 4] & 15) | (minimum[i + 4] & 15) << 4);
  }
  const auto quant = [](size_t i) { return (7 * i + i / 32) % 32; };
  for (size_t i = 0; i < 256; ++i) {
    block[16 + i % 32] |= static_cast<uint8_t>(quant(i) >> 4 << i / 32);
    block[48 + i / 64 * 32 + i % 32] |= static_cast<uint8_t>((quant(i) & 15) << (i % 64 < 32 ? 0 : 4));
  }
  const std::vector<float> out = decode(TensorType::kQ5_K, block);
  for (size_t i = 0; i < 256; ++i)
    CHECK_EQ(out[i], 0.125f * scale[i / 32] * static_cast<float>(quant(i)) - 0.5f * minimum[i / 32]);
}

TEST(dequantize_iq4_xs) {
  const std::array<uint8_t, 8> scale = {0, 63, 32, 31, 17, 46, 5, 60};
  std::array<uint8_t, 136> block{};
  put_half(block, 0, 0.5f);
  for (size_t i = 0; i < 8; ++i) {
    block[2 + i / 4] |= static_cast<uint8_t>(scale[i] >> 4 << 2 * (i % 4));
    block[4 + i / 2] |= static_cast<uint8_t>((scale[i] & 15) << 4 * (i % 2));
  }
  const auto quant = [](size_t i) { return (7 * i + i / 32) % 16; };
  for (size_t i = 0; i < 256; ++i) put_nibble(block, 8 + 16 * (i / 32), i % 32, quant(i));
  const std::vector<float> out = decode(TensorType::kIQ4_XS, block);
  for (size_t i = 0; i < 256; ++i)
    CHECK_EQ(out[i], 0.5f * (static_cast<float>(scale[i / 32]) - 32) * kIq4Levels[quant(i)]);
}

// Results from an independent implementation: FNV-1a hashes of the floats that ggml 0.18.1 (dequantize_row_*) computes
// for the same random blocks.
TEST(dequantize_matches_ggml_bit_for_bit) {
  struct Digest {
    TensorType type;
    uint64_t fnv;
  };
  const Digest table[] = {
      {TensorType::kQ4_0, 0x4e28aa03870fca7a},    {TensorType::kQ4_1, 0x7a9cc6a0a883b912},
      {TensorType::kQ5_0, 0xbd4ced3696398a6e},    {TensorType::kQ5_1, 0xd5ed6f6d44e592c4},
      {TensorType::kQ8_0, 0x535b59c514c6501d},    {TensorType::kQ2_K, 0x143ff0491ca6ae49},
      {TensorType::kQ3_K, 0xf26c294160adf13d},    {TensorType::kQ4_K, 0x81cd9dc6e4a55ba7},
      {TensorType::kQ5_K, 0xe9402ce3641eba1c},    {TensorType::kQ6_K, 0x00bbf613ce4fc7f5},
      {TensorType::kIQ4_NL, 0xac7134e33555754e},  {TensorType::kIQ4_XS, 0x577b643e9c508900},
      {TensorType::kMXFP4, 0xfc5948cbb7d15272},   {TensorType::kIQ1_S, 0x4543391ae21c2759},
      {TensorType::kIQ1_M, 0xa32f8457410a581f},   {TensorType::kIQ2_XXS, 0x34cd5309f47ea0dc},
      {TensorType::kIQ2_XS, 0x9dd190ccfc89294a},  {TensorType::kIQ2_S, 0xa08f44fefcc36815},
      {TensorType::kIQ3_XXS, 0x8a1e9b3053583beb}, {TensorType::kIQ3_S, 0x955e48568091d3db},
      {TensorType::kTQ1_0, 0xc2140a586323e182},   {TensorType::kTQ2_0, 0xab71abb69a1f1660},
      {TensorType::kNVFP4, 0xe8ad35e4c01de8f7},
  };
  for (const Digest& expected : table) {
    const TensorTypeTraits& traits = traits_of(expected.type);
    const auto block_bytes = static_cast<size_t>(traits.block_bytes);
    const size_t blocks = traits.block_values == 32 ? 16 : 4;
    std::vector<uint8_t> data(blocks * block_bytes);
    uint64_t state = static_cast<uint64_t>(expected.type) * 2 + 1;
    for (uint8_t& byte : data) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<uint8_t>(state >> 56);
    }
    // Keeps binary16 scales below 2, so that none of them is infinite or NaN.
    const bool two = expected.type == TensorType::kQ4_1 || expected.type == TensorType::kQ5_1 ||
                     expected.type == TensorType::kQ2_K || expected.type == TensorType::kQ4_K ||
                     expected.type == TensorType::kQ5_K;
    const size_t first = expected.type == TensorType::kQ2_K    ? 80
                         : expected.type == TensorType::kQ3_K  ? 108
                         : expected.type == TensorType::kQ6_K  ? 208
                         : expected.type == TensorType::kTQ1_0 ? 52
                         : expected.type == TensorType::kTQ2_0 ? 64
                         // IQ1_M: the upper nibble of this byte is part of the scale.
                         : expected.type == TensorType::kIQ1_M ? 54
                                                               : 0;
    if (expected.type != TensorType::kMXFP4 && expected.type != TensorType::kNVFP4) {
      for (size_t i = 0; i < blocks; ++i)
        for (size_t at = first; at <= first + (two ? 2 : 0); at += 2) data[i * block_bytes + at + 1] &= 0xbf;
    }
    std::vector<float> values(blocks * static_cast<size_t>(traits.block_values));
    dequantize(expected.type, data.data(), static_cast<int64_t>(values.size()), values.data());
    uint64_t fnv = 0xcbf29ce484222325u;
    for (const float value : values) {
      const auto bits = std::bit_cast<std::array<uint8_t, 4>>(value);
      for (const uint8_t byte : bits) fnv = (fnv ^ byte) * 0x100000001b3u;
    }
    if (fnv != expected.fnv) check::fail(__FILE__, __LINE__, std::string(traits.name) + " gives different values");
  }
}

// The llama.* files contain the same weights in every type. `step` bounds the error of a single value, relative to the
// largest magnitude among the `group` values that share a scale. `rms` bounds the error of the whole file, relative to
// its root mean square.
TEST(dequantize_agrees_with_the_golden_f32_weights) {
  struct Bound {
    const char* file;
    TensorType type;
    size_t group;
    double step, rms;
  };
  const Bound table[] = {
      {"f16", TensorType::kF16, 1, 0x1p-11, 0x1p-12},  // F16: half a unit in the last place of an 11-bit mantissa.
      {"bf16", TensorType::kBF16, 1, 0x1p-8, 0x1p-9},  // BF16: half a unit in the last place of an 8-bit mantissa.
      // Q8_0: the error is half a step, plus the rounding error of the scale.
      {"q8_0", TensorType::kQ8_0, 32, 0.57 / 127, 0.01},
      // Q4_0: the error is a whole step at the end of the range for which there is no exact code.
      {"q4_0", TensorType::kQ4_0, 32, 1.01 / 8, 0.15},
      {"q4_k", TensorType::kQ4_K, 256, 2.0 / 15, 0.12},  // Q4_K: the range from -max to max in 15 steps.
      {"q6_k", TensorType::kQ6_K, 256, 1.0 / 31, 0.03},
  };
  const std::string reference_path = check::vectors_path("models/llama.f32.gguf");
  if (reference_path.empty()) return check::skip("golden vectors not found");
  const auto reference = GgufFile::open(reference_path);
  REQUIRE(reference.ok());
  for (const Bound& bound : table) {
    const auto file = GgufFile::open(check::vectors_path(std::string("models/llama.") + bound.file + ".gguf"));
    REQUIRE(file.ok());
    double square_error = 0, square = 0, worst = 0;
    size_t n_tensors = 0;
    for (const GgufTensor& tensor : (*file)->tensors()) {
      if (tensor.type != bound.type) continue;
      const GgufTensor* exact = (*reference)->tensor(tensor.name);
      REQUIRE(exact != nullptr && exact->type == TensorType::kF32 && exact->shape == tensor.shape);
      const auto n = static_cast<size_t>(tensor.n_values());
      std::vector<float> got(n), want(n);
      dequantize(tensor.type, tensor.data.data(), tensor.n_values(), got.data());
      std::memcpy(want.data(), exact->data.data(), exact->data.size());
      for (size_t begin = 0; begin < n; begin += bound.group) {
        double largest = 0, error = 0;
        for (size_t i = begin; i < begin + bound.group; ++i) {
          const double difference = static_cast<double>(got[i]) - want[i];
          largest = std::max(largest, std::abs(static_cast<double>(want[i])));
          error = std::max(error, std::abs(difference));
          square_error += difference * difference;
          square += static_cast<double>(want[i]) * want[i];
        }
        // Half a unit of a subnormal binary16 number times the largest code, which is the error due to a very small
        // scale.
        const double floor = 0x1p-25 * (bound.group == 1 ? 1 : 4096);
        worst = std::max(worst, (error - floor) / (largest > 0 ? largest : 1));
      }
      ++n_tensors;
    }
    CHECK(n_tensors > 5);
    const double rms = std::sqrt(square_error / square);
    check::note(std::string(bound.file) + ": worst step " + std::to_string(worst / bound.step) + " of the bound, rms " +
                std::to_string(rms));
    CHECK(worst <= bound.step);
    CHECK(rms <= bound.rms && rms > 0);
  }
}
