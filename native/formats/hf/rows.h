// Matrices of a checkpoint as rows that are made when they are asked for, and the same matrices in the order that GGUF
// has them in. Immutable once made; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/gguf/tensor_source.h"

namespace monolith::hf {

using Rows = std::shared_ptr<const RowMaker>;

// As they lie there: F32, F16 or BF16.
Rows plain_rows(TensorType type, int64_t cols, std::span<const std::byte> data);

// Rows [first, first + count) of a matrix.
struct Run {
  Rows of;
  int64_t first, count;
};
// Runs one below the other; of one length of row and one exact type, each within its matrix. F32 if their factors differ.
Rows joined_rows(std::vector<Run> runs);
// The same of several matrices whose factors are kept for each: its own factor() is 1.
Rows stacked_rows(std::vector<Run> runs);
// Row i is row order[i].
Rows picked_rows(const Rows& of, std::vector<int32_t> order);
// The order of `count` heads of `width` rows each, that are kept head by head of `groups` and wanted with each group's
// first heads in front, then all second ones: 0, n, 2n, ..., 1, n + 1, ... with n = count / groups.
std::vector<int32_t> dealt_order(int64_t groups, int64_t count, int64_t width);
// Blocks of `width` columns in another order: the i-th is the order[i]-th.
Rows moved_columns(const Rows& of, int64_t width, std::vector<int32_t> order);
// Of each of `heads` runs of rows the `count` from `first` on, with rows and columns exchanged.
Rows transposed_heads(const Rows& of, int64_t heads, int64_t first, int64_t count);
// Every value through a function; F32.
Rows mapped_rows(const Rows& of, float (*function)(float));
// Row i times factors[i]; F32.
Rows scaled_rows(const Rows& of, std::vector<float> factors);

}  // namespace monolith::hf
