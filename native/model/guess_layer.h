// What guesses tokens beside a network, from what the network has computed: layers of its own file (own_guess_layers.h) or a
// head from another one (eagle_head.h). Here is what both have in common: rows, and where they come from. Used by the thread
// that computes steps.
//
//   y[j] = layer(token j, hidden row of position j - 1)    attends to its own keys and values, in the network's pages
//   guess of token j + 1 = head(norm(y[j])); then y[j] is the hidden row of position j for the guess behind it
//
// Rows stand at the position of their token, so that what is kept of position j depends on tokens 0 .. j alone: pages
// are shared and forked as they are. A row behind a beginning that another sequence has computed has no hidden row, as the
// first of all: nothing depends on it but a guess.
//
// There may be several levels: the layer of level k says what comes k tokens later still, and reads of the row before
// what the layer of level k - 1 has left of it, where that of level 0 reads what the network has. A step feeds all of them.
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
  using Parts = std::vector<std::unique_ptr<LayerPart>>;

  virtual ~GuessLayer() = default;
  // Of a step whose residual stream `x`, of all its rows, enters layer `layer` of the network, or has left the last: what it
  // reads of them. Called for every layer up to last_noted() in order.
  virtual void note(int layer, const float* x, int n_rows) = 0;
  virtual int last_noted() const = 0;
  // Computes the keys and values of all these rows, and keeps the hidden rows that the batch names. Overwrites the
  // activations but the logits.
  void feed(const Batch& batch, std::span<const std::span<const Segment>> tables);
  // Leaves of each sequence's last row what its head reads, in Activations::normed.
  void guess(const GuessBatch& batch, std::span<const std::span<const Segment>> tables);
  // What of guess() makes logits; null: the network's. And which tokens these are of; empty: all.
  virtual const Matrix* head(int level) const = 0;
  virtual std::span<const int32_t> tokens() const { return {}; }

 protected:
  // `n_embd`: of its hidden rows. `levels`: the parts of each. All else outlives this. Hidden rows kept are all zero at first.
  GuessLayer(int n_embd, const ModelLimits& limits, Backend& backend, const Activations& activations,
             std::vector<Parts> levels);

  // The rows as they enter a level's parts. `hidden`: of each the index of the hidden row it reads.
  virtual StepRows project(int level, std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                           std::span<const std::span<const Segment>> tables) = 0;
  // Of rows `x` that have passed the parts: past the norm before the head, into Activations::normed. Returns what of them the
  // next guess reads: that, or `x`.
  virtual const float* finish(int level, const float* x, int n_rows) = 0;

  float* rows_from(int64_t row) const { return activations_.hidden + row * n_embd_; }
  int last_level() const { return static_cast<int>(levels_.size()) - 1; }

  const int n_embd_;
  Backend& backend_;
  const Activations& activations_;
  const std::vector<Parts> levels_;
  // Rows of Activations::hidden: those kept of each level, one of zeros, those of the last guesses, then a step's own and the
  // embeddings of its tokens.
  const int of_level_, zeros_, guessed_, of_step_, of_tokens_;

 private:
  void keep(int level, const Batch& batch);

  std::vector<int32_t> hidden_, rows_;
};

// Rows of one pass of guesses, and rows that Activations::hidden must have.
int guess_rows(const ModelLimits& limits, int n_levels);
int64_t hidden_rows(const ModelLimits& limits, int n_levels);

}  // namespace monolith
