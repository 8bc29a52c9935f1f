// config.json to GGUF's metadata. Used on the thread that opens the model.
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

// Heads of a delta net.
struct DeltaNetHeads {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
};

// A head's parts in latent attention's kv_b_proj.
struct LatentHeads {
  int64_t key_dim = 0, value_dim = 0;  // of keys: what does not rotate
};

// MiMo V2.5: queries, keys and values in one matrix, of which each of `shards` equal runs of rows has its share of the heads of all
// three, in this order.
struct ShardedHeads {
  int64_t shards = 0, key_dim = 0, value_dim = 0;
  std::vector<int32_t> kv_heads = {};  // of each layer
};

struct StateSpace {
  int64_t inner = 0, groups = 0, state = 0, heads = 0;
};

// By what Falcon H1's matrices are multiplied.
struct Multipliers {
  float embedding = 1, output = 1, attention_in = 1, attention_out = 1, key = 1, ssm_in = 1, ssm_out = 1, gate = 1,
        down = 1;
  std::vector<float> ssm = {1, 1, 1, 1, 1};  // of z, x, B, C and dt
};

// What the translation of the tensors needs to know.
struct Config {
  const Architecture* architecture = nullptr;
  int64_t layers = 0, heads = 0, kv_heads = 0, experts = 0;
  bool tied = false;         // no output matrix of its own
  int64_t table_rows = 0;    // of the embedding table, where it has some that no token uses; 0: all
  int64_t streams = 1;       // residual streams
  int64_t guess_layers = 0;  // behind `layers`, of those that the folder has
  DeltaNetHeads delta_net = {};
  LatentHeads latents = {};
  ShardedHeads sharded = {};
  StateSpace state_space = {};
  Multipliers multipliers = {};
  Quantization quantization = {};
};

// Adds the architecture's keys to `file`, and the RoPE factors that some architectures keep as tensors. `tensors`: the
// folder's, of whose names it asks which layers guess. Errors name the key: kInvalidFile, or kUnsupported for architectures,
// activations, RoPE scalings and quantized checkpoints that are not translated.
Result<Config> translate_config(const JsonValue& config, const std::vector<Safetensor>& tensors, AssembledFile& file);

}  // namespace monolith::hf
