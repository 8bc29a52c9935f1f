// Packs the file's blocks into tiles; each thread gathers the parts of one word. Packing runs once per load and is
// limited by the transfer to the device, so the code is kept short rather than fast. Also converts rows of tiles back
// to floats, value by value.
#include "backend/cuda/quant/pack.h"

#include "backend/cuda/device/launch.h"
#include "backend/cuda/quant/expand.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256;
using Bytes = const unsigned char*;

// --- the file's blocks -----------------------------------------------------------------------------------------

MONOLITH_DEVICE uint32_t load_bytes(Bytes from, int n) {  // Little-endian. Blocks are aligned to only 1 or 2 bytes.
  uint32_t word = 0;
  for (int i = 0; i < n; ++i) word |= uint32_t{from[i]} << (8 * i);
  return word;
}
MONOLITH_DEVICE int nibble(Bytes bytes, int i) { return bytes[i % 16] >> (i < 16 ? 0 : 4) & 15; }
// Returns value i of 256 values stored in groups of 32, where 8 / bits groups share 32 bytes.
MONOLITH_DEVICE int column(Bytes bytes, int bits, int i) {
  const int groups = 8 / bits, group = i / 32;
  return bytes[group / groups * 32 + i % 32] >> (group % groups * bits) & ((1 << bits) - 1);
}

// Returns the code of value i as stored in tiles.
MONOLITH_DEVICE int file_code(TensorType type, Bytes block, int i) {
  switch (type) {
    case TensorType::kQ8_0: return block[2 + i];
    case TensorType::kQ4_0: return nibble(block + 2, i) ^ 8;
    case TensorType::kIQ4_NL: return nibble(block + 2, i);
    case TensorType::kQ4_1: return nibble(block + 4, i);
    case TensorType::kMXFP4: return nibble(block + 1, i);
    case TensorType::kQ5_0: return nibble(block + 6, i) | (block[2 + i / 8] >> (i % 8) & 1) << 4;
    case TensorType::kQ5_1: return nibble(block + 8, i) | (block[4 + i / 8] >> (i % 8) & 1) << 4;
    case TensorType::kIQ4_XS: return nibble(block + 8 + i / 32 * 16, i % 32);
    case TensorType::kQ2_K: return column(block + 16, 2, i);
    case TensorType::kQ3_K: return column(block + 32, 2, i) | column(block, 1, i) << 2;
    case TensorType::kQ4_K: return column(block + 16, 4, i);
    case TensorType::kQ5_K: return column(block + 48, 4, i) | column(block + 16, 1, i) << 4;
    case TensorType::kQ6_K: {
      const int group = i / 32, low = block[group / 4 * 64 + group % 2 * 32 + i % 32] >> (group % 4 < 2 ? 0 : 4) & 15;
      return (low | column(block + 128, 2, i) << 4) ^ 32;
    }
    case TensorType::kNVFP4: return block[4 + i / 16 * 8 + i % 8] >> (i % 16 < 8 ? 0 : 4) & 15;
    default: return block[kExpandedCodesAt + i / 2] >> (i % 2 * 4) & 15;  // Expanded i-quants and ternary types.
  }
}

// Returns the block scale of half step i (kSigned16, kNibbles, kScale16) or step i (all others) as a byte, as stored in
// tiles.
MONOLITH_DEVICE uint32_t file_number(TensorType type, Bytes block, int i) {
  switch (type) {
    case TensorType::kMXFP4: return block[0];
    case TensorType::kQ2_K: return block[i];
    case TensorType::kQ6_K: return block[192 + i] ^ 0x80u;
    case TensorType::kQ3_K:
      return ((block[96 + i % 8] >> (i / 8 * 4) & 15u) | (block[104 + i % 4] >> (i / 4 * 2) & 3u) << 4) + 96u;
    case TensorType::kIQ4_XS:
      return ((block[4 + i / 2] >> (i % 2 * 4) & 15u) | (load_bytes(block + 2, 2) >> (2 * i) & 3u) << 4) + 96u;
    case TensorType::kNVFP4: return nvfp4_scale_bits(block[i]);
    default: return block[kExpandedNumbersAt + i];
  }
}

// --- tiles -----------------------------------------------------------------------------------------------------

struct FileTile {
  Bytes rows;  // First row of the tile.
  int64_t row_bytes;
  int n_rows;  // Number of existing rows.
  int block_values, block_bytes;
  const QuantLayout& layout;

  // Returns the block of row `row` that contains column k; null if it is outside the matrix.
  MONOLITH_DEVICE Bytes block(int row, int64_t k) const {
    return row < n_rows && k < layout.cols ? rows + row * row_bytes + k / block_values * block_bytes : nullptr;
  }
  // Returns the low or high bits of the code in row `row`, column `k` of the matrix.
  MONOLITH_DEVICE uint32_t part(int row, int64_t k, int bits, bool high) const {
    const Bytes at = block(row, k);
    if (!at) return 0;
    const auto code = static_cast<uint32_t>(file_code(layout.type, at, static_cast<int>(k % block_values)));
    return (high ? code >> form_of(layout.shape).low_bits : code) & ((1u << bits) - 1);
  }
};

// Returns word `word` of a chunk's codes. The fields are found by inverting the positions given in quant/form.h.
MONOLITH_DEVICE uint32_t code_word(const FileTile& tile, int64_t first_k, int word) {
  const QuantLayout& layout = tile.layout;
  const int low_bits = form_of(layout.shape).low_bits, low_words = low_bits / 2 * 128;
  const bool high = word >= low_words, levels = has_levels(layout.shape);
  if (high) word -= low_words;
  const int bits = high ? layout.high_bits : low_bits, words = bits == 1 ? 2 : 4;  // Words per lane.
  const int piece = word / (32 * words), lane = word / words % 32, w = word % words, g = lane / 4, t = lane % 4;
  uint32_t packed = 0;
  for (int at = 0; at < 32; at += bits) {
    int i = at / 8, j = piece, m = w;  // Byte, step, and word of the fragment.
    if (bits == 4) {
      j = 2 * piece + w / 2;
      i = levels ? at / 4 % 4 : at / 8;
      m = 2 * (w % 2) + (levels ? at / 16 : at / 4 % 2);
    } else if (bits == 2) {
      j = w;
      m = at / 2 % 4;
    } else if (bits == 1) {
      j = 2 * w + at / 4 % 2;
      m = at % 4;
    }
    packed |= tile.part(g + 8 * (m % 2), first_k + 32 * j + 16 * (m / 2) + 4 * t + i, bits, high) << at;
  }
  return packed;
}

// Returns the block scales of four steps, one byte each. The first step starts at column k, and each following one
// starts `step` columns later.
MONOLITH_DEVICE uint32_t bytes_word(const FileTile& tile, int row, int64_t k, int step) {
  uint32_t packed = 0;
  for (int i = 0; i < 4; ++i) {
    const int64_t at = k + i * step;
    if (const Bytes block = tile.block(row, at))
      packed |= file_number(tile.layout.type, block, static_cast<int>(at % tile.block_values) / step) << (8 * i);
  }
  return packed;
}
// Returns the binary16 values at byte offset `from` in the blocks of two steps of 32 columns, starting at column k.
MONOLITH_DEVICE uint32_t halves_word(const FileTile& tile, int row, int64_t k, int from) {
  const Bytes first = tile.block(row, k), second = tile.block(row, k + 32);
  return (first ? load_bytes(first + from, 2) : 0) | (second ? load_bytes(second + from, 2) : 0) << 16;
}

// Returns word `word` of the group of block scales whose first column is first_k.
MONOLITH_DEVICE uint32_t number_word(const FileTile& tile, int64_t first_k, int word) {
  const QuantLayout& layout = tile.layout;
  switch (layout.numbers) {
    case Numbers::kHalf:
    case Numbers::kHalfMin: {
      const int which = word / 32, g = word % 32 / 4, row = g + word / 2 % 2 * 8;
      return halves_word(tile, row, first_k + word % 2 * 64, 2 * which);
    }
    case Numbers::kPower: return bytes_word(tile, word / 2 + word % 2 * 8, first_k, 32);
    case Numbers::kSix: {
      const Bytes block = tile.block(word / 8 + word / 4 % 2 * 8, first_k);
      return block ? load_bytes(block + word % 4 * 4, 4) : 0;
    }
    case Numbers::kSigned32: {
      if (word < 32) return bytes_word(tile, word % 16 / 2 + word % 2 * 8, first_k + word / 16 * kChunk, 32);
      const Bytes one = tile.block(word - 32, first_k), other = tile.block(word - 24, first_k);
      return (one ? load_bytes(one, 2) : 0) | (other ? load_bytes(other, 2) : 0) << 16;
    }
    case Numbers::kScale16: return bytes_word(tile, word / 4 + word / 2 % 2 * 8, first_k + word % 2 * 64, 16);
    case Numbers::kSigned16:
    case Numbers::kNibbles: {
      if (word < 64)
        return bytes_word(tile, word % 32 / 4 + word / 2 % 2 * 8, first_k + word / 32 * kChunk + word % 2 * 64, 16);
      if (layout.numbers == Numbers::kNibbles) {
        const Bytes block = tile.block((word - 64) / 2 + word % 2 * 8, first_k);
        if (!block) return 0;
        // Ternary types store d twice.
        return layout.type == TensorType::kQ2_K ? load_bytes(block + 80, 4) : load_bytes(block, 2) * 0x10001u;
      }
      const int d_at = layout.type == TensorType::kQ6_K ? 208 : layout.type == TensorType::kQ3_K ? 108 : 0;
      const Bytes one = tile.block(word - 64, first_k), other = tile.block(word - 56, first_k);
      return (one ? load_bytes(one + d_at, 2) : 0) | (other ? load_bytes(other + d_at, 2) : 0) << 16;
    }
  }
  return 0;
}

__global__ void __launch_bounds__(kThreads) pack_kernel(QuantLayout layout, int block_values, int block_bytes,
                                                        Bytes rows, int64_t n_rows, unsigned char* data) {
  start_after_inputs();
  const int64_t tile_index = blockIdx.x, left = n_rows - tile_index * kTileRows;
  const int64_t row_bytes = layout.cols / block_values * block_bytes;
  const int rows_left = left < kTileRows ? static_cast<int>(left) : kTileRows;
  const Bytes first_row = rows + tile_index * kTileRows * row_bytes;
  const FileTile tile{first_row, row_bytes, rows_left, block_values, block_bytes, layout};
  auto* const words = reinterpret_cast<uint32_t*>(data + tile_index * layout.tile_bytes);
  const int64_t code_words = layout.numbers_at() / 4;
  const int chunk_words = layout.code_bytes / 4, group_words = layout.number_bytes / 4;
  const int64_t groups = (layout.n_chunks + layout.number_chunks - 1) / layout.number_chunks;
  for (int64_t at = int64_t{blockIdx.y} * kThreads + static_cast<int>(threadIdx.x); at < layout.tile_bytes / 4;
       at += int64_t{gridDim.y} * kThreads) {
    uint32_t word = 0;
    if (at < code_words) {
      word = code_word(tile, at / chunk_words * kChunk, static_cast<int>(at % chunk_words));
    } else if (const int64_t number = at - code_words; number < groups * group_words) {
      word = number_word(tile, number / group_words * layout.number_chunks * kChunk,
                         static_cast<int>(number % group_words));
    }
    words[at] = word;
  }
}

// --- back to floats --------------------------------------------------------------------------------------------

struct PackedRow {
  const QuantLayout& layout;
  Bytes tile;
  int row;  // Row within the tile.

  MONOLITH_DEVICE int part(Bytes from, int bits, int k) const {
    const int j = k / 32, i = k % 4, m = k / 16 % 2 * 2 + row / 8, lane = row % 8 * 4 + k / 4 % 4;
    const bool levels = has_levels(layout.shape);
    int word = 0, at = 8 * i;
    if (bits == 8) word = j * 128 + lane * 4 + m;
    if (bits == 4) {
      word = j / 2 * 128 + lane * 4 + j % 2 * 2 + m / 2;
      at = levels ? 16 * (m % 2) + 4 * i : 8 * i + 4 * (m % 2);
    }
    if (bits == 2) {
      word = lane * 4 + j;
      at += 2 * m;
    }
    if (bits == 1) {
      word = lane * 2 + j / 2;
      at += 4 * (j % 2) + m;
    }
    return static_cast<int>(reinterpret_cast<const uint32_t*>(from)[word] >> at & ((1u << bits) - 1));
  }
  // Returns the number that the code at column k of the chunk represents.
  MONOLITH_DEVICE float q(int chunk, int k) const {
    const Bytes at = tile + int64_t{chunk} * layout.code_bytes;
    const int low_bits = form_of(layout.shape).low_bits;
    int code = part(at, low_bits, k);
    if (layout.high_bits > 0) code |= part(at + low_bits * (kTileRows * kChunk / 8), layout.high_bits, k) << low_bits;
    if (has_levels(layout.shape)) {
      const Words4& levels = layout.levels;
      const uint32_t word = code < 4 ? levels.x : code < 8 ? levels.y : code < 12 ? levels.z : levels.w;
      const auto level = static_cast<int8_t>(word >> (code % 4 * 8));
      return static_cast<float>(level) / static_cast<float>(1 << form_of(layout.shape).shift);
    }
    switch (layout.type) {
      case TensorType::kQ8_0: code = (code ^ 128) - 128; break;
      case TensorType::kQ4_0: code = (code ^ 8) - 8; break;
      case TensorType::kQ6_K: code = (code ^ 32) - 32; break;
      case TensorType::kQ5_0: code -= 16; break;
      case TensorType::kQ3_K: code -= 4; break;
      default: break;
    }
    return static_cast<float>(code);
  }
  MONOLITH_DEVICE static float half_at(Bytes from, int i) {
    return half_to_float(reinterpret_cast<const uint16_t*>(from)[i]);
  }

  MONOLITH_DEVICE float value(int chunk, int k) const {
    const Bytes group = tile + layout.numbers_at() + int64_t{chunk / layout.number_chunks} * layout.number_bytes;
    const int g = row % 8, upper = row / 8, place = g * 2 + upper, within = chunk % 2;
    const float code = q(chunk, k);
    switch (layout.numbers) {
      case Numbers::kHalf: return half_at(group, place * 4 + k / 32) * code;
      case Numbers::kHalfMin:
        return half_at(group, place * 4 + k / 32) * code + half_at(group + 128, place * 4 + k / 32);
      case Numbers::kPower: return mxfp4_step(group[place * 4 + k / 32]) * code;
      case Numbers::kSix: {
        const Bytes block = group + place * 16;
        const int i = within * 4 + k / 32;  // Index of the scale and minimum among eight.
        const Bytes packed = block + 4;
        const int scale = i < 4 ? packed[i] & 63 : (packed[i + 4] & 15) | packed[i - 4] >> 6 << 4;
        const int minimum = i < 4 ? packed[i + 4] & 63 : packed[i + 4] >> 4 | packed[i] >> 6 << 4;
        return half_at(block, 0) * static_cast<float>(scale) * code - half_at(block, 1) * static_cast<float>(minimum);
      }
      case Numbers::kSigned32:
        return half_at(group + 128, place) * static_cast<float>(group[within * 64 + place * 4 + k / 32] - 128) * code;
      case Numbers::kSigned16:
        return half_at(group + 256, place) * static_cast<float>(group[within * 128 + place * 8 + k / 16] - 128) * code;
      case Numbers::kScale16: return nvfp4_step(group[place * 8 + k / 16]) * code;
      case Numbers::kNibbles: {
        const int number = group[within * 128 + place * 8 + k / 16];
        if (layout.type != TensorType::kQ2_K) return half_at(group + 256, place * 2) * (code - 1);  // Ternary digits.
        return half_at(group + 256, place * 2) * static_cast<float>(number & 15) * code -
               half_at(group + 256, place * 2 + 1) * static_cast<float>(number >> 4);
      }
    }
    return 0;
  }
};

__global__ void __launch_bounds__(kThreads)
    embed_quantized_kernel(QuantLayout layout, Bytes data, const int32_t* tokens, float* out) {
  start_after_inputs();
  const int64_t token = tokens[blockIdx.x];
  const PackedRow row{layout, data + token / kTileRows * layout.tile_bytes, static_cast<int>(token % kTileRows)};
  for (int64_t k = static_cast<int>(threadIdx.x); k < layout.cols; k += kThreads)
    out[blockIdx.x * layout.cols + k] = row.value(static_cast<int>(k / kChunk), static_cast<int>(k % kChunk));
}

}  // namespace

void pack_quantized(Runtime& runtime, const QuantLayout& layout, const unsigned char* file_rows, int64_t first_row,
                    int64_t n_rows, unsigned char* data) {
  const TensorTypeTraits& traits = traits_of(layout.type);
  const int64_t tiles = (n_rows + kTileRows - 1) / kTileRows;
  const int64_t pieces = (layout.tile_bytes / 4 + kThreads * 4 - 1) / (kThreads * 4);
  const dim3 grid{static_cast<unsigned>(tiles), static_cast<unsigned>(pieces < 64 ? pieces : 64), 1};
  launch(runtime, pack_kernel, grid, kThreads, 0, layout, static_cast<int>(traits.block_values),
         static_cast<int>(packed_from_bytes(layout.type)), file_rows, n_rows,
         data + first_row / kTileRows * layout.tile_bytes);
}

void embed_quantized(Runtime& runtime, const QuantLayout& layout, const unsigned char* data, const int32_t* tokens,
                     int n_rows, float* out) {
  const dim3 grid{static_cast<unsigned>(n_rows), 1, 1};
  launch(runtime, embed_quantized_kernel, grid, kThreads, 0, layout, data, tokens, out);
}

}  // namespace monolith::cuda
