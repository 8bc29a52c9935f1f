// A dense feed-forward network without a gate: x += scale * post_norm(W_down activation(W_up h)), where h =
// pre_norm(x).
#pragma once

#include "model/layers/feed_forward.h"

namespace monolith {

class Mlp final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
};

}  // namespace monolith
