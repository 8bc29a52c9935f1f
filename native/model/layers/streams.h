// Several residual streams of which the first passes the layer, and a low-rank path beside attention (StreamParams).
//
//   predicted[s] = stream[s] + sum over j of coefficient(stream[0])[s][j] * stream[j];   x = predicted[0]
//   x = (attention(x) + laurel(x)) / sqrt(2), where both have the residual in them;   x = feed_forward(x)
//   stream[s] = predicted[s] + (1 + coefficient(x)[s]) * (x - predicted[0])
//   stream[1..] += what the layer makes of its own input and of stream[0] * scale
#pragma once

#include "model/layers/layer_part.h"

namespace monolith {

// Before the first layer: the streams that come of the embedding, x.
void open_streams(const HyperParams& params, const StreamProjections& weights, Operations& operations,
                  const Activations& activations, int n_rows, int max_rows);
// Behind the last: their mean, in x.
void close_streams(const HyperParams& params, const StreamProjections& weights, Operations& operations,
                   const Activations& activations, int n_rows, int max_rows);

class PredictStreams final : public LayerPart {
 public:
  explicit PredictStreams(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};

// The path beside attention, before it; and joining both, behind it.
class Laurel final : public LayerPart {
 public:
  explicit Laurel(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};
class JoinLaurel final : public LayerPart {
 public:
  explicit JoinLaurel(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};

class CorrectStreams final : public LayerPart {
 public:
  explicit CorrectStreams(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};

}  // namespace monolith
