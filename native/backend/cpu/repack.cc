#include "backend/cpu/repack.h"

#include <cassert>
#include <cstring>

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

// Four values at once, a byte each: the nibbles of k .. k + 3.
constexpr uint32_t kNibbles = 0x0f0f0f0f, kPairs = 0x03030303, kSigns = 0x80808080;

// Where lane `lane` of vector `index` of a [..][lane][4] array lies.
size_t word_at(int64_t index, int lane) { return static_cast<size_t>(index) * 64 + static_cast<size_t>(lane) * 4; }

// One row into its lane. `to` is the strip.

void pack_f32(const float* from, const StripLayout& layout, int lane, uint8_t* to) {
  for (int64_t k = 0; k < layout.cols; ++k) std::memcpy(to + word_at(k, lane), from + k, 4);
}

void pack_f16(Bytes from, const StripLayout& layout, int lane, uint8_t* to) {
  for (int64_t k = 0; k < layout.cols; ++k) std::memcpy(to + (k * kStripRows + lane) * 2, from + 2 * k, 2);
}

void pack_bf16(Bytes from, const StripLayout& layout, int lane, uint8_t* to) {
  for (int64_t k = 0; k < layout.cols; ++k)
    std::memcpy(to + word_at(k / 2, lane) + k % 2 * 2, from + 2 * k, 2);
}

void pack_q8_0(Bytes from, const StripLayout& layout, int lane, uint8_t* to) {
  for (int64_t block = 0; block < layout.cols / 32; ++block, from += 34) {
    store16(to + layout.d + (block * kStripRows + lane) * 2, load16(from));
    for (int g = 0; g < 8; ++g)
      store32(to + word_at(block * 8 + g, lane), load32(from + 2 + 4 * g) ^ kSigns);
  }
}

void pack_q4_0(Bytes from, const StripLayout& layout, int lane, uint8_t* to) {
  for (int64_t block = 0; block < layout.cols / 32; ++block, from += 18) {
    store16(to + layout.d + (block * kStripRows + lane) * 2, load16(from));
    // The file pairs value i with i + 16; the strip pairs neighbouring groups of four.
    for (int v = 0; v < 4; ++v) {
      const int shift = v < 2 ? 0 : 4;
      const uint32_t first = (load32(from + 2 + 8 * (v % 2)) >> shift) & kNibbles;
      const uint32_t second = (load32(from + 2 + 8 * (v % 2) + 4) >> shift) & kNibbles;
      store32(to + word_at(block * 4 + v, lane), first | second << 4);
    }
  }
}

void pack_q4_k(Bytes from, const StripLayout& layout, int lane, uint8_t* to) {
  for (int64_t super = 0; super < layout.cols / 256; ++super, from += 144) {
    store16(to + layout.d + (super * kStripRows + lane) * 2, load16(from));
    store16(to + layout.d_min + (super * kStripRows + lane) * 2, load16(from + 2));
    Bytes packed = from + 4;   // eight pairs of 6-bit numbers, see dequantize()
    for (int i = 0; i < 8; ++i) {
      int scale, minimum;
      if (i < 4) {
        scale = packed[i] & 63;
        minimum = packed[i + 4] & 63;
      } else {
        scale = (packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4;
        minimum = (packed[i + 4] >> 4) | (packed[i] >> 6) << 4;
      }
      const int64_t block = super * 8 + i;
      to[layout.scales + block * kStripRows + lane] = static_cast<uint8_t>(scale);
      to[layout.minima + block * kStripRows + lane] = static_cast<uint8_t>(minimum);
      Bytes quants = from + 16 + 32 * (i / 2);
      const int shift = 4 * (i % 2);
      for (int v = 0; v < 4; ++v) {
        const uint32_t first = (load32(quants + 8 * v) >> shift) & kNibbles;
        const uint32_t second = (load32(quants + 8 * v + 4) >> shift) & kNibbles;
        store32(to + word_at(block * 4 + v, lane), first | second << 4);
      }
    }
  }
}

void pack_q6_k(Bytes from, const StripLayout& layout, int lane, uint8_t* to) {
  for (int64_t super = 0; super < layout.cols / 256; ++super, from += 210) {
    store16(to + layout.d + (super * kStripRows + lane) * 2, load16(from + 208));
    for (int i = 0; i < 16; ++i)
      to[layout.scales + (super * 16 + i) * kStripRows + lane] = from[192 + i];
    for (int block = 0; block < 8; ++block) {
      // In each half of 128 values, groups of 32 share bytes: see dequantize().
      const int half = block / 4, group = block % 4;
      Bytes low = from + 64 * half + 32 * (group % 2), high = from + 128 + 32 * half;
      const int low_shift = group < 2 ? 0 : 4, high_shift = 2 * group;
      for (int v = 0; v < 4; ++v) {
        const uint32_t first = (load32(low + 8 * v) >> low_shift) & kNibbles;
        const uint32_t second = (load32(low + 8 * v + 4) >> low_shift) & kNibbles;
        store32(to + word_at((super * 8 + block) * 4 + v, lane), first | second << 4);
      }
      for (int v = 0; v < 2; ++v) {
        uint32_t word = 0;
        for (int part = 0; part < 4; ++part)
          word |= ((load32(high + 16 * v + 4 * part) >> high_shift) & kPairs) << (2 * part);
        store32(to + layout.high + word_at((super * 8 + block) * 2 + v, lane), word);
      }
    }
  }
}

float half_at(Bytes strip, size_t array, int64_t index, int lane) {
  return half_to_float(load16(strip + array + (index * kStripRows + lane) * 2));
}

// The four-bit value of k.
int nibble_at(Bytes strip, int64_t k, int lane) {
  return (strip[word_at(k / 8, lane) + k % 4] >> (k % 8 < 4 ? 0 : 4)) & 15;
}

}  // namespace

void pack_strip(TensorType source_type, const std::byte* rows, size_t row_bytes, int n_rows,
                const StripLayout& layout, std::byte* strip) {
  assert(n_rows >= 1 && n_rows <= kStripRows);
  assert(layout.type == source_type || layout.type == TensorType::kF32);
  uint8_t* to = reinterpret_cast<uint8_t*>(strip);
  for (int lane = 0; lane < n_rows; ++lane) {
    Bytes from = reinterpret_cast<Bytes>(rows) + static_cast<size_t>(lane) * row_bytes;
    switch (layout.type) {
      case TensorType::kF32: {
        // In pieces of 256, the largest block: no row-sized buffer needed.
        const TensorTypeTraits& traits = traits_of(source_type);
        float values[256];
        for (int64_t k = 0; k < layout.cols; k += 256) {
          const int64_t count = layout.cols - k < 256 ? layout.cols - k : 256;
          dequantize(source_type, from + k / traits.block_values * traits.block_bytes, count, values);
          StripLayout piece = layout;
          piece.cols = count;
          pack_f32(values, piece, lane, to + word_at(k, 0));
        }
        break;
      }
      case TensorType::kF16: pack_f16(from, layout, lane, to); break;
      case TensorType::kBF16: pack_bf16(from, layout, lane, to); break;
      case TensorType::kQ8_0: pack_q8_0(from, layout, lane, to); break;
      case TensorType::kQ4_0: pack_q4_0(from, layout, lane, to); break;
      case TensorType::kQ4_K: pack_q4_k(from, layout, lane, to); break;
      case TensorType::kQ6_K: pack_q6_k(from, layout, lane, to); break;
    }
  }
}

void unpack_row(const StripLayout& layout, const std::byte* strip, int lane, float* out) {
  Bytes from = reinterpret_cast<Bytes>(strip);
  for (int64_t k = 0; k < layout.cols; ++k) {
    switch (layout.type) {
      case TensorType::kF32: std::memcpy(out + k, from + word_at(k, lane), 4); break;
      case TensorType::kF16: out[k] = half_at(from, 0, k, lane); break;
      case TensorType::kBF16: out[k] = bfloat16_to_float(load16(from + word_at(k / 2, lane) + k % 2 * 2)); break;
      case TensorType::kQ8_0: {
        const int q = from[word_at(k / 4, lane) + k % 4] - 128;
        out[k] = half_at(from, layout.d, k / 32, lane) * static_cast<float>(q);
        break;
      }
      case TensorType::kQ4_0:
        out[k] = half_at(from, layout.d, k / 32, lane) * static_cast<float>(nibble_at(from, k, lane) - 8);
        break;
      case TensorType::kQ4_K: {
        const int64_t at = k / 32 * kStripRows + lane;
        const float step = half_at(from, layout.d, k / 256, lane) * static_cast<float>(from[layout.scales + at]);
        const float floor =
            half_at(from, layout.d_min, k / 256, lane) * static_cast<float>(from[layout.minima + at]);
        out[k] = step * static_cast<float>(nibble_at(from, k, lane)) - floor;
        break;
      }
      case TensorType::kQ6_K: {
        const int pair = (from[layout.high + word_at(k / 16, lane) + k % 4] >> (k % 16 / 4 * 2)) & 3;
        const int scale = static_cast<int8_t>(from[layout.scales + k / 16 * kStripRows + lane]);
        out[k] = half_at(from, layout.d, k / 256, lane) * static_cast<float>(scale) *
                 static_cast<float>((nibble_at(from, k, lane) | pair << 4) - 32);
        break;
      }
    }
  }
}

}  // namespace monolith
