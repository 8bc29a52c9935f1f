// The state space of Mamba-2: against double arithmetic, across instruction sets, and the same bits wherever a sequence
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

struct Case {
  Case(int heads, int groups, int head_dim, int state_dim, int rows) : n_rows(rows) {
    space = {.n_heads = heads, .n_groups = groups, .head_dim = head_dim, .state_dim = state_dim};
    stride = space.width() + 2 * space.group_width() + 3;
    x = random_floats(static_cast<size_t>(n_rows * stride), 1);
    step = random_floats(static_cast<size_t>(n_rows * heads), 2, 3.0f);
    step[0] = 60;   // beyond what e^x holds beside 1
    bias = random_floats(static_cast<size_t>(heads), 3);
    rate = random_floats(static_cast<size_t>(heads), 4);
    skip = random_floats(static_cast<size_t>(heads), 5);
    for (float& r : rate) r = -std::abs(r);
    space.rate = rate.data();
    space.step_bias = bias.data();
    space.skip = skip.data();
  }
  // Into slots that hold what nobody may read.
  std::vector<float> run(CpuIsa isa, int threads, std::span<const Segment> segments, std::vector<float>& state) const {
    state.assign(static_cast<size_t>(3 * space.state_floats()), 1e30f);
    ThreadPool pool(threads);
    std::vector<float> steps = step, out(static_cast<size_t>(n_rows * space.width()));
    cpu_ops(isa).state_space(pool, space, segments, {state.data(), space.state_floats()},
                             {.x = x.data(), .b = x.data() + space.width(), .c = x.data() + space.width() + space.group_width(),
                              .stride = stride, .step = steps.data()},
                             out.data());
    return out;
  }
  std::vector<double> expected() const {
    const int dim = space.head_dim, n = space.state_dim;
    std::vector<double> out, h(static_cast<size_t>(space.n_heads * dim * n));
    for (int row = 0; row < n_rows; ++row) {
      for (int head = 0; head < space.n_heads; ++head) {
        const float* const own = &x[static_cast<size_t>(row * stride)];
        const float* const b = own + space.width() + space.group(head) * n;
        const float* const c = b + space.group_width();
        const auto at_head = static_cast<size_t>(head);
        const double input = double(step[static_cast<size_t>(row * space.n_heads + head)]) + bias[at_head];
        const double dt = input > 30 ? input : std::log1p(std::exp(input));
        for (int d = 0; d < dim; ++d) {
          const double value = own[head * dim + d];
          double sum = skip[at_head] * value;
          for (int i = 0; i < n; ++i) {
            double& s = h[static_cast<size_t>((head * dim + d) * n + i)];
            s = s * std::exp(dt * rate[at_head]) + dt * value * b[i];
            sum += s * c[i];
          }
          out.push_back(sum);
        }
      }
    }
    return out;
  }

  StateSpace space;
  int n_rows;
  int64_t stride = 0;
  std::vector<float> x, step, bias, rate, skip;
};

const Case& cases(size_t i) {
  static const Case all[] = {{4, 2, 16, 16, 31}, {3, 1, 9, 7, 31}, {4, 4, 40, 20, 31}, {2, 1, 64, 128, 31}};
  return all[i];
}

}  // namespace

TEST(the_state_space_matches_double_and_every_instruction_set) {
  for (size_t i = 0; i < 4; ++i) {
    const Case& one = cases(i);
    const std::vector<double> expected = one.expected();
    std::vector<float> plain, plain_state, state;
    for (const CpuIsa isa : available_cpu_isas()) {
      const std::vector<float> out = one.run(isa, isa == CpuIsa::kPlain ? 1 : 3, pieces(31, {}, false), state);
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

TEST(no_cut_changes_a_bit_of_the_state_space) {
  for (size_t i = 0; i < 4; ++i) {
    const Case& one = cases(i);
    const auto floats = static_cast<size_t>(one.space.state_floats());
    for (const CpuIsa isa : available_cpu_isas()) {
      std::vector<float> whole, state;
      const std::vector<float> expected = one.run(isa, 2, pieces(31, {}, false), whole);
      for (const std::vector<int>& cuts : {std::vector<int>{7, 14, 21, 28}, {1}, {30}, {1, 2, 3}}) {
        for (const bool apart : {false, true}) {
          const std::vector<Segment> segments = pieces(31, cuts, apart);
          CHECK(same_bits(one.run(isa, 2, segments, state), expected));
          const size_t last = static_cast<size_t>(segments.back().state_to) * floats;
          CHECK(std::memcmp(state.data() + last, whole.data(), floats * sizeof(float)) == 0);
        }
      }
    }
  }
}
