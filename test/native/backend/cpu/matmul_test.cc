// Tests matrix products for every weight type with every instruction set. Results are compared with exact arithmetic.
// They must be bit-identical with every instruction set, in any batch and with any number of threads.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine/isa.h"
#include "backend/cpu/matmul/matmul.h"
#include "check.h"
#include "matrix_data.h"

using namespace monolith;

namespace {

// The GGUF types, and FP8 with block scales.
constexpr auto kProductTypes = [] {
  std::array<TensorType, std::size(kAllTypes) + 1> types{};
  std::copy(std::begin(kAllTypes), std::end(kAllTypes), types.begin());
  types.back() = TensorType::kF8Scaled;
  return types;
}();

struct Shape {
  int64_t rows, cols;
};

// The shapes have odd numbers of rows, and one or several panels. For float types, some numbers of columns are odd as
// well.
std::vector<Shape> shapes_of(TensorType type) {
  switch (traits_of(type).block_values) {
    case 1: return {{1, 1}, {16, 32}, {37, 97}, {48, 256}};
    case 32: return {{1, 32}, {16, 96}, {37, 160}, {48, 256}};
    default: return {{1, 256}, {16, 512}, {37, 768}};
  }
}

std::string name_of(TensorType type, Shape shape, int n_rows, std::string_view isa) {
  return std::string(traits_of(type).name) + " [" + std::to_string(shape.rows) + ", " + std::to_string(shape.cols) +
         "] x " + std::to_string(n_rows) + " on " + std::string(isa);
}

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.uniform();
  return values;
}

std::unique_ptr<Backend> backend_for(CpuIsa isa, int threads, Arithmetic arithmetic = Arithmetic::kProduction) {
  auto backend = make_cpu_backend({.threads = threads, .isa = cpu_isa_name(isa), .arithmetic = arithmetic});
  if (!backend.ok() || !(*backend)->reserve(64, 4096, 16, 16).ok()) return nullptr;
  return std::move(backend).value();
}

std::vector<float> multiply(Backend& backend, const Matrix& matrix, const float* x, int n_rows) {
  std::vector<float> out(static_cast<size_t>(matrix.rows) * static_cast<size_t>(n_rows), -77.0f);
  const MatmulTarget target{.weight = &matrix, .out = out.data(), .out_stride = matrix.rows};
  backend.matmul({&target, 1}, x, RowCount::fixed(n_rows));
  return out;
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

// Returns the index of the first difference, or -1.
int64_t first_difference(const float* a, const float* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!same(a[i], b[i])) return i;
  return -1;
}

void check_same(const float* a, const float* b, int64_t count, const std::string& what) {
  const int64_t at = first_difference(a, b, count);
  if (at >= 0)
    check::fail(__FILE__, __LINE__,
                what + ": value " + std::to_string(at) + " is " + std::to_string(a[at]) + ", expected the bits of " +
                    std::to_string(b[at]));
}

// The error that rounding inputs and sums may cause in one output: six standard deviations of independent rounding
// errors.
// - 8-bit activations: uniform within half a step of the block's scale
// - BF16 activations: uniform within 2^-9 of each value; sums of two products are rounded like float sums
// - float sums: the error of every addition is at most 2^-24 of the partial sum, bounded here by the norm of the terms
double tolerance(const float* w, const float* x, int64_t cols, bool int8, bool bf16) {
  double variance = 0, terms = 0;
  for (int64_t begin = 0; begin < cols; begin += 32) {
    const int64_t end = begin + 32 < cols ? begin + 32 : cols;
    double amax = 0;
    for (int64_t k = begin; k < end; ++k) amax = std::fmax(amax, std::fabs(x[k]));
    for (int64_t k = begin; k < end; ++k) {
      const double step = int8 ? amax / 127 : bf16 ? std::fabs(x[k]) * 0x1p-8 : 0;
      variance += static_cast<double>(w[k]) * w[k] * step * step / 12;
      terms += std::fabs(static_cast<double>(w[k]) * x[k]);
    }
  }
  return 6 * std::sqrt(variance) + terms * (std::sqrt(static_cast<double>(cols)) + 4) * 0x1p-23;
}

// Compares all outputs with a double-precision product of the dequantized weights and reports the output with the
// largest error.
void check_close(TensorType type, Shape shape, const std::vector<std::byte>& data, const std::vector<float>& x,
                 const std::vector<float>& out, int n_rows, bool int8, bool bf16, const std::string& what) {
  std::vector<float> weights(static_cast<size_t>(shape.rows * shape.cols));
  dequantize(type, data.data(), shape.rows * shape.cols, weights.data());
  double worst = 0;
  std::string where;
  for (int row = 0; row < n_rows; ++row) {
    for (int64_t r = 0; r < shape.rows; ++r) {
      const float *w = &weights[static_cast<size_t>(r * shape.cols)], *a = &x[static_cast<size_t>(row * shape.cols)];
      double exact = 0;
      for (int64_t k = 0; k < shape.cols; ++k) exact += static_cast<double>(w[k]) * a[k];
      const double value = out[static_cast<size_t>(row * shape.rows + r)];
      double share = std::fabs(value - exact) / tolerance(w, a, shape.cols, int8, bf16);
      if (std::isnan(share)) share = std::numeric_limits<double>::infinity();
      if (share > worst) {
        worst = share;
        where = "row " + std::to_string(row) + " output " + std::to_string(r) + ": " + std::to_string(value) +
                ", exactly " + std::to_string(exact);
      }
    }
  }
  if (worst > 1)
    check::fail(__FILE__, __LINE__, what + ": " + std::to_string(worst) + " of the expected rounding error, " + where);
}

// For quantized weights, activations are rounded to 8 bits.
bool quantized(TensorType type) { return !is_float(type); }
bool rounds_to_bf16(TensorType type, CpuIsa isa) {
  return matmul_kernels(isa).activation[panel_type_index(type)] == ActivationKind::kBf16;
}

}  // namespace

TEST(matmul_is_close_to_exact_arithmetic) {
  for (Arithmetic arithmetic : {Arithmetic::kProduction, Arithmetic::kExact}) {
    for (CpuIsa isa : available_cpu_isas()) {
      auto backend = backend_for(isa, 1, arithmetic);
      REQUIRE(backend != nullptr);
      for (TensorType type : kProductTypes) {
        for (Shape shape : shapes_of(type)) {
          const int n_rows = 3;
          const auto data = matrix_data(type, shape.rows, shape.cols, 1);
          const auto x = random_floats(n_rows * shape.cols, 2);
          auto matrix = backend->matrix({type, shape.rows, shape.cols, data});
          REQUIRE(matrix.ok());
          const auto out = multiply(*backend, **matrix, x.data(), n_rows);
          const bool production = arithmetic == Arithmetic::kProduction;
          check_close(type, shape, data, x, out, n_rows, production && quantized(type),
                      production && rounds_to_bf16(type, isa), name_of(type, shape, n_rows, cpu_isa_name(isa)));
        }
      }
    }
  }
}

// panels.h guarantees bit-identical results with every instruction set. The only exception is BF16 on CPUs with
// vdpbf16ps.
TEST(matmul_vector_versions_equal_the_plain_one) {
  auto plain = backend_for(CpuIsa::kPlain, 1);
  REQUIRE(plain != nullptr);
  for (CpuIsa isa : available_cpu_isas()) {
    if (isa == CpuIsa::kPlain) continue;
    auto backend = backend_for(isa, 2);
    REQUIRE(backend != nullptr);
    for (TensorType type : kProductTypes) {
      if (rounds_to_bf16(type, isa)) continue;
      for (Shape shape : shapes_of(type)) {
        const auto data = matrix_data(type, shape.rows, shape.cols, 3);
        const auto x = random_floats(40 * shape.cols, 4);
        auto a = plain->matrix({type, shape.rows, shape.cols, data});
        auto b = backend->matrix({type, shape.rows, shape.cols, data});
        REQUIRE(a.ok() && b.ok());
        const auto expected = multiply(*plain, **a, x.data(), 40);
        for (int n_rows : {1, 2, 3, 4, 5, 7, 11, 12, 13, 40}) {
          const auto out = multiply(*backend, **b, x.data(), n_rows);
          check_same(out.data(), expected.data(), n_rows * shape.rows, name_of(type, shape, n_rows, cpu_isa_name(isa)));
        }
      }
    }
  }
}

TEST(matmul_rows_do_not_depend_on_the_batch) {
  for (CpuIsa isa : available_cpu_isas()) {
    for (int threads : {1, 2, 3}) {
      auto backend = backend_for(isa, threads);
      REQUIRE(backend != nullptr);
      for (TensorType type : kProductTypes) {
        const Shape shape{37, 256};
        const auto data = matrix_data(type, shape.rows, shape.cols, 5);
        const auto x = random_floats(40 * shape.cols, 6);
        auto matrix = backend->matrix({type, shape.rows, shape.cols, data});
        REQUIRE(matrix.ok());
        // The reference is each row computed alone. The rows are then computed in batches of every size, at various
        // positions.
        std::vector<float> alone;
        for (int row = 0; row < 40; ++row) {
          const auto out = multiply(*backend, **matrix, &x[static_cast<size_t>(row * shape.cols)], 1);
          alone.insert(alone.end(), out.begin(), out.end());
        }
        for (int n_rows = 2; n_rows <= 40; n_rows += isa == CpuIsa::kPlain ? 13 : 1) {
          const int first = (40 - n_rows) / 2;
          const auto out = multiply(*backend, **matrix, &x[static_cast<size_t>(first * shape.cols)], n_rows);
          check_same(out.data(), &alone[static_cast<size_t>(first * shape.rows)], n_rows * shape.rows,
                     name_of(type, shape, n_rows, cpu_isa_name(isa)));
        }
      }
    }
  }
}

// Only larger products are divided into panels and row ranges and are packed in parallel.
TEST(matmul_large_products_equal_small_ones) {
  for (CpuIsa isa : available_cpu_isas()) {
    if (isa == CpuIsa::kPlain) continue;
    for (int threads : {1, 3}) {
      auto backend = backend_for(isa, threads);
      REQUIRE(backend != nullptr);
      REQUIRE(backend->reserve(200, 2048, 16, 16).ok());
      for (Shape shape : {Shape{1000, 2048}, Shape{24, 2048}}) {
        const auto data = matrix_data(TensorType::kQ4_K, shape.rows, shape.cols, 8);
        const auto x = random_floats(200 * shape.cols, 9);
        auto matrix = backend->matrix({TensorType::kQ4_K, shape.rows, shape.cols, data});
        REQUIRE(matrix.ok());
        const auto all = multiply(*backend, **matrix, x.data(), 200);
        for (int row : {0, 1, 99, 100, 187, 199}) {
          const auto out = multiply(*backend, **matrix, &x[static_cast<size_t>(row * shape.cols)], 1);
          check_same(&all[static_cast<size_t>(row * shape.rows)], out.data(), shape.rows,
                     name_of(TensorType::kQ4_K, shape, 200, cpu_isa_name(isa)));
        }
      }
    }
  }
}

// A group of targets with mixed types and sizes, with factors, bias, residual and strides. Each result is the same as
// when the target is computed alone, and no memory outside the outputs is written.
TEST(matmul_groups_factors_bias_and_residual) {
  constexpr int64_t kCols = 512;
  for (CpuIsa isa : available_cpu_isas()) {
    auto backend = backend_for(isa, 2);
    REQUIRE(backend != nullptr);
    for (int n_rows : {1, 5, 29}) {
      const auto x = random_floats(n_rows * kCols, 10);
      std::vector<std::unique_ptr<Matrix>> matrices;
      std::vector<std::vector<float>> products, outs, factors, biases, olds;
      std::vector<MatmulTarget> targets;
      for (TensorType type : kProductTypes) {
        const int64_t rows = 5 + 23 * static_cast<int64_t>(matrices.size());
        const auto data = matrix_data(type, rows, kCols, 11);
        auto matrix = backend->matrix({type, rows, kCols, data});
        REQUIRE(matrix.ok());
        matrices.push_back(std::move(matrix).value());
        products.push_back(multiply(*backend, *matrices.back(), x.data(), n_rows));
        factors.push_back(random_floats(rows, 14));
        if (matrices.size() % 2 == 0) {
          auto scaled =
              backend->matrix({.type = type, .rows = rows, .cols = kCols, .data = data, .factors = factors.back()});
          REQUIRE(scaled.ok());
          CHECK_EQ((*scaled)->bytes, backend->matrix_bytes(type, rows, kCols) + backend->factor_bytes(rows));
          matrices.back() = std::move(scaled).value();
        }
        biases.push_back(random_floats(rows, 12));
        olds.push_back(random_floats(n_rows * (rows + 9), 13));
      }
      outs = olds;
      for (size_t i = 0; i < matrices.size(); ++i)
        targets.push_back({.weight = matrices[i].get(),
                           .out = outs[i].data(),
                           .out_stride = matrices[i]->rows + 9,
                           .bias = i % 4 < 2 ? biases[i].data() : nullptr,
                           .add_to_out = i % 3 == 1});
      backend->matmul(targets, x.data(), RowCount::fixed(n_rows));
      for (size_t i = 0; i < matrices.size(); ++i) {
        const int64_t rows = matrices[i]->rows, stride = rows + 9;
        std::vector<float> expected = olds[i];
        for (int row = 0; row < n_rows; ++row) {
          for (int64_t r = 0; r < rows; ++r) {
            float value = products[i][static_cast<size_t>(row * rows + r)];
            if (i % 2 == 1) value = value * factors[i][static_cast<size_t>(r)];
            if (targets[i].bias) value = value + biases[i][static_cast<size_t>(r)];
            float& to = expected[static_cast<size_t>(row * stride + r)];
            to = targets[i].add_to_out ? to + value : value;
          }
        }
        check_same(outs[i].data(), expected.data(), n_rows * stride,
                   name_of(matrices[i]->type, {rows, kCols}, n_rows, cpu_isa_name(isa)));
      }
    }
  }
}

// A file may contain any bit patterns: weights of -128, all nibbles 15, and infinite or NaN scales.
TEST(matmul_extreme_weights_do_not_saturate) {
  auto plain = backend_for(CpuIsa::kPlain, 1);
  REQUIRE(plain != nullptr);
  for (TensorType type : kProductTypes) {
    if (!quantized(type)) continue;
    const Shape shape{16, 512};
    const BlockScales scales = block_scales(type);
    for (int fill : {0x00, 0x7f, 0x80, 0xff}) {
      auto data = matrix_data(type, shape.rows, shape.cols, 14);
      const TensorTypeTraits& traits = traits_of(type);
      for (size_t i = 0; i < data.size(); ++i) {
        const int64_t at = static_cast<int64_t>(i) % traits.block_bytes;
        const bool scale = at >= scales.at && at < scales.at + scales.bytes;
        // In row 3, the scales are also filled with the same byte. 0x7f7f and 0xffff are NaN, and 0x8080 is subnormal,
        // as is the power of two for exponent 0.
        const bool row3 = static_cast<int64_t>(i) / (shape.cols / traits.block_values * traits.block_bytes) == 3;
        if (!scale || row3) data[i] = static_cast<std::byte>(fill);
      }
      std::vector<float> x(static_cast<size_t>(4 * shape.cols), 1.0f);  // All activations are quantized to 127.
      for (int64_t k = 0; k < shape.cols; ++k) {
        x[static_cast<size_t>(shape.cols + k)] = -1.0f;
        x[static_cast<size_t>(2 * shape.cols + k)] = k % 2 ? 1.0f : -1.0f;
        x[static_cast<size_t>(3 * shape.cols + k)] = k % 4 < 2 ? 1.0f : -1.0f;
      }
      auto a = plain->matrix({type, shape.rows, shape.cols, data});
      REQUIRE(a.ok());
      const auto expected = multiply(*plain, **a, x.data(), 4);
      for (CpuIsa isa : available_cpu_isas()) {
        auto backend = backend_for(isa, 1);
        REQUIRE(backend != nullptr);
        auto b = backend->matrix({type, shape.rows, shape.cols, data});
        REQUIRE(b.ok());
        const auto out = multiply(*backend, **b, x.data(), 4);
        check_same(out.data(), expected.data(), static_cast<int64_t>(out.size()),
                   name_of(type, shape, 4, cpu_isa_name(isa)) + " filled with " + std::to_string(fill));
      }
    }
  }
}

// NaN or infinite activations turn their own row into NaN with every instruction set, and leave other rows unchanged.
TEST(matmul_nan_and_infinite_activations) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (CpuIsa isa : available_cpu_isas()) {
    auto backend = backend_for(isa, 2);
    REQUIRE(backend != nullptr);
    for (TensorType type : kProductTypes) {
      const Shape shape{18, 256};
      const auto data = matrix_data(type, shape.rows, shape.cols, 15);
      auto matrix = backend->matrix({type, shape.rows, shape.cols, data});
      REQUIRE(matrix.ok());
      auto x = random_floats(6 * shape.cols, 16);
      const auto clean = multiply(*backend, **matrix, x.data(), 6);
      x[static_cast<size_t>(1 * shape.cols + 40)] = nan;
      x[static_cast<size_t>(3 * shape.cols + 41)] = inf;
      x[static_cast<size_t>(3 * shape.cols + 200)] = -inf;
      const auto out = multiply(*backend, **matrix, x.data(), 6);
      for (int row = 0; row < 6; ++row) {
        const float* got = &out[static_cast<size_t>(row * shape.rows)];
        if (row == 1 || (row == 3 && quantized(type))) {
          for (int64_t r = 0; r < shape.rows; ++r) CHECK(std::isnan(got[r]));
        } else if (row == 3) {
          for (int64_t r = 0; r < shape.rows; ++r) CHECK(!std::isfinite(got[r]));
        } else {
          check_same(got, &clean[static_cast<size_t>(row * shape.rows)], shape.rows,
                     name_of(type, shape, 6, cpu_isa_name(isa)) + " row " + std::to_string(row));
        }
      }
    }
  }
}
