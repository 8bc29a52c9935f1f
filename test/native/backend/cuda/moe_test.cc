// Tests MoE layers on the device. Each token's result is compared with the sum over the token's experts, computed one
// by one. Covers ties and NaN logits. Results are bit-identical regardless of the other tokens in the batch, and every
// kind of router produces the same bits as on the CPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "emulator/emulator.h"
#include "backend/cuda/moe/grouped.h"
#include "base/half.h"
#include "check.h"

using namespace monolith;

namespace {

constexpr MixtureShape kShape = {.n_experts = 9, .n_used = 3, .n_embd = 80, .n_ff = 48};
constexpr int kRows = 30;

std::mt19937 source(8);

std::vector<float> numbers(int64_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(source);
  return values;
}

struct Experts {
  std::unique_ptr<Matrix> gate, up, down;
  struct One {
    std::unique_ptr<Matrix> gate, up, down;
  };
  std::vector<One> each{static_cast<size_t>(kShape.n_experts)};
  // Biases of the matrices, stacked over all experts.
  float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
  Activation activation = Activation::kSilu;
};

std::unique_ptr<Matrix> matrix(Backend& backend, TensorType type, int64_t rows, int64_t cols,
                               std::span<const std::byte> data) {
  const bool fp8 = type == TensorType::kF8E4M3;  // FP8 weights are converted from binary16.
  auto made = backend.matrix({fp8 ? TensorType::kF16 : type, rows, cols, data, fp8});
  return made ? std::move(*made) : nullptr;
}

Experts make_experts(Backend& backend, TensorType type) {
  Experts experts;
  const auto fill = [&](int64_t rows, int64_t cols, std::unique_ptr<Matrix>& stacked,
                        std::unique_ptr<Matrix> Experts::One::*one) {
    const std::vector<float> values = numbers(rows * cols * kShape.n_experts);
    std::vector<std::byte> data(values.size() * (type == TensorType::kF32 ? 4 : 2));
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = values[i] * 0.1f;
      const uint16_t bits = type == TensorType::kBF16 ? float_to_bfloat16(value) : float_to_half(value);
      if (type == TensorType::kF32)
        std::memcpy(&data[i * 4], &value, 4);
      else
        std::memcpy(&data[i * 2], &bits, 2);
    }
    stacked = matrix(backend, type, rows * kShape.n_experts, cols, data);
    const size_t bytes = data.size() / kShape.n_experts;
    for (size_t e = 0; e < experts.each.size(); ++e)
      experts.each[e].*one = matrix(backend, type, rows, cols, std::span(data).subspan(e * bytes, bytes));
  };
  fill(kShape.n_ff, kShape.n_embd, experts.gate, &Experts::One::gate);
  fill(kShape.n_ff, kShape.n_embd, experts.up, &Experts::One::up);
  fill(kShape.n_embd, kShape.n_ff, experts.down, &Experts::One::down);
  return experts;
}

Mixture mixture_of(const Experts& experts, bool normalized) {
  return {.shape = kShape,
          .gate = experts.gate.get(),
          .up = experts.up.get(),
          .down = experts.down.get(),
          .gate_bias = experts.gate_bias,
          .up_bias = experts.up_bias,
          .down_bias = experts.down_bias,
          .activation = experts.activation,
          .router = {.normalized = normalized, .scale = 0.5f}};
}

// Copies floats to the backend's memory.
float* put(Backend& backend, const std::vector<float>& values) {
  auto memory = backend.allocate(static_cast<int64_t>(values.size()));
  if (!memory) return nullptr;
  backend.write_floats(*memory, values.data(), static_cast<int64_t>(values.size()));
  return *memory;
}
std::vector<float> get(Backend& backend, const float* from, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  backend.read_floats(values.data(), from, n);
  return values;
}

std::vector<float> run(Backend& backend, const Mixture& mixture, const float* logits, const float* x, int first,
                       int n_rows, bool add) {
  float* const out = put(backend, std::vector<float>(static_cast<size_t>(n_rows) * kShape.n_embd,
                                                     add ? 1.0f : std::numeric_limits<float>::quiet_NaN()));
  backend.mixture(mixture, logits + first * kShape.n_experts, x + first * kShape.n_embd, RowCount::fixed(n_rows), out,
                  add);
  return get(backend, out, int64_t{n_rows} * kShape.n_embd);
}

constexpr RowCount kOne = RowCount::fixed(1);

std::vector<float> expert_alone(Backend& backend, const Experts& experts, int e, const float* x) {
  const Experts::One& one = experts.each[static_cast<size_t>(e)];
  const auto of = [&](const float* biases, int rows) { return biases ? biases + e * rows : nullptr; };
  float* const gate = put(backend, std::vector<float>(static_cast<size_t>(kShape.n_ff)));
  float* const up = put(backend, std::vector<float>(static_cast<size_t>(kShape.n_ff)));
  float* const out = put(backend, std::vector<float>(static_cast<size_t>(kShape.n_embd)));
  const MatmulTarget inner[] = {{one.gate.get(), gate, kShape.n_ff, of(experts.gate_bias, kShape.n_ff)},
                                {one.up.get(), up, kShape.n_ff, of(experts.up_bias, kShape.n_ff)}};
  backend.matmul(inner, x, kOne);
  backend.gated(experts.activation, gate, up, kOne, kShape.n_ff, gate);
  const MatmulTarget outer{one.down.get(), out, kShape.n_embd, of(experts.down_bias, kShape.n_embd)};
  backend.matmul({&outer, 1}, gate, kOne);
  return get(backend, out, kShape.n_embd);
}

// Returns the result of one expert without a gate.
std::vector<float> plain_expert_alone(Backend& backend, const Experts& experts, int e, const float* x) {
  const Experts::One& one = experts.each[static_cast<size_t>(e)];
  float* const up = put(backend, std::vector<float>(static_cast<size_t>(kShape.n_ff)));
  float* const out = put(backend, std::vector<float>(static_cast<size_t>(kShape.n_embd)));
  const MatmulTarget inner{one.up.get(), up, kShape.n_ff}, outer{one.down.get(), out, kShape.n_embd};
  backend.matmul({&inner, 1}, x, kOne);
  backend.activate(Activation::kReluSquared, up, kOne, kShape.n_ff);
  backend.matmul({&outer, 1}, up, kOne);
  return get(backend, out, kShape.n_embd);
}

std::unique_ptr<Backend> backend_for(bool wgmma) {
  auto backend = make_cuda_backend({.wgmma = wgmma});
  if (!backend || !(*backend)->reserve(kRows, 96, 16, 16, kShape)) return nullptr;
  return std::move(*backend);
}

bool same_bits(const std::vector<float>& a, const float* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST(cuda_moe_is_the_weighted_sum_of_its_experts_in_any_batch) {
  using enum cuda::emulator::Order;
  struct Way {
    TensorType type;
    bool wgmma, normalized, biased;
    cuda::emulator::Order order;
  };
  for (const Way way :
       {Way{TensorType::kF32, true, true, true, kAscending}, Way{TensorType::kBF16, true, false, true, kDescending},
        Way{TensorType::kF16, false, true, true, kShuffled}, Way{TensorType::kF16, true, true, false, kAscending},
        Way{TensorType::kF8E4M3, true, false, true, kAscending},
        Way{TensorType::kF8E4M3, false, true, false, kDescending}}) {
    cuda::emulator::set_order(way.order);
    const auto backend = backend_for(way.wgmma);
    REQUIRE(backend != nullptr);
    Experts experts = make_experts(*backend, way.type);
    if (way.biased) {
      experts.gate_bias = put(*backend, numbers(kShape.n_experts * kShape.n_ff));
      experts.up_bias = put(*backend, numbers(kShape.n_experts * kShape.n_ff));
      experts.down_bias = put(*backend, numbers(kShape.n_experts * kShape.n_embd));
      experts.activation = Activation::kClampedSilu;
    }
    REQUIRE(experts.down != nullptr && experts.each[8].down != nullptr);
    const Mixture mixture = mixture_of(experts, way.normalized);
    std::vector<float> logits = numbers(kRows * kShape.n_experts);
    for (int e = 0; e < kShape.n_experts; ++e) {
      logits[2 * kShape.n_experts + e] = 0.25f;  // All logits are equal, so the first experts are selected.
      logits[3 * kShape.n_experts + e] = e % 2 ? 1.0f : -1.0f;
      for (int row = 10; row < 20; ++row)
        logits[row * kShape.n_experts + e] += e < 3 ? 9.0f : 0.0f;  // Ten tokens that share a few experts.
    }
    logits[4 * kShape.n_experts + 1] = -INFINITY;
    // A NaN logit never counts as one of the largest.
    logits[5 * kShape.n_experts + 7] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> x = numbers(kRows * kShape.n_embd);
    float* const logits_there = put(*backend, logits);
    float* const x_there = put(*backend, x);
    const std::vector<float> whole = run(*backend, mixture, logits_there, x_there, 0, kRows, false);
    for (const int row : {0, 2, 3, 4, 5, 12, 29}) {
      if (row == 5 && !way.normalized) continue;  // The softmax over all experts is NaN for this token.
      const float* own = &logits[static_cast<size_t>(row) * kShape.n_experts];
      std::vector<int> order(kShape.n_experts);
      std::iota(order.begin(), order.end(), 0);
      const auto key = [&](int e) { return std::isnan(own[e]) ? -INFINITY : own[e]; };
      std::ranges::stable_sort(order, [&](int a, int b) { return key(a) > key(b); });
      double sum = 0;
      for (int i = 0; i < (way.normalized ? kShape.n_used : kShape.n_experts); ++i)
        sum += std::exp(double{own[order[static_cast<size_t>(i)]]} - own[order[0]]);
      std::vector<double> expected(kShape.n_embd);
      for (int i = 0; i < kShape.n_used; ++i) {
        const int e = order[static_cast<size_t>(i)];
        const auto alone = expert_alone(*backend, experts, e, x_there + row * kShape.n_embd);
        for (size_t d = 0; d < expected.size(); ++d)
          expected[d] += 0.5 * std::exp(double{own[e]} - own[order[0]]) / sum * alone[d];
      }
      double worst = 0;
      for (size_t d = 0; d < expected.size(); ++d)
        worst = std::max(worst, std::abs(expected[d] - whole[static_cast<size_t>(row) * kShape.n_embd + d]));
      if (!(worst < 1e-5))
        check::fail(__FILE__, __LINE__, "row " + std::to_string(row) + " is off by " + std::to_string(worst));
    }
    for (const auto& [first, n] : {std::pair{29, 1}, std::pair{9, 12}, std::pair{0, 2}})
      CHECK(same_bits(run(*backend, mixture, logits_there, x_there, first, n, false),
                      &whole[static_cast<size_t>(first) * kShape.n_embd]));
    const std::vector<float> added = run(*backend, mixture, logits_there, x_there, 12, 1, true);
    for (int d = 0; d < kShape.n_embd; ++d)
      CHECK(std::abs(added[static_cast<size_t>(d)] - 1.0f - whole[static_cast<size_t>(12 * kShape.n_embd + d)]) <
            1e-5f);
  }
  cuda::emulator::set_order(kAscending);
}

namespace {

// Returns the routing weights: the output of an MoE layer whose tensors are all zero, except that the bias of expert e
// is 1 at index e.
std::vector<float> weights_of(Backend& backend, const MixtureShape& shape, Router router,
                              const std::vector<float>& biases, const std::vector<float>& logits, int n_rows,
                              const TokenExperts& by_token) {
  const int64_t inside = int64_t{shape.n_experts} * shape.n_ff, outside = int64_t{shape.n_experts} * shape.n_embd;
  const std::vector<std::byte> zeros(static_cast<size_t>(inside * shape.n_embd) * sizeof(float));
  const auto up = matrix(backend, TensorType::kF32, inside, shape.n_embd, zeros);
  const auto down = matrix(backend, TensorType::kF32, outside, shape.n_ff, zeros);
  std::vector<float> ones(static_cast<size_t>(outside));
  for (int e = 0; e < shape.n_experts; ++e) ones[static_cast<size_t>(e) * (static_cast<size_t>(shape.n_embd) + 1)] = 1;
  if (!biases.empty()) router.bias = put(backend, biases);
  const Mixture mixture{.shape = shape,
                        .gate = up.get(),
                        .up = up.get(),
                        .down = down.get(),
                        .down_bias = put(backend, ones),
                        .router = router,
                        .by_token = by_token};
  if (Status status = backend.supports(mixture); !status) check::fail(__FILE__, __LINE__, status.error().message);
  float* const x = put(backend, std::vector<float>(static_cast<size_t>(n_rows) * static_cast<size_t>(shape.n_embd)));
  const float* const logits_there = put(backend, logits);
  backend.mixture(mixture, logits_there, x, RowCount::fixed(n_rows), x, false);
  return get(backend, x, int64_t{n_rows} * shape.n_embd);
}

}  // namespace

TEST(cuda_routers_match_the_cpu) {
  using enum cuda::emulator::Order;
  struct Way {
    int experts, used;
    Router router;
    bool biased;
    int rows;  // Number of tokens. With 33, the routing takes more than one thread block.
    bool by_token = false;
  };
  using enum RouterScore;
  const Way ways[] = {
      {9, 3, {.normalized = false, .scale = 0.5f}, false, 33},
      {40, 40, {}, false, 2},
      {64, 4, {.score = kSigmoid}, false, 33},
      {64, 6, {.score = kSigmoid, .normalized = false, .scale = 2.5f}, true, 5},
      {33, 5, {.score = kSoftmax, .scale = 1.5f}, true, 32},
      {48, 4, {.score = kSigmoid, .groups = 8, .groups_used = 3, .scale = 2.5f}, true, 33},
      {64, 8, {.score = kSoftmax, .groups = 4, .groups_used = 1, .normalized = false}, false, 3},
      {132, 7, {.score = kSigmoid, .groups = 44, .groups_used = 5}, true, 4},
      {528, 6, {.score = kSigmoid, .groups = 33, .groups_used = 2}, true, 2},
      {64, 6, {.score = kRootSoftplus, .scale = 1.5f}, true, 33},
      {64, 6, {.score = kRootSoftplus, .normalized = false}, false, 5},
      {64, 6, {.score = kRootSoftplus, .scale = 1.5f}, false, 33, true},
      {48, 3, {}, false, 4, true},
  };
  cuda::emulator::Order order = kAscending;
  for (const Way& way : ways) {
    const int width = (way.experts + 15) / 16 * 16;
    const MixtureShape shape{.n_experts = way.experts, .n_used = way.used, .n_embd = width, .n_ff = 16};
    std::vector<float> logits = numbers(int64_t{way.rows} * way.experts);
    for (float& logit : logits) logit *= 3;
    // Tests rows in which all experts are tied, some experts are tied, or some scores are near zero and one is exactly
    // zero.
    for (int e = 0; e < way.experts; ++e) {
      logits[static_cast<size_t>(e)] = 0.25f;
      logits[static_cast<size_t>(way.experts + e)] = e % 3 == 1 ? 1.0f : -0.5f;
      if (way.rows > 2)
        logits[static_cast<size_t>(2 * way.experts + e)] = e == 1 ? -INFINITY : -95.0f - static_cast<float>(e % 5);
    }
    std::vector<float> biases;
    if (way.biased) {
      biases = numbers(way.experts);
      for (size_t e = 0; e < biases.size(); e += 3) biases[e] = 0;
    }
    // The experts for each token ID in a vocabulary of kTokens, and the tokens of the rows that remain in the step, in
    // reverse order.
    constexpr int kTokens = 11;
    std::vector<int32_t> of_token, tokens, left;
    for (int i = 0; i < kTokens * way.used; ++i) of_token.push_back((i * 5 + i / way.used) % way.experts);
    for (int row = 0; row < way.rows; ++row) {
      tokens.push_back(row * 7 % kTokens);
      left.push_back(way.rows - 1 - row);
    }
    const TokenExperts by_token{way.by_token ? of_token.data() : nullptr, tokens.data(),
                                way.rows > 4 ? left.data() : nullptr};
    auto cpu = make_cpu_backend({.threads = 1, .arithmetic = Arithmetic::kExact});
    auto cuda = make_cuda_backend({.exact = true});
    REQUIRE(cpu.ok() && cuda.ok());
    REQUIRE((*cpu)->reserve(way.rows, shape.n_embd, 16, 16, shape).ok());
    REQUIRE((*cuda)->reserve(way.rows, shape.n_embd, 16, 16, shape).ok());
    cuda::emulator::set_order(order);
    order = order == kAscending ? kShuffled : order == kShuffled ? kDescending : kAscending;
    const auto wanted = weights_of(**cpu, shape, way.router, biases, logits, way.rows, by_token);
    const auto given = weights_of(**cuda, shape, way.router, biases, logits, way.rows, by_token);
    if (!same_bits(given, wanted.data()))
      check::fail(__FILE__, __LINE__, std::to_string(way.experts) + " experts, " + std::to_string(way.used) + " used");
    CHECK(std::ranges::count_if(wanted, [](float weight) { return weight != 0; }) > way.rows);
  }
  cuda::emulator::set_order(kAscending);
}

TEST(cuda_expert_tiles_fit_the_expected_tokens) {
  using cuda::columns_of_group;
  CHECK_EQ(columns_of_group(8, 128), 1);  // A single token needs one column per expert.
  CHECK_EQ(columns_of_group(128, 128), 1);
  CHECK_EQ(columns_of_group(512, 128), 8);
  CHECK_EQ(columns_of_group(2048, 128), 24);
  CHECK_EQ(columns_of_group(16384, 128), 152);
  CHECK_EQ(cuda::most_tiles(8, 128, 8), 8);  // One tile per pair, or one per expert plus one for the remainder.
  CHECK_EQ(cuda::most_tiles(2048, 128, 32), 188);
}

// The expert selection changes between tokens and between launches, but each token's result stays the same.
TEST(cuda_moe_does_not_depend_on_a_random_batch) {
  using enum cuda::emulator::Order;
  const auto backend = backend_for(true);
  REQUIRE(backend != nullptr);
  const Experts experts = make_experts(*backend, TensorType::kBF16);
  const Mixture mixture = mixture_of(experts, true);
  const std::vector<float> x = numbers(kRows * kShape.n_embd), logits = numbers(kRows * kShape.n_experts);
  const std::vector<float> whole = run(*backend, mixture, put(*backend, logits), put(*backend, x), 0, kRows, false);
  for (const auto order : {kDescending, kShuffled, kAscending}) {
    cuda::emulator::set_order(order);
    const int n = std::uniform_int_distribution<int>(1, kRows)(source);
    std::vector<int> rows(static_cast<size_t>(n));
    std::vector<float> their_x, their_logits;
    for (int& row : rows) {
      row = std::uniform_int_distribution<int>(0, kRows - 1)(source);
      their_x.insert(their_x.end(), x.begin() + row * kShape.n_embd, x.begin() + (row + 1) * kShape.n_embd);
      their_logits.insert(their_logits.end(), logits.begin() + row * kShape.n_experts,
                          logits.begin() + (row + 1) * kShape.n_experts);
    }
    const auto some = run(*backend, mixture, put(*backend, their_logits), put(*backend, their_x), 0, n, false);
    for (size_t i = 0; i < rows.size(); ++i)
      CHECK(std::memcmp(&some[i * kShape.n_embd], &whole[static_cast<size_t>(rows[i]) * kShape.n_embd],
                        kShape.n_embd * sizeof(float)) == 0);
  }
  cuda::emulator::set_order(kAscending);
}

// There are enough tokens per expert for wide tiles.
TEST(cuda_moe_of_prompts_gives_each_token_its_own_result) {
  constexpr int kMany = 160;
  auto backend = make_cuda_backend({});
  REQUIRE(backend && (*backend)->reserve(kMany, 96, 16, 16, kShape).ok());
  const Experts experts = make_experts(**backend, TensorType::kBF16);
  const Mixture mixture = mixture_of(experts, true);
  float* const logits = put(**backend, numbers(kMany * kShape.n_experts));
  float* const x = put(**backend, numbers(kMany * kShape.n_embd));
  const std::vector<float> whole = run(**backend, mixture, logits, x, 0, kMany, false);
  for (const int row : {0, 77, kMany - 1})
    CHECK(
        same_bits(run(**backend, mixture, logits, x, row, 1, false), &whole[static_cast<size_t>(row) * kShape.n_embd]));
}

// Covers experts without a gate, and experts whose router weight multiplies their input instead of their output.
TEST(cuda_moe_without_gates_and_with_weighted_input) {
  for (const TensorType type : {TensorType::kF32, TensorType::kBF16, TensorType::kF16})
    for (const bool weighed : {false, true}) {
      const auto backend = backend_for(true);
      REQUIRE(backend != nullptr);
      const Experts experts = make_experts(*backend, type);
      Mixture mixture = mixture_of(experts, true);
      mixture.router.score = RouterScore::kSigmoid;
      mixture.apply_router_weight_on_input = weighed;
      if (!weighed) {
        mixture.gate = nullptr;
        mixture.activation = Activation::kReluSquared;
      }
      REQUIRE((*backend).supports(mixture).ok());
      const std::vector<float> logits = numbers(kRows * kShape.n_experts), x = numbers(kRows * kShape.n_embd);
      float* const logits_there = put(*backend, logits);
      float* const x_there = put(*backend, x);
      const std::vector<float> whole = run(*backend, mixture, logits_there, x_there, 0, kRows, false);
      for (const int row : {0, 13, kRows - 1}) {
        const float* const own = &logits[static_cast<size_t>(row) * kShape.n_experts];
        std::vector<int> order(kShape.n_experts);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](int a, int b) { return own[a] > own[b]; });
        const auto score = [&](int e) { return 1 / (1 + std::exp(-double{own[e]})); };
        double sum = 0;
        for (int i = 0; i < kShape.n_used; ++i) sum += score(order[static_cast<size_t>(i)]);
        std::vector<double> expected(kShape.n_embd);
        for (int i = 0; i < kShape.n_used; ++i) {
          const int e = order[static_cast<size_t>(i)];
          const double weight = 0.5 * score(e) / sum;
          std::vector<float> input(x.begin() + row * kShape.n_embd, x.begin() + (row + 1) * kShape.n_embd);
          if (weighed)
            for (float& value : input) value *= static_cast<float>(weight);
          const float* const there = put(*backend, input);
          const auto alone =
              weighed ? expert_alone(*backend, experts, e, there) : plain_expert_alone(*backend, experts, e, there);
          for (size_t d = 0; d < expected.size(); ++d) expected[d] += (weighed ? 1.0 : weight) * alone[d];
        }
        double worst = 0, largest = 1;
        for (size_t d = 0; d < expected.size(); ++d) {
          worst = std::max(worst, std::abs(expected[d] - whole[static_cast<size_t>(row) * kShape.n_embd + d]));
          largest = std::max(largest, std::abs(expected[d]));
        }
        // If a routing weight differs in its last bit, an input may be rounded differently.
        if (!(worst < (weighed && type != TensorType::kF32 ? 1e-2 : 1e-5) * largest))
          check::fail(__FILE__, __LINE__, "row " + std::to_string(row) + " is off by " + std::to_string(worst));
      }
      for (const auto& [first, n] : {std::pair{29, 1}, std::pair{9, 12}})
        CHECK(same_bits(run(*backend, mixture, logits_there, x_there, first, n, false),
                        &whole[static_cast<size_t>(first) * kShape.n_embd]));
    }
}

TEST(cuda_unsupported_moe_is_rejected_by_name) {
  const auto backend = make_cuda_backend({});
  REQUIRE(backend.ok());
  const auto refused = [&](const Mixture& mixture, const char* what) {
    const Status status = (*backend)->supports(mixture);
    CHECK(!status.ok() && status.error().code == ErrorCode::kUnsupported &&
          status.error().message.find(what) != std::string::npos);
  };
  Mixture mixture{.shape = {.n_experts = 4097, .n_used = 2, .n_embd = 64, .n_ff = 64},
                  .gate = nullptr,
                  .up = nullptr,
                  .down = nullptr};
  refused(mixture, "MoE layers with 4097 experts");
  mixture.shape.n_experts = 130;
  mixture.router.groups = 65;
  refused(mixture, "MoE layers with 65 expert groups");
  const int32_t of_token = 0;
  mixture.router.groups = 1;
  mixture.shape.n_used = 17;
  mixture.by_token.of_token = &of_token;
  refused(mixture, "MoE layers with 17 experts per token id");
}

TEST(cuda_invalid_moe_is_rejected) {
  const auto refused = [](const MixtureShape& shape) {
    auto backend = make_cuda_backend({});
    return backend.ok() && !(*backend)->reserve(4, 64, 16, 16, shape).ok();
  };
  CHECK(refused({.n_experts = 4, .n_used = 5, .n_embd = 64, .n_ff = 64}));
  CHECK(refused({.n_experts = 4, .n_used = 2, .n_embd = 60, .n_ff = 64}));
  CHECK(refused({.n_experts = 4, .n_used = 2, .n_embd = 64, .n_ff = -16}));
  CHECK(refused({.n_experts = 4097, .n_used = 2, .n_embd = 64, .n_ff = 64}));
  auto backend = make_cuda_backend({});
  REQUIRE(backend.ok());
  CHECK((*backend)->reserve(4, 64, 16, 16, kShape).ok());
  CHECK((*backend)->reserve(4, 64, 16, 16).ok());
  CHECK(!(*backend)->reserve(4, 64, 16, 16, {.n_experts = 8, .n_used = 3, .n_embd = 80, .n_ff = 48}).ok());
}
