// Operations one behind: what a product is about to read is not computed when it is asked for, but together with the
// product's conversion of its input, in one kernel. Whatever else comes first makes it be computed by itself, so that
// operations take effect in the order they were asked for. The bits are the same either way.
//
// Owned and used by the engine's thread. Never allocates.
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

// Operations as Backend has them, with the rows they are really for.
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
struct PendingHeads {  // Backend::rms_norm_heads
  float* x;
  int64_t row_stride;
  const float* weight;
  float eps;
  int n_rows, n_heads, head_dim;
};
struct PendingAttention {
  const AttentionScratch* scratch;
  RowList rows;
  AttentionCall call;  // its rows and input are filled in when it is computed
  KvType type;
};
using PendingOperation = std::variant<std::monostate, PendingNorm, PendingGate, PendingHeads, PendingAttention>;

// How an operation is computed with the products after it.
struct Fusion {
  InputForm form = InputForm::kFloats;  // it writes this; kFloats: it is computed by itself
  bool keeps = true;                    // it writes its floats as well
  bool operator==(const Fusion&) const = default;
};

// For products of `targets` with the rows at x, of which they are the last reader or not. Fused where x is what the
// operation leaves, all targets read one form, and a kernel writes it.
Fusion fusion_for(const PendingOperation& operation, std::span<const MatmulTarget> targets, const float* x, int n_rows,
                  InputUse use);

// The norms of heads that `first` and `second` are, of the queries and keys of a rotation; none where one of them is
// another operation, or no kernel does both.
HeadNorms head_norms_for(const PendingOperation& first, const PendingOperation& second, const RopeCall& call,
                         int n_dims);

class Pending {
 public:
  // Without `enabled` nothing waits.
  Pending(Runtime& runtime, bool enabled) : runtime_(runtime), enabled_(enabled) {}

  void hold(const PendingOperation& operation);
  // Computes what waits. Before anything else is launched, copied or waited for.
  void flush();
  // What waits is of a step that failed.
  void drop() { operation_ = before_ = {}; }
  // Backend::matmul, together with what waits, or after it.
  void matmul(const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x, int n_rows,
              InputUse use);
  // Those that wait and are computed with that rotation. What else waits is not looked at.
  HeadNorms head_norms(const RopeCall& call, int n_dims);

 private:
  void run(const PendingOperation& operation, const ProductInput& input, bool keeps);

  Runtime& runtime_;
  bool enabled_;
  PendingOperation before_;  // norms of heads alone: those before operation_, which are norms of heads too
  PendingOperation operation_;
};

}  // namespace monolith::cuda
