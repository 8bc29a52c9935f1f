// Like architecture_cases.h, for state-space models (Mamba-2, arXiv:2405.21060), written from the reference code
// (transformers' modeling_mamba2, modeling_nemotron_h, modeling_falcon_h1). The recurrent state is updated token by
// token in float64, following the formula. For tests only.
#pragma once

#include "model/recurrent_parts.h"

namespace monolith::testing {

constexpr uint32_t kSpaceHeads = 6, kSpaceGroups = 2, kSpaceDim = 16, kSpaceState = 8;
constexpr uint32_t kSpaceWidth = kSpaceHeads * kSpaceDim, kSpaceChannels = kSpaceWidth + 2 * kSpaceGroups * kSpaceState;

void put_space_sizes(TinyModel& model);

void put_space(TinyModel& model, const std::string& block, bool out_norm);

// The gate is applied before the norm. The norm is computed separately for each group of heads.
Rows mamba2_mixer(const P& net, const std::string& block, const Rows& h, bool out_norm, bool biased = true);

Case mamba2();

// Granite 4: three layers, of which the second one is an attention layer without RoPE.
Case granitehybrid(bool experts);

// Nemotron-H: each layer is a state-space layer, an attention layer without RoPE, or an MLP without a gate.
Case nemotron_h();

// Falcon-H1: each layer has a state-space block and attention in parallel, both after the same norm. Some files have a
// norm after the gate, others do not. In these test cases, files without that norm have no convolution bias either.
Case falcon_h1(bool out_norm);

// Mamba (arXiv:2312.00752, transformers' modeling_mamba, modeling_falcon_mamba and modeling_jamba). The steps, B and C
// are projections of the convolved x. Falcon Mamba normalizes them without weights, Jamba with weights.
enum class MambaNorms : uint8_t { kNone, kUnweighted, kWeighted };
Case mamba(bool falcon);

// Jamba: three layers, of which the second one is an attention layer without RoPE and the last one has experts.
Case jamba();

// PLaMo 2: Mamba layers with heads, and an attention layer with a norm for each head.
Case plamo2();

}  // namespace monolith::testing
