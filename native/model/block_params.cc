// Reads the parameters of models with block attention (MixerKind::kBlockAttention): sizes, blocks and their indexer,
// the two sets of RoPE frequencies, and hyper-connections.
#include <algorithm>
#include <string>
#include <string_view>

#include "model/layer_params.h"
#include "model/rope_frequencies.h"

namespace monolith {
namespace {

constexpr int64_t kMaxRank = 1 << 16;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxIterations = 1000;
// The two block sizes that occur in model files, in positions per block.
constexpr int kOverlappingBlock = 4, kLongBlock = 128;

// Reads the number of positions per block for each layer; 0 = no blocks.
Status read_blocks(const MetadataReader& read, HyperParams& params) {
  constexpr std::string_view kKey = "attention.compress_ratios";
  auto blocks = read.integers(kKey, params.n_layers, 0, INT32_MAX);
  if (!blocks) return blocks.error();
  for (size_t i = 0; i < params.layers.size(); ++i) {
    const int block = (*blocks)[i];
    if (block != 0 && block != kOverlappingBlock && block != kLongBlock)
      return Error{ErrorCode::kUnsupported, "'" + read.key(kKey) + "' is " + std::to_string(block) + " for layer " +
                                                std::to_string(i) + ", expected 0, 4 or 128"};
    params.layers[i].block = block;
    params.layers[i].blocks_overlap = params.layers[i].chooses = block == kOverlappingBlock;
  }
  return {};
}

// Reads the RoPE sets for layers with and without blocks. Each set is followed by its inverse, which undoes the
// rotation.
Status read_angles(const GgufFile& file, const MetadataReader& read, int max_context, HyperParams& params) {
  const int dims = params.blocks.n_rotated;
  auto base = read.number("rope.freq_base", kMinRopeBase, kMaxRopeBase, kDefaultRopeBase);
  if (!base) return base.error();
  auto scaled = read_rope_frequencies(file, params.architecture_name, dims, params.context_length,
                                      max_context > 0 ? max_context : params.context_length, false, YarnLog::kWhole,
                                      "attention.compress_rope_freq_base");
  if (!scaled) return scaled.error();
  const std::vector<double> plain = plain_rope_frequencies(dims, *base);
  scaled->magnitude = 1.0f;  // Here, YaRN changes only the angles.
  for (const RopeSet& set :
       {RopeSet{.n_dims = dims, .inverse_frequency = {plain.begin(), plain.end()}, .axes = {}}, *scaled}) {
    RopeSet back = set;
    for (float& frequency : back.inverse_frequency) frequency = -frequency;
    params.ropes.push_back(set);
    params.ropes.push_back(std::move(back));
  }
  for (LayerParams& layer : params.layers) layer.rope = layer.block > 0 ? 2 : 0;
  return {};
}

Status read_streams(const MetadataReader& read, HyperParams& params) {
  auto count = read.integer("hyper_connection.count", 1, kMaxStreams);
  if (!count) return count.error();
  auto iterations = read.integer("hyper_connection.sinkhorn_iterations", 1, kMaxIterations);
  if (!iterations) return iterations.error();
  auto eps = read.number("hyper_connection.epsilon", 0, 1);
  if (!eps) return eps.error();
  params.stream_mix = {*count, *iterations, static_cast<float>(*eps)};
  return {};
}

}  // namespace

Status read_block_attention(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                            int max_context, HyperParams& params) {
  Status failed;
  const auto set = [&failed](int& field, const Result<int>& result) {
    if (!failed) return;
    if (result)
      field = *result;
    else
      failed = result.error();
  };
  constexpr std::string_view kRotated = "rope.dimension_count", kGroups = "attention.output_group_count",
                             kRank = "attention.output_lora_rank";
  set(params.latents.q_rank, read.integer("attention.q_lora_rank", 1, kMaxRank));
  set(params.blocks.n_rotated, read.integer(kRotated, 2, kMaxHeadDim));
  set(params.blocks.n_groups, read.integer(kGroups, 1, kMaxRank));
  set(params.blocks.output_rank, read.integer(kRank, 1, kMaxRank));
  if (!failed) return failed;
  const LayerParams& first = params.layers.front();
  const BlockAttentionParams& own = params.blocks;
  if (own.n_rotated % 2 != 0 || own.n_rotated > first.key_dim)
    return Error{ErrorCode::kInvalidFile, "'" + read.key(kRotated) + "' is " + std::to_string(own.n_rotated) +
                                              ", expected an even number of at most " + std::to_string(first.key_dim)};
  if (own.output_rank % kExpertRowMultiple != 0)
    return Error{ErrorCode::kUnsupported, "'" + read.key(kRank) + "' is " + std::to_string(own.output_rank) +
                                              ", expected a multiple of " + std::to_string(kExpertRowMultiple)};
  for (LayerParams& layer : params.layers) {
    if (layer.n_heads % own.n_groups != 0)
      return Error{ErrorCode::kInvalidFile, "'" + read.key("attention.head_count") + "' is " +
                                                std::to_string(layer.n_heads) + ", not a multiple of '" +
                                                read.key(kGroups) + "'"};
    if (layer.n_kv_heads != 1 || layer.key_dim != layer.value_dim || layer.window == 0)
      return Error{ErrorCode::kInvalidFile,
                   "architecture '" + params.architecture_name +
                       "' requires one key and value head, keys and values of the same size, and a sliding window"};
    layer.mixer = MixerKind::kBlockAttention;
  }
  if (Status s = read_blocks(read, params); !s) return s;
  const bool any = std::ranges::any_of(params.layers, [](const LayerParams& layer) { return layer.chooses; });
  if (any)
    if (Status s = read_index(read, traits, own.n_rotated, params); !s) return s;
  if (Status s = read_angles(file, read, max_context, params); !s) return s;
  return read_streams(read, params);
}

}  // namespace monolith
