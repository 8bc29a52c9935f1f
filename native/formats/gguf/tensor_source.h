// Tensors whose bytes do not lie ready in a file: rows gathered from several places, put into another order, or
// stored as another type, done for the rows that are asked for. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// Rows that are computed from what files hold: a matrix in another order, or one that a checkpoint stores in its own way
// (formats/hf). Immutable; any thread.
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  // A type that holds every value as it is: F32, F16 or BF16, or one of blocks, of which a row has whole ones.
  virtual TensorType exact_type() const { return TensorType::kF32; }
  // Rows [first, first + count) as floats.
  virtual void make(int64_t first, int64_t count, float* out) const = 0;
  // The same as exact_type(), without loss. Types of blocks need one of their own.
  virtual void store(int64_t first, int64_t count, std::byte* out) const;
  // Appends where its bytes lie.
  virtual void add_places(std::vector<std::span<const std::byte>>& places) const = 0;
  // A type of floats (F32, F16, BF16) that holds every value as it is: for those who do not have exact_type().
  virtual TensorType float_type() const {
    return traits_of(exact_type()).block_values == 1 ? exact_type() : TensorType::kF32;
  }
  // By what the values that store() writes are multiplied to be these: a scale of the whole matrix, kept beside it.
  virtual float factor() const { return 1; }
};

// Rows of `cols` values of `type` (F32, F16 or BF16), the parts one below the other; or of MXFP4 as checkpoints keep it,
// with the numbers apart from their scales; or what a RowMaker makes.
struct TensorSource {
  TensorType type = TensorType::kF32;
  int64_t cols = 0;
  std::vector<std::span<const std::byte>> parts = {};  // whole rows each
  // Every so-manieth row from `first_row` on is meant, the others belong to another tensor.
  int64_t row_step = 1, first_row = 0;
  // Of MXFP4 in one part: a byte for each block of 32 values, whose 16 bytes in `parts` hold two neighbours each.
  std::span<const std::byte> scales = {};
  // If there is one, it makes all rows: `type` is its exact_type(), and of the above only `cols` counts.
  std::shared_ptr<const RowMaker> maker = nullptr;

  int64_t rows() const;
  // Where its bytes lie in the file.
  std::vector<std::span<const std::byte>> places() const;
};

// Whether read_rows() can store `source` as `type`: the same type, or floats as one that quantize() stores, with whole
// blocks in a row.
bool can_store(const TensorSource& source, TensorType type);

// Writes rows [first, first + count) as `type` to `out`, by up to `threads` threads.
void read_rows(const TensorSource& source, TensorType type, int64_t first, int64_t count, int threads, std::byte* out);

}  // namespace monolith
