// Tests the tile kernels on a model of the tile unit and, if the processor has one, on the tile unit itself. Results of
// kAmxTiles are bit-identical to those of the plain kernels. Results of kAmxFastTiles are as precise as their rounding
// permits.
#include "backend/cpu/matmul/tiles.h"

#if defined(__x86_64__)

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/moe.h"
#include "backend/cpu/ops/ops.h"
#include "check.h"
#include "matrix_data.h"
#include "tile_model.h"

using namespace monolith;

namespace {

struct Unit {
  const char* name;
  TileKernels exact, fast;
};
// Returns the kernels of each available unit, without the lower limit on the number of rows.
std::vector<Unit> units() {
  std::vector<Unit> found;
  if (cpu_has_avx512_bf16()) found.push_back({"model", kModelTiles, kModelFastTiles});
  if (cpu_has(CpuIsa::kAmx)) found.push_back({"amx", kAmxTiles, kAmxFastTiles});
  for (Unit& unit : found) unit.exact.min_rows = [](PanelForm) { return 1; };
  return found;
}

// Returns the AVX-512 kernels, with their tile kernels replaced by the given ones. `fast` may be null.
MatmulKernels kernels_with(const TileKernels& exact, const TileKernels* fast) {
  MatmulKernels kernels = matmul_kernels(CpuIsa::kAvx512);
  kernels.tiles = &exact;
  kernels.fast_tiles = fast;
  kernels.min_fast_rows = 1;
  return kernels;
}

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.uniform();
  return values;
}

class Multiplier {
 public:
  Multiplier(const MatmulKernels& kernels, int threads) : kernels_(kernels), pool_(threads) {
    REQUIRE(scratch_.reserve(128, 2048, threads).ok());
  }
  std::unique_ptr<CpuMatrix> matrix(TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> data,
                                    std::span<const float> factors = {}) {
    auto made =
        CpuMatrix::create({.type = type, .rows = rows, .cols = cols, .data = data, .factors = factors}, type, pool_);
    CHECK(made.ok());
    return made.ok() ? std::move(*made) : nullptr;
  }
  std::vector<float> multiply(const Matrix& matrix, const std::vector<float>& x, int n_rows) {
    std::vector<float> out(static_cast<size_t>(matrix.rows * n_rows), -77.0f);
    const MatmulTarget target{.weight = &matrix, .out = out.data(), .out_stride = matrix.rows};
    cpu_matmul(kernels_, pool_, scratch_, {&target, 1}, x.data(), n_rows);
    return out;
  }
  void multiply(std::span<const MatmulTarget> targets, const std::vector<float>& x, int n_rows) {
    cpu_matmul(kernels_, pool_, scratch_, targets, x.data(), n_rows);
  }

 private:
  const MatmulKernels kernels_;
  ThreadPool pool_;
  MatmulScratch scratch_;
};

// Returns the index of the first value whose bits differ, or -1. All NaNs count as equal.
int64_t first_difference(const float* a, const float* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) && !(std::isnan(a[i]) && std::isnan(b[i])))
      return i;
  return -1;
}
void check_same(const std::vector<float>& got, const std::vector<float>& expected, const std::string& what) {
  const int64_t at = first_difference(got.data(), expected.data(), static_cast<int64_t>(got.size()));
  if (at >= 0)
    check::fail(__FILE__, __LINE__,
                what + ": value " + std::to_string(at) + " is " + std::to_string(got[static_cast<size_t>(at)]) +
                    ", expected " + std::to_string(expected[static_cast<size_t>(at)]));
}

bool skip_without(const std::vector<Unit>& found) {
  if (!found.empty()) return false;
  check::skip("this processor has no AVX-512 with BF16");
  return true;
}

}  // namespace

// Covers one panel and several, an incomplete panel, more blocks than one pass handles, odd numbers of blocks, every
// number of rows in a tile, and several tiles.
TEST(tiles_give_the_bits_of_the_plain_kernels) {
  const auto found = units();
  if (skip_without(found)) return;
  Multiplier plain(matmul_kernels(CpuIsa::kPlain), 1);
  for (const Unit& unit : found) {
    const MatmulKernels kernels = kernels_with(unit.exact, nullptr);
    Multiplier one(kernels, 1), three(kernels, 3);
    for (const TensorType type : kAllTypes) {
      if (is_float(type)) continue;
      const bool large_blocks = traits_of(type).block_values > 32;
      const int64_t most_cols = large_blocks ? 768 : 33 * 32;
      for (const auto& [rows, cols] :
           std::initializer_list<std::pair<int64_t, int64_t>>{{5, large_blocks ? 256 : 64}, {37, most_cols}}) {
        const auto data = matrix_data(type, rows, cols, 1);
        const auto x = random_floats(70 * cols, 2);
        const auto weights = plain.matrix(type, rows, cols, data);
        const auto expected = plain.multiply(*weights, x, 70);
        for (const int n_rows : {1, 3, 4, 9, 14, 16, 17, 32, 70}) {
          const std::vector<float> part(expected.begin(), expected.begin() + n_rows * rows);
          const std::string what = std::string(traits_of(type).name) + " " + unit.name + " " + std::to_string(n_rows);
          check_same(one.multiply(*weights, x, n_rows), part, what);
          check_same(three.multiply(*weights, x, n_rows), part, what + " on 3 threads");
        }
      }
    }
  }
}

// A file may contain any bits. Tests codes at their limits, and scales that are huge, infinite, NaN or subnormal.
TEST(tiles_give_the_bits_of_the_plain_kernels_for_extreme_weights) {
  const auto found = units();
  if (skip_without(found)) return;
  Multiplier plain(matmul_kernels(CpuIsa::kPlain), 1);
  for (const Unit& unit : found) {
    Multiplier tiles(kernels_with(unit.exact, nullptr), 1);
    for (const TensorType type : kAllTypes) {
      if (is_float(type)) continue;
      constexpr int64_t kRows = 16, kCols = 512;
      const BlockScales scales = block_scales(type);
      for (const int fill : {0x00, 0x7b, 0x7f, 0x80, 0xff}) {
        auto data = matrix_data(type, kRows, kCols, 3);
        const TensorTypeTraits& traits = traits_of(type);
        const int64_t row_bytes = kCols / traits.block_values * traits.block_bytes;
        for (size_t i = 0; i < data.size(); ++i) {
          const int64_t at = static_cast<int64_t>(i) % traits.block_bytes;
          const bool scale = at >= scales.at && at < scales.at + scales.bytes;
          if (!scale || static_cast<int64_t>(i) / row_bytes == 3) data[i] = static_cast<std::byte>(fill);
        }
        std::vector<float> x = random_floats(20 * kCols, 4);
        for (int64_t k = 0; k < kCols; ++k) {
          x[static_cast<size_t>(k)] = k % 2 ? 1.0f : -1.0f;
          x[static_cast<size_t>(kCols + k)] = 1.0f;
          x[static_cast<size_t>(2 * kCols + k)] = 0.0f;
        }
        x[static_cast<size_t>(5 * kCols + 40)] = std::numeric_limits<float>::quiet_NaN();
        x[static_cast<size_t>(6 * kCols + 41)] = std::numeric_limits<float>::infinity();
        const auto weights = plain.matrix(type, kRows, kCols, data);
        check_same(tiles.multiply(*weights, x, 20), plain.multiply(*weights, x, 20),
                   std::string(traits.name) + " " + unit.name + " filled with " + std::to_string(fill));
      }
    }
  }
}

// Tests a call with several targets, with factors, bias, old output and strides. No memory outside the outputs is
// written.
TEST(tiles_apply_factors_bias_and_old_output) {
  const auto found = units();
  if (skip_without(found)) return;
  constexpr int64_t kCols = 512;
  constexpr int kRows = 21;
  Multiplier panels(matmul_kernels(CpuIsa::kAvx512), 1);
  for (const Unit& unit : found) {
    for (const TileKernels* fast : {static_cast<const TileKernels*>(nullptr), &unit.fast}) {
      Multiplier tiles(kernels_with(unit.exact, fast), 2);
      const auto x = random_floats(kRows * kCols, 5);
      int64_t rows = 3;
      for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kQ6_K, TensorType::kIQ2_XS}) {
        rows += 29;
        const auto data = matrix_data(type, rows, kCols, 6);
        const auto factors = random_floats(rows, 7), bias = random_floats(rows, 8);
        const auto bare = tiles.matrix(type, rows, kCols, data),
                   scaled = tiles.matrix(type, rows, kCols, data, factors);
        const auto product = tiles.multiply(*bare, x, kRows);
        const auto old = random_floats(kRows * (rows + 9), 9);
        std::vector<float> first = old, second = old;
        const MatmulTarget targets[] = {{.weight = scaled.get(),
                                         .out = first.data(),
                                         .out_stride = rows + 9,
                                         .bias = bias.data(),
                                         .add_to_out = true},
                                        {.weight = bare.get(), .out = second.data(), .out_stride = rows + 9}};
        tiles.multiply(targets, x, kRows);
        std::vector<float> expected_first = old, expected_second = old;
        for (int row = 0; row < kRows; ++row) {
          for (int64_t r = 0; r < rows; ++r) {
            const float value = product[static_cast<size_t>(row * rows + r)];
            const size_t at = static_cast<size_t>(row * (rows + 9) + r);
            expected_first[at] = old[at] + (value * factors[static_cast<size_t>(r)] + bias[static_cast<size_t>(r)]);
            expected_second[at] = value;
          }
        }
        const std::string what = std::string(traits_of(type).name) + " " + unit.name;
        check_same(first, expected_first, what);
        check_same(second, expected_second, what + ", bare");
      }
    }
  }
}

// Each product of the fast kernels differs from the exact product at most by the error that rounding both factors to
// bfloat16 may cause. An output does not depend on the number of rows as long as the kernels are the same.
TEST(fast_tiles_are_as_precise_as_bfloat16) {
  const auto found = units();
  if (skip_without(found)) return;
  for (const Unit& unit : found) {
    // With one thread, all panels form one group, so panels are multiplied two at a time.
    Multiplier tiles(kernels_with(unit.exact, &unit.fast), 1), split(kernels_with(unit.exact, &unit.fast), 3);
    for (const TensorType type : kAllTypes) {
      if (type == TensorType::kF32 || type == TensorType::kF16) continue;
      constexpr int64_t kRows = 37;
      const int64_t cols = type == TensorType::kBF16 ? 1000 : traits_of(type).block_values > 32 ? 768 : 33 * 32;
      const auto data = matrix_data(type, kRows, cols, 10);
      const auto x = random_floats(70 * cols, 11);
      const auto weights = tiles.matrix(type, kRows, cols, data);
      std::vector<float> values(static_cast<size_t>(kRows * cols));
      dequantize(type, data.data(), kRows * cols, values.data());
      const auto out = tiles.multiply(*weights, x, 70);
      double worst = 0;
      for (int row = 0; row < 70; ++row) {
        for (int64_t r = 0; r < kRows; ++r) {
          double exact = 0, variance = 0;
          for (int64_t k = 0; k < cols; ++k) {
            const double term =
                static_cast<double>(values[static_cast<size_t>(r * cols + k)]) * x[static_cast<size_t>(row * cols + k)];
            exact += term;
            variance += 2 * term * term * 0x1p-15 / 12;  // Adjacent bfloat16 differ by 2^-8 to 2^-7 of their size.
          }
          const double error = std::abs(out[static_cast<size_t>(row * kRows + r)] - exact);
          worst = std::max(worst, error / (6 * std::sqrt(variance) + 1e-12));
        }
      }
      const std::string what = std::string(traits_of(type).name) + " " + unit.name;
      if (!(worst <= 1))
        check::fail(__FILE__, __LINE__, what + ": " + std::to_string(worst) + " of the expected error");
      check_same(split.multiply(*weights, x, 70), out, what + " on 3 threads");
      for (const int n_rows : {1, 15, 16, 17, 32, 33, 69})
        check_same(tiles.multiply(*weights, x, n_rows), {out.begin(), out.begin() + n_rows * kRows}, what);
    }
  }
}

// Rounding a NaN must not turn it into a number, regardless of the NaN's bits. Tests the scales of each type and, if it
// has any, the minima.
TEST(fast_tiles_keep_nan_weights) {
  const auto found = units();
  if (skip_without(found)) return;
  constexpr int64_t kRows = 20, kCols = 512;
  for (const Unit& unit : found) {
    Multiplier tiles(kernels_with(unit.exact, &unit.fast), 1);
    for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ4_K}) {
      const TensorTypeTraits& traits = traits_of(type);
      const BlockScales scales = block_scales(type);
      for (const uint16_t bits : {uint16_t{0x7fff}, uint16_t{0xffff}, uint16_t{0x7e00}, uint16_t{0x7c01}}) {
        for (int at = scales.at; at < scales.at + scales.bytes; at += 2) {
          auto data = matrix_data(type, kRows, kCols, 14);
          const int64_t row_bytes = kCols / traits.block_values * traits.block_bytes;
          std::memcpy(data.data() + 7 * row_bytes + traits.block_bytes + at, &bits, sizeof bits);
          const auto x = random_floats(kCols, 15);
          const auto out = tiles.multiply(*tiles.matrix(type, kRows, kCols, data), x, 1);
          for (int row = 0; row < kRows; ++row)
            if (std::isnan(out[static_cast<size_t>(row)]) != (row == 7))
              check::fail(__FILE__, __LINE__,
                          std::string(traits.name) + " " + unit.name + ": output " + std::to_string(row) + " is " +
                              std::to_string(out[static_cast<size_t>(row)]));
        }
      }
    }
  }
}

// The model must round like the processor, so that results obtained on the model apply to the processor.
TEST(tile_model_equals_the_tile_unit) {
  const auto found = units();
  if (found.size() < 2) return check::skip("this processor has no AMX");
  Multiplier model(kernels_with(found[0].exact, &found[0].fast), 1),
      amx(kernels_with(found[1].exact, &found[1].fast), 1);
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kBF16}) {
    const auto data = matrix_data(type, 40, 512, 12);
    const auto x = random_floats(40 * 512, 13);
    const auto weights = amx.matrix(type, 40, 512, data);
    check_same(model.multiply(*weights, x, 40), amx.multiply(*weights, x, 40), std::string(traits_of(type).name));
  }
}

// An expert with many rows is multiplied by tiles or by pairs of panels; other experts are not. The results are the
// same.
TEST(experts_give_the_same_bits_with_any_kernels) {
  const auto found = units();
  if (skip_without(found)) return;
  constexpr MixtureShape kShape = {.n_experts = 5, .n_used = 2, .n_embd = 256, .n_ff = 512};
  constexpr int kRows = 60;
  const auto x = random_floats(kRows * kShape.n_embd, 14);
  auto logits = random_floats(kRows * kShape.n_experts, 15);
  for (int row = 0; row < kRows; ++row) logits[static_cast<size_t>(row * kShape.n_experts + 3)] += 2.0f;
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kQ6_K}) {
    ThreadPool pool(3);
    const auto stacked = [&](int64_t rows, int64_t cols, uint64_t seed) {
      const auto data = matrix_data(type, rows * kShape.n_experts, cols, seed);
      auto made =
          CpuMatrix::create({.type = type, .rows = rows * kShape.n_experts, .cols = cols, .data = data}, type, pool);
      CHECK(made.ok());
      return made.ok() ? std::move(*made) : nullptr;
    };
    const auto gate = stacked(kShape.n_ff, kShape.n_embd, 16), up = stacked(kShape.n_ff, kShape.n_embd, 17),
               down = stacked(kShape.n_embd, kShape.n_ff, 18);
    const Mixture mixture{.shape = kShape,
                          .gate = gate.get(),
                          .up = up.get(),
                          .down = down.get(),
                          .activation = Activation::kSilu,
                          .router = {.normalized = true, .scale = 1.0f}};
    const auto run = [&](const MatmulKernels& kernels) {
      MatmulScratch scratch;
      CHECK(scratch.reserve(kRows, 512, pool.size()).ok());
      CpuMixture layer(kernels, op_kernels(CpuIsa::kAvx512), pool, scratch);
      CHECK(layer.reserve(kRows, kShape).ok());
      std::vector<float> out(static_cast<size_t>(kRows) * kShape.n_embd);
      layer.run(mixture, logits.data(), x.data(), kRows, out.data(), false);
      return out;
    };
    MatmulKernels panels = matmul_kernels(CpuIsa::kAvx512);
    panels.max_pair_rows = 0;
    for (PanelKernel& pair : panels.pair) pair = nullptr;
    const auto expected = run(panels);
    check_same(run(matmul_kernels(CpuIsa::kAvx512)), expected, "pairs");
    for (const Unit& unit : found) {
      TileKernels exact = unit.exact;
      exact.min_rows = [](PanelForm) { return 20; };
      MatmulKernels kernels = kernels_with(exact, nullptr);
      check_same(run(kernels), expected, unit.name);
      kernels.fast_tiles = &unit.fast;
      kernels.min_fast_rows = 40;
      const auto fast = run(kernels);
      double error = 0, size = 0;
      for (size_t i = 0; i < fast.size(); ++i) {
        error += std::pow(static_cast<double>(fast[i]) - expected[i], 2);
        size += std::pow(static_cast<double>(expected[i]), 2);
      }
      CHECK(error > 0 && std::sqrt(error / size) < 0.02);
    }
  }
}

#endif
