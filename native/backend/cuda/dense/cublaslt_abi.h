// The part of the cuBLASLt C API that cublaslt.cc calls. Names, signatures, constants and sizes are declared here so
// that no part of cuBLAS is needed to build. They are the same in versions 12 and 13.
//
// Sources: NVIDIA's cuBLAS documentation, "Using the cuBLASLt API" (docs.nvidia.com/cuda/cublas). Constants and layouts
// agree with two sets of bindings generated from its headers: nvmath-python, nvmath/bindings/cycublasLt.pxd (NVIDIA's
// own, 11.0 to 12.8), and cudarc, src/cublaslt/sys (11.4 to 13.x). The library allocates the objects behind handles, so
// their sizes are not needed here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith::cuda::cublaslt {

using Code = int;                // cublasStatus_t
using Handle = void*;            // cublasLtHandle_t
using MatmulDesc = void*;        // cublasLtMatmulDesc_t
using MatrixLayout = void*;      // cublasLtMatrixLayout_t
using MatmulPreference = void*;  // cublasLtMatmulPreference_t

inline constexpr Code kSuccess = 0;        // CUBLAS_STATUS_SUCCESS
inline constexpr Code kNotSupported = 15;  // CUBLAS_STATUS_NOT_SUPPORTED
inline constexpr int kReal32 = 0;          // CUDA_R_32F
inline constexpr int kBfloat16 = 14;       // CUDA_R_16BF
inline constexpr int kCompute32 = 68;      // CUBLAS_COMPUTE_32F
inline constexpr int32_t kTransposed = 1;  // CUBLAS_OP_T; 0 is CUBLAS_OP_N, the default
inline constexpr int kDescTransA = 3;      // CUBLASLT_MATMUL_DESC_TRANSA, an int32_t
// Value types of the preference attributes: the workspace size is a uint64_t; alignments are uint32_t with a default of
// 256.
inline constexpr int kPreferenceWorkspace = 1;   // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
inline constexpr int kPreferenceAlignmentC = 7;  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES
inline constexpr int kPreferenceAlignmentD = 8;  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES

// cublasLtMatmulAlgo_t
struct Algorithm {
  uint64_t data[8];
};

// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  Code state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96 && offsetof(HeuristicResult, workspace_bytes) == 64 &&
              offsetof(HeuristicResult, state) == 72);

// Function pointers, named like the library's symbols.
struct Functions {
  size_t (*cublasLtGetVersion)();
  Code (*cublasLtCreate)(Handle*);
  Code (*cublasLtDestroy)(Handle);
  // Parameters: desc, compute type, type of alpha and beta.
  Code (*cublasLtMatmulDescCreate)(MatmulDesc*, int, int);
  Code (*cublasLtMatmulDescDestroy)(MatmulDesc);
  Code (*cublasLtMatmulDescSetAttribute)(MatmulDesc, int, const void*, size_t);
  // Parameters: layout, type, rows, columns, leading dimension (elements between columns).
  Code (*cublasLtMatrixLayoutCreate)(MatrixLayout*, int, uint64_t, uint64_t, int64_t);
  Code (*cublasLtMatrixLayoutDestroy)(MatrixLayout);
  Code (*cublasLtMatmulPreferenceCreate)(MatmulPreference*);
  Code (*cublasLtMatmulPreferenceDestroy)(MatmulPreference);
  Code (*cublasLtMatmulPreferenceSetAttribute)(MatmulPreference, int, const void*, size_t);
  // Parameters: handle, desc, A, B, C, D, preference, number of results requested, results, number of results returned.
  Code (*cublasLtMatmulAlgoGetHeuristic)(Handle, MatmulDesc, MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout,
                                         MatmulPreference, int, HeuristicResult*, int*);
  // D = alpha op(A) op(B) + beta C. Parameters: handle, desc, alpha, A and its layout, B and its layout, beta, C and
  // its layout, D and its layout, algorithm, workspace, workspace bytes, stream.
  Code (*cublasLtMatmul)(Handle, MatmulDesc, const void*, const void*, MatrixLayout, const void*, MatrixLayout,
                         const void*, const void*, MatrixLayout, void*, MatrixLayout, const Algorithm*, void*, size_t,
                         void*);
};

}  // namespace monolith::cuda::cublaslt
