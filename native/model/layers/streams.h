// Several residual streams: AltUp and hyper-connections.
#pragma once

#include <vector>

#include "model/layers/layer_block.h"

namespace monolith {

// AltUp: several residual streams, of which only the first passes through the layer. LAuReL: a low-rank path in
// parallel with attention (StreamParams).
//
//   predicted[s] = stream[s] + sum over j of coefficient(stream[0])[s][j] * stream[j];   x = predicted[0]
//   x = (attention(x) + laurel(x)) / sqrt(2), where both terms include the residual;   x = feed_forward(x)
//   stream[s] = predicted[s] + (1 + coefficient(x)[s]) * (x - predicted[0])
//   stream[1..] += output of the per-layer input, gated by stream[0] * scale

// Initializes the streams from the embedding x, before the first layer.
void open_streams(const HyperParams& params, const StreamProjections& weights, Operations& operations,
                  const Activations& activations, RowCount rows, int max_rows);
// Writes the mean of the streams to x, after the last layer.
void close_streams(const HyperParams& params, const StreamProjections& weights, Operations& operations,
                   const Activations& activations, RowCount rows, int max_rows);

class PredictStreams final : public LayerBlock {
 public:
  explicit PredictStreams(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};

// Laurel computes the low-rank path before attention; JoinLaurel adds the result after attention.
class Laurel final : public LayerBlock {
 public:
  explicit Laurel(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};
class JoinLaurel final : public LayerBlock {
 public:
  explicit JoinLaurel(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};

class CorrectStreams final : public LayerBlock {
 public:
  explicit CorrectStreams(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};

// Hyper-connections: several residual streams (HyperConnections). Each block reads a weighted mix of the streams and
// writes to all of them. These functions are used before the first layer, around each block (Residual) and after the
// last layer.

// Sets every stream to the embeddings. `repeated` contains the index of each token as many times as there are streams.
void open_mixed_streams(const HyperParams& params, Operations& operations, const Activations& activations,
                        const std::vector<int32_t>& repeated, RowCount rows);

// Mixes the streams into `x`, the input of a block or of the output head. Stores the mixing weights in `numbers` for
// write_streams().
void read_mixed(const HyperParams& params, const StreamMixWeights& weights, bool reads_only, Operations& operations,
                const Activations& activations, const float* streams, RowCount rows, float* numbers, float* x);

}  // namespace monolith
