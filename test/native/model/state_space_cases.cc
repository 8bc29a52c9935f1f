#include "model/state_space_cases.h"

#include "model/delta_net_cases.h"

namespace monolith::testing {

void put_space_sizes(TinyModel& model) {
  model.key("ssm.conv_kernel", kTaps);
  model.key("ssm.inner_size", kSpaceWidth);
  model.key("ssm.state_size", kSpaceState);
  model.key("ssm.time_step_rank", kSpaceHeads);
  model.key("ssm.group_count", kSpaceGroups);
}

void put_space(TinyModel& model, const std::string& block, bool out_norm) {
  model.matrix(block + "ssm_in.weight", kSpaceWidth + kSpaceChannels + kSpaceHeads, kEmbd);
  model.matrix(block + "ssm_conv1d.weight", kSpaceChannels, kTaps);
  model.bias(block + "ssm_conv1d.bias", kSpaceChannels);
  model.tensors[block + "ssm_a"] = {{1, kSpaceHeads}, TensorType::kF32, 0.2f, -0.5f};
  model.bias(block + "ssm_dt.bias", kSpaceHeads);
  model.tensors[block + "ssm_d"] = {{1, kSpaceHeads}, TensorType::kF32, 0.2f, 1.0f};
  if (out_norm)
    model.tensors[block + "ssm_norm.weight"] = {
        {kSpaceWidth / kSpaceGroups, kSpaceGroups}, TensorType::kF32, 0.2f, 1.0f};
  model.matrix(block + "ssm_out.weight", kEmbd, kSpaceWidth);
}

Rows mamba2_mixer(const P& net, const std::string& block, const Rows& h, bool out_norm, bool biased) {
  const auto project = [&](size_t first, size_t count) {
    return each(h, [&](const Row& row) { return net.times(block + "ssm_in", row, first, count); });
  };
  const Rows gate = project(0, kSpaceWidth), steps = project(kSpaceWidth + kSpaceChannels, kSpaceHeads);
  const Rows mixed = convolved(net, block + "ssm_conv1d", project(kSpaceWidth, kSpaceChannels), biased, silu);
  const Row rate = net.values(block + "ssm_a"), bias = net.values(block + "ssm_dt.bias"),
            skip = net.values(block + "ssm_d");
  std::vector<Rows> states(kSpaceHeads, Rows(kSpaceDim, Row(kSpaceState)));
  Rows out;
  for (size_t row = 0; row < h.size(); ++row) {
    Row result;
    for (uint32_t head = 0; head < kSpaceHeads; ++head) {
      const uint32_t group = head / (kSpaceHeads / kSpaceGroups);
      const Row b = part_of(mixed[row], kSpaceWidth + group * kSpaceState, kSpaceState);
      const Row c = part_of(mixed[row], kSpaceWidth + (kSpaceGroups + group) * kSpaceState, kSpaceState);
      const double step = softplus(steps[row][head] + bias[head]), decay = std::exp(step * rate[head]);
      for (uint32_t i = 0; i < kSpaceDim; ++i) {
        Row& state = states[head][i];
        const double x = mixed[row][head * kSpaceDim + i];
        state = P::plus(P::scaled(std::move(state), decay), b, step * x);
        result.push_back(std::inner_product(state.begin(), state.end(), c.begin(), skip[head] * x));
      }
    }
    result = P::gated(silu, gate[row], result);
    if (out_norm) {
      const Row weight = net.values(block + "ssm_norm.weight");
      constexpr size_t kSize = kSpaceWidth / kSpaceGroups;
      for (size_t group = 0; group < kSpaceGroups; ++group) {
        const Row own = part_of(result, group * kSize, kSize);
        const double mean = std::inner_product(own.begin(), own.end(), own.begin(), 0.0) / kSize;
        for (size_t i = 0; i < kSize; ++i)
          result[group * kSize + i] *= weight[group * kSize + i] / std::sqrt(mean + 1e-5f);
      }
    }
    out.push_back(net.times(block + "ssm_out", result));
  }
  return out;
}

Case mamba2() {
  TinyModel model("mamba2", 3);
  put_space_sizes(model);
  model.key("attention.head_count", 0u);
  model.key("attention.head_count_kv", 0u);
  model.key("feed_forward_length", 0u);
  for_blocks(model, [&](const std::string& block) {
    leave_out_attention(model, block);
    leave_out_network(model, block);
    put_space(model, block, true);
  });
  return {"mamba2", model, [](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 3; ++layer)
              x = sum(x, mamba2_mixer(net, block_name(layer), normed(net, block_name(layer) + "attn_norm", x), true));
            return logits_of(net, x);
          }};
}

Case granitehybrid(bool experts) {
  TinyModel model("granitehybrid", 3);
  put_granite_scales(model);
  put_space_sizes(model);
  model.key("rope.scaling.finetuned", false);
  model.key("attention.head_count_kv", std::vector<uint32_t>{0, TinyModel::kKvHeads, 0});
  for (const uint32_t layer : {0u, 2u}) {
    leave_out_attention(model, block_name(layer));
    put_space(model, block_name(layer), true);
  }
  if (experts) {
    put_experts(model, kExpertFf);
    model.key("expert_shared_feed_forward_length", 80u);
    put_shared_expert(model, 80);
  }
  return {experts ? "granitehybrid with experts" : "granitehybrid", model,
          [experts](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens, 12);
            for (uint32_t layer = 0; layer < 3; ++layer) {
              const std::string block = block_name(layer);
              const Rows h = normed(net, block + "attn_norm", x);
              x = sum(x,
                      layer == 1 ? attention(net, block, h, {.frequency = {}}, {.scale = 0.125})
                                 : mamba2_mixer(net, block, h, true),
                      0.22f);
              x = sum(x,
                      each(normed(net, block + "ffn_norm", x),
                           [&](const Row& row) {
                             if (!experts) return gated_mlp(net, block, row);
                             return P::plus(net.mixture(block, row, kExpertFf, kUsed, true),
                                            gated_mlp(net, block, row, silu, "_shexp"));
                           }),
                      0.22f);
            }
            return each(logits_of(net, x), [](const Row& row) { return P::scaled(row, 1 / 8.0); });
          }};
}

Case nemotron_h() {
  TinyModel model("nemotron_h", 4);
  put_space_sizes(model);
  model.key("attention.head_count_kv", std::vector<uint32_t>{0, TinyModel::kKvHeads, 0, 0});
  model.key("feed_forward_length", std::vector<uint32_t>{0, 0, kFf, 0});
  for (const uint32_t layer : {0u, 2u, 3u}) leave_out_attention(model, block_name(layer));
  for (const uint32_t layer : {0u, 1u, 3u}) leave_out_network(model, block_name(layer));
  for (const uint32_t layer : {0u, 3u}) put_space(model, block_name(layer), true);
  model.tensors.erase("blk.2.ffn_norm.weight");
  model.tensors.erase("blk.2.ffn_gate.weight");
  return {"nemotron_h", model, [](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 4; ++layer) {
              const std::string block = block_name(layer);
              const Rows h = normed(net, block + "attn_norm", x);
              if (layer == 1) {
                x = sum(x, attention(net, block, h, {.frequency = {}}));
              } else if (layer == 2) {
                x = sum(x, each(h, [&](const Row& row) {
                          Row inside = net.times(block + "ffn_up", row);
                          for (double& value : inside) value = value > 0 ? value * value : 0;
                          return net.times(block + "ffn_down", inside);
                        }));
              } else {
                x = sum(x, mamba2_mixer(net, block, h, true));
              }
            }
            return logits_of(net, x);
          }};
}

Case falcon_h1(bool out_norm) {
  TinyModel model("falcon-h1");
  put_space_sizes(model);
  for_blocks(model, [&](const std::string& block) {
    put_space(model, block, out_norm);
    if (!out_norm) model.tensors.erase(block + "ssm_conv1d.bias");
    model.tensors[block + "ffn_norm"] = model.tensors.at(block + "ffn_norm.weight");
    model.tensors.erase(block + "ffn_norm.weight");
  });
  return {out_norm ? "falcon-h1 with a norm" : "falcon-h1", model, [out_norm](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 2; ++layer) {
              const std::string block = block_name(layer);
              const Rows h = normed(net, block + "attn_norm", x);
              x = sum(sum(x, mamba2_mixer(net, block, h, out_norm, out_norm)), attention(net, block, h, {}));
              const Row weight = net.values(block + "ffn_norm");
              x = sum(x, each(x, [&](Row row) {
                        const double mean = std::inner_product(row.begin(), row.end(), row.begin(), 0.0) / kEmbd;
                        for (size_t i = 0; i < row.size(); ++i) row[i] *= weight[i] / std::sqrt(mean + 1e-5f);
                        return gated_mlp(net, block, row);
                      }));
            }
            return logits_of(net, x);
          }};
}

namespace {

constexpr uint32_t kMambaWidth = 2 * kEmbd, kMambaState = 8, kMambaRank = 6;

void put_mamba(TinyModel& model, const std::string& block, bool normed) {
  model.matrix(block + "ssm_in.weight", 2 * kMambaWidth, kEmbd);
  model.matrix(block + "ssm_conv1d.weight", kMambaWidth, kTaps);
  model.bias(block + "ssm_conv1d.bias", kMambaWidth);
  model.matrix(block + "ssm_x.weight", kMambaRank + 2 * kMambaState, kMambaWidth);
  model.matrix(block + "ssm_dt.weight", kMambaWidth, kMambaRank);
  model.bias(block + "ssm_dt.bias", kMambaWidth);
  model.tensors[block + "ssm_a"] = {{kMambaState, kMambaWidth}, TensorType::kF32, 0.2f, -0.5f};
  model.tensors[block + "ssm_d"] = {{kMambaWidth}, TensorType::kF32, 0.2f, 1.0f};
  model.matrix(block + "ssm_out.weight", kEmbd, kMambaWidth);
  if (!normed) return;
  model.norm(block + "ssm_dt_norm.weight", kMambaRank);
  model.norm(block + "ssm_b_norm.weight", kMambaState);
  model.norm(block + "ssm_c_norm.weight", kMambaState);
}

void put_mamba_sizes(TinyModel& model) {
  model.key("ssm.conv_kernel", kTaps);
  model.key("ssm.inner_size", kMambaWidth);
  model.key("ssm.state_size", kMambaState);
  model.key("ssm.time_step_rank", kMambaRank);
}

Row unit(Row x, const Row& weight = {}) {
  const double mean = std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] *= (weight.empty() ? 1 : weight[i]) / std::sqrt(mean + 1e-5f);
  return x;
}

Rows mamba_mixer(const P& net, const std::string& block, const Rows& h, MambaNorms norms) {
  const auto project = [&](size_t first) {
    return each(h, [&](const Row& row) { return net.times(block + "ssm_in", row, first, kMambaWidth); });
  };
  const Rows xs = convolved(net, block + "ssm_conv1d", project(0), true, silu), gate = project(kMambaWidth);
  const Row rate = net.values(block + "ssm_a"), skip = net.values(block + "ssm_d");
  const auto norm = [&](const char* name, const Row& x) {
    if (norms == MambaNorms::kNone) return x;
    return norms == MambaNorms::kUnweighted ? unit(x) : net.norm(block + name, x);
  };
  Rows states(kMambaWidth, Row(kMambaState)), out;
  for (size_t row = 0; row < h.size(); ++row) {
    const Row all = net.times(block + "ssm_x", xs[row]);
    const Row steps = net.biased(block + "ssm_dt", norm("ssm_dt_norm", part_of(all, 0, kMambaRank)));
    const Row b = norm("ssm_b_norm", part_of(all, kMambaRank, kMambaState));
    const Row c = norm("ssm_c_norm", part_of(all, kMambaRank + kMambaState, kMambaState));
    Row result;
    for (size_t channel = 0; channel < kMambaWidth; ++channel) {
      const double step = softplus(steps[channel]), x = xs[row][channel];
      double sum = skip[channel] * x;
      for (size_t i = 0; i < kMambaState; ++i) {
        double& state = states[channel][i];
        state = std::exp(step * rate[channel * kMambaState + i]) * state + step * x * b[i];
        sum += state * c[i];
      }
      result.push_back(sum);
    }
    out.push_back(net.times(block + "ssm_out", P::gated(silu, gate[row], result)));
  }
  return out;
}

}  // namespace

Case mamba(bool falcon) {
  TinyModel model("mamba", 3);
  put_mamba_sizes(model);
  if (falcon) model.key("ssm.dt_b_c_rms", true);
  model.key("attention.head_count", 0u);
  model.key("attention.head_count_kv", 0u);
  model.key("feed_forward_length", 0u);
  for_blocks(model, [&](const std::string& block) {
    leave_out_attention(model, block);
    leave_out_network(model, block);
    put_mamba(model, block, false);
  });
  return {falcon ? "mamba with norms (Falcon Mamba)" : "mamba", model, [falcon](const P& net, const Tokens& tokens) {
            const MambaNorms norms = falcon ? MambaNorms::kUnweighted : MambaNorms::kNone;
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 3; ++layer)
              x = sum(x, mamba_mixer(net, block_name(layer), normed(net, block_name(layer) + "attn_norm", x), norms));
            return logits_of(net, x);
          }};
}

Case jamba() {
  TinyModel model("jamba", 3);
  put_mamba_sizes(model);
  model.key("attention.head_count_kv", std::vector<uint32_t>{0, TinyModel::kKvHeads, 0});
  put_experts(model, kFf, 2);
  for (const uint32_t layer : {0u, 2u}) {
    leave_out_attention(model, block_name(layer));
    put_mamba(model, block_name(layer), true);
  }
  return {"jamba", model, [](const P& net, const Tokens& tokens) {
            const Rows x = pre_norm_layers(
                net, tokens, 3,
                [&](uint32_t layer, const std::string& block, const Rows& h) {
                  return layer == 1 ? attention(net, block, h, {.frequency = {}})
                                    : mamba_mixer(net, block, h, MambaNorms::kWeighted);
                },
                [&](const std::string& block, const Row& row) {
                  return block == block_name(2) ? net.mixture(block, row, kFf, kUsed, false)
                                                : gated_mlp(net, block, row);
                });
            return logits_of(net, x);
          }};
}

Case plamo2() {
  constexpr uint32_t kPlamoHeads = 4, kPlamoDim = 20, kPlamoWidth = kPlamoHeads * kPlamoDim, kRank = 64;
  TinyModel model("plamo2", 3);
  put_mamba_sizes(model);
  model.key("ssm.inner_size", kPlamoWidth);
  model.key("ssm.time_step_rank", kPlamoHeads);
  model.key("ssm.group_count", 0u);
  model.key("attention.head_count_kv", std::vector<uint32_t>{0, TinyModel::kKvHeads, 0});
  model.key("attention.key_length", TinyModel::kHeadDim);
  for_blocks(model, [&](const std::string& block) {
    model.norm(block + "post_attention_norm", kEmbd);
    model.norm(block + "post_ffw_norm", kEmbd);
    model.tensors.erase(block + "ffn_gate.weight");
    model.matrix(block + "ffn_up.weight", 2 * kFf, kEmbd);
    leave_out_attention(model, block);
    if (block == block_name(1)) {
      model.matrix(block + "attn_qkv.weight", kQ + 2 * kKv, kEmbd);
      model.matrix(block + "attn_output.weight", kEmbd, kQ);
      model.tensors[block + "attn_q_norm.weight"] = {
          {TinyModel::kHeadDim, TinyModel::kHeads}, TensorType::kF32, 0.2f, 1.0f};
      model.tensors[block + "attn_k_norm.weight"] = {
          {TinyModel::kHeadDim, TinyModel::kKvHeads}, TensorType::kF32, 0.2f, 1.0f};
      return;
    }
    model.matrix(block + "ssm_in.weight", 2 * kPlamoWidth, kEmbd);
    model.matrix(block + "ssm_conv1d.weight", kPlamoWidth, kTaps);
    model.matrix(block + "ssm_x.weight", kRank + 2 * kMambaState, kPlamoWidth);
    model.matrix(block + "ssm_dt.weight", kPlamoHeads, kRank);
    model.bias(block + "ssm_dt.bias", kPlamoHeads);
    model.tensors[block + "ssm_a"] = {{kPlamoHeads}, TensorType::kF32, 0.2f, -0.5f};
    model.tensors[block + "ssm_d"] = {{kPlamoHeads}, TensorType::kF32, 0.2f, 1.0f};
    model.matrix(block + "ssm_out.weight", kEmbd, kPlamoWidth);
    model.norm(block + "ssm_dt_norm", kRank);
    model.norm(block + "ssm_b_norm", kMambaState);
    model.norm(block + "ssm_c_norm", kMambaState);
  });
  const auto mixer = [](const P& net, const std::string& block, const Rows& h) {
    // In the projection, each head's gate is followed by the head's x.
    const auto project = [&](size_t which) {
      return each(h, [&](const Row& row) {
        Row parts;
        for (size_t head = 0; head < kPlamoHeads; ++head)
          for (const double value : net.times(block + "ssm_in", row, (2 * head + which) * kPlamoDim, kPlamoDim))
            parts.push_back(value);
        return parts;
      });
    };
    const Rows xs = convolved(net, block + "ssm_conv1d", project(1), false, silu), gate = project(0);
    const Row rate = net.values(block + "ssm_a"), skip = net.values(block + "ssm_d");
    Rows states(kPlamoWidth, Row(kMambaState)), out;
    for (size_t row = 0; row < h.size(); ++row) {
      const Row all = net.times(block + "ssm_x", xs[row]);
      const Row b = unit(part_of(all, 0, kMambaState), net.values(block + "ssm_b_norm"));
      const Row c = unit(part_of(all, kMambaState, kMambaState), net.values(block + "ssm_c_norm"));
      const Row steps =
          net.biased(block + "ssm_dt", unit(part_of(all, 2 * kMambaState, kRank), net.values(block + "ssm_dt_norm")));
      Row result;
      for (size_t channel = 0; channel < kPlamoWidth; ++channel) {
        const size_t head = channel / kPlamoDim;
        const double step = softplus(steps[head]), x = xs[row][channel];
        Row& state = states[channel];
        state = P::plus(P::scaled(std::move(state), std::exp(step * rate[head])), b, step * x);
        result.push_back(std::inner_product(state.begin(), state.end(), c.begin(), skip[head] * x));
      }
      out.push_back(net.times(block + "ssm_out", P::gated(silu, gate[row], result)));
    }
    return out;
  };
  return {"plamo2", model, [mixer](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            const auto norm_each = [&](const std::string& name, const Rows& rows) {
              return each(rows, [&](const Row& row) { return unit(row, net.values(name)); });
            };
            for (uint32_t layer = 0; layer < 3; ++layer) {
              const std::string block = block_name(layer);
              const Rows h = normed(net, block + "attn_norm", x);
              Rows mixed;
              if (layer == 1) {
                const auto part = [&](size_t first, size_t n) {
                  return each(h, [&](const Row& row) { return net.times(block + "attn_qkv", row, first, n); });
                };
                const auto heads_normed = [&](const char* name, Rows rows) {
                  const Row weight = net.values(block + name);
                  for (Row& row : rows)
                    for (size_t at = 0; at < row.size(); at += TinyModel::kHeadDim) {
                      const Row head =
                          unit(part_of(row, at, TinyModel::kHeadDim), part_of(weight, at, TinyModel::kHeadDim));
                      std::copy(head.begin(), head.end(), row.begin() + static_cast<ptrdiff_t>(at));
                    }
                  P::rotate(rows, P::frequencies(10000), true);
                  return rows;
                };
                mixed = each(P::attend(heads_normed("attn_q_norm.weight", part(0, kQ)),
                                       heads_normed("attn_k_norm.weight", part(kQ, kKv)), part(kQ + kKv, kKv), {}),
                             [&](const Row& row) { return net.times(block + "attn_output", row); });
              } else {
                mixed = mixer(net, block, h);
              }
              x = sum(x, norm_each(block + "post_attention_norm", mixed));
              const Rows inside = each(normed(net, block + "ffn_norm", x), [&](const Row& row) {
                return net.times(block + "ffn_down", P::gated(silu, net.times(block + "ffn_up", row, 0, kFf),
                                                              net.times(block + "ffn_up", row, kFf, kFf)));
              });
              x = sum(x, norm_each(block + "post_ffw_norm", inside));
            }
            return logits_of(net, x);
          }};
}

}  // namespace monolith::testing
