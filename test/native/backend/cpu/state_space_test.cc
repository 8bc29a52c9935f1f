// Tests the state-space recurrences of Mamba-2 and Mamba. Results are compared with double precision and between
// instruction sets. They must be bit-identical for any division of a sequence into chunks and for any state slots.
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

// The slots start with garbage that must not be read.
std::vector<float> run(const StateSpaceCase& one, CpuIsa isa, int threads, std::span<const Segment> segments,
                       std::vector<float>& state) {
  const StateSpace& space = one.space;
  state.assign(static_cast<size_t>(3 * space.state_floats()), 1e30f);
  CpuBackend ops(isa, threads);
  std::vector<float> steps = one.step, out(static_cast<size_t>(one.n_rows * space.width()));
  const float* const b = one.x.data() + space.width();
  ops.state_space(space, segments, {state.data(), space.state_floats()},
                  {.x = one.x.data(),
                   .b = b,
                   .c = b + space.group_width(),
                   .stride = one.stride,
                   .group_stride = one.stride,
                   .step = steps.data()},
                  out.data());
  return out;
}

constexpr size_t kCases = 7;
const StateSpaceCase& cases(size_t i) {
  static const StateSpaceCase all[] = {{4, 2, 16, 16, 31},       {3, 1, 9, 7, 31},          {4, 4, 40, 20, 31},
                                       {2, 1, 64, 128, 31},      {1, 1, 100, 16, 31, true}, {1, 1, 9, 7, 31, true},
                                       {1, 1, 64, 130, 31, true}};
  static_assert(std::size(all) == kCases);
  return all[i];
}

}  // namespace

TEST(the_state_space_matches_double_and_every_instruction_set) {
  for (size_t i = 0; i < kCases; ++i) {
    const StateSpaceCase& one = cases(i);
    const std::vector<double> expected = one.expected();
    std::vector<float> plain, plain_state, state;
    for (const CpuIsa isa : available_cpu_isas()) {
      const std::vector<float> out = run(one, isa, isa == CpuIsa::kPlain ? 1 : 3, pieces(31, {}, false), state);
      double worst = 0, largest = 1;
      for (size_t k = 0; k < expected.size(); ++k) {
        worst = std::max(worst, std::abs(out[k] - expected[k]));
        largest = std::max(largest, std::abs(expected[k]));
      }
      CHECK(worst < 2e-6 * largest);
      if (plain.empty()) plain = out, plain_state = state;
      CHECK(same_bits(out, plain));
      CHECK(same_bits(state, plain_state));
    }
  }
}

TEST(the_state_space_does_not_depend_on_chunks) {
  for (size_t i = 0; i < kCases; ++i) {
    const StateSpaceCase& one = cases(i);
    const auto floats = static_cast<size_t>(one.space.state_floats());
    for (const CpuIsa isa : available_cpu_isas()) {
      std::vector<float> whole, state;
      const std::vector<float> expected = run(one, isa, 2, pieces(31, {}, false), whole);
      for (const std::vector<int>& cuts : {std::vector<int>{7, 14, 21, 28}, {1}, {30}, {1, 2, 3}}) {
        for (const bool apart : {false, true}) {
          const std::vector<Segment> segments = pieces(31, cuts, apart);
          CHECK(same_bits(run(one, isa, 2, segments, state), expected));
          const size_t last = static_cast<size_t>(segments.back().state_to) * floats;
          CHECK(std::memcmp(state.data() + last, whole.data(), floats * sizeof(float)) == 0);
        }
      }
    }
  }
}
