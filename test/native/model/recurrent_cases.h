// Declares all test cases with recurrent state and defines those with short convolutions (LFM2: transformers'
// modeling_lfm2). For tests only.
#pragma once

#include "model/delta_net_cases.h"
#include "model/kimi_cases.h"
#include "model/rwkv_cases.h"
#include "model/state_space_cases.h"

namespace monolith::testing {

// Three layers, of which the second one is an attention layer.
TinyModel short_convolutions(const char* architecture);

// A token's projection has three parts. The first part is multiplied with the convolution's input, and the second part
// with its output.
Rows short_convolution(const P& net, const std::string& block, const Rows& h);

Rows short_convolution_layers(const P& net, const Tokens& tokens,
                              const std::function<Row(const std::string&, const Row&)>& network);

Case lfm2();

// Experts after a dense layer.
Case lfm2moe();

std::vector<Case> recurrent_cases();

}  // namespace monolith::testing
