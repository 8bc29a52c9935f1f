// Tests matrix products and attention in 16-bit integers. Results are compared with double precision, including at the
// limits of the range. Results must also be bit-identical regardless of how the work is divided. Skipped if the CPU has
// no 16-bit integer dot products.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/fixed16/attention.h"
#include "backend/cpu/fixed16/products.h"
#include "backend/cpu/machine/isa.h"
#include "check.h"
#include "support/encoder_cases.h"
#include "tile_model.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

const Fixed16Kernels* kernels() {
  const auto isas = available_cpu_isas();
  return std::ranges::find(isas, CpuIsa::kAvx512) == isas.end() ? nullptr : fixed16_kernels(CpuIsa::kAvx512);
}

struct Products {
  int n_rows;
  int64_t rows, cols;
  std::vector<float> weights, x, bias, before;

  Products(int n, int64_t outputs, int64_t inputs)
      : n_rows(n),
        rows(outputs),
        cols(inputs),
        weights(random_floats(size_t(outputs * inputs), 1)),
        x(random_floats(size_t(n * inputs), 2)),
        bias(random_floats(size_t(outputs), 3)),
        before(random_floats(size_t(n * outputs), 4)) {}

  // Multiplies `run` rows at a time and adds the results to `before`.
  std::vector<float> computed(int threads, int run, const Fixed16Kernels& by = *kernels()) const {
    ThreadPool pool(threads);
    auto matrix = Fixed16Matrix::create({TensorType::kF32, rows, cols, std::as_bytes(std::span(weights))}, pool);
    Fixed16Scratch scratch;
    if (!matrix || !scratch.reserve(run, cols).ok())
      return check::fail(__FILE__, __LINE__, "no memory"), std::vector<float>();
    std::vector<float> out = before;
    for (int at = 0; at < n_rows; at += run) {
      const MatmulTarget target{matrix->get(), out.data() + at * rows, rows, bias.data(), true};
      fixed16_matmul(by, pool, scratch, {&target, 1}, x.data() + at * cols, std::min(run, n_rows - at));
    }
    return out;
  }
  // Returns the largest error of any output, relative to the root of the sum of the squares of the output's products.
  double error(const std::vector<float>& out) const {
    double most = 0;
    for (int row = 0; row < n_rows; ++row)
      for (int64_t i = 0; i < rows; ++i) {
        double sum = double(bias[size_t(i)]) + before[size_t(row * rows + i)], squares = 0;
        for (int64_t k = 0; k < cols; ++k) {
          const double product = double(x[size_t(row * cols + k)]) * weights[size_t(i * cols + k)];
          sum += product;
          squares += product * product;
        }
        most = std::max(most, std::abs(sum - out[size_t(row * rows + i)]) / (1e-3 + std::sqrt(squares)));
      }
    return most;
  }
};

struct Attention : EncoderAttentionCase {
  using EncoderAttentionCase::EncoderAttentionCase;

  std::vector<float> computed(int threads, int run) const {
    ThreadPool pool(threads);
    Fixed16AttentionScratch scratch;
    CHECK(scratch.reserve(threads).ok());
    std::vector<float> memory(size_t(fixed16_key_floats(n_rows + 5, n_heads, head_dim)), std::nanf("")), out(q.size());
    const EncoderKeys keys{memory.data(), n_rows + 5, n_heads, head_dim, true};
    const int64_t stride = int64_t{n_heads} * head_dim;
    for (int at = 0; at < n_rows; at += run)
      fixed16_store_keys(*kernels(), pool, keys, k.data() + at * stride, v.data() + at * stride, stride, at,
                         std::min(run, n_rows - at));
    for (int at = 0; at < n_rows; at += run)
      fixed16_attend(*kernels(), pool, scratch,
                     {keys, q.data() + at * stride, stride, starts.data() + at, limits.data() + at,
                      std::min(run, n_rows - at), scale(), out.data() + at * stride});
    return out;
  }
};

}  // namespace

TEST(fixed16_matmul_has_16_bit_precision_and_does_not_depend_on_the_split) {
  if (kernels() == nullptr) return;
  for (const Products& one : {Products(37, 70, 600), Products(1, 1, 1), Products(13, 33, 257), Products(5, 32, 255)}) {
    const std::vector<float> out = one.computed(1, one.n_rows);
    CHECK(one.error(out) < 2e-3);
    CHECK(same_bits(one.computed(3, one.n_rows), out));
    CHECK(same_bits(one.computed(2, 4), out));
  }
}

// Covers incomplete tiles, panels, blocks and groups of panels, several ranges of rows, and the largest sums.
TEST(fixed16_matmul_has_the_same_bits_on_a_tile_unit) {
  std::vector<const Fixed16TileKernels*> units;
  if (cpu_has_avx512_bf16()) units.push_back(&kModelFixed16);
  if (cpu_has(CpuIsa::kAmx)) units.push_back(fixed16_kernels(CpuIsa::kAmx)->tiles);
  if (units.empty()) return check::skip("this processor has no AVX-512 with BF16");
  Products largest(33, 33, 700), smallest(40, 20, 300);
  for (float& w : largest.weights) w = 3e4f;
  for (size_t i = 0; i < largest.x.size(); ++i) largest.x[i] = i < 350 ? 7.0f : -7.0f;
  for (float& value : smallest.x) value = 0;
  smallest.x[7] = std::numeric_limits<float>::infinity();
  for (const Products& one : {Products(37, 70, 600), Products(300, 33, 257), Products(48, 150, 255), Products(32, 1, 1),
                              Products(64, 16, 66), largest, smallest}) {
    const std::vector<float> expected = one.computed(1, one.n_rows);
    for (const Fixed16TileKernels* unit : units) {
      Fixed16Kernels with_unit = *kernels();
      with_unit.tiles = unit;
      CHECK(same_bits(one.computed(1, one.n_rows, with_unit), expected));
      CHECK(same_bits(one.computed(3, 35, with_unit), expected));
    }
  }
}

TEST(fixed16_matmul_is_correct_at_its_limits) {
  if (kernels() == nullptr) return;
  // All values have the same sign and magnitude, which produces the largest possible sums.
  Products same(3, 40, 700);
  for (float& w : same.weights) w = 3e4f;
  for (float& value : same.x) value = -7.0f;
  CHECK(same.error(same.computed(1, 3)) < 1e-2);
  // One value that is much larger than all others, zeros, and numbers that are too small to matter.
  Products uneven(4, 20, 512);
  for (size_t i = 0; i < uneven.weights.size(); i += 100) uneven.weights[i] = 1e6f;
  for (int64_t i = 0; i < 512; ++i) uneven.x[size_t(512 + i)] = 0, uneven.x[size_t(1024 + i)] = 1e-40f;
  CHECK(uneven.error(uneven.computed(1, 4)) < 0.1);  // Values next to the large ones lose all precision.
  // An infinite input turns its own row into NaN, but no other row.
  Products broken(3, 20, 300);
  broken.x[300 + 7] = std::numeric_limits<float>::infinity();
  const auto out = broken.computed(1, 3);
  for (size_t i = 0; i < 20; ++i) CHECK(std::isnan(out[20 + i]) && std::isfinite(out[i]) && std::isfinite(out[40 + i]));
}

TEST(fixed16_attention_has_16_bit_precision_and_does_not_depend_on_the_split) {
  if (kernels() == nullptr) return;
  const std::vector<Attention> cases = {
      {300, 2, 72, {300}},   {1, 3, 32, {1}},     {530, 1, 20, {64, 64, 30, 272, 100}},
      {37, 2, 64, {16, 21}}, {700, 1, 33, {700}}, {90, 1, 128, {90}},
      {40, 1, 256, {40}}};
  for (const Attention& one : cases) {
    const std::vector<float> out = one.computed(1, one.n_rows);
    for (int row = 0; row < one.n_rows; row += 7)
      for (int head = 0; head < one.n_heads; ++head)
        for (int d = 0; d < one.head_dim; d += 3) {
          const double expected = one.expected(row, head, d);
          const double got = out[size_t((row * one.n_heads + head) * one.head_dim + d)];
          CHECK(std::abs(got - expected) <= 1.5e-3 * (1 + std::abs(expected)));
        }
    CHECK(same_bits(one.computed(3, one.n_rows), out));
    CHECK(same_bits(one.computed(2, 19), out));
  }
}

TEST(fixed16_attention_is_correct_at_its_limits) {
  if (kernels() == nullptr) return;
  // All keys and values are equal, so the weights of all positions are 1 and the sums are as large as possible.
  Attention flat(520, 1, 48, {520});
  for (float& value : flat.k) value = 5.0f;
  for (float& value : flat.q) value = 5.0f;
  for (float& value : flat.v) value = -100.0f;
  for (const float value : flat.computed(1, 520)) CHECK(std::abs(value + 100.0f) < 0.05f);
  // One key that outweighs all others, and values that are all zero.
  Attention sharp(300, 1, 16, {300});
  for (float& value : sharp.q) value = 50.0f;
  for (int d = 0; d < 16; ++d) sharp.k[size_t(17 * 16 + d)] = 50.0f;
  const auto out = sharp.computed(1, 300);
  for (int d = 0; d < 16; ++d)
    CHECK(std::abs(out[size_t(16 * 5 + d)] - sharp.v[size_t(17 * 16 + d)]) <
          1e-3f * (1 + std::abs(sharp.v[size_t(17 * 16 + d)])));
  for (float& value : sharp.v) value = 0;
  for (const float value : sharp.computed(1, 300)) CHECK_EQ(value, 0.0f);
}
