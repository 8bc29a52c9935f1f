// Reads the tensors of a vision file by name. Depending on the mode, it checks tensors against their expected shapes,
// counts their bytes, or loads them into a backend's memory. The list of names is the same in all modes. Used by one
// thread at a time.
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
#include "backend/encoder_operations.h"
#include "formats/gguf/gguf.h"
#include "vision/encoder_weights.h"

namespace monolith {

class TensorReader {
 public:
  // If `backend` is null, tensors are only checked. If `loading` is null, only their bytes are counted.
  TensorReader(const GgufFile& file, const BackendMemory* backend, BackendMemory* loading, SixteenBits halves)
      : file_(file), backend_(backend), loading_(loading), halves_(halves) {}

  // The first error. Once it is set, no more tensors are read.
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  void fail(Error error);
  size_t bytes() const { return bytes_; }

  const GgufTensor* find(std::string_view name) const { return file_.tensor(name); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Returns the tensor; if it is missing or has a different shape, sets the error and returns null. `shape` starts with
  // the row length; 0 matches any size.
  const GgufTensor* tensor(const std::string& name, std::initializer_list<int64_t> shape);

  // Reads `count` values as floats, negated if `sign` is -1.
  const float* vector(const std::string& name, int64_t count, float sign = 1);
  const float* vector_if(const std::string& name, int64_t count) { return has(name) ? vector(name, count) : nullptr; }
  // Reads all values of a tensor whose shape has already been checked.
  const float* all(const GgufTensor& tensor);
  // Reads NAME.weight and, for a layer norm, NAME.bias (zeros if it is missing).
  EncoderNorm norm(const std::string& name, int64_t count, bool rms = false);
  EncoderNorm norm_if(const std::string& name, int64_t count, bool rms = false) {
    return has(name + ".weight") ? norm(name, count, rms) : EncoderNorm{};
  }
  // Reads NAME.weight of shape [rows][cols], NAME.bias if present, and the limits for clamping.
  EncoderLinear linear(const std::string& name, int64_t rows, int64_t cols);
  // Reads rows [first, first + rows) of NAME.weight, which has `of_rows` rows.
  EncoderLinear linear_part(const std::string& name, int64_t first, int64_t rows, int64_t of_rows, int64_t cols);
  // Reads NAME.weight stored as [cols][rows].
  EncoderLinear linear_transposed(const std::string& name, int64_t rows, int64_t cols);
  // Reads NAME.weight, whose columns are ordered by channel and then by position in the merge block, and reorders them
  // by position and then by channel.
  EncoderLinear linear_by_place(const std::string& name, int64_t rows, int64_t channels, int64_t places);
  // Reads the patch kernel NAME.weight, and adds NAME.weight.1 if it is present.
  EncoderLinear patch_kernel(const std::string& name, int64_t rows, int64_t patch);
  void ignore(std::string_view prefix);
  // Reports an error for any tensor that has not been read and whose name starts with one of these prefixes.
  void check_surplus(std::initializer_list<std::string_view> prefixes);

 private:
  std::span<const std::byte> data(const GgufTensor& tensor, size_t offset, size_t size) {
    return file_.read(tensor, offset, size, scratch_);
  }
  std::vector<float> floats(const GgufTensor& tensor);
  const float* keep(const std::vector<float>& numbers);
  const float* zeros(int64_t count);
  // Sets the properties that can be determined before the values are read: the sizes, the number of bytes, and whether
  // the weight becomes a matrix of 16-bit integers. If it does not, `kept_as` is the widest type in which it may be
  // stored.
  void shape(EncoderLinear& to, int64_t rows, int64_t cols, TensorType came_as, TensorType kept_as);
  void matrix(EncoderLinear& to, TensorType type, std::span<const std::byte> bytes);
  // Creates a matrix from floats. The floats are converted back to F16 or BF16 if the tensor has that type in the file.
  void matrix(EncoderLinear& to, TensorType came_as, const std::vector<float>& numbers);
  void bias_and_clamps(EncoderLinear& to, const std::string& name, int64_t first, int64_t of_rows);

  const GgufFile& file_;
  const BackendMemory* backend_;
  BackendMemory* loading_;
  SixteenBits halves_;
  Status status_;
  size_t bytes_ = 0;
  std::vector<std::byte> scratch_;
  std::unordered_set<std::string> seen_;
  std::vector<std::string> ignored_;
};

}  // namespace monolith
