// Base class of the drafters that propose draft tokens from the model's hidden states: MTP layers in the same file
// (mtp_layers.h) or an EAGLE-3 head from a separate file (eagle_head.h). It manages the hidden states for both. Used on
// the engine thread.
//
//   y[j] = layer(token j, hidden state of position j - 1); attends to its own keys and values, in the model's KV pages
//   draft of token j + 1 = head(norm(y[j])); y[j] is then the hidden state of position j for the next draft token
//
// Keys and values are stored at the position of their token, so the data at position j depends only on tokens 0 .. j.
// KV pages can therefore be shared and forked as usual. The first token of a text has no hidden state to read, and
// neither has the first token after a prefix that another sequence computed. This affects only draft tokens.
//
// There may be several levels (MTP layers). Level k drafts the token k positions further ahead. It reads the outputs of
// level k - 1 for the previous position; level 0 reads the model's hidden states. Every step feeds all levels.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/layers/layer_block.h"
#include "model/model.h"
#include "model/weights.h"

namespace monolith {

class MtpLayer {
 public:
  using Parts = std::vector<std::unique_ptr<LayerBlock>>;

  virtual ~MtpLayer() = default;
  // Called with the residual stream `x` of all tokens of a step as it enters layer `layer`, or as it leaves the last
  // layer; copies what the drafter needs. Called in order for every layer up to last_noted().
  virtual void note(int layer, const float* x, RowCount rows) = 0;
  virtual int last_noted() const = 0;
  // Computes the keys and values of all tokens in the batch and saves the hidden states that the batch requests.
  // Overwrites all activations except the logits.
  void feed(const Batch& batch, std::span<const std::span<const Segment>> tables);
  // Runs the pass. Stores the head's input for each sequence's last token in Activations::normed.
  void draft(const DraftBatch& batch, std::span<const std::span<const Segment>> tables);
  // Returns the output matrix to apply to the result of draft(), or null for the model's own matrix. tokens() returns
  // the token IDs of the logits; empty = the whole vocabulary.
  virtual const Matrix* head(int level) const = 0;
  virtual std::span<const int32_t> tokens() const { return {}; }

 protected:
  // `n_embd` is the width of the hidden states; `levels` contains the blocks of each level. All references must outlive
  // this object. The saved hidden states are initialized to zeros.
  MtpLayer(int n_embd, const ModelLimits& limits, Backend& backend, const Activations& activations,
           std::vector<Parts> levels);

  // Computes the input for the blocks of a level. `hidden` contains, for each token, the index of the hidden state to
  // read.
  virtual StepRows project(int level, std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                           std::span<const std::span<const Segment>> tables) = 0;
  // Applies the norm before the head to `x`, the output of the last block, and writes the result to
  // Activations::normed. Returns the hidden states that the next draft token reads: the normalized output or `x`.
  virtual const float* finish(int level, const float* x, RowCount rows) = 0;

  float* rows_from(int64_t row) const { return activations_.hidden + row * n_embd_; }
  int last_level() const { return static_cast<int>(levels_.size()) - 1; }

  const int n_embd_;
  Backend& backend_;
  const Activations& activations_;
  const std::vector<Parts> levels_;
  // Offsets in Activations::hidden. The buffer contains, in this order, the saved hidden states of each level, one row
  // of zeros, the outputs of the last drafting pass, the hidden states of the current step, and the embeddings of the
  // step's tokens.
  const int of_level_, zeros_, drafted_, of_step_, of_tokens_;

 private:
  void keep(int level, const Batch& batch);

  std::vector<int32_t> hidden_, rows_;
};

// The maximum number of tokens in one drafting pass, and the number of rows in Activations::hidden.
int draft_rows(const ModelLimits& limits, int n_levels);
int64_t hidden_rows(const ModelLimits& limits, int n_levels);

}  // namespace monolith
