// Products with weight matrices and rows of an embedding table: which kernel serves what, and its scratch.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/activations_int8.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matrix.h"

namespace monolith::cuda {

// out[row] = row tokens[row] of `table`; `tokens` device.
void embed(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out);

// Backend::matmul. Nothing allocates: `int8` has been reserved for all rows and columns.
void matmul(Runtime& runtime, const Int8Activations& int8, std::span<const MatmulTarget> targets, const float* x, int n_rows);

// embed() of a table in binary32.
void embed_f32(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out);

// In binary32 throughout: routers, small matrices, and the test setting.
void matmul_f32(Runtime& runtime, const MatmulTarget& target, const float* x, int n_rows);

}  // namespace monolith::cuda
