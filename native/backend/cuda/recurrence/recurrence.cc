#include "backend/cuda/recurrence/recurrence.h"

#include <string>

namespace monolith::cuda {
namespace {

Status refused(const std::string& what) {
  return Error{ErrorCode::kUnsupported, "the CUDA backend does not support a " + what};
}

}  // namespace

Status check_recurrence(const Convolution& convolution) {
  if (convolution.conv_kernel_size <= kMaxTaps) return {};
  return refused("convolution with kernel size " + std::to_string(convolution.conv_kernel_size) + "; the maximum is " +
                 std::to_string(kMaxTaps));
}

Status check_recurrence(const DeltaRule& rule) {
  if (rule.key_dim <= kMaxStateDims) return {};
  return refused("delta rule with keys of " + std::to_string(rule.key_dim) + " dimensions; the maximum is " +
                 std::to_string(kMaxStateDims));
}

Status check_recurrence(const StateSpace& space) {
  if (space.state_dim <= kMaxStateDims) return {};
  return refused("state space of " + std::to_string(space.state_dim) + " dimensions; the maximum is " +
                 std::to_string(kMaxStateDims));
}

Status check_recurrence(const TimeMix& mix) {
  if (mix.head_dim <= kMaxTimeMixColumns) return {};
  return refused("RWKV layer with heads of " + std::to_string(mix.head_dim) + " dimensions; the maximum is " +
                 std::to_string(kMaxTimeMixColumns));
}

}  // namespace monolith::cuda
