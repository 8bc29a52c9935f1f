// Weights of AltUp residual streams and of the LAuReL path in parallel with attention (StreamParams).
#pragma once

#include <memory>
#include <vector>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights shared by all layers: projections from the first stream to each other stream, and back.
struct StreamProjections {
  std::vector<std::unique_ptr<Matrix>> to, from;  // Shape [n_embd, n_embd] each.
};
// Weights of one layer.
struct StreamWeights {
  const float* router_norm = nullptr;
  std::unique_ptr<Matrix> router;        // Shape [count, n_embd].
  std::unique_ptr<Matrix> predict;       // Shape [count * count, count].
  std::unique_ptr<Matrix> correct;       // Shape [count, count].
  const float* correct_scale = nullptr;  // Shape [n_embd].
  std::unique_ptr<Matrix> laurel_down;   // Shape [rank, n_embd].
  std::unique_ptr<Matrix> laurel_up;     // Shape [n_embd, rank].
  NormWeights laurel_post_norm;
};

// These functions list nothing if the model has a single stream.
void list_weights(StreamProjections& weights, WeightList& list);
void list_weights(StreamWeights& weights, WeightList& list);

}  // namespace monolith
