// Reads the sizes of RWKV models from metadata.
#include <algorithm>
#include <string>

#include "model/layer_params.h"

namespace monolith {

Status read_rwkv(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                 HyperParams& params) {
  constexpr std::string_view kHead = "wkv.head_size";
  constexpr int64_t kMaxRank = 1 << 14;
  if (traits.other_mixer != MixerKind::kTimeMix) return {};
  auto head = read.integer(kHead, 1, 1 << 16);
  if (!head) return head.error();
  if (*head % 16 != 0 || *head > kMaxTimeMixDim)
    return Error{ErrorCode::kUnsupported, "'" + read.key(kHead) + "' is " + std::to_string(*head) +
                                              ", but only multiples of 16 up to " + std::to_string(kMaxTimeMixDim) +
                                              " are supported"};
  if (params.n_embd % *head != 0)
    return Error{ErrorCode::kInvalidFile, "'" + read.key("embedding_length") + "' (" + std::to_string(params.n_embd) +
                                              ") is not a multiple of '" + read.key(kHead) + "' (" +
                                              std::to_string(*head) + ")"};
  if (Status s = read.refuse_unless("token_shift_count", 2, "another number of token shifts"); !s) return s;
  RwkvParams& rwkv = params.rwkv;
  rwkv.delta = traits.rwkv_delta;
  rwkv.n_heads = params.n_embd / *head;
  rwkv.head_dim = *head;
  struct Rank {
    std::string_view key;
    int RwkvParams::*field;
  };
  constexpr Rank kDelta[] = {{"attention.decay_lora_rank", &RwkvParams::decay_rank},
                             {"attention.iclr_lora_rank", &RwkvParams::rate_rank},
                             {"attention.value_residual_mix_lora_rank", &RwkvParams::value_rank},
                             {"attention.gate_lora_rank", &RwkvParams::gate_rank}};
  constexpr Rank kPlain[] = {{"time_mix_extra_dim", &RwkvParams::shift_rank},
                             {"time_decay_extra_dim", &RwkvParams::decay_rank}};
  for (const Rank& rank : rwkv.delta ? std::span<const Rank>(kDelta) : std::span<const Rank>(kPlain)) {
    auto stated = read.integer(rank.key, 1, kMaxRank);
    if (!stated) return stated.error();
    rwkv.*rank.field = *stated;
  }
  // Older files of RWKV 6 have one tensor for each input.
  rwkv.fused_mu = rwkv.delta || file.tensor("blk.0.time_mix_lerp_w.weight") == nullptr;
  for (LayerParams& layer : params.layers)
    if (layer.feed_forward != FeedForwardKind::kChannelMix)
      return Error{ErrorCode::kInvalidFile, "'" + read.key("feed_forward_length") + "' is 0"};
  if (rwkv.delta) return {};
  auto period = read.integer("rescale_every_n_layers", 0, INT32_MAX, 0);
  if (!period) return period.error();
  for (int i = 0; *period > 0 && i < params.n_layers; ++i)
    if ((i + 1) % *period == 0) params.layers[static_cast<size_t>(i)].output_scale = 0.5f;
  return {};
}

}  // namespace monolith
