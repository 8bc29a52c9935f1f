#include "model/recurrent_parts.h"

namespace monolith::testing {

Rows convolved(const P& net, const std::string& tensor, const Rows& x, bool biased, double (*activation)(double)) {
  const Row weight = net.values(tensor + ".weight");
  const Row bias = biased ? net.values(tensor + ".bias") : Row(x[0].size());
  const int taps = static_cast<int>(weight.size() / x[0].size());
  Rows out;
  for (int row = 0; row < static_cast<int>(x.size()); ++row) {
    out.push_back(bias);
    for (size_t channel = 0; channel < bias.size(); ++channel) {
      for (int back = 0; back < taps && back <= row; ++back)
        out.back()[channel] += weight[(channel + 1) * static_cast<size_t>(taps) - 1 - static_cast<size_t>(back)] *
                               x[static_cast<size_t>(row - back)][channel];
      out.back()[channel] = activation(out.back()[channel]);
    }
  }
  return out;
}

double itself(double x) { return x; }

double softplus(double x) { return std::log1p(std::exp(x)); }

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

Row part_of(const Row& row, size_t first, size_t count) {
  return {row.begin() + static_cast<ptrdiff_t>(first), row.begin() + static_cast<ptrdiff_t>(first + count)};
}

void leave_out_attention(TinyModel& model, const std::string& block) {
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) model.tensors.erase(block + name + ".weight");
}

void leave_out_network(TinyModel& model, const std::string& block) {
  for (const char* name : {"ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}) model.tensors.erase(block + name + ".weight");
}

}  // namespace monolith::testing
