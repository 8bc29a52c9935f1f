// The layer behind a network's own that guesses what comes after the next token: multi-token prediction (Gloeckle et al.
// 2024, arXiv:2404.19737; as DeepSeek V3 has it, arXiv:2412.19437). Used by the thread that computes steps.
//
//   x[j] = W [norm(embedding of token j), norm(hidden row of position j - 1)]
//   y[j] = layer(x)[j]              attends to its own keys and values, kept in the pages of the network's layers
//   guess of token j + 1 = head(norm(y[j])); then y[j] is the hidden row of position j for the guess behind it
//
// Rows stand at the position of their token, so that what is kept of position j depends on tokens 0 .. j alone: pages
// are shared and forked as they are. The hidden row is what the network has computed before its head. A row behind a
// beginning that another sequence has computed has none, as the first of all: nothing depends on it but a guess.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/layers/layer_part.h"
#include "model/model.h"
#include "model/weights.h"

namespace monolith {

class GuessLayer {
 public:
  // `parts`: of the layer. All else outlives this. Hidden rows kept are all zero at first.
  GuessLayer(const HyperParams& params, const ModelLimits& limits, const Weights& weights, Backend& backend,
             const Activations& activations, std::vector<std::unique_ptr<LayerPart>> parts);

  // Of a step whose layers have left the residual stream `x` of all its rows: notes their hidden rows.
  void note_hidden(const float* x, int n_rows);
  // Computes the layer's keys and values of all these rows, and keeps the hidden rows that the batch names. Overwrites the
  // activations but the logits.
  void feed(const Batch& batch, std::span<const std::span<const Segment>> tables);
  // Of each row a guess: leaves it past the norm before the head, [rows][n_embd].
  const float* guess(const GuessBatch& batch, std::span<const std::span<const Segment>> tables);

 private:
  // `hidden`: of each row the index of the hidden row it reads.
  StepRows project(std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                   std::span<const std::span<const Segment>> tables);
  float* rows_from(int64_t row) const { return activations_.hidden + row * params_.n_embd; }

  const HyperParams& params_;
  const Weights& weights_;
  Backend& backend_;
  const Activations& activations_;
  const std::vector<std::unique_ptr<LayerPart>> parts_;
  // Rows of Activations::hidden: those kept, one of zeros, those of the last guesses, then a step's own and the
  // embeddings of its tokens.
  const int zeros_, guessed_, of_step_, of_tokens_;
  std::vector<int32_t> hidden_, pairs_, kept_;
};

// Rows that Activations::hidden must have.
int64_t hidden_rows(const ModelLimits& limits);

}  // namespace monolith
