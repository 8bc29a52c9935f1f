// Compares experts whose hidden dimension is smaller than the model's hidden dimension (Nemotron 3 Super) with a
// network in float64.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "check.h"
#include "model/architecture_cases.h"
#include "support/golden.h"
#include "support/network_run.h"

namespace monolith {
namespace {

using namespace testing;

constexpr uint32_t kLatent = 32, kShared = 40;

// One attention layer and one MoE layer.
TinyModel latent_experts() {
  TinyModel model("nemotron_h_moe");
  model.key("attention.head_count_kv", std::vector<uint32_t>{TinyModel::kKvHeads, 0});
  model.key("feed_forward_length", std::vector<uint32_t>{0, kExpertFf});
  model.key("expert_count", kExperts);
  model.key("expert_used_count", kUsed);
  model.key("expert_feed_forward_length", kExpertFf);
  model.key("expert_shared_feed_forward_length", kShared);
  model.key("expert_weights_norm", true);
  model.key("expert_weights_scale", 2.5f);
  model.key("moe_latent_size", kLatent);
  for (const char* name : {"ffn_norm.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) {
    model.tensors.erase(block_name(0) + name);
    model.tensors.erase(block_name(1) + name);
  }
  const std::string block = block_name(1);
  for (const char* name : {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight"})
    model.tensors.erase(block + name);
  model.matrix(block + "ffn_gate_inp.weight", kExperts, kEmbd);
  model.bias(block + "exp_probs_b.bias", kExperts);
  model.matrix(block + "ffn_latent_down.weight", kLatent, kEmbd);
  model.matrix(block + "ffn_latent_up.weight", kEmbd, kLatent);
  model.experts(block + "ffn_up_exps.weight", kExperts, kExpertFf, kLatent);
  model.experts(block + "ffn_down_exps.weight", kExperts, kLatent, kExpertFf);
  model.matrix(block + "ffn_up_shexp.weight", kShared, kEmbd);
  model.matrix(block + "ffn_down_shexp.weight", kEmbd, kShared);
  return model;
}

Row relu_squared(Row x) {
  for (double& value : x) value = value > 0 ? value * value : 0;
  return x;
}

Row experts(const P& net, const std::string& block, const Row& x) {
  Row scores = net.times(block + "ffn_gate_inp", x);
  for (double& score : scores) score = 1 / (1 + std::exp(-score));
  const Row by = P::plus(scores, net.values(block + "exp_probs_b.bias"));
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return by[a] > by[b]; });
  double sum = 0;
  for (size_t i = 0; i < kUsed; ++i) sum += scores[order[i]];
  const Row latent = net.times(block + "ffn_latent_down", x);
  Row result(kLatent);
  for (size_t i = 0; i < kUsed; ++i) {
    const size_t e = order[i];
    const Row inside = relu_squared(net.times(block + "ffn_up_exps", latent, e * kExpertFf, kExpertFf));
    result = P::plus(result, net.times(block + "ffn_down_exps", inside, e * kLatent, kLatent), 2.5 * scores[e] / sum);
  }
  return P::plus(net.times(block + "ffn_latent_up", result),
                 net.times(block + "ffn_down_shexp", relu_squared(net.times(block + "ffn_up_shexp", x))));
}

}  // namespace

TEST(latent_experts_match_their_float64_network) {
  const TinyModel model = latent_experts();
  const P net(model);
  const Tokens tokens = some_tokens(31);
  Rows x = net.embed(tokens);
  x = sum(x, attention(net, block_name(0), normed(net, block_name(0) + "attn_norm", x), {.frequency = {}}));
  x = sum(x, each(normed(net, block_name(1) + "attn_norm", x),
                  [&](const Row& row) { return experts(net, block_name(1), row); }));
  const Rows expected = logits_of(net, x);
  const ParsedModel parsed(model);
  REQUIRE(parsed.file != nullptr);
  for (const CpuIsa isa : available_cpu_isas()) {
    const Loaded loaded =
        load_network(*parsed.file, {.threads = 2, .isa = cpu_isa_name(isa), .arithmetic = Arithmetic::kExact});
    REQUIRE(loaded.model != nullptr);
    CHECK_EQ(loaded.model->memory().total(), loaded.model->allocated().total());
    for (const int piece : {31, 5}) {
      const std::vector<float> logits = run_network(*loaded.model, tokens, piece);
      double worst = 0;
      for (size_t row = 0; row < expected.size(); ++row) {
        const std::span<const float> ours(logits.data() + row * TinyModel::kVocab, TinyModel::kVocab);
        for (size_t i = 0; i < ours.size(); ++i)
          worst = std::max(worst, std::abs(ours[i] - expected[row][i]) / standard_deviation(ours));
      }
      if (!(worst < 2e-5))
        check::fail(__FILE__, __LINE__, "off by " + std::to_string(worst) + " on " + std::string(cpu_isa_name(isa)));
    }
  }
}

}  // namespace monolith
