// Tests norms, RoPE, activation functions and logit reductions. Results are compared with double precision and between
// instruction sets.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/logits.h"
#include "base/half.h"
#include "check.h"

using namespace monolith;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_floats(size_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

// Checks |got - expected| <= tolerance * |expected| and reports the first violation.
void check_relative(const std::vector<float>& got, const std::vector<double>& expected, double tolerance,
                    const std::string& what) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance * std::abs(expected[i])))
      return check::fail(__FILE__, __LINE__,
                         what + ": value " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " +
                             std::to_string(expected[i]));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST(rms_norm_matches_double_and_every_instruction_set) {
  for (const int64_t dim : {1, 15, 16, 40, 63, 64, 65, 80, 2048, 4100}) {
    const int n_rows = dim > 1000 ? 9 : 3;  // Long rows are split into several tasks.
    const auto x = random_floats(n_rows * dim, uint32_t(dim)), weight = random_floats(dim, 2);
    std::vector<double> expected;
    for (int row = 0; row < n_rows; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < dim; ++i) sum += double(x[row * dim + i]) * x[row * dim + i];
      for (int64_t i = 0; i < dim; ++i)
        expected.push_back(x[row * dim + i] / std::sqrt(sum / double(dim) + 1e-5) * weight[i]);
    }
    std::vector<float> plain;
    for (const CpuIsa isa : available_cpu_isas()) {
      CpuBackend ops(isa, isa == CpuIsa::kPlain ? 1 : 3);
      std::vector<float> out(x.size()), in_place = x;
      ops.rms_norm(x.data(), weight.data(), 1e-5f, RowCount::fixed(n_rows), dim, out.data());
      // With 64 partial sums of squares, there are about dim / 64 rounding errors per partial sum, plus about six
      // others.
      check_relative(out, expected, (8 + double(dim) / 64) * 0x1p-24, "dim " + std::to_string(dim));
      ops.rms_norm(in_place.data(), weight.data(), 1e-5f, RowCount::fixed(n_rows), dim, in_place.data());
      CHECK(same_bits(in_place, out));
      if (plain.empty()) plain = out;
      CHECK(same_bits(out, plain));
    }
  }
}

TEST(rms_norm_heads_equals_rms_norm_of_each_head) {
  const int n_rows = 5, n_heads = 3, head_dim = 80, stride = n_heads * head_dim + 7;
  const auto x = random_floats(n_rows * stride, 4), weight = random_floats(head_dim, 5);
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 2);
    auto expected = x, got = x;
    for (int row = 0; row < n_rows; ++row)
      for (int head = 0; head < n_heads; ++head) {
        float* at = expected.data() + row * stride + head * head_dim;
        ops.rms_norm(at, weight.data(), 1e-6f, RowCount::fixed(1), head_dim, at);
      }
    ops.rms_norm_heads(got.data(), stride, weight.data(), 1e-6f, RowCount::fixed(n_rows), n_heads, head_dim);
    CHECK(same_bits(got, expected));
  }
}

TEST(group_norms_have_separate_weights_and_head_norms_may_have_none) {
  const int n_rows = 5, n_groups = 3, dim = 72;
  const auto x = random_floats(n_rows * n_groups * dim, 4), weight = random_floats(n_groups * dim, 5);
  const std::vector<float> ones(dim, 1.0f);
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 2);
    auto expected = x, got = x, with_ones = x, without = x;
    for (int i = 0; i < n_rows * n_groups; ++i)
      ops.rms_norm(expected.data() + i * dim, weight.data() + i % n_groups * dim, 1e-6f, RowCount::fixed(1), dim,
                   expected.data() + i * dim);
    ops.rms_norm_groups(got.data(), weight.data(), 1e-6f, RowCount::fixed(n_rows), n_groups, dim);
    CHECK(same_bits(got, expected));
    ops.rms_norm_heads(with_ones.data(), n_groups * dim, ones.data(), 1e-6f, RowCount::fixed(n_rows), n_groups, dim);
    ops.rms_norm_heads(without.data(), n_groups * dim, nullptr, 1e-6f, RowCount::fixed(n_rows), n_groups, dim);
    CHECK(same_bits(without, with_ones));
  }
}

TEST(rope_rotates_both_styles_at_far_positions_and_stores_what_it_rotated) {
  for (const int head_dim : {32, 80, 128})
    for (const RopeStyle style : {RopeStyle::kAdjacentPairs, RopeStyle::kHalves})
      for (const int n_dims : {head_dim, head_dim / 2, 6})
        for (const CpuIsa isa : available_cpu_isas()) {
          std::vector<float> frequency(n_dims / 2);
          for (int i = 0; i < n_dims / 2; ++i) frequency[i] = float(std::pow(5e5, -2.0 * i / n_dims));
          const RopeParams rope = {style, n_dims, frequency.data(), 0.9f};
          const int n = 35, first = 100003, n_heads = 2;  // Two query heads and one KV head.
          const auto q = random_floats(n * n_heads * head_dim, 6), k = random_floats(n * head_dim, 7);
          const auto v = random_floats(n * head_dim, 8);
          auto cache = CpuKvCache::create(KvShape::of_equal_layers(1, 1, head_dim, 4, KvType::kF16));
          REQUIRE(cache.ok());
          std::vector<int32_t> pages(first / kPageTokens + 4, -1);
          for (int i = 0; i < 4; ++i) pages[first / kPageTokens + i] = 3 - i;
          CpuBackend ops(isa, 2);
          CHECK(ops.reserve(64, n_heads * head_dim, first + n, head_dim, {}).ok());
          auto rotated_q = q, rotated_k = k;
          const Segment segment = {0, n, first, pages.data()};
          ops.rope_and_store({rope,
                              {&segment, 1},
                              rotated_q.data(),
                              n_heads * head_dim,
                              n_heads,
                              rotated_k.data(),
                              head_dim,
                              v.data(),
                              head_dim,
                              0,
                              **cache});
          double worst = 0;
          bool stored = true;
          for (int row = 0; row < n; ++row) {
            for (int d = 0; d < head_dim; ++d) {
              const int half = n_dims / 2;
              const bool adjacent = style == RopeStyle::kAdjacentPairs;
              double expected = k[row * head_dim + d];
              if (d < n_dims) {
                const int i = adjacent ? d / 2 : d % half;
                const bool is_first = adjacent ? d % 2 == 0 : d < half;
                const int partner = adjacent ? d ^ 1 : is_first ? d + half : d - half;
                const double angle = double(first + row) * frequency[i];
                expected = 0.9f * (expected * std::cos(angle) +
                                   (is_first ? -1 : 1) * k[row * head_dim + partner] * std::sin(angle));
              }
              const float got = rotated_k[row * head_dim + d];
              worst = std::max(worst, std::abs(got - expected));
              const int position = first + row, page = pages[position / kPageTokens];
              const CpuKvCache::Layer& kept = (*cache)->layer(0);
              if (kept.whole_numbers) {
                const auto near = [&](const CpuKvCache::Pages& pages, int64_t stride, float number) {
                  const auto* numbers =
                      reinterpret_cast<const int16_t*>(pages.of_head(0) + size_t(page) * pages.page_stride);
                  const float step =
                      reinterpret_cast<const float*>(numbers + stride * kPageTokens)[position % kPageTokens];
                  return step > 0 &&
                         std::abs(double(numbers[position % kPageTokens * stride + d]) * step - number) <= 0.505 * step;
                };
                stored &= near(kept.keys, kept.key_stride, got) &&
                          near(kept.values, kept.value_stride, v[row * head_dim + d]);
                continue;
              }
              const auto* keys =
                  reinterpret_cast<const uint16_t*>((*cache)->layer(0).keys.of_head(0)) + page * head_dim * kPageTokens;
              const auto* values = reinterpret_cast<const uint16_t*>((*cache)->layer(0).values.of_head(0)) +
                                   page * (*cache)->layer(0).value_stride * kPageTokens;
              stored &= keys[d * kPageTokens + position % kPageTokens] == float_to_half(got);
              stored &= values[position % kPageTokens * (*cache)->layer(0).value_stride + d] ==
                        float_to_half(v[row * head_dim + d]);
            }
          }
          CHECK(worst < 1e-6);  // The error bound is for values of order 1 with three roundings.
          CHECK(stored);
          // A query head is rotated exactly like a key with the same values.
          auto again = std::vector<float>(q.begin(), q.begin() + head_dim), zero = again;
          const Segment one = {0, 1, first, pages.data()};
          ops.rope_and_store(
              {rope, {&one, 1}, zero.data(), head_dim, 0, again.data(), head_dim, v.data(), head_dim, 0, **cache});
          CHECK(std::memcmp(again.data(), rotated_q.data(), head_dim * sizeof(float)) == 0);
          // rotate() produces the same queries as rope_and_store().
          auto alone = q;
          ops.rotate(rope, {&segment, 1}, alone.data(), n_heads * head_dim, n_heads, head_dim);
          CHECK(same_bits(alone, rotated_q));
        }
}

TEST(rope_follows_changed_positions_and_parameters) {
  std::vector<float> frequency = {1.0f, 0.1f};
  auto cache = CpuKvCache::create(KvShape::of_equal_layers(1, 1, 4, 8, KvType::kF32));
  REQUIRE(cache.ok());
  const std::vector<int32_t> pages = {0, 1, 2, 3, 4, 5, 6, 7};
  CpuBackend reused(CpuIsa::kPlain, 1);
  CHECK(reused.reserve(4, 4, 128, 4, {}).ok());
  const auto k = random_floats(16, 9), v = k;
  const auto rotated = [&](CpuBackend& ops, const RopeParams& rope, int position) {
    auto x = k;
    const Segment segments[] = {{0, 1, position, pages.data()}, {1, 3, position + 9, pages.data()}};
    ops.rope_and_store({rope, segments, nullptr, 0, 0, x.data(), 4, v.data(), 4, 0, **cache});
    return x;
  };
  const auto check = [&](const RopeParams& rope, int position) {
    CpuBackend fresh(CpuIsa::kPlain, 1);
    CHECK(fresh.reserve(4, 4, 128, 4, {}).ok());
    CHECK(same_bits(rotated(reused, rope, position), rotated(fresh, rope, position)));
  };
  check({RopeStyle::kHalves, 4, frequency.data()}, 3);
  check({RopeStyle::kHalves, 4, frequency.data()}, 4);
  check({RopeStyle::kAdjacentPairs, 4, frequency.data()}, 4);
  check({RopeStyle::kAdjacentPairs, 2, frequency.data()}, 4);
  check({RopeStyle::kAdjacentPairs, 2, frequency.data(), 2.0f}, 4);
  frequency[0] = 0.5f;
  check({RopeStyle::kAdjacentPairs, 2, frequency.data(), 2.0f}, 4);
}

TEST(layer_norm_matches_double_and_every_instruction_set) {
  for (const int64_t dim : {2, 15, 16, 63, 64, 65, 80, 2048, 4100}) {
    const int n_rows = 3;
    auto x = random_floats(n_rows * dim, uint32_t(dim));
    for (float& value : x) value += 3;  // Adds a mean, which the layer norm must subtract.
    const auto weight = random_floats(dim, 2), bias = random_floats(dim, 3);
    for (const bool biased : {false, true}) {
      std::vector<double> expected;
      for (int row = 0; row < n_rows; ++row) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < dim; ++i) mean += x[row * dim + i] / double(dim);
        for (int64_t i = 0; i < dim; ++i) squares += (x[row * dim + i] - mean) * (x[row * dim + i] - mean);
        for (int64_t i = 0; i < dim; ++i)
          expected.push_back((x[row * dim + i] - mean) / std::sqrt(squares / double(dim) + 1e-5) * weight[i] +
                             (biased ? bias[i] : 0.0f));
      }
      std::vector<float> plain;
      for (const CpuIsa isa : available_cpu_isas()) {
        CpuBackend ops(isa, 2);
        std::vector<float> out(x.size());
        ops.layer_norm(x.data(), weight.data(), biased ? bias.data() : nullptr, 1e-5f, RowCount::fixed(n_rows), dim,
                       out.data());
        double worst = 0;
        for (size_t i = 0; i < out.size(); ++i) worst = std::max(worst, std::abs(out[i] - expected[i]));
        CHECK(worst < 2e-5);
        if (plain.empty()) plain = out;
        CHECK(same_bits(out, plain));
      }
    }
  }
}

TEST(operations_of_whole_rows_match_double_and_every_instruction_set) {
  const int n_rows = 5, n_heads = 3;
  const int64_t dim = 3 * 67;  // Whole SIMD vectors and a remainder.
  const auto size = static_cast<size_t>(n_rows * dim);
  const auto x = random_floats(size, 21), y = random_floats(size, 22), columns = random_floats(size_t(dim), 23);
  const auto gates = random_floats(size_t(n_rows * n_heads), 24), weights = random_floats(size_t(n_rows * 4), 25);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto of_row = [&](const std::vector<float>& from, size_t i, auto term) {
    double sum = 0;
    for (size_t k = i / dim * dim; k < (i / dim + 1) * dim; ++k) sum += term(double(from[k]));
    return sum;
  };
  struct Case {
    const char* name;
    std::function<void(CpuBackend&, float*)> run;
    std::function<double(size_t)> expected;
  };
  const Case cases[] = {
      {"gate_heads",
       [&](CpuBackend& ops, float* at) {
         ops.gate_heads(HeadGate::kSigmoid, at, gates.data(), RowCount::fixed(n_rows), n_heads, int(dim) / n_heads);
       },
       [&](size_t i) { return x[i] * sigmoid(gates[i / (dim / n_heads)]); }},
      {"gate_heads, softplus",
       [&](CpuBackend& ops, float* at) {
         ops.gate_heads(HeadGate::kSoftplus, at, gates.data(), RowCount::fixed(n_rows), n_heads, int(dim) / n_heads);
       },
       [&](size_t i) { return x[i] * std::log1p(std::exp(double(gates[i / (dim / n_heads)]))); }},
      {"clamp", [&](CpuBackend& ops, float* at) { ops.clamp(at, RowCount::fixed(n_rows), dim, 0.5f); },
       [&](size_t i) { return std::clamp(double(x[i]), -0.5, 0.5); }},
      {"scale_columns",
       [&](CpuBackend& ops, float* at) { ops.scale_columns(at, columns.data(), RowCount::fixed(n_rows), dim); },
       [&](size_t i) { return double(x[i]) * columns[i % dim]; }},
      {"add_weighted",
       [&](CpuBackend& ops, float* at) {
         ops.add_weighted(at, y.data(), weights.data() + 1, 4, 0.5f, RowCount::fixed(n_rows), dim);
       },
       [&](size_t i) { return x[i] + (weights[i / dim * 4 + 1] + 0.5) * y[i]; }},
      {"add_bias", [&](CpuBackend& ops, float* at) { ops.add_bias(at, columns.data(), RowCount::fixed(n_rows), dim); },
       [&](size_t i) { return double(x[i]) + columns[i % dim]; }},
      {"match_length",
       [&](CpuBackend& ops, float* at) { ops.rescale_to_norm(at, y.data(), RowCount::fixed(n_rows), dim); },
       [&](size_t i) {
         const auto square = [](double v) { return v * v; };
         return x[i] * std::sqrt(of_row(y, i, square) / of_row(x, i, square));
       }},
      {"keep_outliers", [&](CpuBackend& ops, float* at) { ops.gaussian_topk(at, 0.8f, RowCount::fixed(n_rows), dim); },
       [&](size_t i) {
         const double mean = of_row(x, i, [](double v) { return v; }) / double(dim);
         const double squares = of_row(x, i, [&](double v) { return (v - mean) * (v - mean); });
         return std::max(x[i] - mean - double(0.8f) * std::sqrt(squares / double(dim - 1)), 0.0);
       }},
      {"activate, relu squared",
       [&](CpuBackend& ops, float* at) { ops.activate(Activation::kReluSquared, at, RowCount::fixed(n_rows), dim); },
       [&](size_t i) { return x[i] > 0 ? double(x[i]) * x[i] : 0.0; }},
      {"activate, SiLU",
       [&](CpuBackend& ops, float* at) { ops.activate(Activation::kSilu, at, RowCount::fixed(n_rows), dim); },
       [&](size_t i) { return x[i] * sigmoid(x[i]); }},
      {"activate, GELU",
       [&](CpuBackend& ops, float* at) { ops.activate(Activation::kGelu, at, RowCount::fixed(n_rows), dim); },
       [&](size_t i) {
         return x[i] * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x[i] + 0.044715 * std::pow(double(x[i]), 3)));
       }},
      {"gated with a limit",
       [&](CpuBackend& ops, float* at) {
         ops.gated({Activation::kSilu, 0.4f}, at, y.data(), RowCount::fixed(n_rows), dim, at);
       },
       [&](size_t i) {
         return std::min(x[i] * sigmoid(x[i]), double(0.4f)) * std::clamp(double(y[i]), -double(0.4f), double(0.4f));
       }},
      {"copy_rows", [&](CpuBackend& ops, float* at) { ops.copy_rows(y.data(), 7, RowCount::fixed(n_rows), dim, at); },
       [&](size_t i) { return double(y[i / dim * 7 + i % dim]); }},
  };
  for (const Case& one : cases) {
    std::vector<float> plain;
    for (const CpuIsa isa : available_cpu_isas()) {
      CpuBackend ops(isa, 2);
      auto got = x;
      one.run(ops, got.data());
      double worst = 0;
      for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - one.expected(i)));
      if (!(worst < 3e-6))
        check::fail(__FILE__, __LINE__, std::string(one.name) + " is off by " + std::to_string(worst));
      if (plain.empty()) plain = got;
      if (!same_bits(got, plain))
        check::fail(__FILE__, __LINE__, std::string(one.name) + ": different bits on another instruction set");
    }
  }
}

TEST(silu_multiply_matches_double_and_every_instruction_set) {
  const int n_rows = 7;
  const int64_t dim = 2051;  // Whole SIMD vectors, a remainder, and several tasks.
  auto gate = random_floats(n_rows * dim, 10, 4.0f);
  const auto up = random_floats(n_rows * dim, 11);
  std::vector<double> expected;
  gate[0] = 80.0f, gate[1] = -80.0f, gate[2] = 0.0f;
  for (size_t i = 0; i < gate.size(); ++i) expected.push_back(gate[i] / (1 + std::exp(-double(gate[i]))) * up[i]);
  std::vector<float> plain;
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 3);
    auto out = gate;
    ops.gated(Activation::kSilu, out.data(), up.data(), RowCount::fixed(n_rows), dim, out.data());
    check_relative(out, expected, 5 * 0x1p-24,
                   std::string(cpu_isa_name(isa)));  // Allows 1 ulp for exp, and three roundings.
    if (plain.empty()) plain = out;
    CHECK(same_bits(out, plain));
    // Inputs far out of range must not overflow to NaN.
    const float far[] = {1000.0f, -1000.0f, kInfinity}, one[] = {1.0f, 1.0f, 1.0f};
    float result[3];
    ops.gated(Activation::kSilu, far, one, RowCount::fixed(1), 3, result);
    CHECK(result[0] == 1000.0f && result[1] == 0.0f && result[2] == kInfinity);
  }
}

TEST(sigmoid_multiply_matches_double_and_every_instruction_set) {
  const int64_t dim = 2051;
  auto gate = random_floats(dim, 10, 4.0f);
  const auto up = random_floats(dim, 11);
  gate[0] = 80.0f, gate[1] = -80.0f, gate[2] = 0.0f;
  std::vector<double> expected;
  for (size_t i = 0; i < gate.size(); ++i) expected.push_back(up[i] / (1 + std::exp(-double(gate[i]))));
  std::vector<float> plain;
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 3);
    auto out = gate;
    ops.gated(Activation::kSigmoid, out.data(), up.data(), RowCount::fixed(1), dim, out.data());
    check_relative(out, expected, 5 * 0x1p-24, std::string(cpu_isa_name(isa)));
    if (plain.empty()) plain = out;
    CHECK(same_bits(out, plain));
  }
}

TEST(gelu_multiply_matches_double_and_every_instruction_set) {
  const int64_t dim = 4099;
  auto gate = random_floats(dim, 20, 3.0f);
  const auto up = random_floats(dim, 21);
  gate[0] = 0.0f, gate[1] = 1e-20f, gate[2] = -1e-6f, gate[3] = 9.0f;
  std::vector<double> expected;
  for (size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i], u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    expected.push_back(x / (1 + std::exp(-2 * u)) * up[i]);
  }
  std::vector<float> plain;
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 3);
    std::vector<float> out(gate.size());
    ops.gated(Activation::kGelu, gate.data(), up.data(), RowCount::fixed(1), dim, out.data());
    // Because u is rounded, exp(-2u) has a relative error of about 2u / 2^24. Where this error is large, the result
    // itself is small.
    for (size_t i = 0; i < out.size(); ++i)
      CHECK(std::abs(out[i] - expected[i]) <=
            0x1p-22 * std::abs(expected[i]) + 0x1p-23 * std::abs(up[i]) * std::abs(gate[i]));
    if (plain.empty()) plain = out;
    CHECK(same_bits(out, plain));
    const float far[] = {1e30f, -1e30f, kInfinity, 15.0f}, one[] = {1.0f, 1.0f, 1.0f, 1.0f};
    float result[4];
    ops.gated(Activation::kGelu, far, one, RowCount::fixed(1), 4, result);
    CHECK(result[0] == 1e30f && result[1] == 0.0f && result[2] == kInfinity && result[3] == 15.0f);
  }
}

TEST(xielu_matches_double_and_every_instruction_set) {
  auto x = random_floats(4099, 12, 3.0f);
  const float odd[] = {0.0f, -0.0f, -1e-7f, -1e-5f, 1e-5f, -39.9f, -41.0f, -1000.0f, 90.0f};
  std::copy(std::begin(odd), std::end(odd), x.begin());
  const Xielu params{.positive = 1.1f, .negative = 1.7f, .linear = 0.5f, .least = -1e-6f};
  std::vector<float> plain;
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 2);
    auto got = x;
    ops.xielu(params, got.data(), RowCount::fixed(1), static_cast<int64_t>(got.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], curve = v > 0 ? params.positive * v * v
                                           : (std::expm1(std::min(v, double(params.least))) - v) * params.negative;
      CHECK(std::abs(got[i] - (curve + params.linear * v)) <= 1e-6 * (1e-3 + std::abs(curve) + std::abs(v)));
    }
    if (plain.empty()) plain = got;
    CHECK(same_bits(got, plain));
  }
}

TEST(scaled_and_gated_sums_are_equal_on_every_instruction_set) {
  const int n_rows = 3;
  const int64_t dim = 77;
  const auto x = random_floats(n_rows * dim, 22), y = random_floats(n_rows * dim, 23);
  const float gate[] = {0.0f, -2.0f, 200.0f};
  std::vector<float> plain;
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 2);
    auto sum = x, gated = x;
    ops.add_rows(sum.data(), y.data(), 0.22f, nullptr, RowCount::fixed(n_rows), dim);
    ops.add_rows(gated.data(), y.data(), 2.0f, gate, RowCount::fixed(n_rows), dim);
    for (size_t i = 0; i < x.size(); ++i) {
      CHECK_EQ(sum[i], std::fma(y[i], 0.22f, x[i]));
      const double share = 2 / (1 + std::exp(-double(gate[i / size_t(dim)])));
      CHECK(std::abs(gated[i] - (x[i] + share * y[i])) < 1e-6);
    }
    ops.scale(sum.data(), RowCount::fixed(1), int64_t(sum.size()), 3.0f);
    CHECK_EQ(sum[5], std::fma(y[5], 0.22f, x[5]) * 3.0f);
    sum.insert(sum.end(), gated.begin(), gated.end());
    if (plain.empty()) plain = sum;
    CHECK(same_bits(sum, plain));
  }
}

TEST(gather_rows_picks_rows) {
  const auto x = random_floats(6 * 5, 12);
  const int32_t rows[] = {4, 0, 4};
  std::vector<float> out(15);
  CpuBackend ops(CpuIsa::kPlain, 2);
  ops.gather_rows(x.data(), rows, 5, out.data());
  for (int i = 0; i < 3; ++i) CHECK(std::memcmp(&out[i * 5], &x[rows[i] * 5], 5 * sizeof(float)) == 0);
}

TEST(exponential_is_within_one_ulp_and_equal_on_every_instruction_set) {
  std::vector<float> x;
  for (int i = 0; i < 400000; ++i) x.push_back(-86.5f + float(i) * 0.000438f);  // Inputs from -86.5 to 88.7.
  for (int i = 0; i < 40000; ++i) x.push_back(-1.0f + float(i) * 5e-5f);
  std::vector<float> plain;
  for (const CpuIsa isa : available_cpu_isas()) {
    std::vector<float> out(x.size());
    logit_ops(isa).exp(x.data(), int64_t(x.size()), 0.0f, out.data());
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(double(x[i]));
      const double ulp = std::nextafter(float(exact), kInfinity) - double(float(exact));
      worst = std::max(worst, std::abs(out[i] - exact) / ulp);
    }
    CHECK(worst < 1.0);
    check::note("exponential, " + std::string(cpu_isa_name(isa)) + ": " + std::to_string(worst) + " ulp");
    if (plain.empty()) plain = out;
    CHECK(same_bits(out, plain));
    const float edges[] = {-kInfinity, -87.0f, -200.0f, 89.0f, kInfinity, kNaN, 0.0f};
    float result[7];
    logit_ops(isa).exp(edges, 7, 0.0f, result);
    CHECK(result[0] == 0 && result[1] == 0 && result[2] == 0 && result[5] == 0 && result[6] == 1);
    CHECK(result[3] == kInfinity && result[4] == kInfinity);
  }
}

// soft_cap with a cap of 1 is the hyperbolic tangent.
TEST(soft_cap_is_within_three_ulp_and_equal_on_every_instruction_set) {
  std::vector<float> x;
  for (float at = 1e-30f; at < 30.0f; at *= 1.0007f) x.push_back(at), x.push_back(-at);
  std::vector<float> first;
  for (const CpuIsa isa : available_cpu_isas()) {
    const OpKernels& kernels = op_kernels(isa);
    std::vector<float> out = x;
    kernels.soft_cap(out.data(), int64_t(out.size()), 1.0f);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::tanh(double(x[i]));
      const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
      worst = std::max(worst, std::abs(double(out[i]) - exact) / ulp);
    }
    CHECK(worst <= 3);
    check::note("hyperbolic tangent, " + std::string(cpu_isa_name(isa)) + ": " + std::to_string(worst) +
                " ulp at worst");
    if (first.empty()) first = out;
    CHECK(same_bits(out, first));

    float edges[5] = {0.0f, 500.0f, -kInfinity, 1e-3f, kNaN};
    kernels.soft_cap(edges, 5, 50.0f);
    CHECK_EQ(edges[0], 0.0f);
    CHECK_EQ(edges[1], 50.0f);
    CHECK_EQ(edges[2], -50.0f);
    CHECK(std::abs(edges[3] - 1e-3f) <= 1e-9f);
    CHECK(std::isnan(edges[4]));
  }
}

TEST(logit_reductions_on_every_instruction_set) {
  for (const int64_t n : {1, 15, 16, 17, 64, 100, 32000, 151936}) {
    auto x = random_floats(n, uint32_t(n), 5.0f);
    if (n > 20) x[3] = kNaN, x[4] = -kInfinity;
    const int64_t at = n / 2;
    x[at] = 40.0f;
    if (n > 20) x[n - 1] = 40.0f;  // The lower index wins a tie.
    double expected = 0;
    for (const float value : x)
      if (!std::isnan(value)) expected += std::exp(double(value) - 40.0);
    double plain = -1;
    for (const CpuIsa isa : available_cpu_isas()) {
      const LogitOps& ops = logit_ops(isa);
      CHECK_EQ(ops.max(x.data(), n), 40.0f);
      CHECK_EQ(ops.argmax(x.data(), n), at);
      const double sum = ops.sum_exp(x.data(), n, 40.0f);
      CHECK(std::abs(sum - expected) <= 1e-6 * expected);
      if (plain < 0) plain = sum;
      CHECK_EQ(sum, plain);
    }
  }
  for (const CpuIsa isa : available_cpu_isas()) {
    const LogitOps& ops = logit_ops(isa);
    const std::vector<float> nothing(37, kNaN), masked(37, -kInfinity);
    CHECK_EQ(ops.max(nothing.data(), 37), -kInfinity);
    CHECK_EQ(ops.max(nothing.data(), 0), -kInfinity);
    CHECK_EQ(ops.argmax(nothing.data(), 37), 0);
    CHECK_EQ(ops.argmax(masked.data(), 37), 0);
    CHECK_EQ(ops.argmax(masked.data(), 0), -1);
    CHECK_EQ(ops.sum_exp(masked.data(), 37, -kInfinity), 0.0);
    CHECK_EQ(ops.sum_exp(nothing.data(), 37, 0.0f), 0.0);
  }
  CHECK_EQ(logit_ops().max, logit_ops(available_cpu_isas().back()).max);
}
