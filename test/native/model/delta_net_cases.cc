#include "model/delta_net_cases.h"

namespace monolith::testing {

TinyModel delta_nets(const char* architecture, bool in_runs) {
  TinyModel model(architecture, kInterval);
  model.key("full_attention_interval", kInterval);
  model.key("rope.dimension_count", 8u);
  model.key("ssm.conv_kernel", kTaps);
  model.key("ssm.state_size", kKeyDim);
  model.key("ssm.group_count", kKeyHeads);
  model.key("ssm.time_step_rank", kValueHeads);
  model.key("ssm.inner_size", kDeltaValues);
  for (uint32_t layer = 0; layer < kInterval; ++layer) {
    const std::string block = block_name(layer);
    model.tensors.erase(block + "ffn_norm.weight");
    model.norm(block + "post_attention_norm.weight", kEmbd);
    if (layer + 1 == kInterval) {
      // In the matrix, the query rows of each head are followed by its gate rows.
      model.matrix(block + "attn_q.weight", 2 * kQ, kEmbd);
      model.norm(block + "attn_q_norm.weight", TinyModel::kHeadDim);
      model.norm(block + "attn_k_norm.weight", TinyModel::kHeadDim);
      continue;
    }
    leave_out_attention(model, block);
    model.matrix(block + "attn_qkv.weight", 2 * kDeltaKeys + kDeltaValues, kEmbd);
    model.matrix(block + "attn_gate.weight", kDeltaValues, kEmbd);
    model.matrix(block + "ssm_conv1d.weight", 2 * kDeltaKeys + kDeltaValues, kTaps);
    if (in_runs) {
      model.matrix(block + "ssm_ba.weight", 2 * kValueHeads, kEmbd);
    } else {
      model.matrix(block + "ssm_alpha.weight", kValueHeads, kEmbd);
      model.matrix(block + "ssm_beta.weight", kValueHeads, kEmbd);
    }
    model.tensors[block + "ssm_a"] = {{kValueHeads}, TensorType::kF32, 0.2f, -0.5f};
    model.bias(block + "ssm_dt.bias", kValueHeads);
    model.norm(block + "ssm_norm.weight", kValueDim);
    model.matrix(block + "ssm_out.weight", kEmbd, kDeltaValues);
  }
  return model;
}

Row unit(Row x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return P::scaled(std::move(x), 1 / std::sqrt(sum));
}

Rows delta_net(const P& net, const std::string& block, const Rows& h, bool in_runs) {
  const Rows mixed =
      convolved(net, block + "ssm_conv1d", each(h, [&](const Row& row) { return net.times(block + "attn_qkv", row); }),
                false, silu);
  const Row rate = net.values(block + "ssm_a"), bias = net.values(block + "ssm_dt.bias");
  std::vector<Rows> states(kValueHeads, Rows(kKeyDim, Row(kValueDim)));
  Rows out;
  for (size_t row = 0; row < h.size(); ++row) {
    const Row gate = net.times(block + "attn_gate", h[row]);
    Row result;
    for (uint32_t head = 0; head < kValueHeads; ++head) {
      constexpr uint32_t kRun = kValueHeads / kKeyHeads;
      const uint32_t key_head = in_runs ? head / kRun : head % kKeyHeads;
      // The rows are grouped by key head: the betas of its value heads, then the decay inputs of its value heads.
      const uint32_t of_beta = in_runs ? key_head * 2 * kRun + head % kRun : head;
      const double beta = logistic(net.times(block + (in_runs ? "ssm_ba" : "ssm_beta"), h[row])[of_beta]);
      const double step =
          net.times(block + (in_runs ? "ssm_ba" : "ssm_alpha"), h[row])[in_runs ? of_beta + kRun : head];
      const double decay = std::exp(rate[head] * softplus(step + bias[head]));
      const Row query = unit(part_of(mixed[row], key_head * kKeyDim, kKeyDim));
      const Row key = unit(part_of(mixed[row], kDeltaKeys + key_head * kKeyDim, kKeyDim));
      const Row value = part_of(mixed[row], 2 * kDeltaKeys + head * kValueDim, kValueDim);
      Rows& state = states[head];
      Row seen(kValueDim), read(kValueDim);
      for (uint32_t i = 0; i < kKeyDim; ++i) {
        state[i] = P::scaled(std::move(state[i]), decay);
        seen = P::plus(std::move(seen), state[i], key[i]);
      }
      const Row change = P::plus(value, seen, -1);
      for (uint32_t i = 0; i < kKeyDim; ++i) {
        state[i] = P::plus(std::move(state[i]), change, key[i] * beta);
        read = P::plus(std::move(read), state[i], query[i] / std::sqrt(double{kKeyDim}));
      }
      const Row normed = net.norm(block + "ssm_norm", read);
      for (uint32_t i = 0; i < kValueDim; ++i) result.push_back(normed[i] * silu(gate[head * kValueDim + i]));
    }
    out.push_back(net.times(block + "ssm_out", result));
  }
  return out;
}

Rows gated_attention(const P& net, const std::string& block, const Rows& h) {
  const auto half = [&](size_t second) {
    return each(h, [&](const Row& row) {
      const Row both = net.times(block + "attn_q", row);
      Row out;
      for (size_t head = 0; head < TinyModel::kHeads; ++head)
        for (size_t i = 0; i < TinyModel::kHeadDim; ++i)
          out.push_back(both[(2 * head + second) * TinyModel::kHeadDim + i]);
      return out;
    });
  };
  const auto project = [&](const char* name) {
    return each(h, [&](const Row& row) { return net.times(block + name, row); });
  };
  Rows q = normed(net, block + "attn_q_norm", half(0)), k = normed(net, block + "attn_k_norm", project("attn_k"));
  P::rotate(q, P::frequencies(10000, 8), true);
  P::rotate(k, P::frequencies(10000, 8), true);
  Rows attended = P::attend(q, k, project("attn_v"), {});
  const Rows gates = half(1);
  for (size_t row = 0; row < h.size(); ++row) attended[row] = P::gated(logistic, gates[row], attended[row]);
  return each(attended, [&](const Row& row) { return net.times(block + "attn_output", row); });
}

Rows delta_net_layers(const P& net, const Tokens& tokens, bool in_runs,
                      const std::function<Row(const std::string&, const Row&)>& network) {
  Rows x = net.embed(tokens);
  for (uint32_t layer = 0; layer < kInterval; ++layer) {
    const std::string block = block_name(layer);
    const Rows h = normed(net, block + "attn_norm", x);
    x = sum(x, layer + 1 == kInterval ? gated_attention(net, block, h) : delta_net(net, block, h, in_runs));
    x = sum(x,
            each(normed(net, block + "post_attention_norm", x), [&](const Row& row) { return network(block, row); }));
  }
  return logits_of(net, x);
}

Case qwen35() {
  TinyModel model = delta_nets("qwen35", false);
  return {"qwen35", model, [](const P& net, const Tokens& tokens) {
            return delta_net_layers(net, tokens, false, [&](const std::string& block, const Row& row) {
              return gated_mlp(net, block, row);
            });
          }};
}

Case delta_nets_with_experts(const char* architecture, bool in_runs) {
  TinyModel model = delta_nets(architecture, in_runs);
  put_experts(model, kExpertFf);
  model.key("expert_shared_feed_forward_length", 80u);
  put_shared_expert(model, 80);
  for_blocks(model, [&](const std::string& block) { model.bias(block + "ffn_gate_inp_shexp.weight", kEmbd); });
  return {architecture, model, [in_runs](const P& net, const Tokens& tokens) {
            return delta_net_layers(net, tokens, in_runs, [&](const std::string& block, const Row& row) {
              return P::plus(net.mixture(block, row, kExpertFf, kUsed, true),
                             gated_mlp(net, block, row, silu, "_shexp"),
                             logistic(net.times(block + "ffn_gate_inp_shexp", row)[0]));
            });
          }};
}

}  // namespace monolith::testing
