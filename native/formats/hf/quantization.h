// Quantized checkpoints: what config.json says of them, and the several tensors of a matrix joined into one that is made
// of them when it is loaded. Read are FP8 with a scale for each block or matrix (as DeepSeek and Qwen publish), GPTQ, AWQ,
// NVFP4 and FP8 of ModelOpt, and compressed-tensors in FP8, NVFP4 and of 4 or 8 bits. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/hf/json_file.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

struct Quantization {
  enum class Method : uint8_t { kNone, kFp8, kFp4, kGptq, kAwq, kPacked };  // kPacked: compressed-tensors' integers
  Method method = Method::kNone;
  int bits = 4;
  int64_t block_rows = 0, block_cols = 0;  // of FP8; 0: as its scales' shape has it
  bool zeros_less_one = false;             // GPTQ's first format
  // equal runs of rows of "qkv_proj", each with blocks of FP8 from its own first row on (MiMo V2.5)
  int64_t qkv_shards = 1;
};

// Errors: kUnsupported, naming the setting, for methods and forms that are not read.
Result<Quantization> read_quantization(const JsonValue& settings);

// Puts one tensor in the place of each matrix's several, and leaves out the scales of activations. Errors name file and
// tensor: kInvalidFile where one is missing or does not fit, kUnsupported for types that are not read.
Status join_quantized(const Quantization& quantization, std::vector<Safetensor>& tensors);

}  // namespace monolith::hf
