// Collects the tensors that a model needs. For each kind of layer, a function in model/layers/*_weights.cc adds the
// tensors.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/layers/norm.h"
#include "model/weights.h"

namespace monolith {

class WeightList {
 public:
  explicit WeightList(const HyperParams& params) : params_(params) {}

  const HyperParams& params() const { return params_; }
  // The names of tensors added after this call get the prefix of layer `layer`; -1 = no prefix.
  void enter(int layer, std::string_view prefix = "blk.") {
    block_ = layer < 0 ? "" : std::string(prefix) + std::to_string(layer) + ".";
  }
  std::vector<WeightSlot> take() && { return std::move(slots_); }

  // These functions add a whole matrix, or a part of one: `rows` rows, starting at row `first`, of a matrix with
  // `of_rows` rows.
  void matrix(std::string_view name, int64_t rows, int64_t cols, std::unique_ptr<Matrix>& to) {
    part(name, 0, rows, rows, cols, to);
  }
  void part(std::string_view name, int64_t first, int64_t rows, int64_t of_rows, int64_t cols,
            std::unique_ptr<Matrix>& to) {
    add(name, rows, cols, &to, nullptr, {cols, of_rows, 1}, first);
  }
  // Adds `count` stacked matrices of this shape.
  void matrices(std::string_view name, int64_t count, int64_t rows, int64_t cols, std::unique_ptr<Matrix>& to) {
    add(name, rows * count, cols, &to, nullptr, {cols, rows, count}, 0);
  }
  // These functions add one matrix per head. The file stores them as a stack of matrices or as one concatenated matrix.
  void heads(std::string_view name, const HeadPart& part, int64_t cols, std::unique_ptr<Matrix>& to) {
    add_heads(name, part, {cols, part.of_rows, part.n_heads}, to);
  }
  void unsplit_heads(std::string_view name, const HeadPart& part, int64_t cols, std::unique_ptr<Matrix>& to) {
    add_heads(name, part, {cols, part.of_rows * part.n_heads, 1}, to);
  }
  // Adds one matrix that consists of rows from `count` stacked matrices of `of_rows` rows each: `rows` rows of each
  // matrix, starting at its row `first`.
  void matrix_runs(std::string_view name, int64_t count, int64_t first, int64_t rows, int64_t of_rows, int64_t cols,
                   std::unique_ptr<Matrix>& to) {
    add(name, rows * count, cols, &to, nullptr, {cols, of_rows, count}, first);
    slots_.back().runs = count;
    slots_.back().run_stride = of_rows;
  }
  // Like the function above, but for a single matrix that consists of `count` runs of `of_rows` rows.
  void part_runs(std::string_view name, int64_t count, int64_t first, int64_t rows, int64_t of_rows, int64_t cols,
                 std::unique_ptr<Matrix>& to) {
    add(name, rows * count, cols, &to, nullptr, {cols, of_rows * count, 1}, first);
    slots_.back().runs = count;
    slots_.back().run_stride = of_rows;
  }
  // Adds matrix `index` of `count` stacked matrices of this shape.
  void one_matrix(std::string_view name, int64_t index, int64_t count, int64_t rows, int64_t cols,
                  std::unique_ptr<Matrix>& to) {
    add(name, rows, cols, &to, nullptr, {cols, rows, count}, index * rows);
  }
  // These functions add a vector or a part of one. A multi-dimensional tensor can be stored as a vector; `shape` has
  // the row length first.
  void vector(std::string_view name, int64_t count, const float*& to) { part(name, 0, count, count, to); }
  void part(std::string_view name, int64_t first, int64_t count, int64_t of_count, const float*& to) {
    add(name, 1, count, nullptr, &to, {of_count, 1, 1}, first);
  }
  void vector_of_shape(std::string_view name, std::array<int64_t, 3> shape, const float*& to) {
    add(name, 1, shape[0] * shape[1] * shape[2], nullptr, &to, shape, 0);
  }
  // Adds a matrix as a vector in which the matrix's columns, not its rows, are contiguous.
  void transposed_vector(std::string_view name, int64_t rows, int64_t cols, const float*& to) {
    vector_of_shape(name, {cols, rows, 1}, to);
    slots_.back().transposed = true;
  }
  // Adds row `index` of `count` rows of a tensor of shape [cols, 1, 1, count].
  void outer_part(std::string_view name, int64_t index, int64_t count, int64_t cols, const float*& to) {
    add(name, 1, cols, nullptr, &to, {cols, 1, count}, index * cols);
    slots_.back().outer = true;
  }
  // Adds a table whose rows are decoded to floats; the tensor may have any type.
  void table(std::string_view name, int64_t rows, int64_t cols, const float*& to) {
    vector_of_shape(name, {cols, rows, 1}, to);
    slots_.back().any_type = true;
  }
  // Adds a table of integers with `rows` rows of `count` values each. All values must be below `most`.
  void numbers(std::string_view name, int64_t count, int64_t rows, int32_t most, std::vector<int32_t>& to) {
    add(name, 1, count * rows, nullptr, nullptr, {count, rows, 1}, 0);
    slots_.back().numbers = &to;
    slots_.back().most = most;
  }
  void vector_if(bool carried, std::string_view name, int64_t count, const float*& to) {
    if (carried) vector(name, count, to);
  }
  // `name` is the name of the weight, "x.weight". If the model's norms have biases, "x.bias" is added too.
  void norm(std::string_view name, int64_t count, NormWeights& to) {
    if (!params_.norm_weights) return;
    vector(name, count, to.weight);
    if (!params_.norm_bias) return;
    const std::string_view stem = name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
    vector(std::string(stem) + ".bias", count, to.bias);
  }

 private:
  void add_heads(std::string_view name, const HeadPart& part, std::array<int64_t, 3> shape,
                 std::unique_ptr<Matrix>& to) {
    const int64_t rows = part.transposed ? shape[0] : part.rows, cols = part.transposed ? part.rows : shape[0];
    const int64_t padded = (rows + kExpertRowMultiple - 1) / kExpertRowMultiple * kExpertRowMultiple;
    add(name, padded * part.n_heads, cols, &to, nullptr, shape, 0);
    const bool as_it_is = part.rows == part.of_rows && padded == rows && !part.transposed;
    if (!as_it_is) slots_.back().heads = part;
  }
  void add(std::string_view name, int64_t rows, int64_t cols, std::unique_ptr<Matrix>* matrix, const float** vector,
           std::array<int64_t, 3> shape, int64_t first) {
    slots_.push_back({block_ + std::string(name), rows, cols, matrix, vector, shape, first});
  }

  const HyperParams& params_;
  std::string block_;
  std::vector<WeightSlot> slots_;
};

}  // namespace monolith
