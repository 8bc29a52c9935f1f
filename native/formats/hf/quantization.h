// Quantized checkpoints: reads their settings from config.json, and replaces the tensors of each matrix with a single
// tensor that is produced at load time. Supported formats: FP8 with a scale per block or matrix (as published by
// DeepSeek and Qwen), GPTQ, AWQ, ModelOpt NVFP4 and FP8, and compressed-tensors with FP8, NVFP4, 4-bit and 8-bit
// integers. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/hf/json_file.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

struct Quantization {
  // kPacked: packed integers from compressed-tensors.
  enum class Method : uint8_t { kNone, kFp8, kFp4, kGptq, kAwq, kPacked };
  Method method = Method::kNone;
  int bits = 4;
  int64_t block_rows = 0, block_cols = 0;  // FP8 scale blocks; 0 = derived from the shape of the scales.
  bool zeros_less_one = false;             // Zero points are stored minus one, as in the original GPTQ format.
  // Number of equal ranges of rows in "qkv_proj" (MiMo V2.5). The FP8 scale blocks of each range start at the range's
  // first row.
  int64_t qkv_shards = 1;
};

// Returns kUnsupported, naming the setting, for methods and formats that are not supported.
Result<Quantization> read_quantization(const JsonValue& settings);

// Replaces the tensors of each quantized matrix with a single tensor, and drops activation scales. Errors name the file
// and the tensor. kInvalidFile: a tensor is missing or has the wrong shape. kUnsupported: the tensor type is not
// supported.
Status join_quantized(const Quantization& quantization, std::vector<Safetensor>& tensors);

}  // namespace monolith::hf
