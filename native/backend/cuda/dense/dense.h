// Products with weights in 16 bits (bfloat16, binary16) and in 8 (FP8, dense/fp8.h) on tensor cores: how weights and
// activations lie in memory, which kernel computes a product, and their scratch.
//
//   y[column][row] = sum over k of W[row][k] x[column][k]
//
// "Rows" are those of the matrix, "columns" the rows of the activations: the matrix is the A operand of the tensor
// core, the activations are B.
//
// Weights, packed at load in the order of fragments (device/tensor.h): tiles of 16 rows x 16 values of k, in each
// every lane's four words together: [rows/16][k/16][32 lanes][16 bytes], rows filled up to 16 and k to 64 with zeros.
// Activations, converted before each product: [k/64][columns/8][8 pieces of k][8 columns][16 bytes], so that 8 values
// of k of 8 columns are one core matrix, and what a tile of columns needs of 64 k is one run of memory.
//
// Arithmetic. k is cut into segments, 1, 2, 4 or 8 by the shape of the matrix alone (dense_segments). Within one, the
// tensor core adds steps of 16 k in ascending order to one binary32 accumulator. Then, in this order:
//   value = (old output if added to, else 0) + bias;  for each segment, ascending: value = fma(sum, scale, value)
// with scale a power of two that keeps binary16 activations in range (1 for bfloat16), for FP8 times the row's. Blocks of
// the GPU may take a // segment each or all of them: the order is the same.
//
// Batch invariance. A number depends on one row, one column and the order above: tiles, splits and grids never change
// it, as long as one kind of instruction computes it. Whether wgmma and mma.sync add the 16 products of a step in the
// same way is documented nowhere. So with `invariant` (the default) a device uses one kind for every number of columns:
// wgmma where it has it, else mma.sync. Without, mma.sync may serve few columns of a device that has both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/mixture/grouped.h"
#include "backend/cuda/matmul/matrix.h"
#include "backend/cuda/matmul/product_input.h"

namespace monolith::cuda {

inline constexpr int kDenseBlockK = 64;  // values of k that one stage of a pipeline holds
inline constexpr int kDenseTileRows = 16;

enum class DenseKind : uint8_t { kBf16, kF16, kFp8 };

constexpr bool is_dense(Format format) {
  return format == Format::kBf16 || format == Format::kF16 || format == Format::kFp8;
}

// --- weights -----------------------------------------------------------------------------------
constexpr int64_t dense_blocks(int64_t cols) { return (cols + kDenseBlockK - 1) / kDenseBlockK; }
constexpr int64_t dense_tiles(int64_t rows) { return (rows + kDenseTileRows - 1) / kDenseTileRows; }
// Bytes of a packed matrix in 16 bits.
size_t dense_bytes(int64_t rows, int64_t cols);
// Packs `n_rows` rows of `cols` 16-bit numbers as the file has them (device, dense) to dense_bytes(n_rows, cols) bytes:
// whole tiles, the last filled up with zeros.
void pack_dense(Runtime& runtime, const unsigned char* rows, int64_t n_rows, int64_t cols, unsigned char* packed);
// Segments of k for a matrix (of each expert) of this shape.
int dense_segments(int64_t rows, int64_t cols);

// Sums of segments that one launch may leave to other blocks, and units of work that it then may have.
inline constexpr int64_t kDenseMostSums = int64_t{10} << 20;
inline constexpr int64_t kDenseMostCounters = 8192;

// --- choice of kernel --------------------------------------------------------------------------
enum class DenseKernel : uint8_t {
  kFew,    // mma.sync: weights straight to registers, every segment a warp
  kTiles,  // mma.sync: tiles of both operands through shared memory
  kWgmma,  // Hopper: weights through shared memory to registers, activations read there by the tensor core
};

struct DensePlan {
  DenseKernel kernel;
  int tile_rows;
  int tile_columns;
  bool split;  // segments are blocks of their own (kTiles, kWgmma)
  bool operator==(const DensePlan&) const = default;
};

// What the choice may depend on. Every choice gives the same bits on a device with one kind of instruction.
struct DenseDevice {
  bool wgmma;  // has it and may use it
  bool invariant;
  int multiprocessors;
};

inline constexpr int kMostDenseTargets = 4;  // matrices of a launch

// A matrix of a launch (of one expert).
struct DenseRows {
  int64_t rows;
  int segments;
};

struct DenseShape {
  std::span<const DenseRows> matrices;
  int64_t columns;      // with experts: pairs of a row and an expert
  int64_t experts = 0;  // 0: none
};

// Tiles of `width` columns that a launch has, with experts the most it can have.
int64_t column_tiles(const DenseShape& shape, int width);
inline constexpr int kFewWarps = 8;  // of a block of kFew
// Tiles of rows of one matrix, as a launch counts them.
int64_t row_tiles(const DenseRows& matrix, const DensePlan& plan);
// Blocks of a launch.
int64_t unit_count(const DenseShape& shape, const DensePlan& plan);
DensePlan plan_dense(const DenseDevice& device, const DenseShape& shape);

// --- the product -------------------------------------------------------------------------------
// Memory for converted activations, and for sums of segments that different blocks compute. Only reserve() allocates.
class DenseScratch {
 public:
  explicit DenseScratch(Runtime& runtime) : runtime_(runtime) {}
  static size_t bytes_for(int64_t max_columns, int64_t max_cols);
  // Activations of up to max_columns columns of max_cols values; grows what is there.
  Status reserve(int64_t max_columns, int64_t max_cols);

  unsigned char* activations() const { return activations_; }
  float* scales() const { return scales_; }  // one per column
  float* sums() const { return sums_; }
  int32_t* counters() const { return counters_; }  // 0 between launches

 private:
  Runtime& runtime_;
  size_t activation_bytes_ = 0;
  int64_t n_scales_ = 0;
  unsigned char* activations_ = nullptr;
  float* scales_ = nullptr;
  float* sums_ = nullptr;
  int32_t* counters_ = nullptr;
};

struct DenseOptions {
  bool wgmma = true;  // use it where the device has it
  bool invariant = true;
};

// Where `n_columns` converted columns of `cols` values go, as kBf16 or kF16.
ProductInput dense_input(const DenseScratch& scratch, InputForm form, int64_t n_columns, int64_t cols);

// What the engine's choice is made for.
DenseDevice dense_device(const Runtime& runtime, const DenseOptions& options);

// Backend::matmul for targets that all have one dense format. With `groups`, columns are slots of experts, x is read
// through groups->source, matrices hold groups->n_experts matrices of equal shape one below the other, and outputs are
// [slot][rows of one expert]. `converted`: what the scratch holds is x already.
void matmul_dense(Runtime& runtime, const DenseScratch& scratch, const DenseDevice& device,
                  std::span<const MatmulTarget> targets, const float* x, int64_t n_columns,
                  const ColumnGroups* groups = nullptr, bool converted = false);

// out[row] = row tokens[row] of `table`; `tokens` device.
void embed_dense(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out);

}  // namespace monolith::cuda
