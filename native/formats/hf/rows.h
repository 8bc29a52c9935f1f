// Checkpoint matrices whose rows are produced on demand, including conversions to GGUF's order. Immutable; may be used
// from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/gguf/tensor_source.h"

namespace monolith::hf {

using Rows = std::shared_ptr<const RowMaker>;

// The rows as they are in the file: F32, F16 or BF16.
Rows plain_rows(TensorType type, int64_t cols, std::span<const std::byte> data);

// Rows [first, first + count) of a matrix.
struct Run {
  Rows of;
  int64_t first, count;
};
// Concatenates runs of rows with the same row length and the same exact type; each run must lie within its matrix. The
// result is F32 if the matrices have different factors.
Rows joined_rows(std::vector<Run> runs);
// Like joined_rows(), but for stacked matrices whose factors are stored separately, one per matrix; factor() of the
// result is 1.
Rows stacked_rows(std::vector<Run> runs);
// Row i of the result is row order[i].
Rows picked_rows(const Rows& of, std::vector<int32_t> order);
// Returns the row order that interleaves `count` heads of `width` rows each, which are stored in `groups` consecutive
// groups: first the first head of every group, then the second head of every group, and so on. In heads, with n = count
// / groups, this is 0, n, 2n, ..., 1, n + 1, ...
std::vector<int32_t> dealt_order(int64_t groups, int64_t count, int64_t width);
// Reorders blocks of `width` columns: block i of the result is block order[i].
Rows moved_columns(const Rows& of, int64_t width, std::vector<int32_t> order);
// Splits the rows into `heads` equal runs. From each run, takes `count` rows, starting at the run's row `first`, and
// transposes them.
Rows transposed_heads(const Rows& of, int64_t heads, int64_t first, int64_t count);
// Applies a function to every value. The result is F32.
Rows mapped_rows(const Rows& of, float (*function)(float));
// Multiplies row i by factors[i]. The result is F32.
Rows scaled_rows(const Rows& of, std::vector<float> factors);

}  // namespace monolith::hf
