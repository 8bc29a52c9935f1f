// Checkpoint matrices whose rows are produced when they are read, including reordering and conversion for GGUF.
// Immutable; may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/gguf/tensor_source.h"

namespace monolith::hf {

using Rows = std::shared_ptr<const RowMaker>;

// The rows exactly as stored in the file: F32, F16 or BF16.
Rows plain_rows(TensorType type, int64_t cols, std::span<const std::byte> data);

// Rows [first, first + count) of a matrix.
struct Run {
  Rows of;
  int64_t first, count;
};
// Concatenates runs of rows that have the same row length and the same exact type; each run must lie within its matrix.
// If the matrices have different factors, the result is F32.
Rows joined_rows(std::vector<Run> runs);
// Like joined_rows(), but for stacked matrices. Their factors are stored separately, one per matrix, so factor() of the
// result is 1.
Rows stacked_rows(std::vector<Run> runs);
// Row i of the result is row order[i] of `of`.
Rows picked_rows(const Rows& of, std::vector<int32_t> order);
// Returns the row order that interleaves `count` heads of `width` rows each. The heads are stored in `groups`
// consecutive groups; the result takes the first head of every group, then the second head of every group, and so on.
// With n = count / groups, the order of heads is 0, n, 2n, ..., 1, n + 1, ...
std::vector<int32_t> dealt_order(int64_t groups, int64_t count, int64_t width);
// Reorders blocks of `width` columns: block i of the result is block order[i] of `of`.
Rows moved_columns(const Rows& of, int64_t width, std::vector<int32_t> order);
// Splits the rows into `heads` equal runs. Takes `count` rows of each run, starting with row `first` of the run, and
// transposes them.
Rows transposed_heads(const Rows& of, int64_t heads, int64_t first, int64_t count);
// Applies a function to every value. The result is F32.
Rows mapped_rows(const Rows& of, float (*function)(float));
// Multiplies row i by factors[i]. The result is F32.
Rows scaled_rows(const Rows& of, std::vector<float> factors);

}  // namespace monolith::hf
