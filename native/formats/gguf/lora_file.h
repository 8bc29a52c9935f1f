// Reads LoRA adapters from GGUF files: one pair of low-rank factors, A and B, for each weight matrix that the adapter
// changes. The files are untrusted. formats/hf/lora_folder.h reads PEFT folders and also returns a LoraFile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/tensor_type.h"

namespace monolith {

struct LoraFactor {
  std::string name;  // Name of the tensor in the file, for error messages.
  TensorType type = TensorType::kF32;
  std::span<const std::byte> data = {};
};

struct LoraPair {
  std::string target;          // GGUF name of the weight matrix, such as "blk.0.attn_q.weight".
  int rank = 0;                // At least 1.
  int64_t rows = 0, cols = 0;  // Shape of the weight matrix; at least 1 each.
  LoraFactor a;                // Shape [rank][cols].
  LoraFactor b;                // Shape [rows][rank].
  float factor = 1.0f;         // Scale of B * A: alpha / rank, alpha / sqrt(rank) (rsLoRA), or 1 without alpha.
  // If positive, the rows of B form this many heads, and the file stores the even rows of each head before the odd
  // rows, so read_b() must reorder them. `rows` is a multiple of 2 * heads. 0 = the rows are already in GGUF order.
  int heads = 0;

  // Return the values of A and B, without `factor`. Errors: kInvalidFile if a value is not finite.
  Result<std::vector<float>> read_a() const;
  Result<std::vector<float>> read_b() const;
};

struct LoraFile {
  std::string architecture;  // Architecture of the base model; empty = the file does not specify it.
  float alpha = 0.0f;
  std::vector<LoraPair> pairs;         // Not empty. Sorted by `target`, which is unique.
  std::shared_ptr<const void> source;  // Keeps the bytes of the factors valid.
};

inline constexpr int64_t kMaxLoraDimension = int64_t{1} << 31;

// Opens a GGUF file with `general.type` "adapter" and `adapter.type` "lora". Error messages name the key or tensor.
// Errors: kIo, kInvalidFile, and kUnsupported (another kind of adapter, or a tensor that is not a LoRA factor of a
// weight matrix).
Result<LoraFile> open_lora_file(const std::string& path);
// Parses the bytes of a whole file, which must outlive the result. Returns the same errors as open_lora_file(), except
// kIo.
Result<LoraFile> parse_lora_file(std::span<const std::byte> bytes);

}  // namespace monolith
