// Features that a model may need and that not every backend supports. BackendMemory::supports() checks each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "backend/kv_cache.h"
#include "backend/matrix.h"
#include "backend/moe.h"
#include "backend/operation_kind.h"
#include "backend/recurrence.h"
#include "base/result.h"

namespace monolith {

// Optional features of a backend's memory.
enum class MemoryFeature : uint8_t {
  kFp8Weights,       // matrix() converts weights to FP8 with a scale per row (MatrixSource::fp8).
  kRowFactors,       // matrix() multiplies each output row by its own factor (MatrixSource::factors).
  kSharedPageSlots,  // Several layers of equal shape may share one slot of a page (LayerState::place).
};

// Requires matmul and attention of vision encoders in 16-bit integers (EncoderOperations::fixed16_*), with heads of
// this size.
struct Fixed16Heads {
  int head_dim = 0;
};

// ALiBi (AttentionParams::max_alibi_bias).
struct AlibiBias {};

// Referenced shapes and parameters must outlive the call to supports(). Recurrent operations and MoE layers are checked
// before their weights are loaded, so weights may be null.
using Requirement = std::variant<OperationKind,  // The operation itself, with any arguments.
                                 MemoryFeature,
                                 TensorType,                             // Matrices of this type.
                                 KvType,                                 // Keys and values of this type.
                                 std::reference_wrapper<const KvShape>,  // The state that layers keep, with any size.
                                 std::reference_wrapper<const Convolution>, std::reference_wrapper<const DeltaRule>,
                                 std::reference_wrapper<const StateSpace>, std::reference_wrapper<const TimeMix>,
                                 std::reference_wrapper<const Mixture>, Fixed16Heads, AlibiBias>;

// Combines lambdas, one per alternative of Requirement, into a single visitor.
template <typename... Each>
struct ForEach : Each... {
  using Each::operator()...;
};
template <typename... Each>
ForEach(Each...) -> ForEach<Each...>;

inline Error unsupported(const std::string& what) {
  return {ErrorCode::kUnsupported, "this backend does not support " + what};
}
inline Error unsupported(OperationKind kind) { return unsupported("the operation " + std::string(name_of(kind))); }
inline Error unsupported(MemoryFeature feature) {
  switch (feature) {
    case MemoryFeature::kFp8Weights: return unsupported("weights that are converted to FP8");
    case MemoryFeature::kRowFactors: return unsupported("a factor for each row of a matrix");
    case MemoryFeature::kSharedPageSlots: break;
  }
  return unsupported("layers that share a page slot");
}
inline Error unsupported(TensorType type) {
  return unsupported("matrices of type " + std::string(traits_of(type).name));
}
inline Error unsupported(Fixed16Heads heads) {
  return unsupported("16-bit integers with heads of " + std::to_string(heads.head_dim) + " dimensions");
}

inline Error unsupported(const TimeMix& mix) {
  return unsupported("RWKV layers with heads of " + std::to_string(mix.head_dim) + " dimensions");
}
inline Error unsupported(AlibiBias) { return unsupported("attention with an ALiBi bias"); }

}  // namespace monolith
