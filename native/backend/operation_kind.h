// The operations of a backend by name, for profiles and error messages.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace monolith {

// The methods of Operations, and the other functions of a backend that take time during a step.
enum class OperationKind : uint8_t {
  kEmbed,
  kRmsNorm,
  kRmsNormHeads,
  kRmsNormGroups,
  kLayerNorm,
  kLayerNormGroups,
  kAddBias,
  kMatmul,
  kAddAdapters,
  kRotate,
  kRopeAndStore,
  kAttention,
  kBatchedMatmul,
  kRopeAndStoreLatents,
  kSelectPositions,
  kPoolBlocks,
  kStoreBlocks,
  kHyperConnectionWeights,
  kReadStreams,
  kWriteStreams,
  kGated,
  kGateHeads,
  kScaleColumns,
  kAddWeighted,
  kRescaleToNorm,
  kGaussianTopk,
  kCopyRows,
  kActivate,
  kXielu,
  kScale,
  kSoftCap,
  kClamp,
  kAddRows,
  kMixture,
  kConvolve,
  kDeltaRule,
  kStateSpace,
  kDifferenceFromPrevious,
  kShiftedInputs,
  kTimeMix,
  kGatherRows,
  kCopyPage,
  kReadFloats,
  kSample,
};
inline constexpr size_t kOperationKinds = static_cast<size_t>(OperationKind::kSample) + 1;

struct NamedOperation {
  OperationKind kind;
  std::string_view name;
};
inline constexpr std::array<NamedOperation, kOperationKinds> kOperationNames = {{
    {OperationKind::kEmbed, "embed"},
    {OperationKind::kRmsNorm, "rms_norm"},
    {OperationKind::kRmsNormHeads, "rms_norm_heads"},
    {OperationKind::kRmsNormGroups, "rms_norm_groups"},
    {OperationKind::kLayerNorm, "layer_norm"},
    {OperationKind::kLayerNormGroups, "layer_norm_groups"},
    {OperationKind::kAddBias, "add_bias"},
    {OperationKind::kMatmul, "matmul"},
    {OperationKind::kAddAdapters, "add_adapters"},
    {OperationKind::kRotate, "rotate"},
    {OperationKind::kRopeAndStore, "rope_and_store"},
    {OperationKind::kAttention, "attention"},
    {OperationKind::kBatchedMatmul, "batched_matmul"},
    {OperationKind::kRopeAndStoreLatents, "rope_and_store_latents"},
    {OperationKind::kSelectPositions, "select_positions"},
    {OperationKind::kPoolBlocks, "pool_blocks"},
    {OperationKind::kStoreBlocks, "store_blocks"},
    {OperationKind::kHyperConnectionWeights, "hyper_connection_weights"},
    {OperationKind::kReadStreams, "read_streams"},
    {OperationKind::kWriteStreams, "write_streams"},
    {OperationKind::kGated, "gated"},
    {OperationKind::kGateHeads, "gate_heads"},
    {OperationKind::kScaleColumns, "scale_columns"},
    {OperationKind::kAddWeighted, "add_weighted"},
    {OperationKind::kRescaleToNorm, "rescale_to_norm"},
    {OperationKind::kGaussianTopk, "gaussian_topk"},
    {OperationKind::kCopyRows, "copy_rows"},
    {OperationKind::kActivate, "activate"},
    {OperationKind::kXielu, "xielu"},
    {OperationKind::kScale, "scale"},
    {OperationKind::kSoftCap, "soft_cap"},
    {OperationKind::kClamp, "clamp"},
    {OperationKind::kAddRows, "add_rows"},
    {OperationKind::kMixture, "mixture"},
    {OperationKind::kConvolve, "convolve"},
    {OperationKind::kDeltaRule, "delta_rule"},
    {OperationKind::kStateSpace, "state_space"},
    {OperationKind::kDifferenceFromPrevious, "difference_from_previous"},
    {OperationKind::kShiftedInputs, "shifted_inputs"},
    {OperationKind::kTimeMix, "time_mix"},
    {OperationKind::kGatherRows, "gather_rows"},
    {OperationKind::kCopyPage, "copy_page"},
    {OperationKind::kReadFloats, "read_floats"},
    {OperationKind::kSample, "sample"},
}};

constexpr std::string_view name_of(OperationKind kind) { return kOperationNames[static_cast<size_t>(kind)].name; }

// Checks that the table has the same order as the enumeration and contains a name for every operation.
static_assert(std::ranges::all_of(kOperationNames, [](const NamedOperation& named) {
  return !named.name.empty() && name_of(named.kind) == named.name;
}));

}  // namespace monolith
