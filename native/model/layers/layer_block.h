// The blocks that layers consist of. Each block reads the residual stream and adds to it. To support a new kind of
// layer, add a new block in its own file.
//
//   attention.h        stores keys and values of all tokens; each token attends to them
//   latent_attention.h MLA: stores one latent vector per token for all heads
//   block_attention.h  MLA-like, with a sliding window and compressed blocks of earlier positions
//   delta_net.h        updates a recurrent state per head with each token
//   mamba.h            updates the recurrent state of a state-space model whose inputs are projections of the
//                      convolved x
//   mamba2.h           updates the recurrent state of a state-space model
//   rwkv.h             RWKV's time mixing and channel mixing
//   short_convolution.h stores the inputs of the last few tokens
//   feed_forward.h     dense feed-forward networks, with and without a gate
//   moe.h              mixture of experts, alone or in parallel with a dense network
//   per_layer_input.h  adds per-layer inputs
//   streams.h          several residual streams, predicted and corrected around a layer (AltUp) or mixed around each
//                      block (hyper-connections)
//
// The *_weights.h files define the weights of related kinds of blocks. make_layer.h assembles the blocks of a layer.
#pragma once

#include <cstdint>
#include <span>

#include "backend/operations.h"
#include "model/layers/activations.h"
#include "model/layers/layer_weights.h"

namespace monolith {

// The state of a step that is passed from block to block.
struct StepRows {
  std::span<const std::span<const Segment>> tables;  // Segments of all tokens, for each page table.
  std::span<const int32_t> logit_rows;               // Indices, among all tokens, of those whose logits are requested.
  // One list of segments per page table for the tokens with logits; each segment is one token. There are no lists if
  // all tokens have logits. A table's list is empty if no block reads the table after the step has been reduced to
  // these tokens.
  std::span<const std::span<const Segment>> logit_tables;
  float* x;  // The residual stream of the tokens that are still computed, [count][n_embd].
  RowCount count;
  bool all = true;  // True while all tokens of the step are computed; false when only tokens with logits are left.
  const float* per_layer = nullptr;      // Per-layer inputs, [count][n_layers * dim].
  std::span<const int32_t> tokens = {};  // IDs of all tokens.
  // Only for hyper-connections: the streams of the tokens that are still being computed, [count][n_streams][n_embd],
  // from which x is mixed for each block; and the mixing weights, with shape [count][mixing weights per token].
  float* streams = nullptr;
  float* stream_numbers = nullptr;
  const float* normed = nullptr;  // The normalized x that the layer's mixer has read, for blocks in parallel with it.
  // The layer's input, which attention keeps for the router or the experts, [count][n_embd]: see early_input().
  const float* early = nullptr;
  // If set, attention reads this buffer as the input of all tokens, instead of the normalized x.
  const float* mixer_input = nullptr;
};

// Everything needed to construct the blocks of a layer.
struct LayerContext {
  const HyperParams& params;
  const LayerParams& layer;  // Parameters that can differ per layer.
  const LayerWeights& weights;
  Operations& operations;
  const Activations& activations;
  KvCache& cache;
  int index;         // Number of the layer.
  int kv_layer;      // The cache layer whose keys and values the layer uses.
  int table;         // Page table of that cache layer.
  int max_rows;      // Maximum number of tokens per step.
  LayerSlots slots;  // The layer's part of the recurrent state.
};

// Whether attention keeps the layer's input for the experts: unchanged for the router (ExpertParams::early_router), or
// normalized for all experts (FeedForwardKind::kGatedBesideMixture).
inline bool early_input(const HyperParams& params, const LayerParams& layer) {
  return (params.experts.early_router && layer.mixture()) || layer.feed_forward == FeedForwardKind::kGatedBesideMixture;
}

class LayerBlock {
 public:
  virtual ~LayerBlock() = default;
  // Adds the block's output to rows.x. `last` is set for the model's last block that stores data for later tokens.
  // Everything after that block contributes only to the logits, so the block reduces `rows` to the tokens with logits.
  virtual void run(StepRows& rows, bool last) const = 0;
  // Whether this block lets tokens read other positions.
  virtual bool mixes() const { return false; }
  // Whether the block stores data for later tokens. False for an attention block that uses an earlier layer's keys and
  // values.
  virtual bool keeps() const { return mixes(); }
};

// For the last block that mixes positions: reduces `rows` to the tokens with logits, and returns the rows of `mixed`
// for these tokens. `mixed` is the block's output, with `dim` values per token. Copies nothing if all tokens have
// logits.
const float* leave_logit_rows(StepRows& rows, const HyperParams& params, Operations& operations,
                              const Activations& buffers, const float* mixed, int64_t dim);

// How a block reads the residual stream and adds to it, with the model's norms and scale.
class Residual {
 public:
  // `beside`: the block runs in parallel with the layer's mixer and reads the normalized input that the mixer has
  // already computed. `mix`: the hyper-connection weights to use if the block is not the mixer.
  explicit Residual(const LayerContext& context, bool beside = false, const StreamMixWeights* mix = nullptr)
      : params_(context.params),
        operations_(context.operations),
        buffers_(context.activations),
        beside_(beside),
        mix_(mix != nullptr ? *mix : context.weights.mixer_mix) {}

  // Returns the input of a block: x, normalized if the model has a norm before this block.
  const float* read(StepRows& rows, const NormWeights& norm) const;
  // Returns the InputUse that must be passed to the last operation that reads the block's input. kAgain: the input is
  // the residual stream itself, or a normalized copy that another block also reads.
  InputUse last_use() const {
    return params_.pre_norm && (beside_ || !params_.parallel_residual) ? InputUse::kLast : InputUse::kAgain;
  }
  // Whether a block can write its output directly to the residual stream. If not, it uses a separate buffer and add().
  bool is_direct() const {
    return !params_.post_norm && params_.residual_scale == 1.0f && params_.stream_mix.n_streams == 0;
  }
  float* target(const StepRows& rows) const { return is_direct() ? rows.x : buffers_.branch; }
  // Adds the output in target() to the residual stream. Does nothing if target() is the residual stream itself.
  void add(const NormWeights& post_norm, const StepRows& rows) const;

 private:
  const HyperParams& params_;
  Operations& operations_;
  const Activations& buffers_;
  const bool beside_;
  const StreamMixWeights& mix_;
};

}  // namespace monolith
