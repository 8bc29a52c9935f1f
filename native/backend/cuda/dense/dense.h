// Matrix products on tensor cores with 16-bit weights (bfloat16, binary16) and FP8 weights (dense/fp8.h): memory
// layouts of weights and activations, kernel selection, and scratch memory.
//
//   y[column][row] = sum over k of W[row][k] x[column][k]
//
// "Rows" are rows of the weight matrix, and "columns" are rows of the activations (tokens): the weight matrix is the A
// operand of the tensor core, and the activations are B.
//
// Weights are packed at load time in fragment order (device/tensor.h): tiles of 16 rows x 16 values of k, each with the
// four words of every lane together, [rows/16][k/16][32 lanes][16 bytes]. Rows are padded with zeros to a multiple of
// 16, and k to a multiple of 64. Activations are converted before each product to [k/64][columns/8][8 groups of k][8
// columns][16 bytes]. Thus 8 values of k for 8 columns form one core matrix, and 64 values of k for a tile of columns
// are contiguous in memory.
//
// Arithmetic. k is divided into 1, 2, 4 or 8 segments, determined by the shape of the matrix alone (dense_segments).
// Within a segment, the tensor core adds steps of 16 values of k in ascending order to one float32 accumulator. The
// segments are then combined in this order:
//   value = (old output if added to, else 0) + bias;  for each segment, ascending: value = fma(sum, scale, value)
// where scale is a power of two that keeps binary16 activations in range (1 for bfloat16), multiplied by the row's
// scale for FP8. A thread block may compute one segment or all of them; the order is the same.
//
// Batch invariance. An output depends on one row, one column and the order above. The choice of tiles, of split-K and
// of the grid never changes an output, as long as one kind of instruction computes it. It is not documented whether
// wgmma and mma.sync add the 16 products of a step in the same way. With `invariant` (the default) a device therefore
// uses one kind of instruction for every number of columns: wgmma if available, else mma.sync. Without `invariant`, a
// device that has both may use mma.sync for small numbers of columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/moe/grouped.h"
#include "backend/cuda/matmul/matrix.h"
#include "backend/cuda/matmul/product_input.h"

namespace monolith::cuda {

inline constexpr int kDenseBlockK = 64;  // Values of k per pipeline stage.
inline constexpr int kDenseTileRows = 16;

enum class DenseKind : uint8_t { kBf16, kF16, kFp8 };

constexpr bool is_dense(Format format) {
  return format == Format::kBf16 || format == Format::kF16 || format == Format::kFp8;
}

// --- weights -----------------------------------------------------------------------------------
constexpr int64_t dense_blocks(int64_t cols) { return (cols + kDenseBlockK - 1) / kDenseBlockK; }
constexpr int64_t dense_tiles(int64_t rows) { return (rows + kDenseTileRows - 1) / kDenseTileRows; }
// Returns the size of a packed 16-bit matrix in bytes.
size_t dense_bytes(int64_t rows, int64_t cols);
// Packs `n_rows` rows of `cols` 16-bit values (device memory, contiguous, as in the file) into dense_bytes(n_rows,
// cols) bytes. The output consists of whole tiles; the last tile is padded with zeros.
void pack_dense(Runtime& runtime, const unsigned char* rows, int64_t n_rows, int64_t cols, unsigned char* packed);
// Returns the number of segments into which k is divided for a matrix (or one expert's matrix) of this shape.
int dense_segments(int64_t rows, int64_t cols);

// Limits for one split-K launch: the number of stored partial sums and the number of work units.
inline constexpr int64_t kDenseMostSums = int64_t{10} << 20;
inline constexpr int64_t kDenseMostCounters = 8192;

// --- choice of kernel --------------------------------------------------------------------------
enum class DenseKernel : uint8_t {
  kFew,    // mma.sync: weights go directly to registers, and every segment is a warp.
  kTiles,  // mma.sync: tiles of both operands go through shared memory.
  // Hopper wgmma: weights go through shared memory to registers, and the tensor core reads activations from shared
  // memory.
  kWgmma,
};

struct DensePlan {
  DenseKernel kernel;
  int tile_rows;
  int tile_columns;
  bool split;  // Segments are separate blocks (split-K; kTiles and kWgmma only).
  bool operator==(const DensePlan&) const = default;
};

// The device properties and the option that determine the choice of kernel. On a device that uses one kind of
// instruction, every choice produces the same bits.
struct DenseDevice {
  bool wgmma;  // The device has wgmma and may use it.
  bool invariant;
  int multiprocessors;
};

inline constexpr int kMaxDenseTargets = 4;  // Maximum number of matrices per launch.

// The size of one matrix of a launch; with experts, of one expert's matrix.
struct DenseRows {
  int64_t rows;
  int segments;
};

struct DenseShape {
  std::span<const DenseRows> matrices;
  int64_t columns;      // Number of columns; with experts, the number of token-expert pairs.
  int64_t experts = 0;  // Number of experts; 0 if there are none.
};

// Returns the number of tiles of `width` columns in a launch. With experts, this is an upper bound.
int64_t column_tiles(const DenseShape& shape, int width);
inline constexpr int kFewWarps = 8;  // Warps per block in kFew.
// Returns the number of row tiles of one matrix in a launch.
int64_t row_tiles(const DenseRows& matrix, const DensePlan& plan);
// Returns the number of work units (thread blocks) of a launch.
int64_t unit_count(const DenseShape& shape, const DensePlan& plan);
DensePlan plan_dense(const DenseDevice& device, const DenseShape& shape);

// --- the product -------------------------------------------------------------------------------
// Scratch memory for converted activations and for partial sums of segments that different blocks compute. Only
// reserve() allocates.
class DenseScratch {
 public:
  explicit DenseScratch(Runtime& runtime) : runtime_(runtime) {}
  static size_t bytes_for(int64_t max_columns, int64_t max_cols);
  // Reserves memory for the activations of max_columns columns with max_cols values each. Existing memory is enlarged
  // if necessary.
  Status reserve(int64_t max_columns, int64_t max_cols);

  unsigned char* activations() const { return activations_; }
  float* scales() const { return scales_; }  // One per column.
  float* sums() const { return sums_; }
  int32_t* counters() const { return counters_; }  // Split-K counters in device memory. They are zero between launches.

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
  bool wgmma = true;  // Use wgmma if the device has it.
  bool invariant = true;
};

// Returns the buffer into which another kernel can write `n_columns` converted columns of `cols` values, in format
// kBf16 or kF16.
ProductInput dense_input(const DenseScratch& scratch, InputForm form, int64_t n_columns, int64_t cols);

// Returns the properties of this device that determine the choice of kernel.
DenseDevice dense_device(const Runtime& runtime, const DenseOptions& options);

// Implements Backend::matmul for targets that share one 16-bit or FP8 format. With `groups`, columns are expert slots,
// x is read through groups->source, each weight matrix contains groups->n_experts matrices of equal shape one below the
// other, and outputs have shape [slot][rows of one expert]. If `converted` is true, the scratch memory already contains
// the converted x.
void matmul_dense(Runtime& runtime, const DenseScratch& scratch, const DenseDevice& device,
                  std::span<const MatmulTarget> targets, const float* x, int64_t n_columns,
                  const ColumnGroups* groups = nullptr, bool converted = false);

// Sets out[i] to row tokens[i] of `table`. `tokens` is in device memory.
void embed_dense(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out);

}  // namespace monolith::cuda
