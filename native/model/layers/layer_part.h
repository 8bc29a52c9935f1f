// What a layer is made of: parts that each read the residual stream and add to it. A new kind of layer is a new part,
// in a file of its own.
//
//   attention.h        keys and values of all rows are kept; each row attends
//   latent_attention.h likewise, of one row of latents for all heads
//   block_attention.h  likewise, to a window and to rows that stand for blocks of positions
//   delta_net.h        a state of each head is carried on from row to row
//   mamba2.h           likewise, of a state space
//   short_convolution.h  the last few rows' inputs are carried on
//   gated_network.h    the feed-forward network that all rows pass
//   plain_network.h    likewise, without a gate
//   expert_mixture.h   experts that rows choose among
//   network_and_experts.h   both side by side
//   per_layer_input.h  inputs of each layer's own are added
//   streams.h          several residual streams, predicted and corrected around a layer
//   stream_mix.h       several residual streams, mixed around each part
//
// What a kind needs of a file is listed beside it (*_weights.h); make_layer.h puts a layer's parts together.
#pragma once

#include <cstdint>
#include <span>

#include "backend/operations.h"
#include "model/layers/activations.h"
#include "model/layers/layer_weights.h"

namespace monolith {

// A step on its way through the parts.
struct StepRows {
  std::span<const std::span<const Segment>> tables;  // all rows, by page table
  std::span<const int32_t> logit_rows;               // of all rows
  // Those as segments of one token, by page table; of tables that no part reads any more once only these rows are left,
  // and where all rows have logits, none.
  std::span<const std::span<const Segment>> logit_tables;
  float* x;  // the residual stream of the rows that are still wanted, [count][n_embd]
  int count;
  bool all = true;                       // these are all of the step's; else those with logits
  const float* per_layer = nullptr;      // inputs of each layer's own, [count][n_layers * dim]
  std::span<const int32_t> tokens = {};  // of all rows
  // Of StreamMixParams: the streams of the rows that are still wanted, [count][n_streams][n_embd], of which x is what the
  // part reads; and how it does, [count][numbers].
  float* streams = nullptr;
  float* stream_numbers = nullptr;
  const float* normed = nullptr;  // of x, as the layer's mixer has read it; for parts beside it
  // What attention reads in the place of x past its norm, of all rows; null: that.
  const float* mixer_input = nullptr;
};

// What a layer's parts are made of.
struct LayerContext {
  const HyperParams& params;
  const LayerParams& layer;  // what it does otherwise than its neighbours
  const LayerWeights& weights;
  Operations& operations;
  const Activations& activations;
  KvCache& cache;
  int index;         // the layer's number
  int kv_layer;      // of the cache, whose keys and values it attends to
  int table;         // the pages of these
  int max_rows;      // of a step
  LayerSlots slots;  // the layer's part of recurrent state
};

class LayerPart {
 public:
  virtual ~LayerPart() = default;
  // Adds its result to rows.x. `last`: of all layers' parts the last one that keeps something for later tokens. What
  // comes after that serves only the logits: it leaves the rows that have them.
  virtual void run(StepRows& rows, bool last) const = 0;
  // Rows see other positions in it.
  virtual bool mixes() const { return false; }
  // It keeps something for later tokens. Attention to what an earlier layer keeps does not.
  virtual bool keeps() const { return mixes(); }
};

// For the last part that mixes positions: leaves the rows with logits, and returns `mixed`, dense rows of `dim` numbers
// that the part has made, of these alone. Nothing is copied where all have logits.
const float* leave_logit_rows(StepRows& rows, const HyperParams& params, Operations& operations,
                              const Activations& buffers, const float* mixed, int64_t dim);

// How a part reads the residual stream and adds to it, as the network has norms and a scale.
class Residual {
 public:
  // `beside`: the part reads the norm that the layer's mixer has read before it. `mix`: of a part other than the mixer.
  explicit Residual(const LayerContext& context, bool beside = false, const StreamMixWeights* mix = nullptr)
      : params_(context.params),
        operations_(context.operations),
        buffers_(context.activations),
        beside_(beside),
        mix_(mix != nullptr ? *mix : context.weights.mixer_mix) {}

  // What a part computes with: x past its norm, if there is one.
  const float* read(StepRows& rows, const NormWeights& norm) const;
  // Of that, once the part reads it for the last time: the residual stream itself is read again, and so is a norm that
  // another part reads.
  InputUse last_use() const {
    return params_.pre_norm && (beside_ || !params_.parallel_residual) ? InputUse::kLast : InputUse::kAgain;
  }
  // A part's result goes straight to the residual stream, or to a buffer of its own and through add().
  bool is_direct() const {
    return !params_.post_norm && params_.residual_scale == 1.0f && params_.stream_mix.n_streams == 0;
  }
  float* target(const StepRows& rows) const { return is_direct() ? rows.x : buffers_.branch; }
  // Of what was written to target(). Nothing if that was direct.
  void add(const NormWeights& post_norm, const StepRows& rows) const;

 private:
  const HyperParams& params_;
  Operations& operations_;
  const Activations& buffers_;
  const bool beside_;
  const StreamMixWeights& mix_;
};

}  // namespace monolith
