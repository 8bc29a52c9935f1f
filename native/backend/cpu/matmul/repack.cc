#include "backend/cpu/matmul/repack.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "backend/cpu/matmul/panels_plain.h"
#include "base/half.h"

namespace monolith {
namespace {

using Bytes = const uint8_t*;

uint32_t load32(Bytes at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
void store32(uint8_t* at, uint32_t word) { std::memcpy(at, &word, sizeof word); }
uint16_t load16(Bytes at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return half;
}
void store16(uint8_t* at, uint16_t half) { std::memcpy(at, &half, sizeof half); }

// Returns a 32-bit word in which every byte has this value. In the words that this file processes, each byte holds a
// code or a part of one.
constexpr uint32_t every_byte(uint32_t byte) { return byte * 0x01010101; }

// Returns the byte offset of the word for lane `lane` in vector `index` of a [..][lane][4] array.
size_t word_at(int64_t index, int lane) { return static_cast<size_t>(index) * 64 + static_cast<size_t>(lane) * 4; }

// Each pack_*() function writes one row of the matrix to lane `lane` of the panel at `to`.

void pack_f32(const float* from, const PanelLayout& layout, int lane, uint8_t* to) {
  for (int64_t k = 0; k < layout.cols; ++k) std::memcpy(to + word_at(k, lane), from + k, 4);
}

void pack_f16(Bytes from, const PanelLayout& layout, int lane, uint8_t* to) {
  for (int64_t k = 0; k < layout.cols; ++k) std::memcpy(to + (k * kPanelRows + lane) * 2, from + 2 * k, 2);
}

void pack_bf16(Bytes from, const PanelLayout& layout, int lane, uint8_t* to) {
  for (int64_t k = 0; k < layout.cols; ++k) std::memcpy(to + word_at(k / 2, lane) + k % 2 * 2, from + 2 * k, 2);
}

void pack_f8(Bytes from, const PanelLayout& layout, int lane, uint8_t* to) {
  for (int64_t k = 0; k < layout.cols; k += kF8Record, from += 4 + kF8Record, to += kF8RecordBytes) {
    float scale;
    std::memcpy(&scale, from, sizeof scale);
    scale *= 256;
    std::memcpy(to + 4 * lane, &scale, sizeof scale);
    for (int i = 0; i < kF8Record; ++i) to[kF8ScaleBytes + i * kPanelRows + lane] = from[4 + i];
  }
}

// --- reading blocks of the file -----------------------------------------------------------------------
// codes<T, i, g>(block) returns four codes, one per byte: those for k = 32 i + 4 g .. 32 i + 4 g + 3 of the block. The
// decoders in tensor_type.cc document the layouts.

// 32 values in 16 bytes: value i is the low nibble of byte i, value i + 16 is the high nibble.
uint32_t nibbles32(Bytes quants, int g) { return (load32(quants + 4 * (g % 4)) >> (g / 4 * 4)) & every_byte(15); }
// Returns bits 4g .. 4g + 3 of `bits`, each as the fifth bit of one of four codes.
uint32_t fifth32(Bytes bits, int g) {
  const uint32_t four = (load32(bits) >> (4 * g)) & 15;
  // The multiplication adds copies of `four` shifted left by 0, 7, 14 and 21 bits, so bit j moves to bit 8 j.
  return (four * 0x00204081 & every_byte(1)) << 4;
}
// Each range of 32 bytes holds 8 / bits groups of 32 values, stacked within the bits of each byte.
uint32_t column(Bytes quants, int bits, int i, int g) {
  const int groups = 8 / bits;
  return (load32(quants + i / groups * 32 + 4 * g) >> (i % groups * bits)) & every_byte((1u << bits) - 1);
}

// For codebook types (i-quants), `block` points to the expanded codes.
template <TensorType T, int i, int g>
uint32_t codes(Bytes block) {
  if constexpr (is_expanded_type(T)) return load32(block + 32 * i + 4 * g);
  switch (T) {
    case TensorType::kQ8_0: return load32(block + 2 + 4 * g) ^ every_byte(0x80);
    case TensorType::kQ4_0:
    case TensorType::kIQ4_NL: return nibbles32(block + 2, g);
    case TensorType::kQ4_1: return nibbles32(block + 4, g);
    case TensorType::kMXFP4: return nibbles32(block + 1, g);
    case TensorType::kQ5_0: return nibbles32(block + 6, g) | fifth32(block + 2, g);
    case TensorType::kQ5_1: return nibbles32(block + 8, g) | fifth32(block + 4, g);
    case TensorType::kIQ4_XS: return nibbles32(block + 8 + 16 * i, g);
    // 16 values in 8 bytes: value j is the low nibble of byte j, value j + 8 is the high nibble.
    case TensorType::kNVFP4:
      return (load32(block + 4 + 16 * i + g / 4 * 8 + g % 2 * 4) >> (g / 2 % 2 * 4)) & every_byte(15);
    case TensorType::kQ2_K: return column(block + 16, 2, i, g);
    case TensorType::kQ3_K: return column(block + 32, 2, i, g) | column(block, 1, i, g) << 2;
    case TensorType::kQ4_K: return column(block + 16, 4, i, g);
    case TensorType::kQ5_K: return column(block + 48, 4, i, g) | column(block + 16, 1, i, g) << 4;
    case TensorType::kQ6_K: {
      const int shift = i % 4 < 2 ? 0 : 4;  // Groups of 32 that share bytes are not adjacent.
      const uint32_t low = (load32(block + 64 * (i / 4) + 32 * (i % 2) + 4 * g) >> shift) & every_byte(15);
      return low | column(block + 128, 2, i, g) << 4;
    }
    default: return 0;
  }
}

// Byte offsets of d and, if the type has minima, of d_min within a block of the file.
struct HalfPlaces {
  int d, d_min;
};
constexpr HalfPlaces half_places(TensorType type) {
  switch (type) {
    case TensorType::kQ2_K: return {80, 82};
    case TensorType::kQ3_K: return {108, 0};
    case TensorType::kQ6_K: return {208, 0};
    default: return {0, 2};
  }
}

// Writes the scales and minima of a K-quant block to one lane of the record's arrays.
template <TensorType T>
void put_numbers(Bytes block, uint8_t* scales, uint8_t* minima) {
  switch (T) {
    case TensorType::kQ2_K:
      for (int i = 0; i < 16; ++i) scales[i * kPanelRows] = block[i];
      break;
    case TensorType::kQ6_K:
      for (int i = 0; i < 16; ++i) scales[i * kPanelRows] = block[192 + i];
      break;
    case TensorType::kQ3_K:
      for (int i = 0; i < 16; ++i) {
        Bytes packed = block + 96;
        const int low = (packed[i % 8] >> (i / 8 * 4)) & 15, upper = (packed[8 + i % 4] >> (i / 4 * 2)) & 3;
        scales[i * kPanelRows] = static_cast<uint8_t>((low | upper << 4) - 32);
      }
      break;
    case TensorType::kIQ4_XS:
      for (int i = 0; i < 8; ++i) {
        const int low = (block[4 + i / 2] >> (i % 2 * 4)) & 15, upper = (load16(block + 2) >> (2 * i)) & 3;
        scales[i * kPanelRows] = static_cast<uint8_t>((low | upper << 4) - 32);
      }
      break;
    case TensorType::kQ4_K:
    case TensorType::kQ5_K: {
      Bytes packed = block + 4;
      for (int i = 0; i < 4; ++i) {
        scales[i * kPanelRows] = packed[i] & 63;
        minima[i * kPanelRows] = packed[i + 4] & 63;
        scales[(i + 4) * kPanelRows] = static_cast<uint8_t>((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
        minima[(i + 4) * kPanelRows] = static_cast<uint8_t>((packed[i + 8] >> 4) | (packed[i + 4] >> 6) << 4);
      }
      break;
    }
    case TensorType::kNVFP4:
      for (int i = 0; i < 4; ++i) scales[i * kPanelRows] = nvfp4_scale_bits(block[i]);
      break;
    default: break;
  }
}

// Writes `bits` bits of each code, starting at bit `from_bit`, for the block's values 32 i .. 32 i + 31 to the words of
// one lane. Uses fold expressions so that all indices are compile-time constants. With an array, the compiler would
// store the words to memory and load them with a different access size, which stalls the processor, and variable shifts
// take ten times as long.
template <TensorType T, int bits, int from_bit, int i>
void put_parts(Bytes block, uint8_t* to) {
  constexpr int groups = 8 / bits;  // Groups per word.
  const auto word = [&]<int v, int... g>(std::integer_sequence<int, v>, std::integer_sequence<int, g...>) {
    return (((codes<T, i, v * groups + g>(block) >> from_bit & every_byte((1u << bits) - 1)) << (g * bits)) | ...);
  };
  [&]<int... v>(std::integer_sequence<int, v...>) {
    (store32(to + 64 * (i * bits + v),
             word(std::integer_sequence<int, v>(), std::make_integer_sequence<int, groups>())),
     ...);
  }
  (std::make_integer_sequence<int, bits>());
}

// Writes one block of the file to its row's lane in the panel.
template <TensorType T>
void pack_block(Bytes from, const PanelLayout& layout, int64_t block, int lane, uint8_t* to, uint8_t* block_scales) {
  constexpr PanelForm form = panel_form(T);
  constexpr PanelRecord record = panel_record(form);
  constexpr HalfPlaces places = half_places(T);
  const size_t number = static_cast<size_t>(block * kPanelRows + lane);
  [[maybe_unused]] ExpandedBlock expanded;
  if constexpr (is_expanded_type(T)) {
    expand_block<T>(from, expanded);
    store16(block_scales + layout.d + 2 * number, expanded.d);
  } else if constexpr (form.scale == PanelForm::kPower) {
    block_scales[layout.d + number] = from[0];
  } else if constexpr (d_size(form) > 0) {
    store16(block_scales + layout.d + 2 * number, load16(from + places.d));
  }
  if constexpr (form.minima && !is_expanded_type(T)) {
    const uint16_t negated = form.scale == PanelForm::kHalf ? 0x8000 : 0;
    store16(block_scales + layout.d_min + 2 * number, static_cast<uint16_t>(load16(from + places.d_min) ^ negated));
  }
  to += block * record.bytes;
  if constexpr (is_expanded_type(T)) {
    from = expanded.codes;
    if constexpr (record.bytes > record.scales)
      for (int i = 0; i < 8; ++i) to[record.scales + lane + i * kPanelRows] = expanded.numbers[i];
  } else {
    put_numbers<T>(from, to + record.scales + lane, to + record.minima + lane);
  }
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (put_parts<T, form.low_bits, 0, i>(from, to + 4 * lane), ...);
    if constexpr (form.high_bits > 0)
      (put_parts<T, form.high_bits, form.low_bits, i>(from, to + record.high + 4 * lane), ...);
  }
  (std::make_integer_sequence<int, form.record / 32>());
}

template <TensorType T>
void pack_quantized(Bytes from, size_t row_bytes, int n_rows, const PanelLayout& layout, uint8_t* to,
                    uint8_t* block_scales) {
  constexpr int kPiece = 512 / panel_form(T).record;  // Blocks per chunk.
  const int64_t block_bytes = traits_of(T).block_bytes, blocks = layout.cols / panel_form(T).record;
  // Works in chunks that stay in the L1 cache, because the bytes of one lane are interleaved with those of the other
  // lanes.
  for (int64_t first = 0; first < blocks; first += kPiece) {
    const int64_t last = first + kPiece < blocks ? first + kPiece : blocks;
    for (int lane = 0; lane < n_rows; ++lane) {
      Bytes at = from + static_cast<size_t>(lane) * row_bytes + first * block_bytes;
      for (int64_t block = first; block < last; ++block, at += block_bytes)
        pack_block<T>(at, layout, block, lane, to, block_scales);
    }
  }
}

template <TensorType T>
void unpack_quantized(const PanelLayout& layout, const std::byte* records, const std::byte* block_scales, int lane,
                      float* out) {
  const PanelOf<T> panel(records, block_scales, layout);
  constexpr PanelForm form = panel_form(T);
  for (int64_t k = 0; k < layout.cols; k += form.step) {
    const float step = panel.step(k, lane);
    if constexpr (form.minima) {
      const float floor = panel.floor(k, lane);
      for (int i = 0; i < form.step; ++i) out[k + i] = step * static_cast<float>(panel.q(k + i, lane)) - floor;
    } else {
      for (int i = 0; i < form.step; ++i) out[k + i] = step * static_cast<float>(panel.q(k + i, lane));
    }
  }
}

void pack_floats(TensorType source_type, Bytes from, const PanelLayout& layout, int lane, uint8_t* to) {
  if (layout.type == TensorType::kF16) return pack_f16(from, layout, lane, to);
  if (layout.type == TensorType::kBF16) return pack_bf16(from, layout, lane, to);
  if (layout.type == TensorType::kF8Scaled) return pack_f8(from, layout, lane, to);
  // Works in chunks of 256 values, the size of the largest block, so no buffer for a whole row is needed.
  const TensorTypeTraits& traits = traits_of(source_type);
  float values[256];
  for (int64_t k = 0; k < layout.cols; k += 256) {
    const int64_t count = layout.cols - k < 256 ? layout.cols - k : 256;
    dequantize(source_type, from + k / traits.block_values * traits.block_bytes, count, values);
    PanelLayout piece = layout;
    piece.cols = count;
    pack_f32(values, piece, lane, to + word_at(k, 0));
  }
}

}  // namespace

void pack_panel(TensorType source_type, const std::byte* rows, size_t row_bytes, int n_rows, const PanelLayout& layout,
                std::byte* panel, std::byte* block_scales) {
  assert(n_rows >= 1 && n_rows <= kPanelRows);
  assert(layout.type == source_type || layout.type == TensorType::kF32);
  Bytes from = reinterpret_cast<Bytes>(rows);
  uint8_t* to = reinterpret_cast<uint8_t*>(panel);
  const bool quantized = for_quantized(layout.type, [&]<TensorType T>() {
    pack_quantized<T>(from, row_bytes, n_rows, layout, to, reinterpret_cast<uint8_t*>(block_scales));
  });
  if (quantized) return;
  for (int lane = 0; lane < n_rows; ++lane)
    pack_floats(source_type, from + static_cast<size_t>(lane) * row_bytes, layout, lane, to);
}

void unpack_row(const PanelLayout& layout, const std::byte* panel, const std::byte* block_scales, int lane,
                float* out) {
  if (for_quantized(layout.type, [&]<TensorType T>() { unpack_quantized<T>(layout, panel, block_scales, lane, out); }))
    return;
  Bytes from = reinterpret_cast<Bytes>(panel);
  for (int64_t k = 0; k < layout.cols; ++k) {
    if (layout.type == TensorType::kF32)
      std::memcpy(out + k, from + word_at(k, lane), 4);
    else if (layout.type == TensorType::kF8Scaled)
      out[k] = f8_value(from, k, lane);
    else if (layout.type == TensorType::kF16)
      out[k] = half_to_float(load16(from + (k * kPanelRows + lane) * 2));
    else
      out[k] = bfloat16_to_float(load16(from + word_at(k / 2, lane) + k % 2 * 2));
  }
}

}  // namespace monolith
