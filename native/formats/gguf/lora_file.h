// LoRA adapters as files: pairs of low-rank factors, each for one weight matrix of a model. The files are untrusted.
// formats/hf/lora_folder.h opens PEFT folders in the same form.
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
  std::string name;  // Name of the tensor in the file, for messages.
  TensorType type = TensorType::kF32;
  std::span<const std::byte> data = {};
};

struct LoraPair {
  std::string target;          // Name of the weight: "blk.0.attn_q.weight".
  int rank = 0;                // At least 1.
  int64_t rows = 0, cols = 0;  // Shape of the weight; at least 1 each.
  LoraFactor a;                // Shape [rank][cols].
  LoraFactor b;                // Shape [rows][rank].
  float factor = 1.0f;         // alpha / rank.
  // Positive: the rows of B form this many heads, and the file has the even rows of each head before its odd rows.
  // `rows` is a multiple of 2 * heads. 0: the file has the rows in order.
  int heads = 0;

  // Returns the values of A and B. Errors: kInvalidFile if a value is not finite.
  Result<std::vector<float>> read_a() const;
  Result<std::vector<float>> read_b() const;
};

struct LoraFile {
  std::string architecture;  // Of the model for which the adapter was made; empty: not stated.
  float alpha = 0.0f;
  std::vector<LoraPair> pairs;         // Not empty; sorted by target, each of which occurs once.
  std::shared_ptr<const void> source;  // Keeps the bytes of the factors valid.
};

inline constexpr int64_t kMaxLoraDimension = int64_t{1} << 31;

// Opens a GGUF file with `general.type` "adapter" and `adapter.type` "lora". Errors name the key or tensor: kIo,
// kInvalidFile, and kUnsupported for kinds of adapters other than LoRA, and for tensors that are not a factor of a
// weight matrix.
Result<LoraFile> open_lora_file(const std::string& path);
// The same for the bytes of a whole file, which must outlive the result.
Result<LoraFile> parse_lora_file(std::span<const std::byte> bytes);

}  // namespace monolith
