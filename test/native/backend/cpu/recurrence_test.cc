// Tests the causal convolution and the delta rule. Results are compared with double precision and between instruction
// sets. They must be bit-identical for any division of a sequence into chunks and for any state slots.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "check.h"
#include "support/recurrence_cases.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

std::vector<float> run(const DeltaCase& one, CpuIsa isa, int threads, std::span<const Segment> segments,
                       const LayerSlots& slots) {
  CpuBackend ops(isa, threads);
  std::vector<float> rows = one.x, decays = one.decay, betas = one.beta;
  std::vector<float> out(static_cast<size_t>(one.n_rows * one.rule.n_value_heads * one.rule.value_dim));
  ops.delta_rule(one.rule, segments, slots,
                 {.q = rows.data(),
                  .k = rows.data() + one.keys,
                  .v = rows.data() + 2 * one.keys,
                  .stride = one.stride,
                  .decay = decays.data(),
                  .beta = betas.data()},
                 out.data());
  return out;
}

}  // namespace

TEST(the_delta_rule_matches_double_and_every_instruction_set) {
  for (const DeltaShape& shape : kDeltaShapes) {
    const DeltaCase one(shape, 40);
    const std::vector<double> expected = one.expected();
    std::vector<float> plain, plain_state;
    for (const CpuIsa isa : available_cpu_isas()) {
      Slots slots(one.rule.state_floats());
      const std::vector<float> out = run(one, isa, isa == CpuIsa::kPlain ? 1 : 3, pieces(40, {}, false), slots.view);
      check_near(out, expected, 2e-5, "keys of " + std::to_string(shape.key_dim));
      if (plain.empty()) plain = out, plain_state = slots.memory;
      CHECK(same_bits(out, plain));
      CHECK(same_bits(slots.memory, plain_state));
    }
  }
}

TEST(the_delta_rule_does_not_depend_on_chunks) {
  for (const DeltaShape& shape : kDeltaShapes) {
    const DeltaCase one(shape, 23);
    for (const CpuIsa isa : available_cpu_isas()) {
      Slots whole(one.rule.state_floats());
      const std::vector<float> expected = run(one, isa, 2, pieces(23, {}, false), whole.view);
      const auto state_of = [&](const Slots& slots, int32_t slot) {
        const float* const at = slots.view.of(slot);
        return std::vector<float>(at, at + one.rule.state_floats());
      };
      for (const std::vector<int>& cuts : {std::vector<int>{7, 14, 21}, {1}, {22}, {1, 2, 3}}) {
        for (const bool apart : {false, true}) {
          Slots slots(one.rule.state_floats());
          const std::vector<Segment> segments = pieces(23, cuts, apart);
          CHECK(same_bits(run(one, isa, 2, segments, slots.view), expected));
          CHECK(same_bits(state_of(slots, segments.back().state_to), state_of(whole, 0)));
        }
      }
    }
  }
}

TEST(sequences_of_a_step_use_their_own_state_and_forks_do_not_modify_theirs) {
  const DeltaShape shape{2, 4, 16, 16, true, false};
  const DeltaCase one(shape, 12);
  for (const CpuIsa isa : available_cpu_isas()) {
    // The state after tokens 0-3 is stored in slot 0. From that state, tokens 4-7 continue into slot 1 and tokens 8-11
    // into slot 2, as forks do.
    Slots slots(one.rule.state_floats());
    const std::vector<Segment> step = {
        {0, 4, 0, nullptr, kNoSlot, 0}, {4, 4, 4, nullptr, 0, 1}, {8, 4, 4, nullptr, 0, 2}};
    const std::vector<float> all = run(one, isa, 3, step, slots.view);
    Slots alone(one.rule.state_floats());
    const std::vector<Segment> first = {{0, 4, 0, nullptr, kNoSlot, 4}}, third = {{8, 4, 4, nullptr, 4, 4}};
    run(one, isa, 1, first, alone.view);
    const size_t floats = static_cast<size_t>(one.rule.state_floats());
    CHECK(std::memcmp(slots.view.of(0), alone.view.of(4), floats * sizeof(float)) == 0);
    const std::vector<float> last = run(one, isa, 1, third, alone.view);
    CHECK(std::equal(last.begin() + 8 * 64, last.end(), all.begin() + 8 * 64));
    CHECK(std::memcmp(slots.view.of(2), alone.view.of(4), floats * sizeof(float)) == 0);
    CHECK(slots.view.of(3)[0] == 1e30f);
  }
}

TEST(a_convolution_matches_double_with_any_chunks) {
  for (const int n_channels : {5, 16, 100, 300, 700}) {
    for (const int conv_kernel_size : {1, 2, 4, kMaxTaps}) {
      for (const bool plain : {false, true}) {
        const ConvolutionCase one(n_channels, conv_kernel_size, plain, 19);
        const std::vector<double> expected = one.expected();
        std::vector<float> first;
        for (const CpuIsa isa : available_cpu_isas()) {
          for (const std::vector<int>& cuts : {std::vector<int>{}, {1}, {2}, {7, 14}, {1, 2, 3, 4}, {18}}) {
            for (const bool apart : {false, true}) {
              Slots slots(std::max<int64_t>(one.convolution.state_floats(), 1));
              CpuBackend ops(isa, 2);
              std::vector<float> out = one.x;
              ops.convolve(one.convolution, pieces(one.n_rows, cuts, apart), slots.view, out.data(), one.stride);
              check_near(out, expected, 1e-4,
                         std::to_string(n_channels) + " channels, " + std::to_string(conv_kernel_size) + " taps");
              if (first.empty()) first = out;
              CHECK(same_bits(out, first));
            }
          }
        }
      }
    }
  }
}
