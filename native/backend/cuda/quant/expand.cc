#include "backend/cuda/quant/expand.h"

#include <cstring>

namespace monolith::cuda {
namespace {

// Returns the block scale for 16 values, to be multiplied by d. The codebook values are eight times the values in the
// type's formula.
template <TensorType T>
int number_of(const ExpandedBlock& block, int i) {
  const int number = block.numbers[i / 2];
  switch (T) {
    case TensorType::kIQ1_S: return number & 15;
    case TensorType::kIQ1_M:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S: return 2 * (number >> (i % 2 * 4) & 15) + 1;
    case TensorType::kIQ3_XXS: return 2 * number;  // The formula of this type has a factor of 1/4.
    default: return number;
  }
}

template <TensorType T>
void open(const uint8_t* from, int64_t n_blocks, uint8_t* to) {
  constexpr bool kTernary = T == TensorType::kTQ1_0 || T == TensorType::kTQ2_0;
  const auto block_bytes = traits_of(T).block_bytes;
  ExpandedBlock expanded;
  for (int64_t at = 0; at < n_blocks; ++at, from += block_bytes, to += kExpandedBytes) {
    expand_block<T>(from, expanded);
    std::memcpy(to, &expanded.d, sizeof expanded.d);
    for (int i = 0; i < 16; ++i)  // Ternary types have a scale and a minimum of one each.
      to[kExpandedNumbersAt + i] = static_cast<uint8_t>(kTernary ? 0x11 : number_of<T>(expanded, i) + 128);
    if (T == TensorType::kIQ1_S)  // The sign of delta becomes the third bit, as in IQ1_M's codes.
      for (int i = 0; i < 256; ++i) expanded.codes[i] |= static_cast<uint8_t>(expanded.numbers[i / 32] >> 7 << 2);
    for (int i = 0; i < 128; ++i)
      to[kExpandedCodesAt + i] = static_cast<uint8_t>(expanded.codes[2 * i] | expanded.codes[2 * i + 1] << 4);
  }
}

}  // namespace

size_t packed_from_bytes(TensorType type) {
  return is_expanded_type(type) ? size_t{kExpandedBytes} : static_cast<size_t>(traits_of(type).block_bytes);
}

void expand_blocks(TensorType type, const std::byte* from_bytes, int64_t n_values, std::byte* to_bytes) {
  const auto* const from = reinterpret_cast<const uint8_t*>(from_bytes);
  auto* const to = reinterpret_cast<uint8_t*>(to_bytes);
  const int64_t n = n_values / 256;
  switch (type) {
    case TensorType::kIQ1_S: return open<TensorType::kIQ1_S>(from, n, to);
    case TensorType::kIQ1_M: return open<TensorType::kIQ1_M>(from, n, to);
    case TensorType::kIQ2_XXS: return open<TensorType::kIQ2_XXS>(from, n, to);
    case TensorType::kIQ2_XS: return open<TensorType::kIQ2_XS>(from, n, to);
    case TensorType::kIQ2_S: return open<TensorType::kIQ2_S>(from, n, to);
    case TensorType::kIQ3_XXS: return open<TensorType::kIQ3_XXS>(from, n, to);
    case TensorType::kIQ3_S: return open<TensorType::kIQ3_S>(from, n, to);
    case TensorType::kTQ1_0: return open<TensorType::kTQ1_0>(from, n, to);
    case TensorType::kTQ2_0: return open<TensorType::kTQ2_0>(from, n, to);
    default: return;
  }
}

}  // namespace monolith::cuda
