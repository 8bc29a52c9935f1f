// Tests matrix products in binary32: results are correct for odd shapes, and bit-identical for any number of columns
// and any alignment.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "backend/cuda/matmul/matmul.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

std::mt19937 source(3);

std::vector<float> numbers(int64_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(source);
  return values;
}

float* put(Runtime& runtime, const std::vector<float>& values) {
  auto memory = runtime.allocate(values.size() * sizeof(float));
  if (!memory) return nullptr;
  runtime.upload(*memory, values.data(), values.size() * sizeof(float));
  runtime.synchronize();
  return static_cast<float*>(*memory);
}

std::vector<float> get(Runtime& runtime, const float* from, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  runtime.download(values.data(), from, values.size() * sizeof(float));
  runtime.synchronize();
  return values;
}

}  // namespace

TEST(cuda_f32_matmul_is_correct_and_does_not_depend_on_the_batch) {
  using enum emulator::Order;
  auto opened = Runtime::open(0);
  REQUIRE(opened.ok());
  Runtime& runtime = **opened;
  struct Shape {
    int64_t rows, cols;
    emulator::Order order;
  };
  for (const Shape& shape :
       {Shape{1, 1, kAscending}, Shape{37, 130, kDescending}, Shape{16, 700, kShuffled}, Shape{9, 515, kAscending}}) {
    emulator::set_order(shape.order);
    constexpr int kMax = 19;
    const std::vector<float> w = numbers(shape.rows * shape.cols), x = numbers(kMax * shape.cols),
                             bias = numbers(shape.rows);
    auto matrix = make_matrix(runtime, {TensorType::kF32, shape.rows, shape.cols, std::as_bytes(std::span(w))}, false);
    REQUIRE(matrix.ok());
    const float* const x_there = put(runtime, x);
    const float* const bias_there = put(runtime, bias);
    const int64_t stride = shape.rows + 2;
    std::vector<float> first;
    for (const int n : {kMax, 1, 2, 8, 9}) {
      const int at = kMax - n;
      const std::vector<float> before(static_cast<size_t>(n * stride), 0.5f);
      float* const out = put(runtime, before);
      matmul_f32(runtime, {(*matrix).get(), out, stride, bias_there, true}, x_there + at * shape.cols, n);
      const std::vector<float> y = get(runtime, out, n * stride);
      if (first.empty()) first = y;
      CHECK(std::memcmp(y.data(), &first[static_cast<size_t>(at * stride)], y.size() * sizeof(float)) == 0);
    }
    double worst = 0;
    for (int64_t column = 0; column < kMax; ++column)
      for (int64_t row = 0; row < shape.rows; ++row) {
        double sum = 0.5 + bias[static_cast<size_t>(row)];
        for (int64_t k = 0; k < shape.cols; ++k)
          sum += double{w[static_cast<size_t>(row * shape.cols + k)]} * x[static_cast<size_t>(column * shape.cols + k)];
        worst = std::max(worst, std::abs(sum - first[static_cast<size_t>(column * stride + row)]));
      }
    if (!(worst < 4e-5))
      check::fail(__FILE__, __LINE__, std::to_string(shape.cols) + " columns: off by " + std::to_string(worst));
  }
  emulator::set_order(kAscending);
}
