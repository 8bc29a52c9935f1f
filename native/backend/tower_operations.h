// Operations of vision towers, which not every backend has (Backend::towers()). They stand beside Operations, between the
// same begin_step() and end_step(), under the same contract: a row's bits depend on that row's own inputs, never on the
// rows that share the call or on threads. None of them allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/operations.h"
#include "base/result.h"

namespace monolith {

// Where a patch lies in the grid of patches.
struct PatchPlace {
  int32_t row = 0, column = 0;
};

// A picture of 8 bits for each of three colours, and the number that each of these bytes stands for.
struct PatchImage {
  const uint8_t* pixels;  // host, [height][width][3]
  int width;
  int patch_size;
  const float* levels;  // host, [3][256]
};

// Rows of a table that a row is the weighted sum of, at most `n_taps` of them.
struct TableTaps {
  int n_taps;
  const int32_t* rows;   // host, [n_rows][n_taps]
  const float* weights;  // host, likewise; taps of weight 0 are left out
};

// How rows' heads turn. The head's dimensions are cut into sections of `section`; in each the pairs are neighbours, or lie
// half a section apart, and turn by factors that are given for every dimension of a row.
struct RowRotation {
  const float* own;      // [n_rows][head_dim], cosines
  const float* partner;  // [n_rows][head_dim], sines: of a pair's first dimension negative
  RopeStyle style;
  int section;  // divides head_dim; even
};

// Keys and values of all rows of a piece, in the backend's own layout. A row of keys holds n_heads * head_dim numbers.
struct TowerKeys {
  float* memory;  // TowerOperations::tower_key_floats() of these sizes
  int max_rows;
  int n_heads, head_dim;
  bool fixed16 = false;  // in 16-bit integers: memory of fixed16_key_floats()
};

class TowerOperations {
 public:
  // out[i] = the patch at places[i]: [3][patch_size][patch_size], dense.
  virtual void take_patches(const PatchImage& image, std::span<const PatchPlace> places, float* out) = 0;
  // x[row] += sum over taps, in their order, of weight * table[tap's row].
  virtual void add_table_rows(const TableTaps& taps, const float* table, int n_rows, int64_t dim, float* x) = 0;
  // Turns each head of x, [n_rows][n_heads][head_dim] with row_stride floats per row.
  virtual void rotate_rows(const RowRotation& rotation, int n_rows, float* x, int64_t row_stride, int n_heads,
                           int head_dim) = 0;
  virtual int64_t tower_key_floats(int max_rows, int n_heads, int head_dim) const = 0;
  // Stores k and v, [n_rows][n_heads][head_dim] with `stride` floats per row, as those of rows first_row and on.
  virtual void store_tower_keys(const TowerKeys& keys, const float* k, const float* v, int64_t stride, int first_row,
                                int n_rows) = 0;
  // out[row] = attention of each head of q[row] over the stored rows starts[row] .. limits[row] - 1, at least one. Both
  // are host memory and ascend. q and out: [n_rows][n_heads][head_dim] with `stride` floats per row; out is not q.
  virtual void attend_rows(const TowerKeys& keys, const float* q, int64_t stride, const int32_t* starts,
                           const int32_t* limits, int n_rows, float scale, float* out) = 0;
  // out[i] = the sum of rows i * group .. i * group + group - 1 of x, in order, times factor.
  virtual void add_up_rows(const float* x, int group, float factor, int n_out, int64_t dim, float* out) = 0;
  // x[i] = min(max(x[i], low), high).
  virtual void clamp(float* x, int64_t count, float low, float high) = 0;

  // Whether products with weights in BF16 round what they multiply to BF16. Towers then keep such weights as F32.
  virtual bool rounds_to_bf16() const { return false; }

  // Products and attention in 16-bit integers, about as exact as floats of 16 bits, where the device has them: see
  // cpu/fixed16/kernels.h. Without them nobody calls the rest.
  virtual bool has_fixed16(int head_dim) const { return static_cast<void>(head_dim), false; }
  virtual size_t fixed16_bytes(int64_t rows, int64_t cols) const {
    return static_cast<void>(rows), static_cast<void>(cols), 0;
  }
  virtual Result<std::unique_ptr<Matrix>> fixed16_matrix(const MatrixSource& source) {
    return static_cast<void>(source), Error{ErrorCode::kUnsupported, "this device has no products of 16-bit integers"};
  }
  virtual int64_t fixed16_key_floats(int max_rows, int n_heads, int head_dim) const {
    return static_cast<void>(max_rows), static_cast<void>(n_heads), static_cast<void>(head_dim), 0;
  }
  // Scratch for products of so many rows and columns and for attention; called after loading, allocates.
  virtual size_t fixed16_scratch_bytes(int max_rows, int64_t max_cols) const {
    return static_cast<void>(max_rows), static_cast<void>(max_cols), 0;
  }
  virtual Status reserve_fixed16(int max_rows, int64_t max_cols) {
    return static_cast<void>(max_rows), static_cast<void>(max_cols), Status{};
  }
  // As Operations::matmul, of matrices that fixed16_matrix() made.
  virtual void fixed16_matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows) {
    static_cast<void>(targets), static_cast<void>(x), static_cast<void>(n_rows);
  }

 protected:
  ~TowerOperations() = default;
};

}  // namespace monolith
