// Like architecture_cases.h, for models with MoE layers after dense layers, models whose routers select by more than a
// softmax, and gpt-oss. For tests only.
#pragma once

#include "model/architecture_cases.h"

namespace monolith::testing {

void put_choice_bias(TinyModel& model, uint32_t lead);

// In layer `lead` and the layers after it, computes routed experts plus a shared expert; in the layers before it, an
// MLP.
Row mixture_beside(const P& net, const std::string& block, const Row& row, uint32_t lead, const P::MixtureOf& how);

// GLM 4.5: the last layer in the file is an MTP layer, which the reference network omits.
Case glm4moe(bool qk_norms);

Case dots1();

Case bailingmoe();

// Experts are selected from two of three groups; queries, keys and values are fused.
Case bailingmoe2();

// The router uses a softmax over all experts and a bias that affects only the selection of experts.
Case ernie4_5_moe();

constexpr uint32_t kOssFf = 64;  // A multiple of the MXFP4 block size.

// gpt-oss: attention sinks, biases everywhere, a sliding window in every other layer, gate and up values large enough
// to be clamped, and YaRN.
Case gpt_oss();

// A layer norm that subtracts the mean. StableLM 2 12B and Command R+ have such norms, and separate query and key norms
// for each head. In these models, attention and MLP read the same norm, and both outputs are added.
Row mean_norm(const P& net, const std::string& name, Row x, bool biased, size_t first = 0);

Case norms_apart(bool stablelm);

// GroveMoE: a second mixture reads the output of the first one. Written from llama.cpp, in which the weight of expert e
// of the second mixture is the e-th score of the first mixture's router.
Case grovemoe();

}  // namespace monolith::testing
