// The layouts match ggml's block structs (https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h). Pure
// functions that may be called from any thread.
#include "formats/gguf/expanded_types.h"

#include <bit>
#include <cstring>

#include "base/half.h"
#include "formats/gguf/codebooks.h"

namespace monolith {
namespace {

using Bytes = const uint8_t*;

uint16_t load16(Bytes at) {  // Weights may be unaligned.
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}
uint32_t load32(Bytes at) {
  uint32_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

// Expands eight 2-bit digits into eight bytes.
uint64_t spread_pairs(uint16_t point) {
  uint64_t bits = point;
  bits = (bits | bits << 24) & 0x000000ff000000ffu;
  bits = (bits | bits << 12) & 0x000f000f000f000fu;
  return (bits | bits << 6) & 0x0303030303030303u;
}
// Expands four 3-bit digits into four bytes.
uint32_t spread_triples(uint16_t point) {
  uint32_t bits = point;
  bits = (bits | bits << 10) & 0x003f003fu;
  return (bits | bits << 5) & 0x07070707u;
}
// Expands the bits of a byte: bit i becomes the lowest bit of byte i.
uint64_t spread_bits(uint8_t bits) {
  const uint64_t own = bits * 0x0101010101010101u & 0x8040201008040201u;
  return (own + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
}
// Adds an eighth sign bit to the seven stored bits, chosen so that the number of set bits is even.
uint8_t with_parity(uint32_t seven) { return static_cast<uint8_t>(seven | (std::popcount(seven) & 1) << 7); }

void put8(uint8_t* codes, uint64_t eight) { std::memcpy(codes, &eight, sizeof eight); }
uint8_t odd(uint32_t s) { return static_cast<uint8_t>(2 * s + 1); }

// Returns eight codes of an IQ3 type, from two codebook entries and eight sign bits.
uint64_t iq3_codes(uint16_t first, uint16_t second, uint8_t signs) {
  return (spread_triples(first) | uint64_t{spread_triples(second)} << 32) | spread_bits(signs) << 3;
}

// Expands five (or four) ternary digits from each of `n` bytes: first digit 0 of all bytes, then digit 1 of all bytes,
// and so on. A byte represents its digits as a fraction of 256, so multiplying it by 3 moves the next digit above the
// low 8 bits.
uint8_t* open_ternary(Bytes bytes, int n, int digits, uint8_t* codes) {
  for (int digit = 0, power = 1; digit < digits; ++digit, power *= 3)
    for (int i = 0; i < n; ++i) *codes++ = static_cast<uint8_t>(static_cast<uint8_t>(bytes[i] * power) * 3 >> 8);
  return codes;
}

}  // namespace

template <TensorType T>
void expand_block(Bytes block, ExpandedBlock& expanded) {
  uint8_t* codes = expanded.codes;
  expanded.d = load16(block);
  switch (T) {
    // TQ1_0: 48 bytes with five digits each (a group of 32 bytes, then one of 16), 4 bytes with four digits each, d.
    case TensorType::kTQ1_0: {
      codes = open_ternary(block, 32, 5, codes);
      codes = open_ternary(block + 32, 16, 5, codes);
      open_ternary(block + 48, 4, 4, codes);
      expanded.d = load16(block + 52);
      break;
    }
    // TQ2_0: 64 bytes, d. Each group of 32 bytes holds 128 values: bits 2j and 2j + 1 of byte i are value 32 j + i.
    case TensorType::kTQ2_0:
      for (int i = 0; i < 256; ++i) codes[i] = block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
      expanded.d = load16(block + 64);
      break;
    // IQ1_S: d, 32 bytes with the low bits of the codebook indices, eight 16-bit words. Each word applies to 32 values:
    // four times 3 upper index bits, s, and the sign of delta.
    case TensorType::kIQ1_S:
      for (int i = 0; i < 8; ++i) {
        const int word = load16(block + 34 + 2 * i);
        expanded.numbers[i] = odd(word >> 12 & 7) | (word >> 15) << 7;
        for (int j = 0; j < 4; ++j, codes += 8)
          put8(codes, spread_pairs(kIq1Codebook[block[2 + 4 * i + j] | (word >> (3 * j) & 7) << 8]));
      }
      break;
    // IQ1_M: 32 bytes with the low bits of the codebook indices, 16 bytes of two nibbles each (three upper index bits
    // and the sign of delta), four 16-bit words. Each word holds four values of s and a nibble of d.
    case TensorType::kIQ1_M: {
      uint16_t d = 0;
      for (int i = 0; i < 4; ++i) d |= static_cast<uint16_t>(block[49 + 2 * i] >> 4 << (4 * i));
      expanded.d = d;
      for (int i = 0; i < 8; ++i) {
        const int scales = load16(block + 48 + i / 2 * 2) >> (i % 2 * 6);
        expanded.numbers[i] = static_cast<uint8_t>((scales & 7) | (scales >> 3 & 7) << 4);
        for (int j = 0; j < 4; ++j, codes += 8) {
          const int upper = block[32 + 2 * i + j / 2] >> (j % 2 * 4);
          const uint64_t sign = (upper >> 3 & 1) * 0x0404040404040404u;
          put8(codes, spread_pairs(kIq1Codebook[block[4 * i + j] | (upper & 7) << 8]) | sign);
        }
      }
      break;
    }
    // IQ2_XXS: d, then for each 32 values four bytes of codebook indices and a 32-bit word (four times 7 signs, then
    // s).
    case TensorType::kIQ2_XXS:
      for (int i = 0; i < 8; ++i) {
        const uint32_t word = load32(block + 6 + 8 * i);
        expanded.numbers[i] = odd(word >> 28);
        for (int j = 0; j < 4; ++j, codes += 8)
          put8(codes, spread_pairs(kIq2xxsCodebook[block[2 + 8 * i + j]]) |
                          spread_bits(with_parity(word >> (7 * j) & 127)) << 2);
      }
      break;
    // IQ2_XS: d, 32 16-bit words (a 9-bit codebook index and 7 signs), 8 bytes with two values of s each.
    case TensorType::kIQ2_XS:
      std::memcpy(expanded.numbers, block + 66, 8);
      for (int i = 0; i < 32; ++i, codes += 8) {
        const uint32_t word = load16(block + 2 + 2 * i);
        put8(codes, spread_pairs(kIq2xsCodebook[word & 511]) | spread_bits(with_parity(word >> 9)) << 2);
      }
      break;
    // IQ2_S: d, 32 bytes with the low bits of the codebook indices, 32 bytes of signs, 8 bytes with the upper two bits
    // of the indices, 8 bytes with two values of s each.
    case TensorType::kIQ2_S:
      std::memcpy(expanded.numbers, block + 74, 8);
      for (int i = 0; i < 32; ++i, codes += 8) {
        const int upper = block[66 + i / 4] >> (i % 4 * 2) & 3;
        put8(codes, spread_pairs(kIq2sCodebook[block[2 + i] | upper << 8]) | spread_bits(block[34 + i]) << 2);
      }
      break;
    // IQ3_XXS: d, 64 bytes of codebook indices, eight 32-bit words (four times 7 signs, then s).
    case TensorType::kIQ3_XXS:
      for (int i = 0; i < 8; ++i) {
        const uint32_t word = load32(block + 66 + 4 * i);
        expanded.numbers[i] = odd(word >> 28);
        for (int j = 0; j < 4; ++j, codes += 8) {
          Bytes points = block + 2 + 8 * i + 2 * j;
          put8(codes,
               iq3_codes(kIq3xxsCodebook[points[0]], kIq3xxsCodebook[points[1]], with_parity(word >> (7 * j) & 127)));
        }
      }
      break;
    // IQ3_S: d, 64 bytes with the low bits of the codebook indices, 8 bytes with their ninth bits, 32 bytes of signs,
    // four bytes with two values of s each.
    case TensorType::kIQ3_S:
      for (int i = 0; i < 8; ++i) {
        expanded.numbers[i] = odd(block[106 + i / 2] >> (i % 2 * 4) & 15);
        for (int j = 0; j < 4; ++j, codes += 8) {
          Bytes points = block + 2 + 8 * i + 2 * j;
          const int ninth = block[66 + i] >> (2 * j);
          put8(codes, iq3_codes(kIq3sCodebook[points[0] | (ninth & 1) << 8],
                                kIq3sCodebook[points[1] | (ninth >> 1 & 1) << 8], block[74 + 4 * i + j]));
        }
      }
      break;
    default: break;
  }
}

template <TensorType T>
void decode_expanded(Bytes block, float* out) {
  ExpandedBlock expanded;
  expand_block<T>(block, expanded);
  const float d = half_to_float(expanded.d);
  for (int i = 0; i < 256; ++i) {
    const uint8_t number = expanded.numbers[i / 32], code = expanded.codes[i];
    // Each entry of `numbers` applies to 32 values and holds two values of s, one for each half of them.
    const float of_pair = d * static_cast<float>(odd(number >> (i / 16 % 2 * 4) & 15));
    switch (T) {
      case TensorType::kTQ1_0:
      case TensorType::kTQ2_0: out[i] = d * static_cast<float>(code - 1); break;
      case TensorType::kIQ1_S:
        out[i] =
            d * static_cast<float>(number & 15) * (static_cast<float>(code - 1) + (number & 0x80 ? -0.125f : 0.125f));
        break;
      case TensorType::kIQ1_M: out[i] = of_pair * 0.125f * static_cast<float>(kIq1mLevels[code]); break;
      case TensorType::kIQ2_XS:
      case TensorType::kIQ2_S: out[i] = of_pair * 0.125f * static_cast<float>(kIq2Levels[code]); break;
      case TensorType::kIQ2_XXS:
        out[i] = d * static_cast<float>(number) * 0.125f * static_cast<float>(kIq2Levels[code]);
        break;
      case TensorType::kIQ3_XXS:
        out[i] = d * static_cast<float>(number) * 0.25f * static_cast<float>(kIq3xxsLevels[code]);
        break;
      case TensorType::kIQ3_S: out[i] = d * static_cast<float>(number) * static_cast<float>(kIq3sLevels[code]); break;
      default: break;
    }
  }
}

#define FOR_TYPE(T)                                                 \
  template void expand_block<TensorType::T>(Bytes, ExpandedBlock&); \
  template void decode_expanded<TensorType::T>(Bytes, float*);
FOR_TYPE(kIQ1_S)
FOR_TYPE(kIQ1_M)
FOR_TYPE(kIQ2_XXS)
FOR_TYPE(kIQ2_XS)
FOR_TYPE(kIQ2_S)
FOR_TYPE(kIQ3_XXS)
FOR_TYPE(kIQ3_S)
FOR_TYPE(kTQ1_0)
FOR_TYPE(kTQ2_0)
#undef FOR_TYPE

}  // namespace monolith
