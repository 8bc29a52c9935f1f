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
  kPlain,   // number by number, any length
  kQuads,   // four at a time, the row kept in registers
};
NormForm norm_form(int64_t dim);

// x, weight and out 16-byte aligned where dim is a multiple of four. With an `input`, which NormForm::kQuads has alone,
// the rows go there besides, as converting them would write them; `out` may then be null.
void rms_norm(Runtime& runtime, const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out,
              const ProductInput& input = {});
void rms_norm_heads(Runtime& runtime, float* x, int64_t row_stride, const float* weight, float eps, int n_rows,
                    int n_heads, int head_dim);
void gated(Runtime& runtime, Activation activation, const float* gate, const float* up, int64_t count, float* out);
// gated() of n_rows rows of `dim`, a multiple of four, which go to `input` as converting them would write them; and to
// `out`, unless that is null.
void gated_input(Runtime& runtime, Activation activation, const float* gate, const float* up, int n_rows, int64_t dim,
                 float* out, const ProductInput& input);
void scale(Runtime& runtime, float* x, int64_t count, float factor);
void soft_cap(Runtime& runtime, float* x, int64_t count, float cap);
void add_rows(Runtime& runtime, float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim);
// `rows` device.
void gather_rows(Runtime& runtime, const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out);

}  // namespace monolith::cuda
