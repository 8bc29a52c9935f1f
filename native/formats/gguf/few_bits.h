// Rows of files in Q1_0 and Q2_0 (networks trained so, as Bonsai), in ggml's blocks: one scale for many values, each of which is a small whole
// multiple of it. Files from before ggml had these types may have blocks of 128 values in Q2_0: their tensors overlap here and are refused. Q4_0 holds every one of them as it is, and is what they are kept as. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "formats/gguf/tensor_source.h"

namespace monolith {

struct FewBits {
  uint32_t ggml_type;  // its number in files
  std::string_view name;
  int bits;  // of a value
  int64_t block_values, block_bytes;
};

// Null: no such type.
const FewBits* few_bits(uint32_t ggml_type);

// `data`: whole rows of `cols` values, a multiple of the type's blocks; it must outlive the result.
std::shared_ptr<const RowMaker> few_bits_rows(const FewBits& type, std::span<const std::byte> data, int64_t cols);

}  // namespace monolith
