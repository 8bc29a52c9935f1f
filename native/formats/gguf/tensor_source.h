// Tensors whose bytes are not stored in any file in the required form. When their rows are read, the rows are gathered
// from several byte ranges, reordered or converted to another type. May be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// Computes the rows of a matrix from file contents, for example if the checkpoint stores the rows in a different order
// or in its own quantization format (formats/hf). Immutable; may be used from any thread.
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  // A type that represents every value exactly: F32, F16, BF16, or a block type whose block size divides the row
  // length.
  virtual TensorType exact_type() const { return TensorType::kF32; }
  // Writes rows [first, first + count) as floats.
  virtual void make(int64_t first, int64_t count, float* out) const = 0;
  // Writes the same rows in the type exact_type(), without loss. Must be overridden if exact_type() is a block type.
  virtual void store(int64_t first, int64_t count, std::byte* out) const;
  // Appends the file ranges that contain the rows' data.
  virtual void add_slots(std::vector<std::span<const std::byte>>& places) const = 0;
  // A float type (F32, F16 or BF16) that represents every value exactly. Used by backends that do not support
  // exact_type().
  virtual TensorType float_type() const {
    return traits_of(exact_type()).block_values == 1 ? exact_type() : TensorType::kF32;
  }
  // A scale for the whole matrix, stored separately: each element of the matrix is the value that store() writes times
  // this factor.
  virtual float factor() const { return 1; }
};

// Describes how the rows of a tensor are produced. There are three ways: by concatenating parts that contain rows of
// `cols` values of `type` (F32, F16 or BF16); as MXFP4 rows whose codes and scales are stored separately, as in
// checkpoints; or with a RowMaker.
struct TensorSource {
  TensorType type = TensorType::kF32;
  int64_t cols = 0;
  std::vector<std::span<const std::byte>> parts = {};  // Byte ranges; each holds whole rows.
  // The tensor consists of every `row_step`-th row of `parts`, starting at `first_row`. The rows in between belong to
  // another tensor.
  int64_t row_step = 1, first_row = 0;
  // MXFP4 block scales: one byte per block of 32 values. Each of the block's 16 bytes in `parts` holds two adjacent
  // values. Requires a single part.
  std::span<const std::byte> scales = {};
  // If set, the maker produces all rows. In that case, `type` must be its exact_type(), and of the other fields above
  // only `cols` is used.
  std::shared_ptr<const RowMaker> maker = nullptr;

  int64_t rows() const;
  // The file ranges that contain the tensor's data.
  std::vector<std::span<const std::byte>> places() const;
};

// Whether read_rows() can write `source` as `type`. This is the case if the types are equal, or if the source contains
// floats, quantize() supports `type` and the row length is a multiple of the block size.
bool can_store(const TensorSource& source, TensorType type);

// Converts rows [first, first + count) to `type` and writes them to `out`, using up to `threads` threads.
void read_rows(const TensorSource& source, TensorType type, int64_t first, int64_t count, int threads, std::byte* out);

}  // namespace monolith
