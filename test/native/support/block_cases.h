// Test cases for compressed attention and for hyper-connections. In compressed attention (DeepSeek V4), blocks of
// positions are pooled into rows, to which tokens attend in addition to a sliding window, and an indexer selects the
// blocks. The cases have random inputs and expected results in double precision, and are shared by the tests of all
// backends. For tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "backend/operations.h"
#include "support/recurrence_cases.h"

namespace monolith::testing::blocks {

inline constexpr int kRows = 70, kDim = 48, kHeads = 3, kWindow = 9, kRotated = 16, kIndexHeads = 6;
inline constexpr float kEps = 1e-6f;

std::vector<float> frequencies();

// Everything that one compressed attention layer reads for one sequence.
struct Sequence {
  explicit Sequence(int of_block, bool overlaps);
  int most() const { return 5; }  // Number of blocks to select.

  int block;
  BlockPool pool;
  std::vector<float> values, scores, bias, norm, near, q, sinks, index_q, index_weights;
};

// KV cache layout: layer 0 stores one latent row per position, layer 1 stores one row per block, and layer 2 stores the
// indexer's keys, one per block.
KvShape shape_of(const Sequence& s, KvType type);

// Pools a block of positions into a row and returns it, in double precision.
std::vector<double> block_row(const Sequence& s, int index);

std::vector<double> exact(const Sequence& s);

inline const std::vector<std::vector<int>> kBlockCuts = {{1}, {7, 14, 21, 28, 35}, {64}, {3, 4, 5, 6, 69}};

// Residual streams of a few tokens with hyper-connections, and the output of one sublayer.
struct StreamCase {
  static constexpr int kStreams = 4, kRows = 5, kWidth = 300;
  HyperConnections mix{.n_streams = kStreams, .iterations = 20, .eps = kEps};
  size_t n = static_cast<size_t>(mix.numbers());
  std::vector<float> logits = random_floats(kRows * n, 1, 2.0f), scale = random_floats(3, 2),
                     base = random_floats(n, 3);
  std::vector<float> start = random_floats(size_t{kRows} * kStreams * kWidth, 4),
                     result = random_floats(size_t{kRows} * kWidth, 5);

  // Compares the sublayer's input and the updated residual streams with a double-precision reference.
  void check(const std::vector<float>& read, const std::vector<float>& streams) const;
};

}  // namespace monolith::testing::blocks
