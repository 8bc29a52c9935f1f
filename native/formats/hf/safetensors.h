// The head of a safetensors file (https://github.com/huggingface/safetensors#format): 8 bytes with the length of a
// JSON text, the text, which gives each tensor's type, shape and place, then the tensors' bytes. Trusts nothing:
// every length and place is checked, and every error names the file and the tensor.
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
  std::string type;            // as written: "BF16"
  std::vector<int64_t> shape;  // the row length last
  std::span<const std::byte> data;
  std::string file = {};  // the name of the file that it lies in
  // One that quantized.h joined of several: its data is empty, and the matrix is made of theirs.
  std::shared_ptr<const RowMaker> rows = nullptr;
};

// What a file of `bytes` holds, in the order written. `file` is its name, for messages. The bytes must outlive the
// result. Refused are tensors that overlap, and bytes that belong to none.
Result<std::vector<Safetensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

}  // namespace monolith::hf
