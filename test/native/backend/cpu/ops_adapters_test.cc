// Tests the LoRA kernels on the CPU. Results must be close to results in double precision, and must have the same bits
// with every instruction set and when each row is computed alone.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/machine/isa.h"
#include "base/half.h"
#include "check.h"

using namespace monolith;

namespace {

struct Factors {
  int rank;
  int64_t rows, cols;
  std::vector<float> a, b;
  AdapterSource source() const { return {rank, rows, cols, a, b, 0.75f}; }
};

std::vector<float> random_values(int64_t count, uint32_t seed, bool halves) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.5f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = normal(random);
    if (halves) value = half_to_float(float_to_half(value));
  }
  return values;
}

Factors random_factors(int rank, int64_t rows, int64_t cols, bool halves) {
  return {rank, rows, cols, random_values(rank * cols, 1, halves), random_values(rows * rank, 2, halves)};
}

// Returns a random output of `n` rows after the adapter was added to the listed rows.
std::vector<float> added(CpuBackend& backend, const Factors& factors, int n, const std::vector<int32_t>& rows) {
  const std::vector<float> x = random_values(n * factors.cols, 3, false);
  std::vector<float> out = random_values(n * factors.rows, 4, false);
  const auto matrix = backend.adapter_matrix(factors.source());
  CHECK(matrix);
  std::vector<float> scratch(rows.size() * static_cast<size_t>(factors.rank));
  const AdapterTarget target{matrix->get(), x.data(), out.data(), factors.rows, rows};
  backend.add_adapters({&target, 1}, scratch.data());
  return out;
}

}  // namespace

TEST(adapters_match_double_and_every_instruction_set) {
  for (const bool halves : {true, false})
    for (const auto& [rank, rows, cols] :
         {std::tuple{1, 1, 1}, {3, 33, 17}, {4, 64, 64}, {5, 1040, 100}, {8, 2100, 256}, {16, 48, 2048}}) {
      const Factors factors = random_factors(rank, rows, cols, halves);
      constexpr int kRows = 41;
      std::vector<int32_t> used;
      for (int row = 0; row < kRows; row += row % 3 == 0 ? 1 : 2) used.push_back(row);
      CpuBackend plain(CpuIsa::kPlain, 1);
      const std::vector<float> expected = added(plain, factors, kRows, used);
      const std::vector<float> before = random_values(kRows * rows, 4, false),
                               x = random_values(kRows * cols, 3, false);
      for (int row = 0; row < kRows; ++row) {
        const bool is_used = std::ranges::find(used, row) != used.end();
        for (int64_t r = 0; r < rows; ++r) {
          const auto at = static_cast<size_t>(row * rows + r);
          double sum = 0;
          for (int j = 0; j < rank && is_used; ++j) {
            double dot = 0;
            for (int64_t i = 0; i < cols; ++i)
              dot +=
                  double{factors.a[static_cast<size_t>(j * cols + i)]} * double{x[static_cast<size_t>(row * cols + i)]};
            sum += 0.75 * dot * double{factors.b[static_cast<size_t>(r * rank + j)]};
          }
          if (!is_used) CHECK_EQ(expected[at], before[at]);
          if (std::abs(double{expected[at]} - double{before[at]} - sum) > 1e-4 * (1 + std::abs(sum)))
            return check::fail(__FILE__, __LINE__, "row " + std::to_string(row) + " output " + std::to_string(r));
        }
      }
      for (const CpuIsa isa : available_cpu_isas())
        for (const int threads : {1, 3}) {
          CpuBackend backend(isa, threads);
          const std::vector<float> got = added(backend, factors, kRows, used);
          CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
          // A row has the same bits if no other row is in the call.
          for (const int32_t row : {used[1], used.back()}) {
            const std::vector<float> alone = added(backend, factors, kRows, {row});
            const auto at = static_cast<size_t>(row * rows);
            CHECK(std::memcmp(alone.data() + at, expected.data() + at, static_cast<size_t>(rows) * sizeof(float)) == 0);
          }
        }
    }
}

TEST(adapters_are_stored_as_halves_only_without_loss) {
  CpuBackend backend(CpuIsa::kPlain, 1);
  const auto halves = backend.adapter_matrix(random_factors(8, 64, 64, true).source());
  const auto floats = backend.adapter_matrix(random_factors(8, 64, 64, false).source());
  REQUIRE(halves && floats);
  CHECK_EQ((*halves)->bytes * 2, (*floats)->bytes);
}
