// Tests RWKV's token shift and time mixing. Results are compared with double precision and between instruction sets.
// They must be bit-identical for any division of a sequence into chunks and for any state slots.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "check.h"
#include "support/recurrence_cases.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

constexpr int kRows = 31;

// The slots start with garbage that must not be read.
std::vector<float> run(const TimeMixCase& one, CpuIsa isa, int threads, std::span<const Segment> segments,
                       std::vector<float>& state) {
  state.assign(static_cast<size_t>(3 * one.mix.state_floats()), 1e30f);
  CpuBackend ops(isa, threads);
  std::vector<float> out = one.r;
  ops.time_mix(one.mix, segments, {state.data(), one.mix.state_floats()},
               {.r = out.data(),
                .k = one.k.data(),
                .v = one.v.data(),
                .decay = one.decay.data(),
                .gate = one.gate.data(),
                .rate = one.rate.data(),
                .first_v = one.first_layer ? nullptr : one.first_v.data(),
                .value_mix = one.value_mix.data()},
               out.data());
  return out;
}

std::vector<TimeMixCase> mixes() {
  std::vector<TimeMixCase> all;
  for (const bool delta : {false, true})
    for (const int head_dim : {16, 48, 64, 256}) all.emplace_back(delta, 2, head_dim, kRows);
  all.emplace_back(true, 3, 64, kRows, true);
  return all;
}

}  // namespace

TEST(time_mixing_matches_double_and_every_instruction_set) {
  for (const TimeMixCase& one : mixes()) {
    const std::vector<double> expected = one.expected();
    std::vector<float> plain, plain_state, state;
    for (const CpuIsa isa : available_cpu_isas()) {
      const std::vector<float> out = run(one, isa, isa == CpuIsa::kPlain ? 1 : 3, pieces(kRows, {}, false), state);
      check_near(out, expected, 2e-5, "heads of " + std::to_string(one.mix.head_dim));
      if (plain.empty()) plain = out, plain_state = state;
      CHECK(same_bits(out, plain));
      CHECK(same_bits(state, plain_state));
    }
  }
}

TEST(time_mixing_does_not_depend_on_chunks) {
  for (const TimeMixCase& one : mixes()) {
    const auto floats = static_cast<size_t>(one.mix.state_floats());
    for (const CpuIsa isa : available_cpu_isas()) {
      std::vector<float> whole, state;
      const std::vector<float> expected = run(one, isa, 2, pieces(kRows, {}, false), whole);
      for (const std::vector<int>& cuts : {std::vector<int>{7, 14, 21, 28}, {1}, {30}, {1, 2, 3}}) {
        for (const bool apart : {false, true}) {
          const std::vector<Segment> segments = pieces(kRows, cuts, apart);
          CHECK(same_bits(run(one, isa, 2, segments, state), expected));
          const size_t last = static_cast<size_t>(segments.back().state_to) * floats;
          CHECK(std::memcmp(state.data() + last, whole.data(), floats * sizeof(float)) == 0);
        }
      }
    }
  }
}

TEST(token_shift_mixes_each_row_with_the_previous_one) {
  constexpr int kDim = 1500;
  const std::vector<float> x = random_floats(kRows * kDim, 1), mu = random_floats(kDim, 2),
                           shift = random_floats(kRows * kDim, 3);
  const auto at = [](int row, int i) { return static_cast<size_t>(row * kDim + i); };
  for (const CpuIsa isa : available_cpu_isas()) {
    for (const std::vector<int>& cuts : {std::vector<int>{}, {1}, {7, 8, 20}}) {
      for (const bool apart : {false, true}) {
        CpuBackend ops(isa, 2);
        std::vector<float> state(2 * kDim, 1e30f), difference(x.size()), plain(x.size()), shifted(x.size());
        const std::vector<Segment> segments = pieces(kRows, cuts, apart);
        ops.difference_from_previous(segments, {state.data(), kDim}, x.data(), kDim, difference.data());
        const ShiftedInput inputs[] = {{mu.data(), nullptr, plain.data()}, {mu.data(), shift.data(), shifted.data()}};
        ops.shifted_inputs(inputs, x.data(), difference.data(), RowCount::fixed(kRows), kDim);
        for (int row = 0; row < kRows; ++row)
          for (int i = 0; i < kDim; ++i) {
            const float d = (row == 0 ? 0.0f : x[at(row - 1, i)]) - x[at(row, i)], m = mu[static_cast<size_t>(i)];
            REQUIRE(difference[at(row, i)] == d);
            REQUIRE(plain[at(row, i)] == std::fma(d, m, x[at(row, i)]));
            REQUIRE(shifted[at(row, i)] == std::fma(d, m + shift[at(row, i)], x[at(row, i)]));
          }
        const float* const last = state.data() + segments.back().state_to * kDim;
        CHECK(std::memcmp(last, &x[at(kRows - 1, 0)], kDim * sizeof(float)) == 0);
      }
    }
  }
}
