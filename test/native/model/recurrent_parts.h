// Common parts of the float64 networks with recurrent state. For tests only.
#pragma once

#include "model/architecture_cases.h"

namespace monolith::testing {

// Causal depthwise convolution, for each channel: x[t] = bias + sum over j of weight[j] x[t - taps + 1 + j].
Rows convolved(const P& net, const std::string& tensor, const Rows& x, bool biased, double (*activation)(double));
double itself(double x);
double softplus(double x);
double logistic(double x);
Row part_of(const Row& row, size_t first, size_t count);

// Removes the attention or MLP tensors of a layer, for models in which some layers have no attention or no MLP.
void leave_out_attention(TinyModel& model, const std::string& block);
void leave_out_network(TinyModel& model, const std::string& block);

}  // namespace monolith::testing
