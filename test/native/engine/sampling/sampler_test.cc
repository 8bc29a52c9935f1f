// Compares the sampler with a simple reference algorithm that sorts all tokens, truncates the list and draws a token.
// Both must choose the same token.
#include "engine/sampling/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "check.h"
#include "engine/sampling/philox.h"

namespace monolith {
namespace {

std::vector<float> random_logits(int n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TokenId choose(Sampler& sampler, const std::vector<float>& logits, const SamplingParams& params,
               const PenaltyCounts& counts, uint64_t seed, uint64_t position, const TokenConstraint& constraint,
               TokenLogprobs* logprobs) {
  SamplingParams seeded = params;
  seeded.seed = seed;
  SampleTask task = sample_task(logits.data(), seeded, counts, 0, position, constraint);
  if (!logprobs) task.n_top = -1;
  SampleResult result;
  sampler.sample(task, result);
  if (logprobs) *logprobs = result;
  return result.token;
}

struct Plain {
  std::vector<float> adjusted;
  TokenId token;
};

Plain plain_sample(std::vector<float> logits, const SamplingParams& params, const std::vector<TokenId>& prompt,
                   const std::vector<TokenId>& output, uint64_t seed, uint64_t position) {
  const auto n = static_cast<int>(logits.size());
  for (const auto& [token, bias] : params.logit_bias) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = bias <= -100 ? -std::numeric_limits<float>::infinity() : logit + bias;
  }
  for (TokenId id = 0; id < n; ++id) {
    const auto generated = std::count(output.begin(), output.end(), id);
    if (generated == 0 && std::count(prompt.begin(), prompt.end(), id) == 0) continue;
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (generated > 0) logit -= params.frequency_penalty * static_cast<float>(generated) + params.presence_penalty;
  }
  std::vector<TokenId> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (params.temperature == 0) return {logits, order[0]};
  const WeightScale scale{logits[static_cast<size_t>(order[0])], 1.0f / params.temperature};
  std::vector<float> weights(logits.size());
  sampler_kernels_named("plain")->weigh(logits.data(), n, scale, weights.data());
  const auto weight = [&](TokenId id) { return weights[static_cast<size_t>(id)]; };
  if (params.top_k > 0 && params.top_k < n) order.resize(static_cast<size_t>(params.top_k));
  if (params.top_p < 1) {
    double total = 0, sum = 0;
    for (const TokenId id : order) total += weight(id);
    size_t kept = 0;
    do sum += weight(order[kept++]);
    while (sum < double{params.top_p} * total && kept < order.size());
    order.resize(kept);
  }
  std::erase_if(order, [&](TokenId id) { return weight(id) < params.min_p; });
  std::sort(order.begin(), order.end());
  double total = 0, sum = 0;
  for (const TokenId id : order) total += weight(id);
  const auto quanta = static_cast<uint64_t>(total / kQuantum);
  const long double target =
      std::floor(std::ldexp(static_cast<long double>(random_bits(seed, 0, position)), -64) * quanta) * kQuantum;
  for (const TokenId id : order)
    if ((sum += weight(id)) > target) return {logits, id};
  return {logits, kNoToken};
}

TEST(philox_known_answers) {
  // Test values from the file kat_vectors in Random123, the library of the generator's authors.
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Streams must differ even if one seed equals the sum of another seed and a choice index.
TEST(random_streams_differ_between_seeds_and_choices) {
  std::set<uint64_t> drawn;
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (uint32_t stream = 0; stream < 4; ++stream)
      for (const uint64_t position : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1} << 32})
        CHECK(drawn.insert(random_bits(seed, stream, position)).second);
  // The stream for requests with a single choice must be the same in all versions of the engine.
  const PhiloxCounter first = philox4x32({7, 0, 0, 0}, {5, 1});
  CHECK_EQ(random_bits((uint64_t{1} << 32) + 5, 0, 7), uint64_t{first[1]} << 32 | first[0]);
}

TEST(sampling_weights_match_exp_and_add_exactly) {
  std::vector<float> logits(4001), weights(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = -0.01f * static_cast<float>(i);
  sampler_kernels().weigh(logits.data(), static_cast<int64_t>(logits.size()), {0, 1}, weights.data());
  CHECK_EQ(weights[0], 1.0f);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double exact = std::exp(static_cast<double>(logits[i]));
    if (std::abs(weights[i] - exact) > exact * 1.2e-7 + kQuantum / 2)
      check::fail(__FILE__, __LINE__, "exp(" + std::to_string(logits[i]) + ") is inaccurate");
    CHECK_EQ(std::fmod(weights[i] / kQuantum, 1.0), 0.0);
  }
}

TEST(sampler_kernels_agree_bit_for_bit) {
  const SamplerKernels& plain = *sampler_kernels_named("plain");
  for (const char* name : {"avx2", "avx512"}) {
    const SamplerKernels* fast = sampler_kernels_named(name);
    if (!fast) continue;
    CHECK_EQ(std::string(fast->name), name);
    for (const int n : {1, 15, 63, 64, 65, 640, 5003}) {
      const auto logits = random_logits(n, 4, static_cast<uint32_t>(n));
      const auto size = static_cast<size_t>(n), blocks = size / kBlock + 1;
      std::vector<float> max_a(blocks), max_b(blocks), w_a(size), w_b(size);
      std::vector<double> sums_a(blocks), sums_b(blocks);
      CHECK(plain.scan(logits.data(), n, max_a.data()) && fast->scan(logits.data(), n, max_b.data()));
      CHECK(max_a == max_b);
      const WeightScale scale{*std::max_element(logits.begin(), logits.end()), 0.7f};
      plain.weigh(logits.data(), n, scale, w_a.data());
      fast->weigh(logits.data(), n, scale, w_b.data());
      CHECK(w_a == w_b);
      std::vector<uint16_t> far_a(size), far_b(size);
      plain.distances(logits.data(), n, scale, far_a.data());
      fast->distances(logits.data(), n, scale, far_b.data());
      CHECK(far_a == far_b);
      CHECK_EQ(*std::min_element(far_a.begin(), far_a.end()), 0);
      for (const Cut cut : {Cut{}, Cut{logits[size / 2], n / 2}}) {
        const double a = plain.sum(logits.data(), n, max_a.data(), scale, cut, 0.01f, sums_a.data());
        const double b = fast->sum(logits.data(), n, max_b.data(), scale, cut, 0.01f, sums_b.data());
        CHECK_EQ(a, b);
        CHECK(sums_a == sums_b);
      }
    }
  }
}

TEST(sampler_matches_the_straightforward_algorithm) {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<float> values) { return values.begin()[random() % values.size()]; };
  int drawn = 0;
  for (int round = 0; round < 1500; ++round) {
    const int n = static_cast<int>(pick({5, 64, 640, 3000, 9001}));
    auto logits = random_logits(n, pick({0.01f, 1, 3, 12}), static_cast<uint32_t>(round));
    if (random() % 4 == 0)  // Many ties.
      for (float& logit : logits) logit = std::round(logit);
    SamplingParams params;
    params.temperature = pick({0, 0.3f, 1, 1, 2});
    params.top_k = static_cast<int>(pick({0, 0, 1, 4, 40, 700}));
    params.top_p = pick({0, 0.1f, 0.5f, 0.9f, 0.999f, 1, 1});
    params.min_p = pick({0, 0, 0.05f, 0.5f, 1});
    params.repetition_penalty = pick({1, 1, 1.3f, 0.8f});
    params.frequency_penalty = pick({0, 0, 0.5f, -1});
    params.presence_penalty = pick({0, 0, 0.7f});
    std::vector<TokenId> prompt, output;
    for (int i = 0; i < 20; ++i) prompt.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(n)));
    for (int i = 0; i < 20; ++i) output.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(n)));
    for (int i = 0; i < 3 && random() % 2; ++i)
      params.logit_bias.emplace_back(static_cast<TokenId>(i), pick({-100, 5, -2, 100}));
    PenaltyCounts counts(prompt, 30, n);
    for (const TokenId token : output) counts.add_generated(token);
    Sampler sampler(n);
    const uint64_t seed = random(), position = random() % 100;
    const TokenId chosen = choose(sampler, logits, params, counts, seed, position, {}, nullptr);
    const Plain plain = plain_sample(logits, params, prompt, output, seed, position);
    if (chosen != plain.token) {
      check::fail(__FILE__, __LINE__,
                  "round " + std::to_string(round) + ": " + std::to_string(chosen) + " instead of " +
                      std::to_string(plain.token));
    }
    drawn += params.temperature > 0;
    TokenLogprobs logprobs;  // Requesting logprobs must not change the choice.
    params.top_logprobs = static_cast<int>(random() % 21);
    CHECK_EQ(choose(sampler, logits, params, counts, seed, position, {}, &logprobs), chosen);
    CHECK_EQ(logprobs.token, chosen);
    const auto n_finite = std::ranges::count_if(plain.adjusted, [](float logit) { return std::isfinite(logit); });
    CHECK_EQ(logprobs.n_top, std::min(params.top_logprobs, static_cast<int>(n_finite)));
    double total = 0;
    const float max = *std::max_element(plain.adjusted.begin(), plain.adjusted.end());
    for (const float logit : plain.adjusted) total += std::exp(static_cast<double>(logit) - max);
    const auto exact = [&](TokenId id) { return plain.adjusted[static_cast<size_t>(id)] - max - std::log(total); };
    CHECK(std::abs(logprobs.logprob - exact(chosen)) < 2e-5 * (1 + std::abs(exact(chosen))));
    std::vector<float> sorted = plain.adjusted;
    std::sort(sorted.rbegin(), sorted.rend());
    for (int i = 0; i < logprobs.n_top; ++i) {
      const TokenId id = logprobs.top[i].token;
      CHECK_EQ(plain.adjusted[static_cast<size_t>(id)], sorted[static_cast<size_t>(i)]);
      CHECK(std::abs(logprobs.top[i].logprob - exact(id)) < 2e-5 * (1 + std::abs(exact(id))));
      if (i > 0 &&
          plain.adjusted[static_cast<size_t>(logprobs.top[i - 1].token)] == plain.adjusted[static_cast<size_t>(id)])
        CHECK(logprobs.top[i - 1].token < id);
    }
  }
  CHECK(drawn > 1000);
}

TEST(sampler_draws_in_proportion) {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5f};
  Sampler sampler(5);
  SamplingParams params;
  params.temperature = 0.8f;
  std::vector<int> seen(5, 0);
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto seed = static_cast<uint64_t>(i % 1000);
    ++seen[static_cast<size_t>(
        choose(sampler, logits, params, {}, seed, static_cast<uint64_t>(i / 1000), {}, nullptr))];
  }
  double total = 0, chi_square = 0;
  for (const float logit : logits) total += std::exp(logit / 0.8);
  for (size_t i = 0; i < 5; ++i) {
    const double expected = kDraws * std::exp(logits[i] / 0.8) / total;
    chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  CHECK(chi_square < 18.47);  // 4 degrees of freedom, probability of exceeding 1 in 1,000.
}

TEST(sampler_rejects_non_finite_logits) {
  Sampler sampler(100);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {size_t{0}, size_t{50}, size_t{99}}) {
      auto logits = random_logits(100, 1, 1);
      logits[at] = bad;
      CHECK_EQ(choose(sampler, logits, {}, {}, 1, 1, {}, nullptr), kNoToken);
    }
  }
}

TEST(sampler_scores_a_given_token_among_all_tokens) {
  const auto logits = random_logits(100, 2, 5);
  Sampler sampler(100);
  SampleTask task;
  task.logits = logits.data();
  task.given = 42;
  TokenLogprobs scored;
  sampler.sample(task, scored);
  CHECK_EQ(scored.token, 42);
  task.n_top = 3;
  sampler.sample(task, scored);
  CHECK_EQ(scored.token, 42);
  CHECK_EQ(scored.n_top, 3);
  CHECK(scored.logprob < scored.top[2].logprob);
}

TEST(sampler_logprob_of_the_only_allowed_token_is_zero) {
  const auto logits = random_logits(100, 2, 5);
  Sampler sampler(100);
  SamplingParams params;
  params.top_logprobs = 3;
  params.logit_bias = {{42, -100.0f}};  // A ban does not apply to it.
  TokenLogprobs logprobs;
  const TokenId only[] = {42};
  CHECK_EQ(choose(sampler, logits, params, {}, 1, 1, {only}, &logprobs), 42);
  CHECK_EQ(choose(sampler, logits, params, {}, 1, 1, {only}, nullptr), 42);
  CHECK_EQ(logprobs.token, 42);
  CHECK_EQ(logprobs.logprob, 0.0f);
  CHECK_EQ(logprobs.n_top, 1);
  CHECK_EQ(logprobs.top[0].token, 42);
  CHECK_EQ(logprobs.top[0].logprob, 0.0f);
}

// With a short list of allowed tokens, the result and its logprobs are the same as for the reference algorithm with all
// other tokens banned.
TEST(sampler_chooses_among_the_allowed_tokens) {
  std::mt19937 random(8);
  const auto pick = [&](std::initializer_list<float> values) { return values.begin()[random() % values.size()]; };
  for (int round = 0; round < 600; ++round) {
    const int n = static_cast<int>(pick({5, 64, 640, 9001}));
    const auto logits = random_logits(n, pick({0.01f, 3, 12}), static_cast<uint32_t>(round));
    std::vector<TokenId> allowed;
    for (size_t i = 0, count = 2 + random() % 6; i < count; ++i)
      allowed.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(n)));
    std::sort(allowed.begin(), allowed.end());
    allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
    SamplingParams params, banning;
    params.temperature = pick({0, 0.3f, 1, 2});
    params.top_k = static_cast<int>(pick({0, 1, 2, 40}));
    params.top_p = pick({0.1f, 0.9f, 1, 1});
    params.min_p = pick({0, 0, 0.5f});
    params.repetition_penalty = pick({1, 1.3f});
    params.logit_bias = {{allowed[0], pick({-2, 3})}};
    banning = params;
    for (TokenId id = 0; id < n; ++id)
      if (!std::binary_search(allowed.begin(), allowed.end(), id)) banning.logit_bias.emplace_back(id, -100.0f);
    const std::vector<TokenId> prompt = {allowed.back(), 0};
    const PenaltyCounts counts(prompt, 10, n);
    Sampler sampler(n);
    const uint64_t seed = random(), position = random() % 100;
    const TokenId chosen = choose(sampler, logits, params, counts, seed, position, {allowed}, nullptr);
    CHECK_EQ(chosen, plain_sample(logits, banning, prompt, {}, seed, position).token);
    std::vector<uint64_t> bits(static_cast<size_t>(n + 63) / 64);
    for (const TokenId token : allowed) bits[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    CHECK_EQ(choose(sampler, logits, params, counts, seed, position, {.allowed = {}, .mask = bits}, nullptr), chosen);
    TokenLogprobs constrained, banned;
    params.top_logprobs = banning.top_logprobs = 3;
    CHECK_EQ(choose(sampler, logits, params, counts, seed, position, {allowed}, &constrained), chosen);
    if (allowed.size() == 1) continue;  // The test above covers a single allowed token.
    CHECK_EQ(choose(sampler, logits, banning, counts, seed, position, {}, &banned), chosen);
    CHECK_EQ(constrained.logprob, banned.logprob);
    CHECK_EQ(constrained.n_top, std::min(3, static_cast<int>(allowed.size())));
    CHECK_EQ(banned.n_top, constrained.n_top);
    double total = 0;
    for (int i = 0; i < constrained.n_top; ++i) {
      CHECK_EQ(constrained.top[i].token, banned.top[i].token);
      CHECK_EQ(constrained.top[i].logprob, banned.top[i].logprob);
      total += std::exp(double{constrained.top[i].logprob});
    }
    if (allowed.size() <= 3) CHECK(std::abs(total - 1) < 1e-5);
  }
}

// A mask of allowed tokens has the same effect as a ban on all other tokens.
TEST(sampler_chooses_among_the_tokens_of_a_mask) {
  std::mt19937 random(9);
  const auto pick = [&](std::initializer_list<float> values) { return values.begin()[random() % values.size()]; };
  for (int round = 0; round < 600; ++round) {
    const int n = static_cast<int>(pick({5, 64, 640, 9001}));
    const auto logits = random_logits(n, pick({0.01f, 1, 3, 12}), static_cast<uint32_t>(round));
    const uint32_t one_in = 1 + random() % 200;
    std::vector<uint64_t> bits(static_cast<size_t>(n + 63) / 64);
    SamplingParams params, banning;
    params.temperature = pick({0, 0.3f, 1, 2});
    params.top_k = static_cast<int>(pick({0, 1, 2, 40, 700}));
    params.top_p = pick({0.1f, 0.9f, 1, 1});
    params.min_p = pick({0, 0, 0.5f});
    banning = params;
    int n_allowed = 0;
    for (TokenId id = 0; id < n; ++id) {
      if (random() % one_in == 0 || id + 1 == n)
        bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64), ++n_allowed;
      else
        banning.logit_bias.emplace_back(id, -100.0f);
    }
    const uint64_t seed = random(), position = random() % 100;
    for (const char* name : {"plain", "avx2", "avx512"}) {
      const SamplerKernels* kernels = sampler_kernels_named(name);
      if (!kernels) continue;
      Sampler sampler(n, *kernels);
      const TokenId chosen =
          choose(sampler, logits, params, {}, seed, position, {.allowed = {}, .mask = bits}, nullptr);
      const TokenId plain = n_allowed == 1 ? n - 1 : plain_sample(logits, banning, {}, {}, seed, position).token;
      CHECK_EQ(chosen, plain);
    }
  }
}

TEST(sampler_applies_bans_unless_a_constraint_overrides_them) {
  const std::vector<float> logits = {3, 2, 1, 0};
  Sampler sampler(4);
  SamplingParams params;
  params.temperature = 2;
  params.banned = {0, 2};
  params.logit_bias = {{0, 100.0f}};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const TokenId token = choose(sampler, logits, params, {}, seed, 0, {}, nullptr);
    CHECK(token == 1 || token == 3);
    const TokenId allowed[] = {0, 2, 3};
    CHECK_EQ(choose(sampler, logits, params, {}, seed, 0, {allowed}, nullptr), 3);
  }
  const TokenId only_banned[] = {0, 2};  // A constraint always leaves at least one token.
  params.temperature = 0;
  CHECK_EQ(choose(sampler, logits, params, {}, 1, 0, {only_banned}, nullptr), 0);
  params.banned = {0, 1, 2, 3};
  CHECK_EQ(choose(sampler, logits, params, {}, 1, 0, {}, nullptr), kNoToken);
}

TEST(sampler_speed) {
  for (const int n : {32'000, 151'936}) {
    for (const float spread : {1.0f, 3.0f, 8.0f}) {
      const auto logits = random_logits(n, spread, 3);
      Sampler sampler(n);
      std::string line = "vocabulary " + std::to_string(n) + ", spread " + std::to_string(static_cast<int>(spread)) +
                         ", us per token:";
      const auto measure = [&](const char* name, float temperature, float top_p, int top_k, bool wants_logprobs) {
        SamplingParams params;
        params.temperature = temperature;
        params.top_p = top_p;
        params.top_k = top_k;
        TokenLogprobs logprobs;
        params.top_logprobs = wants_logprobs ? 20 : -1;
        const auto start = std::chrono::steady_clock::now();
        for (uint64_t i = 0; i < 20; ++i)
          choose(sampler, logits, params, {}, 1, i, {}, wants_logprobs ? &logprobs : nullptr);
        const double us =
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 20;
        line += std::string(" ") + name + " " + std::to_string(static_cast<int>(us + 0.5));
        CHECK(us < 50'000);
      };
      measure("greedy", 0, 1, 0, false);
      measure("temperature", 0.8f, 1, 0, false);
      measure("top_p=0.9", 0.8f, 0.9f, 0, false);
      measure("top_k=40", 0.8f, 1, 40, false);
      measure("logprobs", 1, 1, 0, true);
      check::note(line);
    }
  }
}

}  // namespace
}  // namespace monolith
