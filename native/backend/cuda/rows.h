// Row-wise operations on activations: norms, gates, residual additions and copies. Pointers refer to device memory.
// Rows are contiguous unless a stride is given (in floats). Semantics are documented in backend.h.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/product_input.h"

namespace monolith::cuda {

// The order in which the squares of a row are summed.
enum class NormForm : uint8_t {
  kPlain,  // One value at a time; rows of any length.
  kQuads,  // Four values at a time, with the row kept in registers.
};
NormForm norm_form(int64_t dim);

// `x`, `weight` and `out` must be 16-byte aligned if `dim` is a multiple of four. If `input` has a format, which
// requires NormForm::kQuads, the kernel also writes the rows to `input`, in that matmul input format. `out` may then be
// null.
void rms_norm(Runtime& runtime, const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out,
              const ProductInput& input = {});
void rms_norm_heads(Runtime& runtime, float* x, int64_t row_stride, const float* weight, float eps, int n_rows,
                    int n_heads, int head_dim);
void xielu(Runtime& runtime, const Xielu& params, float* x, int64_t count);
void rms_norm_groups(Runtime& runtime, float* x, const float* weight, float eps, int n_rows, int n_groups, int64_t dim);
void layer_norm(Runtime& runtime, const float* x, const float* weight, const float* bias, float eps, int n_rows,
                int64_t dim, float* out);
void layer_norm_groups(Runtime& runtime, float* x, const float* weight, float eps, int n_rows, int n_groups,
                       int64_t dim);
void add_bias(Runtime& runtime, float* x, const float* bias, int n_rows, int64_t dim);
void activate(Runtime& runtime, Activation activation, float* x, int64_t count);
void gate_heads(Runtime& runtime, HeadGate kind, float* x, const float* gate, int n_rows, int n_heads, int head_dim);
void scale_columns(Runtime& runtime, float* x, const float* factors, int n_rows, int64_t dim);
void add_weighted(Runtime& runtime, float* x, const float* y, const float* weights, int64_t weight_stride, float offset,
                  int n_rows, int64_t dim);
void rescale_to_norm(Runtime& runtime, float* x, const float* y, int n_rows, int64_t dim);
void gaussian_topk(Runtime& runtime, float* x, float deviations, int n_rows, int64_t dim);
void copy_rows(Runtime& runtime, const float* x, int64_t x_stride, int n_rows, int64_t dim, float* out);
void gated(Runtime& runtime, const Gating& gating, const float* gate, const float* up, int64_t count, float* out);
// Applies gated() to n_rows rows of `dim` values, a multiple of four. The result is written to `input` in the matmul's
// input format, and to `out` unless `out` is null.
void gated_input(Runtime& runtime, const Gating& gating, const float* gate, const float* up, int n_rows, int64_t dim,
                 float* out, const ProductInput& input);
void scale(Runtime& runtime, float* x, int64_t count, float factor);
void soft_cap(Runtime& runtime, float* x, int64_t count, float cap);
void clamp(Runtime& runtime, float* x, int64_t count, float limit);
void add_rows(Runtime& runtime, float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim);
// `rows` is in device memory.
void gather_rows(Runtime& runtime, const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out);

}  // namespace monolith::cuda
