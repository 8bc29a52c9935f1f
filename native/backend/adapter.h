// LoRA adapters (Hu et al. 2021, arXiv:2106.09685). An adapter replaces a weight matrix W with W + scale * B * A for
// the tokens that use the adapter. A has `rank` rows, and B has `rank` columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monolith {

inline constexpr int kMaxAdapterRank = 1024;
// Maximum number of targets in one call to Operations::add_adapters().
inline constexpr size_t kMaxAdapterTargets = 512;

// The LoRA factors A and B of one weight matrix, in the backend's own layout.
class AdapterMatrix {
 public:
  virtual ~AdapterMatrix() = default;
  int rank = 0;
  int64_t rows = 0, cols = 0;  // Shape of the weight matrix.
  size_t bytes = 0;            // Memory used, in bytes.
};

// The LoRA factors of one weight matrix in host memory, from which a backend makes an AdapterMatrix. All values must be
// finite.
struct AdapterSource {
  int rank;
  int64_t rows, cols;
  std::span<const float> a;  // Shape [rank][cols].
  std::span<const float> b;  // Shape [rows][rank].
  float scale;
};

// Adds one adapter's contribution to some output rows of a matmul that has already been computed.
struct AdapterTarget {
  const AdapterMatrix* matrix;
  const float* x;                 // Input of the matmul. Shape [rows of the matmul][cols], contiguous.
  float* out;                     // Output of the matmul, updated in place.
  int64_t out_stride;             // Floats between rows of `out`.
  std::span<const int32_t> rows;  // Indices of the rows of x and `out` that use the adapter. Host memory.
};

}  // namespace monolith
