// A library that has the symbols and the interface of cuBLASLt and computes in the emulated device's memory. Like the
// real library, it rejects layouts that do not match, an algorithm that was selected for a different shape, and
// pointers that are less aligned than promised.
#include "fake_cublaslt.h"

#include <cstring>

#include "backend/cuda/dense/cublaslt_abi.h"
#include "base/half.h"

using namespace monolith::cuda::cublaslt;

namespace {

constexpr Code kInvalidValue = 7, kExecutionFailed = 13;
constexpr size_t kNeeded = 4096;  // Workspace, in bytes, that a matrix product needs.

fake_cublaslt::Control control;

struct Desc {
  int compute, scale;
  int32_t trans_a = 0;
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t stride;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t alignment = 256;
};

// The shape and the alignment for which an algorithm was selected.
struct Chosen {
  uint64_t rows, columns, k;
  uint64_t alignment;
};

bool fits(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  return desc.compute == kCompute32 && desc.scale == kReal32 && desc.trans_a == kTransposed && a.type == kBfloat16 &&
         b.type == kBfloat16 && c.type == kReal32 && d.type == kReal32 && a.rows == b.rows && a.columns == d.rows &&
         b.columns == d.columns && std::memcmp(&c.rows, &d.rows, 3 * sizeof(uint64_t)) == 0 &&
         a.stride >= static_cast<int64_t>(a.rows) && b.stride >= static_cast<int64_t>(b.rows) &&
         d.stride >= static_cast<int64_t>(d.rows);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

fake_cublaslt::Control* fake_cublaslt_control() { return &control; }

size_t cublasLtGetVersion() { return 130002; }
Code cublasLtCreate(Handle* handle) {
  ++control.handles;
  *handle = &control;
  return kSuccess;
}
Code cublasLtDestroy(Handle handle) {
  --control.handles;
  return handle == &control ? kSuccess : kInvalidValue;
}

Code cublasLtMatmulDescCreate(MatmulDesc* desc, int compute, int scale) {
  *desc = new Desc{compute, scale};
  return kSuccess;
}
Code cublasLtMatmulDescDestroy(MatmulDesc desc) {
  delete static_cast<Desc*>(desc);
  return kSuccess;
}
Code cublasLtMatmulDescSetAttribute(MatmulDesc desc, int attribute, const void* value, size_t bytes) {
  if (attribute != 3 || bytes != sizeof(int32_t)) return kInvalidValue;
  std::memcpy(&static_cast<Desc*>(desc)->trans_a, value, bytes);
  return kSuccess;
}

Code cublasLtMatrixLayoutCreate(MatrixLayout* layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  ++control.layouts;
  *layout = new Layout{type, rows, columns, stride};
  return kSuccess;
}
Code cublasLtMatrixLayoutDestroy(MatrixLayout layout) {
  --control.layouts;
  delete static_cast<Layout*>(layout);
  return kSuccess;
}

Code cublasLtMatmulPreferenceCreate(MatmulPreference* preference) {
  *preference = new Preference;
  return kSuccess;
}
Code cublasLtMatmulPreferenceDestroy(MatmulPreference preference) {
  delete static_cast<Preference*>(preference);
  return kSuccess;
}
Code cublasLtMatmulPreferenceSetAttribute(MatmulPreference preference, int attribute, const void* value, size_t bytes) {
  auto& own = *static_cast<Preference*>(preference);
  if (attribute == 1 && bytes == sizeof(uint64_t))
    std::memcpy(&own.workspace, value, bytes);
  else if ((attribute == 7 || attribute == 8) && bytes == sizeof(uint32_t))
    std::memcpy(&own.alignment, value, bytes);
  else
    return kInvalidValue;
  return kSuccess;
}

Code cublasLtMatmulAlgoGetHeuristic(Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                                    MatrixLayout d, MatmulPreference preference, int wanted, HeuristicResult* results,
                                    int* n_results) {
  ++control.heuristics;
  *n_results = 0;
  const auto& own = *static_cast<Preference*>(preference);
  const auto &left = *static_cast<Layout*>(a), &right = *static_cast<Layout*>(b), &out = *static_cast<Layout*>(d);
  if (handle != &control || wanted < 1 || !fits(*static_cast<Desc*>(desc), left, right, *static_cast<Layout*>(c), out))
    return kInvalidValue;
  if (control.finds_nothing || own.workspace < kNeeded) return kNotSupported;
  const Chosen chosen{out.rows, out.columns, right.rows, own.alignment};
  results[0] = {};
  std::memcpy(&results[0].algorithm, &chosen, sizeof chosen);
  results[0].workspace_bytes = kNeeded;
  *n_results = 1;
  return kSuccess;
}

#ifndef MONOLITH_FAKE_LESS
Code cublasLtMatmul(Handle handle, MatmulDesc desc, const void* alpha, const void* a, MatrixLayout a_layout,
                    const void* b, MatrixLayout b_layout, const void* beta, const void* c, MatrixLayout c_layout,
                    void* d, MatrixLayout d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                    void*) {
  const auto &left = *static_cast<Layout*>(a_layout), &right = *static_cast<Layout*>(b_layout),
             &out = *static_cast<Layout*>(d_layout);
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (handle != &control || !fits(*static_cast<Desc*>(desc), left, right, *static_cast<Layout*>(c_layout), out) ||
      chosen.rows != out.rows || chosen.columns != out.columns || chosen.k != right.rows || c != d ||
      workspace_bytes < kNeeded || reinterpret_cast<uintptr_t>(a) % 256 != 0 ||
      reinterpret_cast<uintptr_t>(b) % 256 != 0 || reinterpret_cast<uintptr_t>(d) % chosen.alignment != 0 ||
      static_cast<uint64_t>(out.stride) * sizeof(float) % chosen.alignment != 0)
    return kInvalidValue;
  if (control.fails_after == 0) return kExecutionFailed;
  if (control.fails_after > 0) --control.fails_after;
  ++control.products;
  std::memset(workspace, 0xff, kNeeded);
  float factor = 0, old_factor = 0;
  std::memcpy(&factor, alpha, sizeof factor), std::memcpy(&old_factor, beta, sizeof old_factor);
  const auto *const w = static_cast<const uint16_t*>(a), *const x = static_cast<const uint16_t*>(b);
  for (uint64_t column = 0; column < out.columns; ++column)
    for (uint64_t row = 0; row < out.rows; ++row) {
      const uint16_t* const w_row = w + row * static_cast<uint64_t>(left.stride);
      const uint16_t* const x_row = x + column * static_cast<uint64_t>(right.stride);
      float sum = control.is_wrong ? 1.0f : 0.0f;
      for (uint64_t k = 0; k < left.rows; ++k)
        sum += monolith::bfloat16_to_float(w_row[k]) * monolith::bfloat16_to_float(x_row[k]);
      float& to = static_cast<float*>(d)[column * static_cast<uint64_t>(out.stride) + row];
      to = factor * sum + (old_factor == 0 ? 0.0f : old_factor * to);
    }
  return kSuccess;
}
#endif

}  // extern "C"
#pragma GCC visibility pop
