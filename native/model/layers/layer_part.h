// What a layer is made of: parts that each read the residual stream and add to it. A new kind of layer is a new part,
// in a file of its own.
//
//   attention.h        keys and values of all rows are kept; each row attends
//   gated_network.h    the feed-forward network that all rows pass
//   expert_mixture.h   experts that rows choose among
#pragma once

#include <cstdint>
#include <span>

#include "backend/operations.h"
#include "model/layers/activations.h"

namespace monolith {

// A step on its way through the parts.
struct StepRows {
  std::span<const std::span<const Segment>> tables;  // all rows, by page table
  std::span<const int32_t> logit_rows;               // of all rows
  // Those as segments of one token, with the pages of the last part that keeps something; none if all rows have logits.
  std::span<const Segment> logit_segments;
  float* x;           // the residual stream of the rows that are still wanted, [count][n_embd]
  int count;
  bool all = true;    // these are all of the step's; else those with logits
};

class LayerPart {
 public:
  virtual ~LayerPart() = default;
  // Adds its result to rows.x. `last`: of its layers' parts the last one that keeps something for later tokens. What
  // comes after that serves only the logits: it leaves the rows that have them.
  virtual void run(StepRows& rows, bool last) const = 0;
};

// How a part reads the residual stream and adds to it, as the network has norms and a scale.
class Residual {
 public:
  Residual(const HyperParams& params, Operations& operations, const Activations& activations)
      : params_(params), operations_(operations), buffers_(activations) {}

  // What a part computes with: x past its norm, if there is one.
  const float* read(const float* x, const float* norm, int n_rows) const;
  // Of that, once it is read for the last time: the residual stream itself is read again.
  InputUse last_use() const { return params_.pre_norm ? InputUse::kLast : InputUse::kAgain; }
  // A part's result goes straight to the residual stream, or to a buffer of its own and through add().
  bool is_direct() const { return !params_.post_norm && params_.residual_scale == 1.0f; }
  float* target(const StepRows& rows) const { return is_direct() ? rows.x : buffers_.branch; }
  // Of what was written to target(). Nothing if that was direct.
  void add(const float* post_norm, const StepRows& rows) const;

 private:
  const HyperParams& params_;
  Operations& operations_;
  const Activations& buffers_;
};

}  // namespace monolith
