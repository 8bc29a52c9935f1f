// Like architecture_cases.h, for Kimi Linear (arXiv:2510.26692), written from the reference code (modeling_kimi). Its
// delta net has a separate decay for each key dimension, and its MLA layers have no RoPE. For tests only.
#pragma once

#include "model/delta_net_cases.h"
#include "model/mixture_cases.h"

namespace monolith::testing {

constexpr uint32_t kKdaDim = 16, kKdaWidth = TinyModel::kHeads * kKdaDim, kKdaRank = 24;
constexpr uint32_t kLatentRank = 32, kSharedDim = 8, kOwnDim = 12, kLatentValue = 16;

void put_channel_decay(TinyModel& model, const std::string& block);

void put_latent_attention(TinyModel& model, const std::string& block);

Rows channel_decay_net(const P& net, const std::string& block, const Rows& h);

// MLA without RoPE: each head's keys and values are computed from the latent row.
Rows unrotated_latent_attention(const P& net, const std::string& block, const Rows& h);

// Three layers, of which the second one is an attention layer. All layers after the first one have experts.
Case kimi_linear();

}  // namespace monolith::testing
