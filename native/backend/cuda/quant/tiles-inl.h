// Operations of one warp on quantized tiles in registers: converting codes to fragments and block scales to floats, and
// accumulating products. Used by the kernels of quant/product-inl.h. The meaning of all values is documented in
// quant/form.h.
#pragma once

#include "backend/cuda/device/tensor_int8.h"
#include "backend/cuda/quant/product.h"

namespace monolith::cuda::quant {

MONOLITH_DEVICE uint32_t word_of(const Words4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

// --- codes -----------------------------------------------------------------------------------------------------

// One lane's codes of a chunk.
template <QuantShape S>
struct TileCodes {
  static constexpr QuantForm form = form_of(S);
  static constexpr int kPieces = form.low_bits / 2;
  Words4 low[kPieces];
  Words4 high;  // Only x and y are used for one high bit.

  MONOLITH_DEVICE static const Words4* place(const QuantLayout& layout, const unsigned char* tile, int chunk) {
    return hidden(reinterpret_cast<const Words4*>(tile + int64_t{chunk} * layout.code_bytes) + lane_id());
  }
  // If `wanted` is true, loads codes of another chunk into those registers of the current chunk for which step j is the
  // last step to use them. Calls with j = 0 .. 3 load the whole chunk. `from` is the lane's position in that chunk.
  MONOLITH_DEVICE void load_after(int j, const Words4* from, int high_bits, bool wanted) {
    if (form.low_bits == 8) low[j % kPieces] = load_stream(from + j * 32, wanted);
    if (form.low_bits == 4 && j % 2 == 1) low[j / 2 % kPieces] = load_stream(from + j / 2 * 32, wanted);
    if (form.low_bits == 2 && j == 3) low[0] = load_stream(from, wanted);
    if (form.high_bits == 2 && j == 3) high = load_stream(from + kPieces * 32, wanted);
    if (form.high_bits == 1 && j == 3) {
      const auto* const bits_from = reinterpret_cast<const Words2*>(from + kPieces * 32) - lane_id();
      const Words2 bits = load_stream(bits_from, wanted && high_bits > 0);
      high.x = bits.x;
      high.y = bits.y;
    }
  }
  // Loads a whole chunk from shared memory.
  MONOLITH_DEVICE void load_near(Near chunk, int high_bits) {
    const Near from = chunk + lane_id() * 16;
    MONOLITH_UNROLL
    for (int i = 0; i < kPieces; ++i) low[i] = load_near4(from, i * 512);
    if (form.high_bits == 2) high = load_near4(from, kPieces * 512);
    if (form.high_bits == 1) {
      high.x = high.y = 0;
      if (high_bits > 0) {
        const Words2 bits = load_near2(chunk + lane_id() * 8, kPieces * 512);
        high.x = bits.x;
        high.y = bits.y;
      }
    }
  }
};

// Looks up four codebook values for the codes in the low 16 bits.
MONOLITH_DEVICE uint32_t look_up(const Words4& levels, uint32_t codes) {
  const uint32_t within = codes & 0x7777u;
  const uint32_t lower = choose_bytes(levels.x, levels.y, within), upper = choose_bytes(levels.z, levels.w, within);
  return choose_bytes(lower, upper, 0x3210u | (codes >> 1 & 0x4444u));
}

// Looks up four of eight codebook values for one code per byte.
MONOLITH_DEVICE uint32_t look_up8(const Words4& levels, uint32_t codes) {
  const uint32_t pairs = codes | codes >> 4;  // Bytes 0 and 2 now hold two codes each.
  return choose_bytes(levels.x, levels.y, choose_bytes(pairs, 0, 0x4420u));
}

// Returns bits << n, or bits >> -n for negative n.
MONOLITH_DEVICE uint32_t shifted(uint32_t bits, int n) { return n >= 0 ? bits << (n & 31) : bits >> (-n & 31); }

// Builds the A fragment of step j. j must be a compile-time constant, like everything that indexes registers.
template <QuantShape S>
MONOLITH_DEVICE void fragment(const TileCodes<S>& codes, int j, const Words4& levels, uint32_t (&a)[4]) {
  constexpr QuantForm form = form_of(S);
  MONOLITH_UNROLL
  for (int m = 0; m < 4; ++m) {
    if (form.low_bits == 8) {
      a[m] = word_of(codes.low[j % codes.kPieces], m);
      continue;
    }
    if (form.low_bits == 2) {
      a[m] = word_of(codes.low[0], j) >> (2 * m) & 0x03030303u;
      a[m] |= shifted(j < 2 ? codes.high.x : codes.high.y, 2 - (4 * (j % 2) + m)) & 0x04040404u;
      if (S == QuantShape::kLevels3) a[m] = look_up8(levels, a[m]);
      continue;
    }
    const uint32_t word = word_of(codes.low[j / 2 % codes.kPieces], j % 2 * 2 + m / 2);
    if (has_levels(S)) a[m] = look_up(levels, m % 2 == 0 ? word : word >> 16);
    if (S == QuantShape::kS4) a[m] = (m % 2 == 0 ? word << 4 : word) & 0xf0f0f0f0u;
    if (S == QuantShape::kU4 || S == QuantShape::kU5) a[m] = (m % 2 == 0 ? word : word >> 4) & 0x0f0f0f0fu;
    if (S == QuantShape::kU5) a[m] |= shifted(j < 2 ? codes.high.x : codes.high.y, 4 - (4 * (j % 2) + m)) & 0x10101010u;
    if (S == QuantShape::kS6) {
      a[m] = (m % 2 == 0 ? word << 2 : word >> 2) & 0x3c3c3c3cu;
      a[m] |= shifted(word_of(codes.high, j), 6 - 2 * m) & 0xc0c0c0c0u;
    }
  }
}

// --- block scales ----------------------------------------------------------------------------------------------

// One lane's block scales of a chunk as they are loaded: four words each for rows g and g + 8.
struct TileNumbers {
  uint32_t of_row[2][4];
  // Stores two words per row, starting at word `from`.
  MONOLITH_DEVICE void put(const Words4& words, int from) {
    of_row[0][from] = words.x;
    of_row[0][from + 1] = words.y;
    of_row[1][from] = words.z;
    of_row[1][from + 1] = words.w;
  }
  // Stores one word per row.
  MONOLITH_DEVICE void put(const Words2& words, int at) {
    of_row[0][at] = words.x;
    of_row[1][at] = words.y;
  }
  // Stores one half of `halves` as word 2 of each row.
  MONOLITH_DEVICE void put_halves(uint32_t halves) { put(Words2{halves & 0xffffu, halves >> 16}, 2); }
  // Stores all words of row r.
  MONOLITH_DEVICE void put_row(int r, const Words4& words) {
    of_row[r][0] = words.x;
    of_row[r][1] = words.y;
    of_row[r][2] = words.z;
    of_row[r][3] = words.w;
  }
};

// A factor by which bytes are multiplied. A byte is placed in the lowest bits of a float (biased_byte()). One fused
// multiply-add then subtracts that float's base value and multiplies by the factor, both exactly: `less` is the negated
// base value, a power of two, times the factor.
struct Unit {
  float of, less;
};
MONOLITH_DEVICE Unit unit_of(float number) { return {number, -8388608.0f * number}; }

// Constants that a kernel keeps in registers. The compiler would rematerialize a known constant before every
// instruction that cannot encode it. To prevent that, each value is stored four times: the compiler cannot know that
// the four values are equal, or which one a lane selects.
struct Constants {
  Start start;      // Initial accumulators of products: kMagicBits.
  uint32_t biased;  // Holds kBiasedBits.
};
MONOLITH_DEVICE Constants find_constants(const QuantProduct& product) {
  const auto lane = static_cast<unsigned>(lane_id());
  Constants constants;
  MONOLITH_UNROLL
  for (unsigned i = 0; i < 4; ++i) constants.start.of[i] = product.magic[(lane + i) % 4];
  constants.biased = product.biased[lane % 4];
  return constants;
}

// The block scales in the form in which step_of() needs them:
//   kHalf, kHalfMin  words: d of four steps, then m
//   kPower           four exponents
//   kSix             four scales, four minima; d, d_min
//   kSigned32        four scales; d
//   kSigned16        eight scales; d
//   kNibbles         eight pairs; d, d_min
//   kScale16         eight scales
struct ReadyNumbers {
  uint32_t of_row[2][4];
  Unit d[2], d_min[2];
};

template <QuantShape S, Numbers N>
MONOLITH_DEVICE TileNumbers load_numbers(const QuantLayout& layout, const unsigned char* numbers, int chunk,
                                         bool wanted) {
  TileNumbers n{};
  using Bytes = const unsigned char*;
  const auto load4 = [&](Bytes from) { return load_kept(reinterpret_cast<const Words4*>(from), wanted); };
  const auto load2 = [&](Bytes from) { return load_kept(reinterpret_cast<const Words2*>(from), wanted); };
  const auto load1 = [&](Bytes from) { return load_kept(reinterpret_cast<const uint32_t*>(from), wanted); };
  const int g = lane_id() / 4;
  if constexpr (N == Numbers::kScale16) {
    n.put(load4(numbers + int64_t{chunk} * layout.number_bytes + g * 16), 0);
  } else if constexpr (form_of(S).step == 16) {
    const unsigned char* const group = numbers + int64_t{chunk / 2} * layout.number_bytes;
    n.put(load4(group + chunk % 2 * 128 + g * 16), 0);
    if constexpr (N == Numbers::kNibbles) {
      n.put(load2(group + 256 + g * 8), 2);
    } else {
      n.put_halves(load1(group + 256 + g * 4));
    }
  } else if constexpr (N == Numbers::kSix) {
    const unsigned char* const group = numbers + int64_t{chunk / 2} * layout.number_bytes + g * 32;
    MONOLITH_UNROLL
    for (int r = 0; r < 2; ++r) n.put_row(r, load4(group + r * 16));
  } else if constexpr (N == Numbers::kPower) {
    n.put(load2(numbers + int64_t{chunk} * layout.number_bytes + g * 8), 0);
  } else if constexpr (N == Numbers::kSigned32) {
    const unsigned char* const group = numbers + int64_t{chunk / 2} * layout.number_bytes;
    n.put(load2(group + chunk % 2 * 64 + g * 8), 0);
    n.put_halves(load1(group + 128 + g * 4));
  } else {
    const unsigned char* const group = numbers + int64_t{chunk} * layout.number_bytes + g * 16;
    n.put(load4(group), 0);
    if constexpr (N == Numbers::kHalfMin) n.put(load4(group + 128), 2);
  }
  return n;
}

// Loads the block scales of chunk `half` of a pair from shared memory.
template <QuantShape S, Numbers N>
MONOLITH_DEVICE TileNumbers load_near_numbers(Near numbers, int half) {
  TileNumbers n{};
  const int g = lane_id() / 4;
  if constexpr (N == Numbers::kScale16) {
    n.put(load_near4(numbers + g * 16, half * 128), 0);
  } else if constexpr (form_of(S).step == 16) {
    n.put(load_near4(numbers + g * 16, half * 128), 0);
    if constexpr (N == Numbers::kNibbles) {
      n.put(load_near2(numbers + g * 8, 256), 2);
    } else {
      n.put_halves(load_near1(numbers + g * 4, 256));
    }
  } else if constexpr (N == Numbers::kSix) {
    MONOLITH_UNROLL
    for (int r = 0; r < 2; ++r) n.put_row(r, load_near4(numbers + g * 32, r * 16));
  } else if constexpr (N == Numbers::kPower) {
    n.put(load_near2(numbers + g * 8, half * 64), 0);
  } else if constexpr (N == Numbers::kSigned32) {
    n.put(load_near2(numbers + g * 8, half * 64), 0);
    n.put_halves(load_near1(numbers + g * 4, 128));
  } else {
    constexpr int kBytes = N == Numbers::kHalfMin ? 256 : 128;
    n.put(load_near4(numbers + g * 16, half * kBytes), 0);
    if constexpr (N == Numbers::kHalfMin) n.put(load_near4(numbers + g * 16, half * kBytes + 128), 2);
  }
  return n;
}

MONOLITH_DEVICE float half_of(uint32_t word, int i) {
  return half_to_float(static_cast<uint16_t>(i == 0 ? word : word >> 16));
}

// Factor that compensates for the multiplication of the codes by 2^shift.
template <QuantShape S>
constexpr float kUnshifted = 1.0f / static_cast<float>(1 << form_of(S).shift);

template <QuantShape S, Numbers N>
MONOLITH_DEVICE ReadyNumbers ready(const TileNumbers& loaded, int chunk) {
  ReadyNumbers n{};
  MONOLITH_UNROLL
  for (int r = 0; r < 2; ++r) {
    const uint32_t(&words)[4] = loaded.of_row[r];
    MONOLITH_UNROLL
    for (int i = 0; i < 4; ++i) n.of_row[r][i] = words[i];
    if constexpr (N == Numbers::kSix) {
      if (chunk % 2 == 0) {
        n.of_row[r][0] = words[1] & 0x3f3f3f3fu;
        n.of_row[r][1] = words[2] & 0x3f3f3f3fu;
      } else {
        n.of_row[r][0] = (words[3] & 0x0f0f0f0fu) | (words[1] >> 2 & 0x30303030u);
        n.of_row[r][1] = (words[3] >> 4 & 0x0f0f0f0fu) | (words[2] >> 2 & 0x30303030u);
      }
      n.d[r] = unit_of(half_of(words[0], 0));
      n.d_min[r] = unit_of(half_of(words[0], 1));
    } else if constexpr (N == Numbers::kNibbles) {
      n.d[r] = unit_of(half_of(words[2], 0));
      n.d_min[r] = unit_of(half_of(words[2], 1));
    } else if constexpr (N == Numbers::kSigned16 || N == Numbers::kSigned32) {
      n.d[r] = unit_of(half_of(words[2], 0) * kUnshifted<S>);
    }
  }
  return n;
}

// Places byte i in the lowest bits of a float. Avoids an integer conversion, which costs four times as much as a
// multiplication.
MONOLITH_DEVICE float biased_byte(uint32_t word, int i, uint32_t biased) {
  return as_float(choose_bytes(word, biased, 0x7650u | static_cast<uint32_t>(i)));
}
MONOLITH_DEVICE float times(float biased, const Unit& unit) { return fmaf(biased, unit.of, unit.less); }
// Converts a byte that is stored with an offset of 128. The subtraction is separate, because the product of the
// combined offset and the factor would not be exact.
MONOLITH_DEVICE float signed_times(float biased, const Unit& unit) { return (biased - 8388736.0f) * unit.of; }

struct Step {
  float step, magic;  // `magic` is -kMagic * step.
  float floor;
};

// Returns the block scale of row r (g or g + 8) for part `half` of step j; `half` is 0 for types with one scale per
// step.
template <QuantShape S, Numbers N>
MONOLITH_DEVICE Step step_of(const ReadyNumbers& numbers, int r, int j, int half, uint32_t biased) {
  constexpr QuantForm form = form_of(S);
  const uint32_t(&words)[4] = numbers.of_row[r];
  Step of{0, 0, 0};
  if constexpr (form.step == 16) {
    const uint32_t bytes = words[j / 2];
    const int at = j % 2 * 2 + half;
    if constexpr (N == Numbers::kScale16) {
      // The byte forms the first bits of a float below 1. Multiplying by 2^119 gives nvfp4_step(), also for small
      // scales, which are subnormal.
      of.step = as_float((bytes >> (8 * at) & 0x7fu) << 20) * (0x1p119f * kUnshifted<S>);
    } else if constexpr (N == Numbers::kNibbles) {
      of.step = times(biased_byte(bytes & 0x0f0f0f0fu, at, biased), numbers.d[r]);
      of.floor = times(biased_byte(bytes >> 4 & 0x0f0f0f0fu, at, biased), numbers.d_min[r]);
    } else {
      of.step = signed_times(biased_byte(bytes, at, biased), numbers.d[r]);
      if (S == QuantShape::kU3) of.floor = 4.0f * of.step;
    }
  } else if constexpr (N == Numbers::kSix) {
    of.step = times(biased_byte(words[0], j, biased), numbers.d[r]);
    of.floor = times(biased_byte(words[1], j, biased), numbers.d_min[r]);
  } else if constexpr (N == Numbers::kPower) {
    of.step = mxfp4_step(static_cast<uint8_t>(words[0] >> (8 * j)));
  } else if constexpr (N == Numbers::kSigned32) {
    of.step = signed_times(biased_byte(words[0], j, biased), numbers.d[r]);
  } else {
    of.step = half_of(words[j / 2], j % 2) * kUnshifted<S>;
    if (N == Numbers::kHalfMin)
      of.floor = -half_of(words[2 + j / 2], j % 2);
    else if (S == QuantShape::kU5)
      of.floor = 16.0f * of.step;
  }
  of.magic = -kMagic * of.step;
  return of;
}

// --- matmul ----------------------------------------------------------------------------------------------------

// acc += the product of step j for `mt` tiles and `nt` groups of 8 columns. For each group, `inputs` provides codes(j,
// n); columns(j, n) with the scales and sums of the lane's two columns; and half_sums(j, n) with the sums of both
// halves. With kOneColumn, only column 0 is needed.
template <QuantShape S, Numbers N, int mt, int nt, typename Inputs>
MONOLITH_DEVICE void multiply(const QuantLayout& layout, int j, const TileCodes<S> (&codes)[mt],
                              const ReadyNumbers (&numbers)[mt], const Inputs& inputs, const Constants& constants,
                              float (&acc)[mt][nt][4]) {
  constexpr QuantForm form = form_of(S);
  constexpr int kParts = 32 / form.step;
  uint32_t a[mt][4];
  Step steps[mt][kParts][2];
  MONOLITH_UNROLL
  for (int m = 0; m < mt; ++m) {
    fragment(codes[m], j, layout.levels, a[m]);
    MONOLITH_UNROLL
    for (int half = 0; half < kParts; ++half) {
      MONOLITH_UNROLL
      for (int r = 0; r < 2; ++r) steps[m][half][r] = step_of<S, N>(numbers[m], r, j, half, constants.biased);
    }
  }
  MONOLITH_UNROLL
  for (int n = 0; n < nt; ++n) {
    const Words2 b = inputs.codes(j, n);
    const Words4 columns = inputs.columns(j, n);
    const float scale[2] = {as_float(columns.x), as_float(columns.y)};
    Words4 sums{columns.z, columns.w, 0, 0};  // Code sums of the activations for each part of the step.
    if constexpr (form.minima && kParts == 2) sums = inputs.half_sums(j, n);
    MONOLITH_UNROLL
    for (int half = 0; half < kParts; ++half) {
      const float minus_sum[2] = {as_float(half == 0 ? sums.x : sums.z), as_float(half == 0 ? sums.y : sums.w)};
      MONOLITH_UNROLL
      for (int m = 0; m < mt; ++m) {
        int32_t d[4];
        if constexpr (kParts == 1) {
          const uint32_t both[2] = {b.x, b.y};
          mma_s8_k32(d, a[m], both, constants.start);
        } else {
          mma_s8_k16(d, a[m][2 * half], a[m][2 * half + 1], half == 0 ? b.x : b.y, constants.start);
        }
        MONOLITH_UNROLL
        for (int i = 0; i < 4; i += Inputs::kOneColumn ? 2 : 1) {
          const Step& of = steps[m][half][i / 2];
          const float product = fmaf(as_float(static_cast<uint32_t>(d[i])), of.step, of.magic);
          acc[m][n][i] = fmaf(product, scale[i % 2], acc[m][n][i]);
          if constexpr (form.minima) acc[m][n][i] = fmaf(of.floor, minus_sum[i % 2], acc[m][n][i]);
        }
      }
    }
  }
}

// --- assignment of tiles and columns ----------------------------------------------------------------------------

// Returns the target that contains a row block.
MONOLITH_DEVICE const QuantTarget& target_of(const QuantProduct& product, int block) {
  int i = 0;
  while (i + 1 < product.n_targets && block >= product.targets[i + 1].first_block) ++i;
  return product.targets[i];
}

// The columns of a block, from `first` (a multiple of 8) to `end`, and the expert by whose matrix they are multiplied.
struct Columns {
  int first, end, expert;
};
// Returns the columns of tile `tile` with `width` columns; an empty range beyond the last tile.
MONOLITH_DEVICE Columns columns_of(const QuantProduct& product, unsigned tile, int width) {
  if (!product.tiles) return {static_cast<int>(tile) * width, product.n_columns, 0};
  if (static_cast<int>(tile) >= product.most_tiles) return {0, 0, 0};
  const ColumnTile own = product.tiles[tile];
  return {own.first, own.first + own.count, own.expert};
}

MONOLITH_DEVICE void put_output(const QuantTarget& target, int expert, int64_t row, int column, float value) {
  float* const to = target.out + column * target.out_stride + row;
  if (target.bias) value += target.bias[expert * target.rows + row];
  *to = target.add_to_out ? *to + value : value;
}

// Returns the number of steps, counted from the start of a chunk, that lie within the matrix. Steps beyond the end are
// skipped. The branch also keeps the compiler from loading all inputs of a chunk at its start, for which there are not
// enough registers.
MONOLITH_DEVICE int steps_from(const QuantLayout& layout, int chunk) {
  return static_cast<int>(layout.cols / 32) - chunk * (kChunk / 32);
}

// Returns the address of a target's tile. Tiles beyond the end map to the last tile, and their results are discarded.
MONOLITH_DEVICE const unsigned char* tile_at(const QuantProduct& product, const QuantTarget& target, int expert,
                                             int64_t tile) {
  const int64_t last = (target.rows - 1) / kTileRows, before = expert * (target.rows / kTileRows);
  return target.data + (before + (tile < last ? tile : last)) * product.layout.tile_bytes;
}

}  // namespace monolith::cuda::quant
