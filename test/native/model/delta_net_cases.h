// Like architecture_cases.h, for gated delta nets (arXiv:2412.06464), written from the reference code (transformers'
// modeling_qwen3_next and modeling_qwen3_5). The recurrent state is updated token by token in float64, following the
// formula. For tests only.
#pragma once

#include "model/recurrent_parts.h"

namespace monolith::testing {

constexpr uint32_t kTaps = 4, kKeyHeads = 2, kValueHeads = 4, kKeyDim = 8, kValueDim = 16, kInterval = 3;
constexpr uint32_t kDeltaKeys = kKeyHeads * kKeyDim, kDeltaValues = kValueHeads * kValueDim;

// Three layers, of which the last one is an attention layer. RoPE rotates half of each attention head.
TinyModel delta_nets(const char* architecture, bool in_runs);

Row unit(Row x);

// If `in_runs` is set, each run of consecutive value heads uses the same key head. Otherwise, value heads are assigned
// to key heads in round-robin order.
Rows delta_net(const P& net, const std::string& block, const Rows& h, bool in_runs);

// Attention whose output is multiplied element-wise by a sigmoid gate.
Rows gated_attention(const P& net, const std::string& block, const Rows& h);

Rows delta_net_layers(const P& net, const Tokens& tokens, bool in_runs,
                      const std::function<Row(const std::string&, const Row&)>& network);

Case qwen35();

// Qwen3-Next and Qwen 3.5, with MoE layers.
Case delta_nets_with_experts(const char* architecture, bool in_runs);

}  // namespace monolith::testing
