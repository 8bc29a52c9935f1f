// Low-rank adapters (LoRA, Hu et al. 2021, arXiv:2106.09685): a weight matrix W acts as W + scale B A for the rows of a
// step that use the adapter, where A has `rank` rows and B has `rank` columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monolith {

inline constexpr int kMaxAdapterRank = 1024;
// Maximum number of targets in one call of Operations::add_adapters().
inline constexpr size_t kMaxAdapterTargets = 512;

// The two factors for one weight matrix, in the backend's own layout.
class AdapterMatrix {
 public:
  virtual ~AdapterMatrix() = default;
  int rank = 0;
  int64_t rows = 0, cols = 0;  // Shape of the weight matrix.
  size_t bytes = 0;            // Memory used, in bytes.
};

// The factors in host memory. All values must be finite.
struct AdapterSource {
  int rank;
  int64_t rows, cols;
  std::span<const float> a;  // Shape [rank][cols].
  std::span<const float> b;  // Shape [rows][rank].
  float scale;
};

// One adapter's effect on some rows of a matmul that has already been computed.
struct AdapterTarget {
  const AdapterMatrix* matrix;
  const float* x;  // Input of the matmul, [n_rows][cols], dense.
  float* out;      // Output of the matmul.
  int64_t out_stride;
  std::span<const int32_t> rows;  // The rows of x and `out` that use the adapter. Host memory.
};

}  // namespace monolith
