// What several residual streams and the path beside attention need of a file (StreamParams).
#pragma once

#include <memory>
#include <vector>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Of all layers: from the first stream to each other one, and back.
struct StreamProjections {
  std::vector<std::unique_ptr<Matrix>> to, from;  // [n_embd, n_embd] each
};
// Of one.
struct StreamWeights {
  const float* router_norm = nullptr;
  std::unique_ptr<Matrix> router;        // [count, n_embd]
  std::unique_ptr<Matrix> predict;       // [count * count, count]
  std::unique_ptr<Matrix> correct;       // [count, count]
  const float* correct_scale = nullptr;  // [n_embd]
  std::unique_ptr<Matrix> laurel_down;   // [rank, n_embd]
  std::unique_ptr<Matrix> laurel_up;     // [n_embd, rank]
  NormWeights laurel_post_norm;
};

// Nothing where the network has one stream.
void list_weights(StreamProjections& weights, WeightList& list);
void list_weights(StreamWeights& weights, WeightList& list);

}  // namespace monolith
