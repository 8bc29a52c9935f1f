// Builds EAGLE-3 heads for golden models. Tests may change any part before the file is written. For tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "support/drafting_model.h"

namespace monolith::testing {

// An EAGLE-3 head with one attention head that is as wide as the hidden state, an embedding table, and an output matrix
// for `tokens`.
struct EagleFile {
  uint64_t n_embd, n_vocab;
  std::vector<int64_t> tokens;  // The d2t table. If empty, the head has the model's whole vocabulary and no d2t table.
  std::vector<uint32_t> sources = {0, 1, 2};
  uint32_t rotated = 2;  // Rotated dimensions of the attention head.
  bool norm_before_residual = false;
  std::map<std::string, std::vector<float>> values;  // Tensor values by name; matrices are row-major.

  // Fills the matrices with arbitrary numbers and sets the norms to 1.
  EagleFile(const LooseModel& model, std::vector<int64_t> chosen);

  uint64_t n_tokens() const { return tokens.empty() ? n_vocab : tokens.size(); }
  std::map<std::string, std::vector<uint64_t>> shapes() const;
  void zero(const std::string& name) { values.at(name).assign(values.at(name).size(), 0.0f); }
  // Sets a matrix to zero, except for the value `factor` in each row i, at column first + i.
  void diagonal(const std::string& name, float factor, uint64_t first = 0);

  Bytes build() const;
};

// Returns an output matrix for `tokens`. Each token's logit is largest for the embedding of the token whose ID is lower
// by `ahead`.
std::vector<float> looks_back(const std::vector<float>& table, uint64_t n_embd, const std::vector<int64_t>& tokens,
                              uint64_t ahead);

}  // namespace monolith::testing
