// Parses the header of a safetensors file (https://github.com/huggingface/safetensors#format): an 8-byte length, a JSON
// text with the type, shape and offsets of each tensor, then the tensor data. The file is untrusted: all lengths and
// offsets are checked, and errors name the file and the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/tensor_source.h"

namespace monolith::hf {

struct Safetensor {
  std::string name;
  std::string type;            // As written in the file, for example "BF16".
  std::vector<int64_t> shape;  // The row length comes last.
  std::span<const std::byte> data;
  std::string file = {};  // Name of the file that contains the tensor.
  // Set for a quantized matrix that quantization.h has joined from several tensors; `data` is then empty.
  std::shared_ptr<const RowMaker> rows = nullptr;
};

// Returns the tensors of a file, in header order. `bytes` is the file's contents and must outlive the result; `file` is
// its name for error messages. Overlapping tensors and bytes that belong to no tensor are rejected.
Result<std::vector<Safetensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

}  // namespace monolith::hf
