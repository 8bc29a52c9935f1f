// Defers an operation until the next one is known, so that kernels can be fused. An operation whose output may be the
// input of the next matmul is deferred. It then runs in the same kernel as the conversion of the matmul's input. If any
// other operation comes first, the deferred operation runs by itself, so operations take effect in the order of the
// calls. The bits are the same either way.
//
// Owned and used by the engine thread. Never allocates.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "backend/backend.h"
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/matmul/product_input.h"
#include "backend/cuda/attention/rope.h"
#include "backend/cuda/step_tables.h"

namespace monolith::cuda {

// The arguments of deferred Backend operations. Row counts include the padding of a captured step.
struct PendingNorm {
  const float* x;
  const float* weight;
  float eps;
  int n_rows;
  int64_t dim;
  float* out;
};
struct PendingGate {
  Gating gating;
  const float* gate;
  const float* up;
  int n_rows;
  int64_t dim;
  float* out;
};
struct PendingHeads {  // Arguments of Backend::rms_norm_heads.
  float* x;
  int64_t row_stride;
  const float* weight;
  float eps;
  int n_rows, n_heads, head_dim;
};
struct PendingAttention {
  const AttentionScratch* scratch;
  RowList rows;
  AttentionLaunch call;  // Its `rows` and `input` are filled in when the operation runs.
  KvType type;
};
using PendingOperation = std::variant<std::monostate, PendingNorm, PendingGate, PendingHeads, PendingAttention>;

// How a deferred operation is fused with the matmuls that follow it.
struct Fusion {
  // The matmul input format that the operation writes; kFloats means that the operation is not fused.
  InputForm form = InputForm::kFloats;
  bool keeps = true;  // True if the operation also writes its float32 output.
  bool operator==(const Fusion&) const = default;
};

// Chooses how a deferred operation is fused with the matmuls of `targets`, which read the n_rows rows at `x`. `use`
// states whether these matmuls are the last operations to read `x`. Fuses only if `x` is the operation's output, all
// targets read the same input format, and a kernel can write that format.
Fusion fusion_for(const PendingOperation& operation, std::span<const MatmulTarget> targets, const float* x, int n_rows,
                  InputUse use);

// Returns the per-head norms `first` and `second` for fusion with a RoPE call if they normalize that call's queries and
// keys. Returns an empty result if either deferred operation is not such a norm, or if no kernel supports the fusion.
HeadNorms head_norms_for(const PendingOperation& first, const PendingOperation& second, const RopeLaunch& call,
                         int n_dims);

class FusionQueue {
 public:
  // If `enabled` is false, every operation runs immediately.
  FusionQueue(Runtime& runtime, bool enabled) : runtime_(runtime), enabled_(enabled) {}

  void hold(const PendingOperation& operation);
  // Runs the deferred operations. Call before anything else is launched, copied or waited for.
  void flush();
  // Discards the deferred operations after a step has failed.
  void drop() { operation_ = before_ = {}; }
  // Implements Backend::matmul, fused with the deferred operation if possible and after it otherwise.
  void matmul(const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x, int n_rows,
              InputUse use);
  // Returns the deferred per-head norms that can run inside the given RoPE call, and removes them from the queue. Other
  // deferred operations stay in the queue.
  HeadNorms head_norms(const RopeLaunch& call, int n_dims);

 private:
  void run(const PendingOperation& operation, const ProductInput& input, bool keeps);

  Runtime& runtime_;
  bool enabled_;
  PendingOperation before_;  // A deferred per-head norm, held only while operation_ is a per-head norm too.
  PendingOperation operation_;
};

}  // namespace monolith::cuda
