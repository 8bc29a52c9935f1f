#include "model/mlp.h"

namespace monolith::testing {

double silu(double x) { return x / (1 + std::exp(-x)); }

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

Rows Mlp::embed(const std::vector<int32_t>& tokens, double scale) const {
  const Row table = values("token_embd.weight");
  Rows x;
  for (const int32_t token : tokens) {
    const auto from = table.begin() + token * kEmbedding;
    x.emplace_back(from, from + kEmbedding);
    for (double& value : x.back()) value *= scale;
  }
  return x;
}

Row Mlp::times(const std::string& name, const Row& x, size_t first_row, size_t n_rows) const {
  const Row weight = values(name + ".weight");
  if (n_rows == 0) n_rows = weight.size() / x.size();
  Row out(n_rows);
  auto from = weight.begin() + static_cast<int64_t>(first_row * x.size());
  for (double& value : out) {
    value = std::inner_product(x.begin(), x.end(), from, 0.0);
    from += static_cast<int64_t>(x.size());
  }
  return out;
}

Row Mlp::norm(const std::string& name, Row x) const {
  const Row weight = values(name + ".weight");
  for (size_t at = 0; at < x.size(); at += weight.size()) {
    double sum = 0;
    for (size_t i = 0; i < weight.size(); ++i) sum += x[at + i] * x[at + i];
    const double root = std::sqrt(sum / static_cast<double>(weight.size()) + 1e-5f);
    for (size_t i = 0; i < weight.size(); ++i) x[at + i] *= weight[i] / root;
  }
  return x;
}

Row Mlp::plus(Row a, const Row& b, double factor) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}

Row Mlp::gated(double (*activation)(double), Row gate, const Row& up) {
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = activation(gate[i]) * up[i];
  return gate;
}

Row Mlp::scaled(Row x, double factor) {
  for (double& value : x) value *= factor;
  return x;
}

Row Mlp::frequencies(double base, int n_dims) {
  Row out;
  for (int i = 0; i < n_dims / 2; ++i) out.push_back(std::pow(base, -2.0 * i / n_dims));
  return out;
}

Row Mlp::yarn(double base, double factor, double original) {
  const auto pair_of = [&](double turns) {
    return kHeadDim * std::log(original / (turns * 2 * M_PI)) / (2 * std::log(base));
  };
  const double from = std::max(0.0, std::floor(pair_of(32)));
  const double to = std::min(kHeadDim - 1.0, std::ceil(pair_of(1)));
  Row out = frequencies(base);
  for (size_t i = 0; i < out.size(); ++i) {
    const double slow = std::clamp((static_cast<double>(i) - from) / std::max(0.001, to - from), 0.0, 1.0);
    out[i] *= slow / factor + 1 - slow;
  }
  return out;
}

void Mlp::rotate(Rows& heads, const Row& frequency, bool halves, double magnitude) {
  const size_t n = frequency.size();
  for (size_t position = 0; position < heads.size(); ++position) {
    Row& row = heads[position];
    for (size_t head = 0; head < row.size(); head += kHeadDim) {
      for (size_t i = 0; i < n; ++i) {
        double& a = row[head + (halves ? i : 2 * i)];
        double& b = row[head + (halves ? i + n : 2 * i + 1)];
        const double angle = static_cast<double>(position) * frequency[i];
        const double c = std::cos(angle) * magnitude, s = std::sin(angle) * magnitude;
        const double turned = a * c - b * s;
        b = a * s + b * c;
        a = turned;
      }
    }
  }
}

Rows Mlp::attend(const Rows& q, const Rows& k, const Rows& v, const Attention& how) {
  Rows out(q.size(), Row(q[0].size()));
  for (int row = 0; row < static_cast<int>(q.size()); ++row) {
    const int begin = how.window > 0 ? std::max(0, row + 1 - how.window) : 0;
    for (int head = 0; head < kHeads; ++head) {
      const int at = head * kHeadDim, kv_at = head / (kHeads / kKvHeads) * kHeadDim;
      Row weight;
      for (int p = begin; p <= row; ++p) {
        double score = 0;
        for (int d = 0; d < kHeadDim; ++d) score += q[row][at + d] * k[p][kv_at + d];
        score *= how.scale;
        if (how.cap > 0) score = how.cap * std::tanh(score / how.cap);
        if (how.alibi > 0) score -= std::exp2(-how.alibi * (head + 1) / kHeads) * (row - p);
        weight.push_back(std::exp(score));
      }
      double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
      if (!how.sinks.empty()) sum += std::exp(how.sinks[head]);
      for (int p = begin; p <= row; ++p)
        for (int d = 0; d < kHeadDim; ++d) out[row][at + d] += weight[p - begin] / sum * v[p][kv_at + d];
    }
  }
  return out;
}

Row Mlp::mixture(const std::string& block, const Row& x, int n_ff, int used, bool over_chosen) const {
  const Row logits = times(block + "ffn_gate_inp", x);
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return logits[a] > logits[b]; });
  double sum = 0;
  for (int i = 0; i < (over_chosen ? used : static_cast<int>(order.size())); ++i) sum += std::exp(logits[order[i]]);
  Row out(x.size());
  for (int i = 0; i < used; ++i) {
    const int e = order[i];
    const Row inside =
        gated(silu, times(block + "ffn_gate_exps", x, e * n_ff, n_ff), times(block + "ffn_up_exps", x, e * n_ff, n_ff));
    out = plus(out, times(block + "ffn_down_exps", inside, e * kEmbedding, kEmbedding), std::exp(logits[e]) / sum);
  }
  return out;
}

Row Mlp::mixture(const std::string& block, const Row& x, const MixtureOf& how) const {
  const auto with_bias = [&](const char* name, Row row, int first) {
    if (!how.biases) return row;
    const Row bias = values(block + name + ".bias");
    for (size_t i = 0; i < row.size(); ++i) row[i] += bias[first + i];
    return row;
  };
  const Row logits = with_bias("ffn_gate_inp", times(block + "ffn_gate_inp", x), 0);
  const int n = static_cast<int>(logits.size());
  Row scores(logits.size());
  double all = 0;
  for (const double logit : logits) all += std::exp(logit);
  for (int e = 0; e < n; ++e) scores[e] = how.sigmoid ? 1 / (1 + std::exp(-logits[e])) : std::exp(logits[e]) / all;
  Row by = scores;
  if (how.choice_bias) by = plus(by, values(block + "exp_probs_b.bias"));
  // Consecutive experts form groups, which are ranked by the sum of their two best scores.
  const int size = n / how.groups;
  std::vector<std::pair<double, int>> groups;
  for (int g = 0; g < how.groups; ++g) {
    Row own(by.begin() + g * size, by.begin() + (g + 1) * size);
    std::ranges::sort(own, std::greater<>());
    groups.emplace_back(how.groups > 1 ? -(own[0] + own[1]) : 0, g);
  }
  std::ranges::sort(groups);
  std::vector<int> order;
  for (int g = 0; g < how.groups_used; ++g)
    for (int e = 0; e < size; ++e) order.push_back(groups[g].second * size + e);
  std::ranges::sort(order, [&](int a, int b) { return by[a] > by[b]; });
  double sum = how.normalized ? 0 : 1;
  for (int i = 0; i < how.used && how.normalized; ++i) sum += scores[order[i]];
  Row out(x.size());
  for (int i = 0; i < how.used; ++i) {
    const int e = order[i];
    Row inside = with_bias("ffn_gate_exps", times(block + "ffn_gate_exps", x, e * how.n_ff, how.n_ff), e * how.n_ff);
    const Row up = with_bias("ffn_up_exps", times(block + "ffn_up_exps", x, e * how.n_ff, how.n_ff), e * how.n_ff);
    for (size_t d = 0; d < up.size(); ++d) inside[d] = how.inside(inside[d], up[d]);
    out = plus(
        out,
        with_bias("ffn_down_exps", times(block + "ffn_down_exps", inside, e * kEmbedding, kEmbedding), e * kEmbedding),
        how.scale * scores[e] / sum);
  }
  return out;
}

Row Mlp::values(const std::string& name) const {
  const std::vector<float> floats = model_.floats(name);
  return {floats.begin(), floats.end()};
}

Rows each(const Rows& rows, const std::function<Row(const Row&)>& fn) {
  Rows out;
  for (const Row& row : rows) out.push_back(fn(row));
  return out;
}

}  // namespace monolith::testing
