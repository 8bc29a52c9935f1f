// Reads Q1_0 and Q2_0 tensors, the formats in which models such as Bonsai are trained. They use ggml's block layout: a
// block has one scale, and each value is a small integer multiple of it. The rows are converted to Q4_0, which
// represents every value exactly. Files written before ggml defined these types may use Q2_0 blocks of 128 values. With
// ggml's layout, the tensors in such files appear to overlap, so the files are rejected. Immutable; may be used from
// any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "formats/gguf/tensor_source.h"

namespace monolith {

struct FewBits {
  uint32_t ggml_type;  // The type number used in files.
  std::string_view name;
  int bits;  // Bits per value.
  int64_t block_values, block_bytes;
};

// Returns null if `ggml_type` is neither Q1_0 nor Q2_0.
const FewBits* few_bits(uint32_t ggml_type);

// `data` contains whole rows and must outlive the result. `cols` is a multiple of the type's block size.
std::shared_ptr<const RowMaker> few_bits_rows(const FewBits& type, std::span<const std::byte> data, int64_t cols);

}  // namespace monolith
