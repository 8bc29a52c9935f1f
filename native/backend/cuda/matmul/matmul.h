// Matmuls and embedding lookups: kernel selection and the scratch memory that they need.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/quant/activations_int8.h"
#include "backend/cuda/dense/dense.h"
#include "backend/cuda/dense/library.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/matrix.h"
#include "backend/cuda/matmul/product_input.h"

namespace monolith::cuda {

// Sets out[i] to row tokens[i] of `table`. `tokens` is in device memory.
void embed(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out);

// Everything that matmuls need in addition to their operands.
struct MatmulContext {
  DenseScratch dense;
  DenseDevice dense_device;
  Int8Activations int8;
  std::unique_ptr<DenseLibrary> library = nullptr;  // Null means that the backend's own kernels compute every product.
  bool fused = true;  // The gating of a MoE layer writes the input format of the next product directly.
};

// Implements Backend::matmul. Never allocates: the memory in `context` must have been reserved for the maximum number
// of rows and columns. `ready` is the format in which `context` already contains the converted x, or kFloats if x has
// not been converted. x is converted to each format at most once.
void matmul(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x,
            int n_rows, InputForm ready = InputForm::kFloats);
// Returns whether a matmul reads the float32 x regardless of `ready`, as cuBLASLt does for the products it computes.
bool reads_floats(const MatmulContext& context, std::span<const MatmulTarget> targets, int n_rows);
// Returns the buffer in `context` for `n_rows` rows of `cols` values in input format `form`. A caller that has filled
// the buffer passes `form` to matmul() as `ready`.
ProductInput input_of(const MatmulContext& context, InputForm form, int n_rows, int64_t cols);

// Multiplies expert slots (grouped.h). x is read through groups.source. Weights contain groups.n_experts matrices of
// equal shape one below the other. Outputs have shape [slot][rows of one expert]; slots that are not in use are not
// written. All weight formats of MoE layers are supported.
void matmul_grouped(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets,
                    const float* x, const ColumnGroups& groups, InputForm ready = InputForm::kFloats);

// Returns the width in columns of the first tiles that matmul_grouped() uses for these targets.
int grouped_tile_columns(const Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets,
                         int n_pairs, int n_experts);

inline constexpr int kF32TileColumns = 8;

// The following functions compute entirely in float32. They are used for routers, for small matrices and in the exact
// mode of the tests. `groups` has the same meaning as in matmul_grouped().
void embed_f32(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out);
void matmul_f32(Runtime& runtime, const MatmulTarget& target, const float* x, int n_rows,
                const ColumnGroups* groups = nullptr);

}  // namespace monolith::cuda
