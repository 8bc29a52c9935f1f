#include "model/layer_params.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace monolith {
namespace {

constexpr int64_t kMaxRank = 2048;
constexpr int64_t kMaxQueryRank = 1 << 16;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxIndexHeads = 1024;
constexpr int64_t kMaxChosen = 1 << 20;

// Reads which layers have their own sparse-attention indexer. Early GLM 5.2 files lack the key; in these files, the
// first two layers and every fourth layer after them have an indexer.
Status read_indexed_layers(const MetadataReader& read, HyperParams& params) {
  constexpr std::string_view kTypes = "attention.indexer.types";
  constexpr int kSharesWithout = 1 << 20;
  const bool shares =
      !read.has(kTypes) && params.architecture_name == "glm-dsa" && params.context_length >= kSharesWithout;
  auto types = read.integers(kTypes, params.n_layers, 0, 1, 1);
  if (!types) return types.error();
  bool any = false;
  for (size_t i = 0; i < params.layers.size(); ++i) {
    LayerParams& layer = params.layers[i];
    if (!layer.latent()) continue;
    // An MTP layer needs its own indexer, because the positions that earlier layers have selected apply to other
    // tokens.
    const bool drafts = i >= static_cast<size_t>(params.n_layers);
    layer.chooses = drafts || (shares ? i < 2 || (i - 2) % 4 == 0 : (*types)[i] == 1);
    any |= layer.chooses;
    if (!any)
      return Error{ErrorCode::kInvalidFile, "'" + read.key(kTypes) + "': layer " + std::to_string(i) +
                                                " uses the selection of an earlier layer, but none has an indexer"};
  }
  return {};
}

}  // namespace

Status read_index(const MetadataReader& read, const ArchitectureTraits& traits, int n_rotated, HyperParams& params) {
  constexpr std::string_view kKeyLength = "attention.indexer.key_length";
  if (!traits.position_index) return read.refuse_unless("attention.indexer.top_k", 0, "a sparse attention indexer");
  IndexParams& index = params.latents.index;
  auto n_heads = read.integer("attention.indexer.head_count", 1, kMaxIndexHeads);
  if (!n_heads) return n_heads.error();
  auto key_dim = read.integer(kKeyLength, 2, kMaxHeadDim);
  if (!key_dim) return key_dim.error();
  auto most = read.integer("attention.indexer.top_k", 1, kMaxChosen);
  if (!most) return most.error();
  auto eps = read.number("attention.layer_norm_epsilon", 1e-30, 1.0, 1e-6);
  if (!eps) return eps.error();
  if (*key_dim < n_rotated)
    return Error{ErrorCode::kInvalidFile, "'" + read.key(kKeyLength) + "' is " + std::to_string(*key_dim) +
                                              ", but must be at least the " + std::to_string(n_rotated) +
                                              " dimensions with RoPE"};
  if (*key_dim % 16 != 0)
    return Error{ErrorCode::kUnsupported,
                 "'" + read.key(kKeyLength) + "' is " + std::to_string(*key_dim) + ", expected a multiple of 16"};
  if (params.latents.q_rank == 0)
    return Error{ErrorCode::kInvalidFile, "'" + read.key("attention.q_lora_rank") +
                                              "' is 0, but the sparse attention indexer requires low-rank queries"};
  index = {*most, *n_heads, *key_dim, *traits.position_index, static_cast<float>(*eps)};
  return {};
}

Status read_latents(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                    HyperParams& params) {
  if (!traits.latents) return {};
  LatentParams& latents = params.latents;
  Status failed;
  const auto set = [&failed](int& field, const Result<int>& result) {
    if (!failed) return;
    if (result)
      field = *result;
    else
      failed = result.error();
  };
  // In files without the keys that end in _mla, the keys without this suffix contain the sizes of a head. In newer
  // files, these keys contain the sizes of the cached data.
  const bool stated = read.has("attention.key_length_mla");
  set(latents.rank, read.integer("attention.kv_lora_rank", 1, kMaxRank));
  set(latents.shared_dim, read.integer("rope.dimension_count", 2, kMaxHeadDim));
  set(latents.key_dim, read.integer(stated ? "attention.key_length_mla" : "attention.key_length", 2, kMaxHeadDim));
  set(latents.value_dim,
      read.integer(stated ? "attention.value_length_mla" : "attention.value_length", 1, kMaxHeadDim));
  set(latents.q_rank, read.integer("attention.q_lora_rank", 0, kMaxQueryRank, 0));
  if (!failed) return failed;
  if (latents.shared_dim >= latents.key_dim)
    return Error{ErrorCode::kInvalidFile,
                 "'" + read.key("rope.dimension_count") + "' is " + std::to_string(latents.shared_dim) +
                     ", expected less than the key length of " + std::to_string(latents.key_dim) + " dimensions"};
  const auto first = std::ranges::find_if(params.layers, &LayerParams::attends);
  if (first == params.layers.end()) return {};
  const std::string block = "blk." + std::to_string(first - params.layers.begin()) + ".";
  if (file.tensor(block + "attn_q.weight") != nullptr) latents.q_rank = 0;
  latents.split =
      file.tensor(block + "attn_k_b.weight") != nullptr || file.tensor(block + "attn_kv_b.weight") == nullptr;
  for (LayerParams& layer : params.layers) {
    if (!layer.attends()) continue;
    layer.mixer = MixerKind::kLatentAttention;
    layer.n_kv_heads = 1;
    layer.key_dim = latents.rank + latents.shared_dim;
    layer.value_dim = latents.rank;
  }
  if (Status s = read_index(read, traits, latents.shared_dim, params); !s || latents.index.most == 0) return s;
  return read_indexed_layers(read, params);
}

}  // namespace monolith
