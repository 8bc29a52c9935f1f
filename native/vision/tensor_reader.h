// Tensors of a vision file by name: checked against the shape that is expected, counted, or brought into a backend's
// memory. Which of the three is the reader's mode; the list of names is the same. Threads: one.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "backend/backend.h"
#include "backend/tower_operations.h"
#include "formats/gguf/gguf.h"
#include "vision/tower_weights.h"

namespace monolith {

class TensorReader {
 public:
  // `backend` null: only checked. `loading` null: counted in bytes().
  TensorReader(const GgufFile& file, const Loading* backend, Loading* loading, SixteenBits halves)
      : file_(file), backend_(backend), loading_(loading), halves_(halves) {}

  // The first thing that was wrong; nothing is read after it.
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  void fail(Error error);
  size_t bytes() const { return bytes_; }

  const GgufTensor* find(std::string_view name) const { return file_.tensor(name); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Row length first; 0 stands for any. Null, and the status set, if it is missing or misshapen.
  const GgufTensor* tensor(const std::string& name, std::initializer_list<int64_t> shape);

  // `count` numbers, as floats. `sign` -1: negated.
  const float* vector(const std::string& name, int64_t count, float sign = 1);
  const float* vector_if(const std::string& name, int64_t count) { return has(name) ? vector(name, count) : nullptr; }
  // All numbers of a tensor that was checked.
  const float* all(const GgufTensor& tensor);
  // NAME.weight and, of a LayerNorm, NAME.bias or zeros.
  TowerNorm norm(const std::string& name, int64_t count, bool rms = false);
  TowerNorm norm_if(const std::string& name, int64_t count, bool rms = false) {
    return has(name + ".weight") ? norm(name, count, rms) : TowerNorm{};
  }
  // NAME.weight [rows][cols], NAME.bias if there is one, and the clamps.
  TowerLinear linear(const std::string& name, int64_t rows, int64_t cols);
  // Rows `first` to `first + rows` of NAME.weight, which has `of_rows`.
  TowerLinear linear_part(const std::string& name, int64_t first, int64_t rows, int64_t of_rows, int64_t cols);
  // NAME.weight is stored [cols][rows].
  TowerLinear linear_transposed(const std::string& name, int64_t rows, int64_t cols);
  // The columns of NAME.weight lie by channel, then by place in the square; they become the other way about.
  TowerLinear linear_by_place(const std::string& name, int64_t rows, int64_t channels, int64_t places);
  // The kernels of patches, NAME.weight and, added to it, NAME.weight.1 if there is one.
  TowerLinear patch_kernel(const std::string& name, int64_t rows, int64_t patch);
  void ignore(std::string_view prefix);
  // Errors name a tensor that begins with one of these prefixes and that nobody asked for.
  void check_surplus(std::initializer_list<std::string_view> prefixes);

 private:
  std::span<const std::byte> data(const GgufTensor& tensor, size_t offset, size_t size) {
    return file_.read(tensor, offset, size, scratch_);
  }
  std::vector<float> floats(const GgufTensor& tensor);
  const float* keep(const std::vector<float>& numbers);
  const float* zeros(int64_t count);
  // What is known before the numbers: also whether they become integers, and their bytes. `kept_as`: at most, otherwise.
  void shape(TowerLinear& to, int64_t rows, int64_t cols, TensorType came_as, TensorType kept_as);
  void matrix(TowerLinear& to, TensorType type, std::span<const std::byte> bytes);
  // Of floats, as F16 or BF16 again where they came from there.
  void matrix(TowerLinear& to, TensorType came_as, const std::vector<float>& numbers);
  void bias_and_clamps(TowerLinear& to, const std::string& name, int64_t first, int64_t of_rows);

  const GgufFile& file_;
  const Loading* backend_;
  Loading* loading_;
  SixteenBits halves_;
  Status status_;
  size_t bytes_ = 0;
  std::vector<std::byte> scratch_;
  std::unordered_set<std::string> seen_;
  std::vector<std::string> ignored_;
};

}  // namespace monolith
