#include "support/block_cases.h"

namespace monolith::testing::blocks {

std::vector<float> frequencies() {
  std::vector<float> f;
  for (int i = 0; i < kRotated / 2; ++i) f.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / kRotated)));
  return f;
}

Sequence::Sequence(int of_block, bool overlaps) : block(of_block), pool{kDim, of_block, overlaps, nullptr} {
  const auto width = static_cast<size_t>(pool.width());
  values = random_floats(kRows * width, 1);
  scores = random_floats(kRows * width, 2, 3.0f);
  bias = random_floats(static_cast<size_t>(block) * width, 3);
  norm = random_floats(kDim, 4);
  near = random_floats(kRows * kDim, 5);
  q = random_floats(kRows * kHeads * kDim, 6);
  sinks = random_floats(kHeads, 7);
  index_q = random_floats(kRows * kIndexHeads * kDim, 8);
  index_weights = random_floats(kRows * kIndexHeads, 9);
  // The weights are non-negative. Blocks whose dot product is not positive for any index head therefore have score 0
  // and rank last.
  for (float& weight : index_weights) weight = std::abs(weight);
  pool.bias = bias.data();
}

KvShape shape_of(const Sequence& s, KvType type) {
  const int rows = std::max(1, kPageTokens / s.block);
  KvShape shape{{{StateKind::kLatents, 1, kDim, kDim, 0},
                 {StateKind::kLatents, 1, kDim, kDim, 1, 0, rows},
                 {StateKind::kLatents, 1, kDim, kDim, 2, 0, rows}},
                6,
                type};
  shape.most_chosen = kWindow + kRows / s.block + 1;
  return shape;
}

std::vector<double> block_row(const Sequence& s, int index) {
  const auto width = static_cast<size_t>(s.pool.width());
  std::vector<double> row;
  for (size_t d = 0; d < kDim; ++d) {
    double sum = 0, weighted = 0;
    const auto add = [&](int position, size_t at) {
      if (position < 0) return;
      const size_t from = static_cast<size_t>(position) * width + at;
      const double weight =
          std::exp(double{s.scores[from]} + s.bias[static_cast<size_t>(position % s.block) * width + at]);
      sum += weight;
      weighted += weight * s.values[from];
    };
    for (int i = 0; i < s.block; ++i) {
      if (s.pool.overlap) add((index - 1) * s.block + i, d);
      add(index * s.block + i, s.pool.overlap ? kDim + d : d);
    }
    row.push_back(weighted / sum);
  }
  double squares = 0;
  for (const double x : row) squares += x * x;
  for (size_t d = 0; d < kDim; ++d) row[d] *= s.norm[d] / std::sqrt(squares / kDim + kEps);
  for (int i = 0; i < kRotated / 2; ++i) {
    const double angle = index * s.block * std::pow(10000.0, -2.0 * i / kRotated), c = std::cos(angle),
                 sine = std::sin(angle);
    double& a = row[static_cast<size_t>(kDim - kRotated + 2 * i)];
    double& b = row[static_cast<size_t>(kDim - kRotated + 2 * i + 1)];
    const double turned = a * c - b * sine;
    b = a * sine + b * c;
    a = turned;
  }
  return row;
}

std::vector<double> exact(const Sequence& s) {
  std::vector<std::vector<double>> blocks;
  for (int index = 0; index < kRows / s.block; ++index) blocks.push_back(block_row(s, index));
  std::vector<double> out;
  for (int p = 0; p < kRows; ++p) {
    std::vector<std::vector<double>> seen;
    for (int at = std::max(0, p - kWindow + 1); at <= p; ++at) {
      const auto from = s.near.begin() + at * kDim;
      seen.emplace_back(from, from + kDim);
    }
    std::vector<int> order(static_cast<size_t>((p + 1) / s.block));
    std::iota(order.begin(), order.end(), 0);
    if (s.pool.overlap && static_cast<int>(order.size()) > s.most()) {
      std::vector<double> score;
      for (const int index : order) {
        double sum = 0;
        for (size_t head = 0; head < kIndexHeads; ++head) {
          double dot = 0;
          const size_t from = (static_cast<size_t>(p) * kIndexHeads + head) * kDim;
          for (size_t d = 0; d < kDim; ++d) dot += s.index_q[from + d] * blocks[static_cast<size_t>(index)][d];
          sum += s.index_weights[static_cast<size_t>(p) * kIndexHeads + head] * std::max(0.0, dot);
        }
        score.push_back(sum);
      }
      std::ranges::sort(order,
                        [&](int a, int b) { return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)]; });
      order.resize(static_cast<size_t>(s.most()));
    }
    for (const int index : order) seen.push_back(blocks[static_cast<size_t>(index)]);
    for (size_t head = 0; head < kHeads; ++head) {
      const size_t from = (static_cast<size_t>(p) * kHeads + head) * kDim;
      double sum = std::exp(double{s.sinks[head]});
      std::vector<double> weighted(kDim);
      for (const std::vector<double>& row : seen) {
        double dot = 0;
        for (size_t d = 0; d < kDim; ++d) dot += s.q[from + d] * row[d];
        const double weight = std::exp(0.2 * dot);
        sum += weight;
        for (size_t d = 0; d < kDim; ++d) weighted[d] += weight * row[d];
      }
      for (const double value : weighted) out.push_back(value / sum);
    }
  }
  return out;
}

void StreamCase::check(const std::vector<float>& read, const std::vector<float>& streams) const {
  for (size_t row = 0; row < kRows; ++row) {
    const auto logit = [&](size_t part, size_t i) { return double{logits[row * n + i]} * scale[part] + base[i]; };
    double in[kStreams], taken[kStreams], between[kStreams][kStreams];
    for (size_t s = 0; s < kStreams; ++s) {
      in[s] = 1 / (1 + std::exp(-logit(0, s))) + kEps;
      taken[s] = 2 / (1 + std::exp(-logit(1, kStreams + s)));
      double sum = 0;
      for (size_t to = 0; to < kStreams; ++to) sum += between[s][to] = std::exp(logit(2, (2 + s) * kStreams + to));
      for (double& weight : between[s]) weight = weight / sum + kEps;
    }
    for (int turn = 0; turn < 2 * mix.iterations - 1; ++turn)
      for (size_t a = 0; a < kStreams; ++a) {
        const auto at = [&, a](size_t b) -> double& { return turn % 2 == 0 ? between[b][a] : between[a][b]; };
        double sum = kEps;
        for (size_t b = 0; b < kStreams; ++b) sum += at(b);
        for (size_t b = 0; b < kStreams; ++b) at(b) /= sum;
      }
    for (size_t d = 0; d < kWidth; ++d) {
      const auto stream = [&](size_t s) { return double{start[(row * kStreams + s) * kWidth + d]}; };
      double expected = 0;
      for (size_t s = 0; s < kStreams; ++s) expected += in[s] * stream(s);
      CHECK(std::abs(read[row * kWidth + d] - expected) < 1e-5);
      for (size_t to = 0; to < kStreams; ++to) {
        expected = taken[to] * result[row * kWidth + d];
        for (size_t from = 0; from < kStreams; ++from) expected += between[from][to] * stream(from);
        CHECK(std::abs(streams[(row * kStreams + to) * kWidth + d] - expected) < 1e-5);
      }
    }
  }
}

}  // namespace monolith::testing::blocks
