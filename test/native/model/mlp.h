// Decoders in float64, one architecture after another, computed directly from the tensors of a TinyModel. The engine's
// results are compared with the results of these decoders. The decoders share no code with the engine, read no
// metadata, and recompute every sum over all positions. Values that the engine reads from metadata (windows, scales,
// bases) are repeated here as the test writes them to the file. For tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "support/tiny_model.h"

namespace monolith::testing {

using Row = std::vector<double>;
using Rows = std::vector<Row>;  // A matrix of activations, with one row per position.

double silu(double x);
double gelu(double x);

class Mlp {
 public:
  explicit Mlp(const TinyModel& model) : model_(model) {}

  static constexpr int kHeads = TinyModel::kHeads, kKvHeads = TinyModel::kKvHeads, kHeadDim = TinyModel::kHeadDim,
                       kEmbedding = TinyModel::kEmbedding;

  Rows embed(const std::vector<int32_t>& tokens, double scale = 1) const;

  // Multiplies by the rows [first_row, first_row + n_rows) of a matrix, or by all rows if `n_rows` is 0.
  Row times(const std::string& name, const Row& x, size_t first_row = 0, size_t n_rows = 0) const;
  Row biased(const std::string& name, const Row& x) const { return plus(times(name, x), values(name + ".bias")); }
  // RMS norm over groups of values. A group has as many values as the norm's weight.
  Row norm(const std::string& name, Row x) const;

  static Row plus(Row a, const Row& b, double factor = 1);
  static Row gated(double (*activation)(double), Row gate, const Row& up);
  static Row scaled(Row x, double factor);

  static Row frequencies(double base, int n_dims = kHeadDim);
  // YaRN with the default ramp, which extends from the pair that rotates 32 times within `original` positions to the
  // pair that rotates once.
  static Row yarn(double base, double factor, double original);
  // Rotates the pairs (2i, 2i + 1) of each head or, if `halves` is true, the pairs (i, i + n), where n is the number of
  // pairs.
  static void rotate(Rows& heads, const Row& frequency, bool halves, double magnitude = 1);

  struct Attention {
    double scale = 0.25;  // Scale of the attention scores; by default 1 / sqrt(kHeadDim).
    int window = 0;
    double cap = 0;
    double alibi = 0;  // Largest exponent of the ALiBi slopes; 0 = no ALiBi.
    Row sinks = {};    // Attention sinks, one per head. Empty: none.
  };
  static Rows attend(const Rows& q, const Rows& k, const Rows& v, const Attention& how);

  // Evaluates the `used` experts with the largest router logits. If `over_chosen` is true, the weights of the selected
  // experts are normalized to sum to one.
  Row mixture(const std::string& block, const Row& x, int n_ff, int used, bool over_chosen) const;

  // Options for an MoE layer with a different kind of routing or computation.
  struct MixtureOf {
    int n_ff, used;
    bool sigmoid = false, choice_bias = false, normalized = true;
    int groups = 1, groups_used = 1;
    double scale = 1;
    bool biases = false;  // The router and the experts have biases.
    std::function<double(double, double)> inside = [](double gate, double up) { return silu(gate) * up; };
  };
  Row mixture(const std::string& block, const Row& x, const MixtureOf& how) const;

  Row values(const std::string& name) const;

 private:
  const TinyModel& model_;
};

Rows each(const Rows& rows, const std::function<Row(const Row&)>& fn);

}  // namespace monolith::testing
