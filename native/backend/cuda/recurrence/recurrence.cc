#include "backend/cuda/recurrence/recurrence.h"

#include <string>

namespace monolith::cuda {
namespace {

Status refused(const std::string& what) {
  return Error{ErrorCode::kUnsupported, "the CUDA backend computes no " + what};
}

}  // namespace

Status check_recurrence(const Convolution& convolution) {
  if (convolution.n_taps <= kMostTaps) return {};
  return refused("convolution of " + std::to_string(convolution.n_taps) + " taps, only of " +
                 std::to_string(kMostTaps));
}

Status check_recurrence(const DeltaRule& rule) {
  if (rule.key_dim <= kMostStateDims) return {};
  return refused("delta rule with keys of " + std::to_string(rule.key_dim) + " dimensions, only of " +
                 std::to_string(kMostStateDims));
}

Status check_recurrence(const StateSpace& space) {
  if (space.state_dim <= kMostStateDims) return {};
  return refused("state space of " + std::to_string(space.state_dim) + " dimensions, only of " +
                 std::to_string(kMostStateDims));
}

}  // namespace monolith::cuda
