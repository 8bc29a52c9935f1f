// Tests MoE layers: each token's result equals the sum over the token's experts, computed one by one. Covers ties,
// other tokens in the batch, and every instruction set.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "matrix_data.h"

using namespace monolith;

namespace {

constexpr MixtureShape kShape = {.n_experts = 9, .n_used = 3, .n_embd = 256, .n_ff = 512};
constexpr int kRows = 40;

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.uniform();
  return values;
}

// The weights of an MoE layer, both in stacked matrices for the backend and separately for each expert.
struct Experts {
  std::unique_ptr<Matrix> gate, up, down;
  struct One {
    std::unique_ptr<Matrix> gate, up, down;
  };
  std::vector<One> each;
};

std::unique_ptr<Matrix> matrix(Backend& backend, TensorType type, int64_t rows, int64_t cols,
                               std::span<const std::byte> data) {
  auto made = backend.matrix({type, rows, cols, data});
  return made ? std::move(*made) : nullptr;
}

Experts make_experts(Backend& backend, TensorType type) {
  Experts experts;
  experts.each.resize(kShape.n_experts);
  const auto fill = [&](uint64_t seed, int64_t rows, int64_t cols, std::unique_ptr<Matrix>& stacked,
                        std::unique_ptr<Matrix> Experts::One::*one) {
    const std::vector<std::byte> data = matrix_data(type, rows * kShape.n_experts, cols, seed);
    stacked = matrix(backend, type, rows * kShape.n_experts, cols, data);
    const size_t bytes = data.size() / kShape.n_experts;
    for (size_t e = 0; e < experts.each.size(); ++e)
      experts.each[e].*one = matrix(backend, type, rows, cols, std::span(data).subspan(e * bytes, bytes));
  };
  fill(1, kShape.n_ff, kShape.n_embd, experts.gate, &Experts::One::gate);
  fill(2, kShape.n_ff, kShape.n_embd, experts.up, &Experts::One::up);
  fill(3, kShape.n_embd, kShape.n_ff, experts.down, &Experts::One::down);
  return experts;
}

Mixture mixture_of(const Experts& experts, bool normalized = true, float scale = 1.0f) {
  return {.shape = kShape,
          .gate = experts.gate.get(),
          .up = experts.up.get(),
          .down = experts.down.get(),
          .activation = Activation::kSilu,
          .router = {.normalized = normalized, .scale = scale}};
}

std::unique_ptr<Backend> backend_for(CpuIsa isa, int threads) {
  auto backend = make_cpu_backend({.threads = threads, .isa = cpu_isa_name(isa)});
  if (!backend || !(*backend)->reserve(kRows, 512, 16, 16, kShape)) return nullptr;
  return std::move(*backend);
}

std::vector<float> run(Backend& backend, const Mixture& mixture, const std::vector<float>& logits,
                       const std::vector<float>& x, int first, int n_rows, bool add = false) {
  std::vector<float> out(static_cast<size_t>(n_rows) * kShape.n_embd, add ? 1.0f : -77.0f);
  backend.mixture(mixture, logits.data() + first * kShape.n_experts, x.data() + first * kShape.n_embd,
                  RowCount::fixed(n_rows), out.data(), add);
  return out;
}

constexpr RowCount kOne = RowCount::fixed(1);

// Computes one expert for one token with the backend's ordinary matrix products.
std::vector<float> expert_alone(Backend& backend, const Experts::One& one, const float* x) {
  std::vector<float> gate(kShape.n_ff), up(kShape.n_ff), out(kShape.n_embd);
  const MatmulTarget inner[] = {{one.gate.get(), gate.data(), kShape.n_ff}, {one.up.get(), up.data(), kShape.n_ff}};
  backend.matmul(inner, x, kOne);
  backend.gated(Activation::kSilu, gate.data(), up.data(), kOne, kShape.n_ff, gate.data());
  const MatmulTarget outer{one.down.get(), out.data(), kShape.n_embd};
  backend.matmul({&outer, 1}, gate.data(), kOne);
  return out;
}

bool same_bits(const std::vector<float>& a, const float* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST(moe_is_the_weighted_sum_of_its_experts) {
  const auto x = random_floats(kRows * kShape.n_embd, 4);
  const auto logits = random_floats(kRows * kShape.n_experts, 5);
  for (const TensorType type : {TensorType::kF32, TensorType::kQ8_0, TensorType::kQ4_K}) {
    const auto backend = backend_for(available_cpu_isas().back(), 2);
    REQUIRE(backend != nullptr);
    const Experts experts = make_experts(*backend, type);
    for (const bool normalized : {true, false}) {
      const auto out = run(*backend, mixture_of(experts, normalized, 0.5f), logits, x, 0, kRows);
      double worst = 0, largest = 0;
      for (int row = 0; row < kRows; ++row) {
        const float* own = logits.data() + row * kShape.n_experts;
        std::vector<int> order(kShape.n_experts);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::sort(order, [&](int a, int b) { return own[a] > own[b]; });
        double sum = 0;
        for (int i = 0; i < (normalized ? kShape.n_used : kShape.n_experts); ++i)
          sum += std::exp(double(own[order[i]]));
        std::vector<double> expected(kShape.n_embd);
        for (int i = 0; i < kShape.n_used; ++i) {
          const auto result = expert_alone(*backend, experts.each[order[i]], x.data() + row * kShape.n_embd);
          for (int d = 0; d < kShape.n_embd; ++d)
            expected[d] += 0.5 * std::exp(double(own[order[i]])) / sum * result[d];
        }
        for (int d = 0; d < kShape.n_embd; ++d) {
          worst = std::max(worst, std::abs(out[row * kShape.n_embd + d] - expected[d]));
          largest = std::max(largest, std::abs(expected[d]));
        }
      }
      if (!(worst <= 1e-6 * largest))
        check::fail(__FILE__, __LINE__,
                    std::string(traits_of(type).name) + " is off by " + std::to_string(worst / largest) +
                        " of the largest value");
    }
  }
}

// Covers experts whose router weight is applied to their input, and experts without a gate. Results are also compared
// with ordinary matrix products.
TEST(experts_may_apply_router_weights_to_their_input_and_lack_a_gate) {
  const auto x = random_floats(kRows * kShape.n_embd, 4), logits = random_floats(kRows * kShape.n_experts, 5);
  const auto backend = backend_for(available_cpu_isas().back(), 2);
  REQUIRE(backend != nullptr);
  const Experts experts = make_experts(*backend, TensorType::kF32);
  for (const bool gateless : {false, true}) {
    Mixture mixture = mixture_of(experts);
    mixture.router = {.score = RouterScore::kSigmoid, .normalized = false};
    mixture.apply_router_weight_on_input = !gateless;
    mixture.activation = gateless ? Activation::kReluSquared : Activation::kSilu;
    if (gateless) mixture.gate = nullptr;
    const auto out = run(*backend, mixture, logits, x, 0, kRows);
    for (int row = 0; row < kRows; ++row) {
      const float* const own = logits.data() + row * kShape.n_experts;
      std::vector<int> order(kShape.n_experts);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, [&](int a, int b) { return own[a] > own[b]; });
      std::vector<double> expected(kShape.n_embd);
      for (int i = 0; i < kShape.n_used; ++i) {
        const float weight = 1 / (1 + std::exp(-own[order[i]]));
        std::vector<float> input(x.begin() + row * kShape.n_embd, x.begin() + (row + 1) * kShape.n_embd);
        for (float& value : input) value *= gateless ? 1.0f : weight;
        const Experts::One& one = experts.each[order[i]];
        std::vector<float> result(kShape.n_embd), inner(kShape.n_ff);
        if (gateless) {
          const MatmulTarget up{one.up.get(), inner.data(), kShape.n_ff},
              down{one.down.get(), result.data(), kShape.n_embd};
          backend->matmul({&up, 1}, input.data(), kOne);
          for (float& value : inner) value = value > 0 ? value * value : 0;
          backend->matmul({&down, 1}, inner.data(), kOne);
        } else {
          result = expert_alone(*backend, one, input.data());
        }
        for (int d = 0; d < kShape.n_embd; ++d) expected[d] += (gateless ? weight : 1.0f) * result[d];
      }
      double worst = 0, largest = 0;
      for (int d = 0; d < kShape.n_embd; ++d) {
        worst = std::max(worst, std::abs(out[row * kShape.n_embd + d] - expected[d]));
        largest = std::max(largest, std::abs(expected[d]));
      }
      CHECK(worst <= 1e-5 * largest);
    }
  }
}

TEST(moe_results_do_not_depend_on_batch_threads_and_instruction_set) {
  const auto x = random_floats(kRows * kShape.n_embd, 6);
  auto logits = random_floats(kRows * kShape.n_experts, 7);
  // Many tokens select the same expert, so that several tiles are needed.
  for (int row = 0; row < kRows; ++row) logits[row * kShape.n_experts + 4] += 1.0f;
  for (const TensorType type : {TensorType::kF16, TensorType::kQ4_0, TensorType::kQ6_K}) {
    std::vector<float> first;
    for (const CpuIsa isa : available_cpu_isas()) {
      for (const int threads : {1, 3}) {
        const auto backend = backend_for(isa, threads);
        REQUIRE(backend != nullptr);
        const Experts experts = make_experts(*backend, type);
        const Mixture mixture = mixture_of(experts);
        const auto whole = run(*backend, mixture, logits, x, 0, kRows);
        if (first.empty()) first = whole;
        CHECK(same_bits(whole, first.data()));
        for (const int n : {1, 2, 17})
          CHECK(same_bits(run(*backend, mixture, logits, x, 20, n), first.data() + 20 * kShape.n_embd));
        const auto added = run(*backend, mixture, logits, x, 3, 1, true);
        const std::span alone(first.data() + 3 * kShape.n_embd, kShape.n_embd);
        const float largest =
            std::abs(*std::ranges::max_element(alone, {}, [](float value) { return std::abs(value); }));
        for (size_t d = 0; d < alone.size(); ++d) CHECK(std::abs(added[d] - 1 - alone[d]) <= 2e-6f * (largest + 1));
      }
    }
  }
}

TEST(experts_narrower_than_a_block_are_computed) {
  constexpr MixtureShape kNarrow = {.n_experts = 9, .n_used = 3, .n_embd = 48, .n_ff = 16};
  constexpr int64_t kInside = int64_t{kNarrow.n_experts} * kNarrow.n_ff;
  constexpr int64_t kOutside = int64_t{kNarrow.n_experts} * kNarrow.n_embd;
  const auto x = random_floats(kRows * kNarrow.n_embd, 4), logits = random_floats(kRows * kNarrow.n_experts, 5);
  std::vector<float> first;
  for (const CpuIsa isa : available_cpu_isas()) {
    auto backend = make_cpu_backend({.threads = 2, .isa = cpu_isa_name(isa)});
    REQUIRE(backend && (*backend)->reserve(kRows, 64, 16, 16, kNarrow));
    const auto gate = matrix(**backend, TensorType::kF32, kInside, kNarrow.n_embd,
                             matrix_data(TensorType::kF32, kInside, kNarrow.n_embd, 1));
    const auto up = matrix(**backend, TensorType::kF32, kInside, kNarrow.n_embd,
                           matrix_data(TensorType::kF32, kInside, kNarrow.n_embd, 2));
    const auto down = matrix(**backend, TensorType::kF32, kOutside, kNarrow.n_ff,
                             matrix_data(TensorType::kF32, kOutside, kNarrow.n_ff, 3));
    const Mixture mixture{.shape = kNarrow, .gate = gate.get(), .up = up.get(), .down = down.get()};
    std::vector<float> out(static_cast<size_t>(kRows) * kNarrow.n_embd);
    (*backend)->mixture(mixture, logits.data(), x.data(), RowCount::fixed(kRows), out.data(), false);
    CHECK(std::ranges::any_of(out, [](float value) { return value != 0; }));
    if (first.empty()) first = out;
    CHECK(same_bits(out, first.data()));
  }
}

TEST(equal_logits_select_the_lower_index) {
  const auto backend = backend_for(available_cpu_isas().back(), 1);
  REQUIRE(backend != nullptr);
  const Experts experts = make_experts(*backend, TensorType::kF32);
  const auto x = random_floats(kShape.n_embd, 8);
  const auto by = [&](std::vector<float> logits) { return run(*backend, mixture_of(experts), logits, x, 0, 1); };
  // Five experts are tied. Experts 1, 3 and 5 are selected, regardless of the other logits.
  const auto tied = by({-1, 2, -1, 2, -1, 2, 2, 2, -1});
  CHECK(same_bits(tied, by({-9, 2, -9, 2, -9, 2, 1, 1, -9}).data()));
  const auto one_larger = by({-1, 2, -1, 2, -1, 2, 2, 2.5f, -1});
  CHECK(same_bits(one_larger, by({-9, 2, -9, 2, -9, 0, 1, 2.5f, -9}).data()));
}

TEST(nan_logits_affect_only_their_own_row) {
  const auto backend = backend_for(available_cpu_isas().back(), 1);
  REQUIRE(backend != nullptr);
  const Experts experts = make_experts(*backend, TensorType::kQ8_0);
  const auto x = random_floats(3 * kShape.n_embd, 9);
  const auto bias = random_floats(kShape.n_experts, 11);
  for (const Router& router :
       {Router{}, Router{.score = RouterScore::kSigmoid, .bias = bias.data(), .groups = 3, .groups_used = 2},
        Router{.score = RouterScore::kSoftmax, .bias = bias.data(), .scale = 2.5f}}) {
    auto logits = random_floats(3 * kShape.n_experts, 10);
    Mixture mixture = mixture_of(experts);
    mixture.router = router;
    const auto before = run(*backend, mixture, logits, x, 0, 3);
    for (int e = 0; e < kShape.n_experts; ++e)
      logits[kShape.n_experts + e] = e % 2 == 0 ? std::nanf("") : std::numeric_limits<float>::infinity();
    const auto after = run(*backend, mixture, logits, x, 0, 3);
    const size_t row = kShape.n_embd;
    CHECK(std::memcmp(before.data(), after.data(), row * sizeof(float)) == 0);
    CHECK(std::memcmp(before.data() + 2 * row, after.data() + 2 * row, row * sizeof(float)) == 0);
  }
}

// All sigmoid scores are close to 0, so the routing weights are computed from tiny numbers.
TEST(scores_near_zero_still_give_weights) {
  const auto backend = backend_for(available_cpu_isas().back(), 1);
  REQUIRE(backend != nullptr);
  const Experts experts = make_experts(*backend, TensorType::kF32);
  const auto x = random_floats(kShape.n_embd, 12);
  Mixture mixture = mixture_of(experts);
  mixture.router.score = RouterScore::kSigmoid;
  for (const float logit : {-60.0f, -1000.0f}) {
    std::vector<float> logits(kShape.n_experts, logit);
    for (const float value : run(*backend, mixture, logits, x, 0, 1)) CHECK(std::isfinite(value));
  }
}

TEST(reserve_rejects_invalid_moe_shapes) {
  auto backend = make_cpu_backend({.threads = 1});
  REQUIRE(backend.ok());
  for (const MixtureShape& shape :
       {MixtureShape{4, 5, 64, 64}, MixtureShape{4, 0, 64, 64}, MixtureShape{4, 2, 60, 64}, MixtureShape{4, 2, 64, 40},
        MixtureShape{-1, 2, 64, 64}, MixtureShape{4, 2, 0, 64}, MixtureShape{60000, 60000, 64, 64}}) {
    CHECK(!(*backend)->reserve(8192, 64, 16, 16, shape).ok());
  }
  CHECK_EQ((*backend)->scratch_bytes(8, 64, 16, 16, {}), (*backend)->scratch_bytes(8, 64, 16, 16));
}
