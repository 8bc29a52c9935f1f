// Operations of vision and text encoders, which not every backend supports (Backend::encoders()). They run between the
// same begin_step() and end_step() as Operations, under the same contract: the bits of a row depend only on the row's
// own inputs, never on other rows in the call or on threads. No operation allocates memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/operations.h"
#include "base/result.h"

namespace monolith {

// Position of a patch in the grid of patches.
struct PatchPlace {
  int32_t row = 0, column = 0;
};

// An 8-bit RGB image, and the float value that each byte represents.
struct PatchImage {
  const uint8_t* pixels;  // Host memory, [height][width][3].
  int width;
  int patch_size;
  const float* levels;  // Host memory, [3][256].
};

// Selects, for each row, up to `conv_kernel_size` rows of a table, whose weighted sum is added to the row.
struct TableTaps {
  int conv_kernel_size;
  const int32_t* rows;   // Host memory, [n_rows][conv_kernel_size].
  const float* weights;  // Host memory, [n_rows][conv_kernel_size]. Taps of weight 0 are skipped.
};

// Rotary embedding of an encoder. A head's dimensions are split into sections of `section` dimensions. Within a
// section, the dimensions of a pair are either neighbors or half a section apart. Their factors are given for every
// dimension of a row.
struct RowRotation {
  const float* own;      // Shape [n_rows][head_dim]: cosines.
  const float* partner;  // Shape [n_rows][head_dim]: sines, negated for the first dimension of a pair.
  RopeStyle style;
  int section;  // Even; divides head_dim.
};

// Keys and values of all rows of a text or of a part of an image, in the backend's own layout. A row of keys has
// n_heads * head_dim elements.
struct EncoderKeys {
  float* memory;  // EncoderOperations::encoder_key_floats() floats for these sizes.
  int max_rows;
  int n_heads, head_dim;
  bool fixed16 = false;  // The memory holds 16-bit integers, fixed16_key_floats() floats in size.
};

// Arguments of EncoderOperations::attend_rows(). `starts` and `limits` are ascending arrays in host memory. Row i
// attends to the stored rows starts[i] .. limits[i] - 1.
struct RowAttention {
  const EncoderKeys& keys;
  const float* q;  // Shape [n_rows][n_heads][head_dim].
  int64_t stride;  // Floats between rows of q and out.
  const int32_t* starts;
  const int32_t* limits;
  int n_rows;
  float scale;
  float* out;  // Shape [n_rows][n_heads][head_dim]; must not be q.
  // Number of query heads, a multiple of keys.n_heads; 0 = keys.n_heads. Query head h uses key head h / (n_heads /
  // keys.n_heads).
  int n_heads = 0;
  // Position bias in host memory: bias[h * bias_stride + key position - query position] is added to the scaled scores
  // of head h. The first query has position `first_position`. Null = no position bias.
  const float* bias = nullptr;
  int64_t bias_stride = 0;
  int first_position = 0;
};

class EncoderOperations {
 public:
  // Sets out[i] to the patch at places[i], an array of shape [3][patch_size][patch_size]. The patches are contiguous.
  virtual void take_patches(const PatchImage& image, std::span<const PatchPlace> places, float* out) = 0;
  // Adds to x[row] the sum over the row's taps, in order, of weight * table[row of the tap].
  virtual void add_table_rows(const TableTaps& taps, const float* table, int n_rows, int64_t dim, float* x) = 0;
  // Applies the rotary embedding to each head of x, [n_rows][n_heads][head_dim] with row_stride floats per row.
  virtual void rotate_rows(const RowRotation& rotation, int n_rows, float* x, int64_t row_stride, int n_heads,
                           int head_dim) = 0;
  virtual int64_t encoder_key_floats(int max_rows, int n_heads, int head_dim) const = 0;
  // Stores k and v, [n_rows][n_heads][head_dim] with `stride` floats per row, as rows first_row, first_row + 1, ...
  virtual void store_encoder_keys(const EncoderKeys& keys, const float* k, const float* v, int64_t stride,
                                  int first_row, int n_rows) = 0;
  // Sets out[row] to the attention of each head of q[row] over the stored rows starts[row] .. limits[row] - 1, which
  // must be at least one row. If keys.fixed16 is set, the number of query heads must equal keys.n_heads, and bias must
  // be null.
  virtual void attend_rows(const RowAttention& call) = 0;
  // Sets out[i] to `factor` times the sum of rows i * group .. i * group + group - 1 of x, which are added in order.
  virtual void add_up_rows(const float* x, int group, float factor, int n_out, int64_t dim, float* out) = 0;
  // x[i] = min(max(x[i], low), high).
  virtual void clamp(float* x, int64_t count, float low, float high) = 0;

  // Whether a matmul with BF16 weights rounds its inputs to BF16. If so, vision encoders store these weights as F32.
  virtual bool rounds_to_bf16() const { return false; }

  // Functions for matmul and attention in 16-bit integers, if the backend supports them (see cpu/fixed16/kernels.h).
  // Their results are about as accurate as with 16-bit floats.
  virtual size_t fixed16_bytes(int64_t rows, int64_t cols) const {
    return static_cast<void>(rows), static_cast<void>(cols), 0;
  }
  virtual Result<std::unique_ptr<Matrix>> fixed16_matrix(const MatrixSource& source) {
    return static_cast<void>(source),
           Error{ErrorCode::kUnsupported, "this device does not support 16-bit integer matmul"};
  }
  virtual int64_t fixed16_key_floats(int max_rows, int n_heads, int head_dim) const {
    return static_cast<void>(max_rows), static_cast<void>(n_heads), static_cast<void>(head_dim), 0;
  }
  // Returns the size in bytes of the scratch memory for attention and for a matmul of max_rows rows and max_cols
  // columns. reserve_fixed16(), which is called after loading, allocates this memory.
  virtual size_t fixed16_scratch_bytes(int max_rows, int64_t max_cols) const {
    return static_cast<void>(max_rows), static_cast<void>(max_cols), 0;
  }
  virtual Status reserve_fixed16(int max_rows, int64_t max_cols) {
    return static_cast<void>(max_rows), static_cast<void>(max_cols), Status{};
  }
  // Like Operations::matmul, for matrices from fixed16_matrix().
  virtual void fixed16_matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows) {
    static_cast<void>(targets), static_cast<void>(x), static_cast<void>(n_rows);
  }

 protected:
  ~EncoderOperations() = default;
};

}  // namespace monolith
