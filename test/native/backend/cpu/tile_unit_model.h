// A model of the AMX tile unit, with the functions of AmxUnit (backend/cpu/machine/amx-inl.h). It allows kernels for
// the tile unit to be tested on processors without AMX. Include only in files that are compiled for AVX-512.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace monolith {
namespace {

// Emulates the tile registers and instructions of the calling thread (Intel SDM, volume 2).
struct ModelUnit {
  struct Tile {
    int rows = 0, row_bytes = 0;
    std::byte data[16][64];
  };
  static Tile& tile(int index) {
    static thread_local Tile tiles[8];
    return tiles[index];
  }
  static void set(int index, int rows, int row_bytes) {
    tile(index).rows = rows;
    tile(index).row_bytes = row_bytes;
    std::memset(tile(index).data, 0, sizeof tile(index).data);
  }
  static void configure(int rows, int row_bytes, int weight_rows) {
    for (int i = 0; i < 8; ++i) set(i, i < 6 ? rows : weight_rows, i == 4 || i == 5 ? row_bytes : 64);
  }
  static void configure_pairs(int upper, int lower) {
    for (int i = 0; i < 8; ++i) set(i, i >= 6 ? 16 : i < 2 || i == 4 ? upper : lower, 64);
  }
  static void release() {
    for (int i = 0; i < 8; ++i) set(i, 0, 0);
  }
  template <int kTile>
  static void load(const void* from, size_t stride) {
    Tile& to = tile(kTile);
    for (int row = 0; row < to.rows; ++row)
      std::memcpy(to.data[row], static_cast<const std::byte*>(from) + static_cast<size_t>(row) * stride,
                  static_cast<size_t>(to.row_bytes));
  }
  template <int kTile>
  static void load_once(const void* from, size_t stride) {
    load<kTile>(from, stride);
  }
  template <int kTile>
  static void store(void* to, size_t stride) {
    const Tile& from = tile(kTile);
    for (int row = 0; row < from.rows; ++row)
      std::memcpy(static_cast<std::byte*>(to) + static_cast<size_t>(row) * stride, from.data[row],
                  static_cast<size_t>(from.row_bytes));
  }
  template <int kTile>
  static void zero() {
    std::memset(tile(kTile).data, 0, sizeof tile(kTile).data);
  }
  // Calls add(element, a, b, lane) for each element of the sum tile. `a` points to the bytes of the element's row in
  // tile `rows`, and `b` is tile `weights`.
  template <typename Number, typename Add>
  static void each_sum(int sum, int rows, int weights, Add&& add) {
    Tile &c = tile(sum), &a = tile(rows), &b = tile(weights);
    if (c.rows != a.rows || a.row_bytes != 4 * b.rows) std::abort();  // Hardware raises #UD.
    for (int row = 0; row < c.rows; ++row) {
      for (int lane = 0; lane < 16; ++lane) {
        Number value;
        std::memcpy(&value, &c.data[row][4 * lane], sizeof value);
        add(value, a.data[row], b, lane);
        std::memcpy(&c.data[row][4 * lane], &value, sizeof value);
      }
    }
  }
  template <bool kSigned>
  static int number(std::byte x) {
    return kSigned ? static_cast<int>(static_cast<int8_t>(x)) : static_cast<int>(x);
  }
  template <int kSum, int kRows, int kWeights, bool kSignedRows = true, bool kSignedWeights = true>
  static void dot() {
    each_sum<int32_t>(kSum, kRows, kWeights, [](int32_t& sum, const std::byte* a, const Tile& b, int lane) {
      for (int k = 0; k < 4 * b.rows; ++k)
        sum += number<kSignedRows>(a[k]) * number<kSignedWeights>(b.data[k / 4][4 * lane + k % 4]);
    });
  }
  static float bf16(const std::byte* at) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, at, 2);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
  }
  template <int kSum, int kRows, int kWeights>
  static void dot_bf16() {
    each_sum<float>(kSum, kRows, kWeights, [](float& sum, const std::byte* a, const Tile& b, int lane) {
      float parts[2] = {0, 0};
      for (int k = 0; k < 2 * b.rows; ++k)
        parts[k % 2] = std::fma(bf16(a + 2 * k), bf16(&b.data[k / 2][4 * lane + 2 * (k % 2)]), parts[k % 2]);
      sum += parts[0] + parts[1];
    });
  }
};

}  // namespace
}  // namespace monolith
