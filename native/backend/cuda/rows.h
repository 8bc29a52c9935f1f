// Operations on whole rows of activations: norms, gates, residuals, copies. Pointers are device memory, rows dense
// unless a stride is given (in floats); meanings as in backend.h.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/matmul/product_input.h"

namespace monolith::cuda {

// How a row's squares are summed.
enum class NormForm : uint8_t {
  kPlain,  // number by number, any length
  kQuads,  // four at a time, the row kept in registers
};
NormForm norm_form(int64_t dim);

// x, weight and out 16-byte aligned where dim is a multiple of four. With an `input`, which NormForm::kQuads has alone,
// the rows go there besides, as converting them would write them; `out` may then be null.
void rms_norm(Runtime& runtime, const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out,
              const ProductInput& input = {});
void rms_norm_heads(Runtime& runtime, float* x, int64_t row_stride, const float* weight, float eps, int n_rows,
                    int n_heads, int head_dim);
void xielu(Runtime& runtime, const Xielu& params, float* x, int64_t count);
void rms_norm_groups(Runtime& runtime, float* x, const float* weight, float eps, int n_rows, int n_groups, int64_t dim);
void layer_norm(Runtime& runtime, const float* x, const float* weight, const float* bias, float eps, int n_rows,
                int64_t dim, float* out);
void add_bias(Runtime& runtime, float* x, const float* bias, int n_rows, int64_t dim);
void activate(Runtime& runtime, Activation activation, float* x, int64_t count);
void gate_heads(Runtime& runtime, float* x, const float* gate, int n_rows, int n_heads, int head_dim);
void scale_columns(Runtime& runtime, float* x, const float* factors, int n_rows, int64_t dim);
void add_weighted(Runtime& runtime, float* x, const float* y, const float* weights, int64_t weight_stride, float offset,
                  int n_rows, int64_t dim);
void match_length(Runtime& runtime, float* x, const float* y, int n_rows, int64_t dim);
void keep_outliers(Runtime& runtime, float* x, float deviations, int n_rows, int64_t dim);
void copy_rows(Runtime& runtime, const float* x, int64_t x_stride, int n_rows, int64_t dim, float* out);
void gated(Runtime& runtime, const Gating& gating, const float* gate, const float* up, int64_t count, float* out);
// gated() of n_rows rows of `dim`, a multiple of four, which go to `input` as converting them would write them; and to
// `out`, unless that is null.
void gated_input(Runtime& runtime, const Gating& gating, const float* gate, const float* up, int n_rows, int64_t dim,
                 float* out, const ProductInput& input);
void scale(Runtime& runtime, float* x, int64_t count, float factor);
void soft_cap(Runtime& runtime, float* x, int64_t count, float cap);
void add_rows(Runtime& runtime, float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim);
// `rows` device.
void gather_rows(Runtime& runtime, const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out);

}  // namespace monolith::cuda
