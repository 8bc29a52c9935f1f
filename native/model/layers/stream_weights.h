// Weights of the blocks that maintain several residual streams: AltUp and hyper-connections.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// AltUp weights shared by all layers (StreamParams): projections from the first stream to each other stream, and back.
struct StreamProjections {
  std::vector<std::unique_ptr<Matrix>> to, from;  // Shape [n_embd, n_embd] each.
};
// Weights for one layer's AltUp streams and for its LAuReL path, which is in parallel with attention.
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

// These functions list nothing if the model has only one residual stream.
void list_weights(StreamProjections& weights, WeightList& list);
void list_weights(StreamWeights& weights, WeightList& list);

// Weights of hyper-connections (HyperConnections), used around each block and after the last layer.
struct StreamMixWeights {
  std::unique_ptr<Matrix> numbers;  // Shape [HyperConnections::numbers(), n_streams * n_embd].
  const float* scale = nullptr;     // [3], or [1] if the streams are only read.
  const float* base = nullptr;      // Shape [numbers()].
};

// `stem` is the prefix of the tensor names.
void list_weights(std::string_view stem, bool reads_only, StreamMixWeights& weights, WeightList& list);

}  // namespace monolith
