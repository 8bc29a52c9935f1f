// Writes rows of activations in the input formats of matmuls (product_input.h), device code. All kernels that write
// these formats use these functions, so equal values produce equal bits, regardless of which kernel computed them.
#pragma once

#include "backend/cuda/quant/activations_int8.h"
#include "backend/cuda/device/language.h"
#include "backend/cuda/device/tensor_int8.h"
#include "backend/cuda/matmul/product_input.h"
#include "backend/cuda/quant/form.h"

namespace monolith::cuda {

// --- 16 bits ---

// Returns a power of two. Activations are divided by it, and products are multiplied by it. The largest activation is
// then between 2^14 and 2^15, below binary16's maximum of 65504.
MONOLITH_DEVICE float scale_for(float largest) {
  const int exponent = static_cast<int>(as_bits(largest) >> 23);  // Exponent with a bias of 127.
  const int shift = largest == 0 || exponent == 255 ? 0 : exponent - 127 - 14;
  return as_float(static_cast<uint32_t>((shift > -112 ? shift : -112) + 127) << 23);
}
// Returns the reciprocal of a power of two.
MONOLITH_DEVICE float inverse_of(float scale) { return as_float((254u << 23) - as_bits(scale)); }

// Returns the maximum of `largest` and the magnitudes of the given values. NaN is ignored.
MONOLITH_DEVICE float larger(float largest, float value) {
  const float size = fabsf(value);
  return size > largest ? size : largest;
}
MONOLITH_DEVICE float larger(float largest, const Floats4& x) {
  return larger(larger(larger(larger(largest, x.x), x.y), x.z), x.w);
}
// Returns to every thread the maximum over a block of `warps` warps. When the function is called, no thread may still
// be reading `of_warp`.
template <int warps>
MONOLITH_DEVICE float block_largest(float largest, float (&of_warp)[warps]) {
  largest = warp_max(largest);
  if (lane_id() == 0) of_warp[warp_id()] = largest;
  __syncthreads();
  for (int i = 0; i < warps; ++i) largest = of_warp[i] > largest ? of_warp[i] : largest;
  return largest;
}

// `factor` is the reciprocal of the row's scale; used for kF16 only.
template <InputForm kForm>
MONOLITH_DEVICE uint32_t pack_pair(float low, float high, float factor) {
  if constexpr (kForm == InputForm::kBf16)
    return pack_bfloat16s(low, high);
  else
    return pack_halves(low * factor, high * factor);
}
template <InputForm kForm>
MONOLITH_DEVICE Words2 pack_quad(const Floats4& x, float factor) {
  return {pack_pair<kForm>(x.x, x.y, factor), pack_pair<kForm>(x.z, x.w, factor)};
}

// Returns the address of values 8 * piece .. 8 * piece + 7 of a row.
MONOLITH_DEVICE Words4* piece_place(void* data, int column_groups, int64_t row, int64_t piece) {
  return static_cast<Words4*>(data) + ((piece / 8 * column_groups + row / 8) * 8 + piece % 8) * 8 + row % 8;
}
// Returns the address of values 4 * quad .. 4 * quad + 3 of a row.
MONOLITH_DEVICE Words2* quad_place(const ProductInput& input, int64_t row, int64_t quad) {
  return reinterpret_cast<Words2*>(piece_place(input.data, input.column_groups, row, quad / 2)) + quad % 2;
}

// --- 8 bits ---

// Returns the larger of `largest` and the magnitude of `value`, as bit patterns. The bit patterns of magnitudes,
// compared as integers, have the same order as the floats, with NaN above infinity.
MONOLITH_DEVICE uint32_t larger_bits(uint32_t largest, float value) {
  const uint32_t magnitude = as_bits(value) & 0x7fffffffu;
  return largest > magnitude ? largest : magnitude;
}
// The scale of an 8-bit block, and the factor that converts values to codes.
struct Int8Scale {
  float scale = 0, inverse = 0;
  bool codes = false;  // If false, all codes are 0.
  MONOLITH_DEVICE explicit Int8Scale(uint32_t largest) {
    constexpr uint32_t kInfinityBits = 0x7f800000u;
    constexpr uint32_t kSmallestAmaxBits = 27u << 23;  // The bits of 2^-100.
    if (largest >= kInfinityBits) {
      scale = as_float(0x7fc00000u);
    } else if (largest >= kSmallestAmaxBits) {
      const float amax = as_float(largest);
      inverse = 127.0f / amax;
      scale = amax / 127.0f;
      codes = true;
    }
  }
  MONOLITH_DEVICE uint32_t code(float value) const { return codes ? as_bits(value * inverse + kMagic) & 0xffu : 0; }
};
// Stores the scale and the sums of a block. `half_sums` contains the sum of the codes of each half of 16 values.
MONOLITH_DEVICE void put_int8_numbers(Int8Block& block, int column, float scale, const int (&half_sums)[2]) {
  for (int half = 0; half < 2; ++half)
    block.half_sums[column / 2][half][column % 2] = -(scale * static_cast<float>(half_sums[half]));
  Int8Block::Pair& pair = block.columns[column / 2];
  pair.scale[column % 2] = scale;
  pair.sums[column % 2] = -(scale * static_cast<float>(half_sums[0] + half_sums[1]));
}

// Quantizes and stores values k .. k + 3 of a row; 8 neighboring lanes hold a block of 32 values. All lanes of the warp
// must call this function. If `inside` is false, nothing is written.
MONOLITH_DEVICE void put_int8(Int8Block* out, int64_t n_blocks, int64_t row, int64_t k, const Floats4& values,
                              bool inside = true) {
  const float each[4] = {values.x, values.y, values.z, values.w};
  uint32_t largest = 0;
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) largest = larger_bits(largest, each[i]);
  MONOLITH_UNROLL
  for (int distance = 1; distance < 8; distance *= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, largest, distance);
    largest = largest > other ? largest : other;
  }
  const Int8Scale scale(largest);
  uint32_t codes = 0;
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) codes |= scale.code(each[i]) << (8 * i);
  int half_sum = dot4(codes, 0x01010101u, 0);
  half_sum += __shfl_xor_sync(kWholeWarp, half_sum, 1);
  half_sum += __shfl_xor_sync(kWholeWarp, half_sum, 2);
  const int half_sums[2] = {half_sum, __shfl_xor_sync(kWholeWarp, half_sum, 4)};
  if (!inside) return;

  Int8Block& block = out[row / 8 * n_blocks + k / 32];
  const int column = static_cast<int>(row % 8), t = lane_id() % 4, half = lane_id() / 4 % 2;
  uint32_t* const words = &block.codes[column * 4 + t].x;
  words[half] = codes;
  if (t == 0 && half == 0) put_int8_numbers(block, column, scale.scale, half_sums);
}

// Quantizes and stores value k + lane of a row; the warp holds a block of 32 values. k is a multiple of 32.
MONOLITH_DEVICE void put_int8(Int8Block* out, int64_t n_blocks, int64_t row, int64_t k, float value) {
  uint32_t largest = larger_bits(0, value);
  MONOLITH_UNROLL
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, largest, distance);
    largest = largest > other ? largest : other;
  }
  const Int8Scale scale(largest);
  const uint32_t code = scale.code(value);
  int half_sum = static_cast<int8_t>(code);
  MONOLITH_UNROLL
  for (int distance = 1; distance < 16; distance *= 2) half_sum += __shfl_xor_sync(kWholeWarp, half_sum, distance);
  const int half_sums[2] = {half_sum, __shfl_xor_sync(kWholeWarp, half_sum, 16)};

  Int8Block& block = out[row / 8 * n_blocks + k / 32];
  const int column = static_cast<int>(row % 8), lane = lane_id();
  uint32_t* const words = &block.codes[column * 4 + lane / 4 % 4].x;
  reinterpret_cast<uint8_t*>(words + lane / 16)[lane % 4] = static_cast<uint8_t>(code);
  if (lane == 0) put_int8_numbers(block, column, scale.scale, half_sums);
}

// --- any format ----------------------------------------------------------------------------------
// Returns the number of quads of a row including its zero padding.
template <InputForm kForm>
MONOLITH_DEVICE int filled_quads(const ProductInput& input) {
  return input.blocks * (kForm == InputForm::kInt8 ? 8 : 16);
}
// Stores one value of a row. For the 8-bit format, all lanes of the warp must call this function, with consecutive
// indices k, and the index of lane 0 must be a multiple of 32. kF16 is not supported.
MONOLITH_DEVICE void put_value(const ProductInput& input, int64_t row, int64_t k, float value) {
  if (input.form == InputForm::kInt8) {
    put_int8(static_cast<Int8Block*>(input.data), input.blocks, row, k - lane_id(), value);
  } else {
    Words4* const piece = piece_place(input.data, input.column_groups, row, k / 8);
    reinterpret_cast<uint16_t*>(piece)[k % 8] = float_to_bfloat16(value);
  }
}
// Stores four values of a row. For the 8-bit format, all lanes of the warp must call this function, with consecutive
// quads, and the quad index of lane 0 must be a multiple of 8.
template <InputForm kForm>
MONOLITH_DEVICE void put_quad(const ProductInput& input, int64_t row, int64_t quad, const Floats4& x, float factor) {
  if constexpr (kForm == InputForm::kInt8)
    put_int8(static_cast<Int8Block*>(input.data), input.blocks, row, quad * 4, x);
  else
    *quad_place(input, row, quad) = pack_quad<kForm>(x, factor);
}

// Converts the 8 values that start at `at` in a row of `cols` values. Values beyond the row's end are zero. `aligned`
// means that rows start at multiples of 16 bytes.
template <InputForm kForm>
MONOLITH_DEVICE Words4 convert_piece(const float* row, int64_t at, int64_t cols, bool aligned, float factor) {
  Floats4 low, high;
  if (aligned && at + 8 <= cols) {
    low = *reinterpret_cast<const Floats4*>(row + at);
    high = *reinterpret_cast<const Floats4*>(row + at + 4);
  } else {
    const auto get = [&](int64_t i) { return at + i < cols ? row[at + i] : 0.0f; };
    low = {get(0), get(1), get(2), get(3)};
    high = {get(4), get(5), get(6), get(7)};
  }
  const Words2 first = pack_quad<kForm>(low, factor), second = pack_quad<kForm>(high, factor);
  return {first.x, first.y, second.x, second.y};
}

}  // namespace monolith::cuda
