// Convolution and delta rule: against double arithmetic, across instruction sets, and the same bits wherever a sequence
// is cut and whichever slots its state goes through.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/ops/ops.h"
#include "check.h"
#include "support/recurrent.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

void check_near(const std::vector<float>& got, const std::vector<double>& expected, double tolerance, const std::string& what) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance))
      return check::fail(__FILE__, __LINE__, what + ": value " + std::to_string(i) + " is " + std::to_string(got[i]) +
                                                 ", expected " + std::to_string(expected[i]));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Shape {
  int key_heads, value_heads, key_dim, value_dim;
  bool tiled, channels;
};

// All that one delta rule reads.
struct DeltaCase {
  DeltaCase(const Shape& shape, int rows, uint32_t seed = 1) : n_rows(rows) {
    rule = {.n_key_heads = shape.key_heads,
            .n_value_heads = shape.value_heads,
            .key_dim = shape.key_dim,
            .value_dim = shape.value_dim,
            .tiled = shape.tiled,
            .channel_decay = shape.channels,
            .norm_eps = 1e-6f};
    keys = shape.key_heads * shape.key_dim;
    stride = 2 * keys + shape.value_heads * shape.value_dim + 3;
    x = random_floats(static_cast<size_t>(n_rows * stride), seed);
    decay = random_floats(static_cast<size_t>(n_rows * rule.decays()), seed + 1, 2.0f);
    beta = random_floats(static_cast<size_t>(n_rows) * static_cast<size_t>(shape.value_heads), seed + 2, 2.0f);
    bias = random_floats(static_cast<size_t>(rule.decays()), seed + 3);
    rate = random_floats(static_cast<size_t>(shape.value_heads), seed + 4);
    for (float& r : rate) r = -std::abs(r);
    rule.rate = rate.data();
    rule.decay_bias = bias.data();
  }
  // Rows `first` to `first + segments' rows`.
  std::vector<float> run(CpuIsa isa, int threads, std::span<const Segment> segments, const LayerSlots& slots) const {
    ThreadPool pool(threads);
    std::vector<float> rows = x, decays = decay, betas = beta;
    std::vector<float> out(static_cast<size_t>(n_rows * rule.n_value_heads * rule.value_dim));
    cpu_ops(isa).delta_rule(pool, rule, segments, slots,
                            {.q = rows.data(), .k = rows.data() + keys, .v = rows.data() + 2 * keys, .stride = stride,
                             .decay = decays.data(), .beta = betas.data()},
                            out.data());
    return out;
  }
  std::vector<double> expected() const {
    std::vector<double> out;
    const int dk = rule.key_dim, dv = rule.value_dim;
    std::vector<std::vector<double>> states(static_cast<size_t>(rule.n_value_heads), std::vector<double>(static_cast<size_t>(dk * dv)));
    for (int row = 0; row < n_rows; ++row) {
      for (int head = 0; head < rule.n_value_heads; ++head) {
        const int key_head = rule.tiled ? head % rule.n_key_heads : head / (rule.n_value_heads / rule.n_key_heads);
        const float* const q = &x[static_cast<size_t>(row * stride + key_head * dk)];
        const float* const k = q + keys;
        const float* const v = &x[static_cast<size_t>(row * stride + 2 * keys + head * dv)];
        double qq = 0, kk = 0;
        for (int i = 0; i < dk; ++i) qq += double(q[i]) * q[i], kk += double(k[i]) * k[i];
        const auto decay_of = [&](int i) {
          const auto at = static_cast<size_t>(rule.channel_decay ? head * dk + i : head);
          const double input = double(decay[static_cast<size_t>(row * rule.decays()) + at]) + bias[at];
          return std::exp(rate[static_cast<size_t>(head)] * std::log1p(std::exp(input)));
        };
        const double b = sigmoid(beta[static_cast<size_t>(row * rule.n_value_heads + head)]);
        std::vector<double>& s = states[static_cast<size_t>(head)];
        for (int i = 0; i < dk; ++i)
          for (int j = 0; j < dv; ++j) s[static_cast<size_t>(i * dv + j)] *= decay_of(i);
        for (int j = 0; j < dv; ++j) {
          double seen = 0, result = 0;
          for (int i = 0; i < dk; ++i) seen += s[static_cast<size_t>(i * dv + j)] * k[i] / std::sqrt(kk);
          for (int i = 0; i < dk; ++i) {
            double& at = s[static_cast<size_t>(i * dv + j)];
            at += k[i] / std::sqrt(kk) * b * (v[j] - seen);
            result += at * q[i] / std::sqrt(qq) / std::sqrt(double(dk));
          }
          out.push_back(result);
        }
      }
    }
    return out;
  }

  DeltaRule rule;
  int n_rows, keys = 0;
  int64_t stride = 0;
  std::vector<float> x, decay, beta, bias, rate;
};

const Shape kShapes[] = {
    {2, 4, 16, 16, true, false}, {2, 4, 16, 16, false, false}, {4, 4, 32, 32, true, true},
    {1, 3, 20, 40, false, false}, {2, 2, 7, 9, true, true},    {2, 2, 128, 128, true, false},
};

}  // namespace

TEST(the_delta_rule_matches_double_and_every_instruction_set) {
  for (const Shape& shape : kShapes) {
    const DeltaCase one(shape, 40);
    const std::vector<double> expected = one.expected();
    std::vector<float> plain, plain_state;
    for (const CpuIsa isa : available_cpu_isas()) {
      Slots slots(one.rule.state_floats());
      const std::vector<float> out = one.run(isa, isa == CpuIsa::kPlain ? 1 : 3, pieces(40, {}, false), slots.view);
      check_near(out, expected, 2e-5, "keys of " + std::to_string(shape.key_dim));
      if (plain.empty()) plain = out, plain_state = slots.memory;
      CHECK(same_bits(out, plain));
      CHECK(same_bits(slots.memory, plain_state));
    }
  }
}

TEST(no_cut_changes_a_bit_of_the_delta_rule) {
  for (const Shape& shape : kShapes) {
    const DeltaCase one(shape, 23);
    for (const CpuIsa isa : available_cpu_isas()) {
      Slots whole(one.rule.state_floats());
      const std::vector<float> expected = one.run(isa, 2, pieces(23, {}, false), whole.view);
      const auto state_of = [&](const Slots& slots, int32_t slot) {
        const float* const at = slots.view.of(slot);
        return std::vector<float>(at, at + one.rule.state_floats());
      };
      for (const std::vector<int>& cuts : {std::vector<int>{7, 14, 21}, {1}, {22}, {1, 2, 3}}) {
        for (const bool apart : {false, true}) {
          Slots slots(one.rule.state_floats());
          const std::vector<Segment> segments = pieces(23, cuts, apart);
          CHECK(same_bits(one.run(isa, 2, segments, slots.view), expected));
          CHECK(same_bits(state_of(slots, segments.back().state_to), state_of(whole, 0)));
        }
      }
    }
  }
}

TEST(sequences_of_a_step_keep_to_their_own_state_and_forks_leave_theirs_alone) {
  const Shape shape{2, 4, 16, 16, true, false};
  const DeltaCase one(shape, 12);
  for (const CpuIsa isa : available_cpu_isas()) {
    // Rows 0-3 into slot 0; then 4-7 from it into 1 and 8-11 from it into 2, as forks do.
    Slots slots(one.rule.state_floats());
    const std::vector<Segment> step = {{0, 4, 0, nullptr, kNoSlot, 0}, {4, 4, 4, nullptr, 0, 1}, {8, 4, 4, nullptr, 0, 2}};
    const std::vector<float> all = one.run(isa, 3, step, slots.view);
    Slots alone(one.rule.state_floats());
    const std::vector<Segment> first = {{0, 4, 0, nullptr, kNoSlot, 4}}, third = {{8, 4, 4, nullptr, 4, 4}};
    one.run(isa, 1, first, alone.view);
    const size_t floats = static_cast<size_t>(one.rule.state_floats());
    CHECK(std::memcmp(slots.view.of(0), alone.view.of(4), floats * sizeof(float)) == 0);
    const std::vector<float> last = one.run(isa, 1, third, alone.view);
    CHECK(std::equal(last.begin() + 8 * 64, last.end(), all.begin() + 8 * 64));
    CHECK(std::memcmp(slots.view.of(2), alone.view.of(4), floats * sizeof(float)) == 0);
    CHECK(slots.view.of(3)[0] == 1e30f);
  }
}

TEST(a_convolution_matches_double_wherever_it_is_cut) {
  for (const int n_channels : {5, 16, 100, 300, 700}) {
    for (const int n_taps : {1, 2, 4, kMostTaps}) {
      const int n_rows = 19;
      const int64_t stride = n_channels + 5;
      const auto x = random_floats(static_cast<size_t>(n_rows * stride), 3);
      const auto weight = random_floats(static_cast<size_t>(n_channels * n_taps), 4), bias = random_floats(static_cast<size_t>(n_channels), 5);
      for (const bool plain : {false, true}) {
        const Convolution convolution{.n_channels = n_channels, .n_taps = n_taps, .weight = weight.data(),
                                      .bias = plain ? nullptr : bias.data(), .silu = !plain};
        std::vector<double> expected(x.begin(), x.end());
        for (int row = 0; row < n_rows; ++row) {
          for (int c = 0; c < n_channels; ++c) {
            double sum = plain ? 0.0 : bias[static_cast<size_t>(c)];
            for (int j = 0; j < n_taps; ++j)
              if (const int at = row - n_taps + 1 + j; at >= 0)
                sum += double(weight[static_cast<size_t>(c * n_taps + j)]) * x[static_cast<size_t>(at * stride + c)];
            expected[static_cast<size_t>(row * stride + c)] = plain ? sum : sum * sigmoid(sum);
          }
        }
        std::vector<float> first;
        for (const CpuIsa isa : available_cpu_isas()) {
          for (const std::vector<int>& cuts : {std::vector<int>{}, {1}, {2}, {7, 14}, {1, 2, 3, 4}, {18}}) {
            for (const bool apart : {false, true}) {
              Slots slots(std::max<int64_t>(convolution.state_floats(), 1));
              ThreadPool pool(2);
              std::vector<float> out = x;
              cpu_ops(isa).convolve(pool, convolution, pieces(n_rows, cuts, apart), slots.view, out.data(), stride);
              check_near(out, expected, 1e-4, std::to_string(n_channels) + " channels, " + std::to_string(n_taps) + " taps");
              if (first.empty()) first = out;
              CHECK(same_bits(out, first));
            }
          }
        }
      }
    }
  }
}
