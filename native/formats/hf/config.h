// Translates config.json to GGUF metadata. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/architecture.h"
#include "formats/hf/json_file.h"
#include "formats/hf/quantization.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

// Number and size of the key and value heads in a delta-net layer.
struct DeltaNetHeads {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
};

// Sizes of each head's key and value parts in MLA's kv_b_proj.
struct LatentHeads {
  int64_t key_dim = 0, value_dim = 0;  // key_dim excludes the dimensions with RoPE.
};

// MiMo V2.5 stores queries, keys and values in one matrix that is divided into `shards` equal ranges of rows. Each
// range contains its share of the query heads, then of the key heads, then of the value heads.
struct ShardedHeads {
  int64_t shards = 0, key_dim = 0, value_dim = 0;
  std::vector<int32_t> kv_heads = {};  // One entry per layer.
};

struct StateSpace {
  int64_t inner = 0, groups = 0, state = 0, heads = 0;
};

// Constant factors for Falcon H1's matrices.
struct Multipliers {
  float embedding = 1, output = 1, attention_in = 1, attention_out = 1, key = 1, ssm_in = 1, ssm_out = 1, gate = 1,
        down = 1;
  std::vector<float> ssm = {1, 1, 1, 1, 1};  // Factors for z, x, B, C and dt.
};

// The settings needed to translate the tensors.
struct Config {
  const Architecture* architecture = nullptr;
  int64_t layers = 0, heads = 0, kv_heads = 0, experts = 0;
  bool tied = false;       // The embedding table is also the output matrix.
  int64_t table_rows = 0;  // Number of embedding rows in use, if some belong to no token; 0 = all rows.
  int64_t streams = 1;     // Number of residual streams.
  int64_t mtp_layers = 0;  // Number of MTP layers, stored after the others, that the folder contains.
  DeltaNetHeads delta_net = {};
  LatentHeads latents = {};
  ShardedHeads sharded = {};
  StateSpace state_space = {};
  Multipliers multipliers = {};
  Quantization quantization = {};
};

// Adds the architecture's metadata to `file`, and the RoPE factors that some architectures store as tensors. The names
// in `tensors` determine the number of MTP layers. Errors name the key: kInvalidFile, or kUnsupported for
// architectures, activations, RoPE scalings and quantization formats that are not supported.
Result<Config> translate_config(const JsonValue& config, const std::vector<Safetensor>& tensors, AssembledFile& file);

}  // namespace monolith::hf
