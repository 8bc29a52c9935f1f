// Tests matrix products with 16-bit and FP8 weights. The results of every kernel are compared with double precision for
// many different shapes. Results are bit-identical for any number of columns, any split of the work, and any other
// targets.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "backend/cuda/dense/dense.h"
#include "backend/cuda/dense/fp8.h"
#include "emulator/emulator.h"
#include "backend/cuda/matmul/matmul.h"
#include "base/float8.h"
#include "base/half.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

std::mt19937 source(20261122);

std::vector<float> numbers(size_t n, float size = 1.0f) {
  std::normal_distribution<float> normal(0, size);
  std::vector<float> values(n);
  for (float& value : values) value = normal(source);
  return values;
}

float rounded(TensorType type, float value) {
  return type == TensorType::kBF16 ? bfloat16_to_float(float_to_bfloat16(value)) : half_to_float(float_to_half(value));
}

// An array of floats in device memory.
class Floats {
 public:
  Floats(Runtime& runtime, const std::vector<float>& host) : runtime_(runtime), n_(host.size()) {
    auto memory = runtime.allocate(n_ * sizeof(float));
    if (memory) data_ = static_cast<float*>(*memory);
    runtime.upload(data_, host.data(), n_ * sizeof(float));
    runtime.synchronize();
  }
  Floats(Runtime& runtime, size_t n)
      : Floats(runtime, std::vector<float>(n, std::numeric_limits<float>::quiet_NaN())) {}
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() { runtime_.free(data_); }
  float* data() const { return data_; }
  std::vector<float> read() const {
    std::vector<float> host(n_);
    runtime_.download(host.data(), data_, n_ * sizeof(float));
    runtime_.synchronize();
    return host;
  }

 private:
  Runtime& runtime_;
  size_t n_;
  float* data_ = nullptr;
};

// Rounds a row of weights in the same way as the conversion to FP8.
void round_row(float* row, int64_t cols) {
  float most = 0;
  for (int64_t k = 0; k < cols; ++k) most = std::max(most, std::abs(row[k]));
  const float scale = fp8_scale(most);
  for (int64_t k = 0; k < cols; ++k) row[k] = e4m3_to_float(float_to_e4m3(row[k] / scale)) * scale;
}

// A matrix, and its values after the rounding to its type.
struct Weights {
  int64_t rows, cols;
  std::vector<float> values;
  std::unique_ptr<Matrix> matrix;
};

Weights weights(Runtime& runtime, TensorType type, int64_t rows, int64_t cols) {
  Weights made{rows, cols, numbers(static_cast<size_t>(rows * cols)), nullptr};
  const bool fp8 = type == TensorType::kF8E4M3;  // FP8 weights are converted from bfloat16.
  if (fp8) type = TensorType::kBF16;
  std::vector<uint16_t> bits(made.values.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    made.values[i] = rounded(type, made.values[i]);
    bits[i] = type == TensorType::kBF16 ? float_to_bfloat16(made.values[i]) : float_to_half(made.values[i]);
  }
  auto matrix = make_matrix(runtime, {type, rows, cols, std::as_bytes(std::span(bits)), fp8}, false);
  for (int64_t row = 0; fp8 && row < rows; ++row) round_row(&made.values[static_cast<size_t>(row * cols)], cols);
  if (matrix) made.matrix = std::move(*matrix);
  return made;
}

std::unique_ptr<Runtime> open_runtime() {
  auto opened = Runtime::open(0);
  return std::move(*opened);
}

constexpr DenseDevice kHopper{.wgmma = true, .invariant = true, .multiprocessors = 4};
constexpr DenseDevice kMixed{.wgmma = true, .invariant = false, .multiprocessors = 4};
constexpr DenseDevice kAmpere{.wgmma = false, .invariant = true, .multiprocessors = 4};
// With this many idle multiprocessors, the work is split as much as possible.
constexpr DenseDevice kAmpereIdle{.wgmma = false, .invariant = true, .multiprocessors = 1000};
constexpr DenseDevice kHopperIdle{.wgmma = true, .invariant = true, .multiprocessors = 1000};

// Whether this GPU can run the kernels selected for `device`.
bool runs_here(const Runtime& runtime, const DenseDevice& device) {
  return !device.wgmma || dense_device(runtime, {}).wgmma;
}

// Compares one row bit for bit.
bool same_bits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

// Compares y = W x with double precision in some columns.
void check_product(const Weights& w, const std::vector<float>& x, int64_t n, TensorType type,
                   const std::vector<float>& before, const std::vector<float>& bias, const std::vector<float>& y,
                   int64_t stride, const std::string& what) {
  double worst = 0;
  for (int64_t column = 0; column < n; ++column)
    for (int64_t row = 0; row < w.rows; ++row) {
      double sum = (before.empty() ? 0 : before[static_cast<size_t>(column * stride + row)]) +
                   (bias.empty() ? 0 : bias[static_cast<size_t>(row)]);
      for (int64_t k = 0; k < w.cols; ++k)
        sum += double{w.values[static_cast<size_t>(row * w.cols + k)]} *
               rounded(type, x[static_cast<size_t>(column * w.cols + k)]);
      worst = std::max(worst, std::abs(sum - y[static_cast<size_t>(column * stride + row)]));
      if (std::isnan(y[static_cast<size_t>(column * stride + row)])) worst = INFINITY;
    }
  if (!(worst < 2e-5 * std::sqrt(static_cast<double>(w.cols)) + 2e-5))
    check::fail(__FILE__, __LINE__, what + ": off by " + std::to_string(worst));
}

}  // namespace

TEST(dense_matmul_is_correct_with_every_kernel) {
  using enum emulator::Order;
  const auto runtime = open_runtime();
  struct Shape {
    int64_t rows, cols, columns;
    DenseDevice device;
    TensorType type;
    emulator::Order order;
    DenseKernel kernel;
  };
  constexpr auto kBF16 = TensorType::kBF16, kF16 = TensorType::kF16, kF8 = TensorType::kF8E4M3;
  const Shape shapes[] = {
      {16, 64, 1, kAmpere, kBF16, kAscending, DenseKernel::kFew},
      {37, 100, 3, kAmpere, kF16, kDescending, DenseKernel::kFew},
      {150, 1030, 9, kAmpere, kBF16, kShuffled, DenseKernel::kFew},
      {40, 4100, 8, kAmpere, kF16, kAscending, DenseKernel::kFew},
      {150, 200, 33, kAmpere, kBF16, kDescending, DenseKernel::kTiles},
      {130, 1025, 17, kAmpereIdle, kF16, kShuffled, DenseKernel::kTiles},
      {129, 70, 130, kAmpere, kF16, kAscending, DenseKernel::kTiles},
      {64, 64, 1, kHopper, kBF16, kAscending, DenseKernel::kWgmma},
      {50, 900, 5, kHopper, kF16, kDescending, DenseKernel::kWgmma},
      {100, 2050, 8, kHopperIdle, kBF16, kShuffled, DenseKernel::kWgmma},
      {70, 130, 29, kHopper, kF16, kAscending, DenseKernel::kWgmma},
      {30, 1100, 50, kHopperIdle, kBF16, kDescending, DenseKernel::kWgmma},
      {140, 66, 100, kHopper, kBF16, kShuffled, DenseKernel::kWgmma},
      {70, 1090, 230, kHopperIdle, kF16, kAscending, DenseKernel::kWgmma},
      {37, 100, 3, kAmpere, kF8, kDescending, DenseKernel::kFew},
      {150, 1030, 16, kAmpere, kF8, kShuffled, DenseKernel::kFew},
      {150, 200, 33, kAmpere, kF8, kAscending, DenseKernel::kTiles},
      {130, 1025, 70, kAmpereIdle, kF8, kDescending, DenseKernel::kTiles},
      {100, 2050, 8, kHopperIdle, kF8, kShuffled, DenseKernel::kWgmma},
      {70, 130, 29, kHopper, kF8, kAscending, DenseKernel::kWgmma},
      {30, 1100, 50, kHopperIdle, kF8, kDescending, DenseKernel::kWgmma},
      {140, 66, 100, kHopper, kF8, kShuffled, DenseKernel::kWgmma},
      {70, 1090, 230, kHopperIdle, kF8, kAscending, DenseKernel::kWgmma},
      // Covers 128, 192 and 256 columns, blocks with several tiles, and segments that are summed in registers or by
      // other blocks.
      {520, 70, 128, kHopper, kF16, kShuffled, DenseKernel::kWgmma},
      {300, 140, 520, kHopper, kBF16, kDescending, DenseKernel::kWgmma},
      {130, 1100, 380, kHopper, kF16, kAscending, DenseKernel::kWgmma},
      {390, 70, 512, kHopper, kBF16, kShuffled, DenseKernel::kWgmma},
      {130, 1100, 256, kHopper, kBF16, kDescending, DenseKernel::kWgmma},
      {300, 1100, 180, kHopper, kF8, kDescending, DenseKernel::kWgmma},
      {130, 1100, 256, kHopper, kF8, kShuffled, DenseKernel::kWgmma},
  };
  for (const Shape& shape : shapes) {
    if (!runs_here(*runtime, shape.device)) continue;
    emulator::set_order(shape.order);
    const Weights w = weights(*runtime, shape.type, shape.rows, shape.cols);
    REQUIRE(w.matrix != nullptr);
    CHECK_EQ(w.matrix->bytes,
             shape.type == kF8 ? fp8_bytes(shape.rows, shape.cols) : dense_bytes(shape.rows, shape.cols));
    DenseScratch scratch(*runtime);
    REQUIRE(scratch.reserve(shape.columns, shape.cols).ok());
    const DenseRows rows{shape.rows, dense_segments(shape.rows, shape.cols)};
    CHECK(plan_dense(shape.device, {{&rows, 1}, shape.columns}).kernel == shape.kernel);
    const std::vector<float> x = numbers(static_cast<size_t>(shape.columns * shape.cols)),
                             bias = numbers(static_cast<size_t>(shape.rows));
    const Floats x_there(*runtime, x), bias_there(*runtime, bias);
    const int64_t stride = shape.rows + 3;
    const std::vector<float> before = numbers(static_cast<size_t>(shape.columns * stride));
    const std::string what = std::to_string(shape.rows) + " x " + std::to_string(shape.cols) + ", " +
                             std::to_string(shape.columns) + " columns";
    {
      const Floats out(*runtime, static_cast<size_t>(shape.columns * stride));
      const MatmulTarget target{w.matrix.get(), out.data(), stride};
      matmul_dense(*runtime, scratch, shape.device, {&target, 1}, x_there.data(), shape.columns);
      check_product(w, x, shape.columns, shape.type, {}, {}, out.read(), stride, what);
    }
    const Floats out(*runtime, before);
    const MatmulTarget target{w.matrix.get(), out.data(), stride, bias_there.data(), true};
    matmul_dense(*runtime, scratch, shape.device, {&target, 1}, x_there.data(), shape.columns);
    const std::vector<float> y = out.read();
    check_product(w, x, shape.columns, shape.type, before, bias, y, stride, what + ", added");
    for (int64_t column = 0; column < shape.columns; ++column)  // Nothing is written between the rows.
      CHECK(same_bits(&y[static_cast<size_t>(column * stride + shape.rows)],
                      &before[static_cast<size_t>(column * stride + shape.rows)], 3));
  }
  emulator::set_order(kAscending);
}

TEST(dense_columns_do_not_depend_on_the_batch) {
  const auto runtime = open_runtime();
  constexpr int64_t kRows = 72, kCols = 1100, kMax = 250;
  REQUIRE(dense_segments(kRows, kCols) > 1);
  DenseScratch scratch(*runtime);
  REQUIRE(scratch.reserve(kMax, kCols).ok());
  const std::vector<float> x = numbers(kMax * kCols);
  const Floats x_there(*runtime, x);
  const std::vector<DenseDevice> hopper = {kHopper, kHopperIdle, {true, true, 1}, {true, true, 2}},
                                 ampere = {kAmpere, kAmpereIdle};
  for (const auto& [type, family] : {std::pair{TensorType::kBF16, hopper}, std::pair{TensorType::kBF16, ampere},
                                     std::pair{TensorType::kF8E4M3, hopper}, std::pair{TensorType::kF8E4M3, ampere}}) {
    if (!runs_here(*runtime, family[0])) continue;
    const Weights w = weights(*runtime, type, kRows, kCols), beside = weights(*runtime, type, 200, kCols);
    std::vector<float> first;
    for (const int64_t n : {kMax, int64_t{1}, int64_t{7}, int64_t{14}, int64_t{40}, int64_t{65}, int64_t{140}})
      for (const DenseDevice& device : family)
        for (const int64_t at : {int64_t{0}, kMax - n}) {
          if (n == kMax && at > 0) continue;
          const Floats out(*runtime, static_cast<size_t>(n * kRows)), other(*runtime, static_cast<size_t>(n * 200));
          const MatmulTarget targets[] = {{beside.matrix.get(), other.data(), 200},
                                          {w.matrix.get(), out.data(), kRows}};
          matmul_dense(*runtime, scratch, device, n % 2 == 0 ? std::span(targets) : std::span(targets).subspan(1),
                       x_there.data() + at * kCols, n);
          const std::vector<float> y = out.read();
          if (first.empty()) first = y;
          CHECK(same_bits(y.data(), &first[static_cast<size_t>(at * kRows)], n * kRows));
        }
  }
}

TEST(dense_grouped_targets_equal_single_ones) {
  const auto runtime = open_runtime();
  constexpr int64_t kCols = 520, kColumns = 11;
  const Weights w[] = {weights(*runtime, TensorType::kF16, 48, kCols), weights(*runtime, TensorType::kF16, 130, kCols),
                       weights(*runtime, TensorType::kF16, 16, kCols), weights(*runtime, TensorType::kF16, 33, kCols),
                       weights(*runtime, TensorType::kF16, 64, kCols)};
  const std::vector<float> x = numbers(kColumns * kCols);
  const Floats x_there(*runtime, x);
  MatmulContext context{DenseScratch(*runtime), {}, Int8Activations(*runtime)};
  REQUIRE(context.dense.reserve(kColumns, kCols).ok());
  for (const DenseDevice& device : {kHopper, kHopperIdle, kAmpere, kMixed}) {
    if (!runs_here(*runtime, device)) continue;
    context.dense_device = device;
    std::vector<std::unique_ptr<Floats>> outs;
    std::vector<MatmulTarget> targets;
    for (const Weights& one : w) {
      outs.push_back(std::make_unique<Floats>(*runtime, static_cast<size_t>(kColumns * one.rows)));
      targets.push_back({one.matrix.get(), outs.back()->data(), one.rows});
    }
    matmul(*runtime, context, targets, x_there.data(), kColumns);
    for (size_t i = 0; i < outs.size(); ++i)
      check_product(w[i], x, kColumns, TensorType::kF16, {}, {}, outs[i]->read(), w[i].rows,
                    "target " + std::to_string(i));
  }
}

TEST(dense_binary16_accepts_activations_of_every_magnitude) {
  const auto runtime = open_runtime();
  constexpr int64_t kRows = 16, kCols = 64;
  const Weights w = weights(*runtime, TensorType::kF16, kRows, kCols);
  DenseScratch scratch(*runtime);
  REQUIRE(scratch.reserve(4, kCols).ok());
  // Tests values far above and far below binary16's range, values that are all zero, and a NaN that must not spread to
  // other columns.
  std::vector<float> x = numbers(4 * kCols);
  for (int k = 0; k < kCols; ++k) {
    x[k] *= 1e9f;
    x[kCols + k] *= 1e-9f;
    x[2 * kCols + k] = 0;
  }
  x[3 * kCols + 5] = std::numeric_limits<float>::quiet_NaN();
  const Floats x_there(*runtime, x);
  for (const DenseDevice& device : {kHopper, kAmpere}) {
    if (!runs_here(*runtime, device)) continue;
    const Floats out(*runtime, 4 * kRows);
    const MatmulTarget target{w.matrix.get(), out.data(), kRows};
    matmul_dense(*runtime, scratch, device, {&target, 1}, x_there.data(), 4);
    const std::vector<float> y = out.read();
    for (int64_t row = 0; row < kRows; ++row) {
      double sums[2] = {};
      for (int64_t k = 0; k < kCols; ++k)
        for (int c = 0; c < 2; ++c)
          sums[c] += double{w.values[static_cast<size_t>(row * kCols + k)]} * x[static_cast<size_t>(c * kCols + k)];
      CHECK(std::abs(y[static_cast<size_t>(row)] / 1e9 - sums[0] / 1e9) < 2e-2);
      CHECK(std::abs(y[static_cast<size_t>(kRows + row)] * 1e9 - sums[1] * 1e9) < 2e-2);
      CHECK_EQ(y[static_cast<size_t>(2 * kRows + row)], 0.0f);
      CHECK(std::isnan(y[static_cast<size_t>(3 * kRows + row)]));
    }
  }
}

TEST(dense_embedding_tables_return_their_rows) {
  const auto runtime = open_runtime();
  for (const TensorType type : {TensorType::kBF16, TensorType::kF16, TensorType::kF8E4M3}) {
    const Weights w = weights(*runtime, type, 45, 70);
    const int32_t tokens[] = {44, 0, 7, 8, 31, 16};
    auto there = runtime->allocate(sizeof tokens);
    REQUIRE(there.ok());
    runtime->upload(*there, tokens, sizeof tokens);
    const Floats out(*runtime, 6 * 70);
    embed_dense(*runtime, static_cast<const CudaMatrix&>(*w.matrix), static_cast<const int32_t*>(*there), 6,
                out.data());
    const std::vector<float> y = out.read();
    for (int i = 0; i < 6; ++i)
      CHECK(same_bits(&y[static_cast<size_t>(i) * 70], &w.values[static_cast<size_t>(tokens[i]) * 70], 70));
  }
}

TEST(dense_kernels_are_chosen_by_shape_and_device) {
  constexpr DenseDevice hopper{true, true, 132}, mixed{true, false, 132}, ampere{false, true, 108};
  const DenseRows down{4096, dense_segments(4096, 14336)}, gate{14336, dense_segments(14336, 4096)};
  CHECK_EQ(down.segments, 4);
  CHECK_EQ(gate.segments, 1);
  CHECK_EQ(dense_segments(1024, 4096), 8);
  CHECK_EQ(dense_segments(1024, 4095), 4);
  CHECK_EQ(dense_segments(16, 100), 1);
  const auto plan = [](const DenseDevice& device, const DenseRows& rows, int64_t columns) {
    return plan_dense(device, {{&rows, 1}, columns});
  };
  using enum DenseKernel;
  // Batch-invariant mode uses the same kind of instruction for any number of columns.
  for (int64_t columns = 1; columns < 10000; columns = columns * 3 / 2 + 1) {
    CHECK(plan(hopper, down, columns).kernel == kWgmma);
    CHECK(plan(ampere, down, columns).kernel != kWgmma);
  }
  CHECK((plan(hopper, down, 1) == DensePlan{kWgmma, 64, 8, true}));
  CHECK((plan(hopper, down, 64) == DensePlan{kWgmma, 64, 64, true}));
  CHECK((plan(hopper, down, 256) == DensePlan{kWgmma, 128, 256, true}));
  CHECK((plan(hopper, down, 8192) == DensePlan{kWgmma, 128, 192, false}));
  CHECK((plan(hopper, gate, 8192) == DensePlan{kWgmma, 128, 256, false}));
  CHECK((plan(hopper, gate, 384) == DensePlan{kWgmma, 128, 192, false}));
  CHECK((plan(hopper, gate, 100) == DensePlan{kWgmma, 128, 128, false}));
  // The device settings with which another test checks that results are bit-identical.
  constexpr DenseDevice single{true, true, 1}, two{true, true, 2};
  const DenseRows small{72, 2};
  CHECK((plan(single, small, 140) == DensePlan{kWgmma, 128, 192, false}));
  CHECK((plan(single, small, 65) == DensePlan{kWgmma, 128, 128, false}));
  CHECK((plan(two, small, 250) == DensePlan{kWgmma, 128, 256, true}));
  CHECK((plan(mixed, gate, 8) == DensePlan{kFew, 16, 8, false}));
  CHECK((plan(mixed, gate, 9) == DensePlan{kWgmma, 64, 16, false}));
  CHECK((plan(mixed, gate, 17) == DensePlan{kWgmma, 64, 32, false}));
  CHECK((plan(mixed, gate, 33) == DensePlan{kWgmma, 64, 64, false}));
  CHECK((plan(ampere, down, 16) == DensePlan{kFew, 16, 16, false}));
  CHECK((plan(ampere, down, 17) == DensePlan{kTiles, 128, 32, true}));
  CHECK((plan(ampere, down, 8192) == DensePlan{kTiles, 128, 128, false}));
  // The partial sums of split products must fit in their buffer.
  for (int64_t rows = 16; rows <= 1 << 17; rows *= 2)
    for (int64_t columns = 1; columns <= 1 << 14; columns *= 2) {
      const DenseRows shape{rows, 8};
      const DensePlan chosen = plan(hopper, shape, columns);
      if (!chosen.split) continue;
      const int64_t units = unit_count({{&shape, 1}, columns}, chosen);
      CHECK(units <= kDenseMostCounters && units * chosen.tile_rows * chosen.tile_columns <= kDenseMostSums);
    }
}
