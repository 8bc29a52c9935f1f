#include "model/kimi_cases.h"

namespace monolith::testing {

void put_channel_decay(TinyModel& model, const std::string& block) {
  leave_out_attention(model, block);
  for (const char* part : {"q", "k", "v"}) {
    model.matrix(block + "attn_" + part + ".weight", kKdaWidth, kEmbd);
    model.experts(block + "ssm_conv1d_" + part + ".weight", kKdaWidth, 1, kTaps);
  }
  model.matrix(block + "ssm_f_a.weight", kKdaRank, kEmbd);
  model.matrix(block + "ssm_f_b.weight", kKdaWidth, kKdaRank);
  model.matrix(block + "ssm_g_a.weight", kKdaRank, kEmbd);
  model.matrix(block + "ssm_g_b.weight", kKdaWidth, kKdaRank);
  model.matrix(block + "ssm_beta.weight", TinyModel::kHeads, kEmbd);
  model.tensors[block + "ssm_a"] = {{1, TinyModel::kHeads}, TensorType::kF32, 0.2f, -0.5f};
  model.bias(block + "ssm_dt.bias", kKdaWidth);
  model.norm(block + "ssm_norm.weight", kKdaDim);
  model.matrix(block + "attn_output.weight", kEmbd, kKdaWidth);
}

void put_latent_attention(TinyModel& model, const std::string& block) {
  leave_out_attention(model, block);
  model.matrix(block + "attn_q.weight", TinyModel::kHeads * (kOwnDim + kSharedDim), kEmbd);
  model.matrix(block + "attn_kv_a_mqa.weight", kLatentRank + kSharedDim, kEmbd);
  model.norm(block + "attn_kv_a_norm.weight", kLatentRank);
  model.experts(block + "attn_k_b.weight", TinyModel::kHeads, kLatentRank, kOwnDim);
  model.experts(block + "attn_v_b.weight", TinyModel::kHeads, kLatentValue, kLatentRank);
  model.matrix(block + "attn_output.weight", kEmbd, TinyModel::kHeads * kLatentValue);
}

Rows channel_decay_net(const P& net, const std::string& block, const Rows& h) {
  const auto mixed = [&](const std::string& part) {
    return convolved(net, block + "ssm_conv1d_" + part,
                     each(h, [&](const Row& row) { return net.times(block + "attn_" + part, row); }), false, silu);
  };
  const Rows queries = mixed("q"), keys = mixed("k"), values = mixed("v");
  const Row rate = net.values(block + "ssm_a"), bias = net.values(block + "ssm_dt.bias");
  std::vector<Rows> states(TinyModel::kHeads, Rows(kKdaDim, Row(kKdaDim)));
  Rows out;
  for (size_t row = 0; row < h.size(); ++row) {
    const Row steps = net.times(block + "ssm_f_b", net.times(block + "ssm_f_a", h[row]));
    const Row gate = net.times(block + "ssm_g_b", net.times(block + "ssm_g_a", h[row]));
    const Row betas = net.times(block + "ssm_beta", h[row]);
    Row result;
    for (uint32_t head = 0; head < TinyModel::kHeads; ++head) {
      const size_t at = size_t{head} * kKdaDim;
      const Row query = unit(part_of(queries[row], at, kKdaDim)), key = unit(part_of(keys[row], at, kKdaDim));
      Rows& state = states[head];
      Row seen(kKdaDim), read(kKdaDim);
      for (uint32_t i = 0; i < kKdaDim; ++i) {
        state[i] = P::scaled(std::move(state[i]), std::exp(rate[head] * softplus(steps[at + i] + bias[at + i])));
        seen = P::plus(std::move(seen), state[i], key[i]);
      }
      const Row change = P::plus(part_of(values[row], at, kKdaDim), seen, -1);
      for (uint32_t i = 0; i < kKdaDim; ++i) {
        state[i] = P::plus(std::move(state[i]), change, key[i] * logistic(betas[head]));
        read = P::plus(std::move(read), state[i], query[i] / std::sqrt(double{kKdaDim}));
      }
      const Row normed = net.norm(block + "ssm_norm", read);
      for (uint32_t i = 0; i < kKdaDim; ++i) result.push_back(normed[i] * logistic(gate[at + i]));
    }
    out.push_back(net.times(block + "attn_output", result));
  }
  return out;
}

Rows unrotated_latent_attention(const P& net, const std::string& block, const Rows& h) {
  constexpr size_t kKey = kOwnDim + kSharedDim;
  const Row of_keys = net.values(block + "attn_k_b.weight"), of_values = net.values(block + "attn_v_b.weight");
  std::vector<Rows> keys(TinyModel::kHeads), values(TinyModel::kHeads);
  Rows out;
  for (const Row& x : h) {
    const Row kept = net.times(block + "attn_kv_a_mqa", x), query = net.times(block + "attn_q", x);
    const Row latent = net.norm(block + "attn_kv_a_norm", part_of(kept, 0, kLatentRank));
    Row attended;
    for (uint32_t head = 0; head < TinyModel::kHeads; ++head) {
      Row key(kOwnDim), value(kLatentValue);
      for (uint32_t r = 0; r < kLatentRank; ++r) {
        for (uint32_t i = 0; i < kOwnDim; ++i) key[i] += of_keys[(head * kLatentRank + r) * kOwnDim + i] * latent[r];
        for (uint32_t i = 0; i < kLatentValue; ++i)
          value[i] += of_values[(head * kLatentValue + i) * kLatentRank + r] * latent[r];
      }
      key.insert(key.end(), kept.begin() + kLatentRank, kept.end());  // This part of the keys is shared by all heads.
      keys[head].push_back(key);
      values[head].push_back(value);
      Row result(kLatentValue);
      double sum = 0;
      for (size_t p = 0; p < keys[head].size(); ++p) {
        const Row own = part_of(query, head * kKey, kKey);
        const double weight =
            std::exp(std::inner_product(own.begin(), own.end(), keys[head][p].begin(), 0.0) / std::sqrt(double{kKey}));
        result = P::plus(std::move(result), values[head][p], weight);
        sum += weight;
      }
      for (const double number : result) attended.push_back(number / sum);
    }
    out.push_back(net.times(block + "attn_output", attended));
  }
  return out;
}

Case kimi_linear() {
  TinyModel model("kimi-linear", 3);
  model.key("attention.head_count_kv", std::vector<uint32_t>{0, 1, 0});
  for (const auto& [key, value] :
       {std::pair{"attention.kv_lora_rank", kLatentRank}, std::pair{"attention.key_length", kLatentRank + kSharedDim},
        std::pair{"attention.value_length", kLatentRank}, std::pair{"attention.key_length_mla", kOwnDim + kSharedDim},
        std::pair{"attention.value_length_mla", kLatentValue}, std::pair{"rope.dimension_count", kSharedDim},
        std::pair{"kda.head_dim", kKdaDim}, std::pair{"ssm.conv_kernel", kTaps}, std::pair{"expert_shared_count", 1u}})
    model.key(key, value);
  model.key("expert_weights_scale", 2.5f);
  put_latent_attention(model, block_name(1));
  for (const uint32_t layer : {0u, 2u}) put_channel_decay(model, block_name(layer));
  put_experts(model, kExpertFf, 1);
  put_shared_expert(model, kExpertFf, 1);
  put_choice_bias(model, 1);
  return {"kimi-linear", model, [](const P& net, const Tokens& tokens) {
            return logits_of(
                net, pre_norm_layers(
                         net, tokens, 3,
                         [&](uint32_t layer, const std::string& block, const Rows& h) {
                           return layer == 1 ? unrotated_latent_attention(net, block, h)
                                             : channel_decay_net(net, block, h);
                         },
                         [&](const std::string& block, const Row& row) {
                           return mixture_beside(
                               net, block, row, 1,
                               {.n_ff = kExpertFf, .used = kUsed, .sigmoid = true, .choice_bias = true, .scale = 2.5});
                         }));
          }};
}

}  // namespace monolith::testing
