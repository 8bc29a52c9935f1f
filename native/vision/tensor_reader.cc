#include "vision/tensor_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "formats/gguf/parser.h"

namespace monolith {
namespace {

// If tensors are only checked and not loaded, every vector's pointer refers to this value, because the pointer only has
// to be non-null.
constexpr float kChecked = 0;

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + (size > 0 ? std::to_string(size) : std::string("any"));
  return text + "]";
}

}  // namespace

void TensorReader::fail(Error error) {
  if (status_.ok()) status_ = std::move(error);
}

const GgufTensor* TensorReader::tensor(const std::string& name, std::initializer_list<int64_t> shape) {
  seen_.insert(name);
  if (!ok()) return nullptr;
  const GgufTensor* const found = find(name);
  const std::vector<int64_t> wanted(shape);
  if (found == nullptr) {
    fail({ErrorCode::kInvalidFile, "tensor " + name + " " + shape_text(wanted) + " is missing"});
    return nullptr;
  }
  for (size_t i = 0; i < found->shape.size(); ++i) {
    const int64_t size = i < wanted.size() ? wanted[i] : 1;
    if (size > 0 && found->shape[i] != size) {
      fail({ErrorCode::kInvalidFile,
            "tensor " + name + " is " +
                shape_text(std::span(found->shape).first(static_cast<size_t>(std::max(1, found->n_dims)))) +
                ", expected " + shape_text(wanted)});
      return nullptr;
    }
  }
  if (backend_ != nullptr && !backend_->supports(found->type)) {
    fail({ErrorCode::kUnsupported, "tensor " + name + " has a type that this backend does not support"});
    return nullptr;
  }
  return found;
}

std::vector<float> TensorReader::floats(const GgufTensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.n_values()));
  dequantize(tensor.type, data(tensor, 0, tensor.bytes()).data(), tensor.n_values(), out.data());
  return out;
}

const float* TensorReader::keep(const std::vector<float>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  Result<float*> memory = loading_->allocate(count);
  if (!memory) {
    fail(memory.error());
    return nullptr;
  }
  loading_->write_floats(*memory, numbers.data(), count);
  return *memory;
}

const float* TensorReader::all(const GgufTensor& tensor) {
  bytes_ += static_cast<size_t>(tensor.n_values()) * sizeof(float);
  return loading_ == nullptr ? &kChecked : keep(floats(tensor));
}

const float* TensorReader::zeros(int64_t count) {
  bytes_ += static_cast<size_t>(count) * sizeof(float);
  return loading_ == nullptr ? &kChecked : keep(std::vector<float>(static_cast<size_t>(count)));
}

const float* TensorReader::vector(const std::string& name, int64_t count, float sign) {
  const GgufTensor* const found = tensor(name, {count});
  if (found == nullptr) return nullptr;
  if (loading_ == nullptr || sign > 0) return all(*found);
  std::vector<float> numbers = floats(*found);
  for (float& number : numbers) number = -number;
  return keep(numbers);
}

EncoderNorm TensorReader::norm(const std::string& name, int64_t count, bool rms) {
  const float* const weight = vector(name + ".weight", count);
  // An RMS norm has no bias, so a bias tensor next to its weight is later reported as unexpected.
  if (!ok() || rms) return {weight, nullptr};
  const float* const bias = vector_if(name + ".bias", count);
  return {weight, bias == nullptr && ok() ? zeros(count) : bias};
}

void TensorReader::shape(EncoderLinear& to, int64_t rows, int64_t cols, TensorType came_as, TensorType kept_as) {
  to.rows = rows;
  to.cols = cols;
  to.fixed16 = halves_.integers != nullptr && (came_as == TensorType::kF16 || came_as == TensorType::kBF16);
  if (to.fixed16)
    bytes_ += halves_.integers->fixed16_bytes(rows, cols);
  else if (backend_ != nullptr)
    bytes_ += backend_->matrix_bytes(kept_as == TensorType::kBF16 && halves_.bf16_as_f32 ? TensorType::kF32 : kept_as,
                                     rows, cols);
}

void TensorReader::matrix(EncoderLinear& to, TensorType type, std::span<const std::byte> bytes) {
  if (type == TensorType::kBF16 && halves_.bf16_as_f32 && !to.fixed16) {
    std::vector<float> numbers(static_cast<size_t>(to.rows * to.cols));
    dequantize(type, bytes.data(), to.rows * to.cols, numbers.data());
    return matrix(to, TensorType::kF32, std::as_bytes(std::span(numbers)));
  }
  const MatrixSource source{type, to.rows, to.cols, bytes};
  auto made = to.fixed16 ? halves_.integers->fixed16_matrix(source) : loading_->matrix(source);
  if (!made)
    fail(made.error());
  else
    to.weight = std::move(*made);
}

void TensorReader::matrix(EncoderLinear& to, TensorType came_as, const std::vector<float>& numbers) {
  if (came_as != TensorType::kF16 && came_as != TensorType::kBF16)
    return matrix(to, TensorType::kF32, std::as_bytes(std::span(numbers)));
  std::vector<uint16_t> halves(numbers.size());
  std::ranges::transform(numbers, halves.begin(), [&](float x) {
    return came_as == TensorType::kF16 ? float_to_half(x) : float_to_bfloat16(x);
  });
  matrix(to, came_as, std::as_bytes(std::span(halves)));
}

void TensorReader::bias_and_clamps(EncoderLinear& to, const std::string& name, int64_t first, int64_t of_rows) {
  if (const std::string bias = name + ".bias"; has(bias)) {
    if (first == 0 && to.rows == of_rows) {
      to.bias = vector(bias, of_rows);
    } else if (const GgufTensor* whole = tensor(bias, {of_rows}); whole != nullptr) {
      bytes_ += static_cast<size_t>(to.rows) * sizeof(float);
      if (loading_ != nullptr) {
        const std::vector<float> numbers = floats(*whole);
        to.bias = keep({numbers.begin() + first, numbers.begin() + first + to.rows});
      }
    }
  }
  const struct {
    const char* suffix;
    float EncoderClamps::*to;
  } kClamps[] = {{".input_min", &EncoderClamps::in_low},
                 {".input_max", &EncoderClamps::in_high},
                 {".output_min", &EncoderClamps::out_low},
                 {".output_max", &EncoderClamps::out_high}};
  for (const auto& [suffix, bound] : kClamps) {
    if (!has(name + suffix)) continue;
    const GgufTensor* const found = tensor(name + suffix, {1});
    if (found == nullptr) return;
    to.clamps.*bound = floats(*found)[0];
    to.clamps.any = true;
    if (std::isnan(to.clamps.*bound)) fail({ErrorCode::kInvalidFile, "tensor " + name + suffix + " is not a number"});
  }
  if (to.clamps.in_low > to.clamps.in_high || to.clamps.out_low > to.clamps.out_high)
    fail({ErrorCode::kInvalidFile, "tensors " + name + ": a clamp minimum is greater than its maximum"});
}

EncoderLinear TensorReader::linear(const std::string& name, int64_t rows, int64_t cols) {
  return linear_part(name, 0, rows, rows, cols);
}

EncoderLinear TensorReader::linear_part(const std::string& name, int64_t first, int64_t rows, int64_t of_rows,
                                        int64_t cols) {
  EncoderLinear to;
  const GgufTensor* const found = tensor(name + ".weight", {cols, of_rows});
  if (found == nullptr) return to;
  shape(to, rows, cols, found->type, found->type);
  if (loading_ != nullptr) {
    const TensorTypeTraits& traits = traits_of(found->type);
    const auto row_bytes = static_cast<size_t>(cols / traits.block_values * traits.block_bytes);
    const size_t offset = static_cast<size_t>(first) * row_bytes, size = static_cast<size_t>(rows) * row_bytes;
    matrix(to, found->type, data(*found, offset, size));
    file_.give_back(*found, offset, size);
  }
  bias_and_clamps(to, name, first, of_rows);
  return to;
}

EncoderLinear TensorReader::linear_transposed(const std::string& name, int64_t rows, int64_t cols) {
  EncoderLinear to;
  const GgufTensor* const found = tensor(name + ".weight", {rows, cols});
  if (found == nullptr) return to;
  shape(to, rows, cols, found->type, TensorType::kF32);
  if (loading_ != nullptr) {
    const std::vector<float> stored = floats(*found);
    std::vector<float> turned(stored.size());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t col = 0; col < cols; ++col)
        turned[static_cast<size_t>(row * cols + col)] = stored[static_cast<size_t>(col * rows + row)];
    matrix(to, found->type, turned);
  }
  bias_and_clamps(to, name, 0, rows);
  return to;
}

EncoderLinear TensorReader::linear_by_place(const std::string& name, int64_t rows, int64_t channels, int64_t places) {
  EncoderLinear to;
  const int64_t cols = channels * places;
  const GgufTensor* const found = tensor(name + ".weight", {cols, rows});
  if (found == nullptr) return to;
  shape(to, rows, cols, found->type, TensorType::kF32);
  if (loading_ != nullptr) {
    const std::vector<float> stored = floats(*found);
    std::vector<float> ordered(stored.size());
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t channel = 0; channel < channels; ++channel)
        for (int64_t place = 0; place < places; ++place)
          ordered[static_cast<size_t>(row * cols + place * channels + channel)] =
              stored[static_cast<size_t>(row * cols + channel * places + place)];
    matrix(to, found->type, ordered);
  }
  bias_and_clamps(to, name, 0, rows);
  return to;
}

EncoderLinear TensorReader::patch_kernel(const std::string& name, int64_t rows, int64_t patch) {
  EncoderLinear to;
  const GgufTensor* const one = tensor(name + ".weight", {patch, patch, 3, rows});
  if (one == nullptr) return to;
  const bool two_frames = has(name + ".weight.1");
  const GgufTensor* const other = two_frames ? tensor(name + ".weight.1", {patch, patch, 3, rows}) : nullptr;
  if (two_frames && other == nullptr) return to;
  shape(to, rows, 3 * patch * patch, one->type, TensorType::kF32);
  const TensorType type = two_frames ? TensorType::kF32 : one->type;
  if (loading_ != nullptr) {
    std::vector<float> numbers = floats(*one);
    if (two_frames) {
      // The patch kernel covers two video frames. For a still image, both frames are the same, so the two kernels are
      // added.
      const std::vector<float> second = floats(*other);
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += second[i];
    }
    matrix(to, type, numbers);
  }
  bias_and_clamps(to, name, 0, rows);
  return to;
}

void TensorReader::ignore(std::string_view prefix) { ignored_.emplace_back(prefix); }

void TensorReader::check_surplus(std::initializer_list<std::string_view> prefixes) {
  if (!ok()) return;
  for (const GgufTensor& tensor : file_.tensors()) {
    const auto begins = [&](std::string_view prefix) { return tensor.name.starts_with(prefix); };
    if (std::ranges::none_of(prefixes, begins) || std::ranges::any_of(ignored_, begins)) continue;
    if (!seen_.contains(std::string(tensor.name)))
      return fail(
          {ErrorCode::kUnsupported, "tensor " + in_quotes(tensor.name) + " is unexpected for this projector type"});
  }
}

}  // namespace monolith
