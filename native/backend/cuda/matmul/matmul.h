// Products with weight matrices and rows of an embedding table: which kernel serves what, and its scratch.
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

// out[row] = row tokens[row] of `table`; `tokens` device.
void embed(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out);

// What products need besides their operands.
struct MatmulContext {
  DenseScratch dense;
  DenseDevice dense_device;
  Int8Activations int8;
  std::unique_ptr<DenseLibrary> library = nullptr;  // null: own kernels for every product
  bool fused = true;                                // a mixture's gate writes what its product reads
};

// Backend::matmul. Nothing allocates: `context` has been reserved for all rows and columns. `ready`: what x is already
// converted to in `context`; kFloats: nothing. Each form is converted to once at most.
void matmul(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets, const float* x,
            int n_rows, InputForm ready = InputForm::kFloats);
// Whether it reads x itself whatever is ready: NVIDIA's library does, where it computes a product.
bool reads_floats(const MatmulContext& context, std::span<const MatmulTarget> targets, int n_rows);
// Where `n_rows` rows of `cols` values go for that to hold.
ProductInput input_of(const MatmulContext& context, InputForm form, int n_rows, int64_t cols);

// Products of experts' slots (grouped.h): x is read through groups.source, weights hold groups.n_experts matrices of
// equal shape one below the other, outputs are [slot][rows of one expert]; those of slots not in use are not written.
// Every format of a mixture's matrices joins here.
void matmul_grouped(Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets,
                    const float* x, const ColumnGroups& groups, InputForm ready = InputForm::kFloats);

// Columns of the tiles that matmul_grouped() takes first for these targets.
int grouped_tile_columns(const Runtime& runtime, const MatmulContext& context, std::span<const MatmulTarget> targets,
                         int n_pairs, int n_experts);

inline constexpr int kF32TileColumns = 8;

// In binary32 throughout: routers, small matrices, and the test setting. With `groups` as matmul_grouped().
void embed_f32(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out);
void matmul_f32(Runtime& runtime, const MatmulTarget& target, const float* x, int n_rows,
                const ColumnGroups* groups = nullptr);

}  // namespace monolith::cuda
