// What the layer that guesses tokens needs beside the weights of a layer (own_guess_layers.h).
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

struct GuessWeights {
  const float* token_norm = nullptr;
  const float* hidden_norm = nullptr;
  std::unique_ptr<Matrix> projection;  // of both, the token's before the hidden row's
  std::unique_ptr<Matrix> embedding;   // null: the network's
  std::unique_ptr<Matrix> head;        // likewise
  NormWeights head_norm;               // likewise
};

// In the layer that `list` is in.
void list_weights(GuessWeights& weights, WeightList& list);

}  // namespace monolith
