// The instructions of the AMX tile unit. Include only in files named *amx.cc, because only these are compiled for AMX.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {
namespace {

// The compiler does not know that load() reads memory; GCC's own intrinsics have the same problem. Data must therefore
// be stored before configure() or configure_pairs(), which are compiler barriers. Data stored later needs a separate
// barrier.
struct AmxUnit {
  // The operand of LDTILECFG.
  struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};

    void set(int tile, int n_rows, int n_bytes) {
      rows[tile] = static_cast<uint8_t>(n_rows);
      row_bytes[tile] = static_cast<uint16_t>(n_bytes);
    }
    void load() const { asm volatile("ldtilecfg %0" : : "m"(*this) : "memory"); }
  };

  // Tiles 0 to 5 have `rows` rows of 64 bytes, except that the rows of tiles 4 and 5 (activations) have row_bytes
  // bytes. Tiles 6 and 7 (weights) have weight_rows rows of 64 bytes.
  static void configure(int rows, int row_bytes, int weight_rows) {
    Config config;
    for (int tile = 0; tile < 8; ++tile)
      config.set(tile, tile < 6 ? rows : weight_rows, tile == 4 || tile == 5 ? row_bytes : 64);
    config.load();
  }
  // Configures tiles with 64 bytes per row. Tiles 0, 1 and 4 have `upper` rows, tiles 2, 3 and 5 have `lower` rows, and
  // tiles 6 and 7 have 16 rows.
  static void configure_pairs(int upper, int lower) {
    Config config;
    for (int tile = 0; tile < 8; ++tile) config.set(tile, tile >= 6 ? 16 : tile < 2 || tile == 4 ? upper : lower, 64);
    config.load();
  }
  static void release() { asm volatile("tilerelease" : : : "memory"); }
  template <int kTile>
  [[gnu::always_inline]] static void load(const void* from, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile));
  }
  template <int kTile>
  [[gnu::always_inline]] static void load_once(const void* from, size_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile));
  }
  template <int kTile>
  [[gnu::always_inline]] static void store(void* to, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // sum += rows (bytes) * weights (bytes).
  template <int kSum, int kRows, int kWeights, bool kSignedRows = true, bool kSignedWeights = true>
  [[gnu::always_inline]] static void dot() {
    if constexpr (kSignedRows && kSignedWeights)
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
    else if constexpr (kSignedRows)
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
    else if constexpr (kSignedWeights)
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
    else
      asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
  }
  // sum += rows (bfloat16) * weights (bfloat16).
  template <int kSum, int kRows, int kWeights>
  [[gnu::always_inline]] static void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
  }
};

}  // namespace
}  // namespace monolith
