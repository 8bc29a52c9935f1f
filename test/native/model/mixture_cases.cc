#include "model/mixture_cases.h"

namespace monolith::testing {

void put_choice_bias(TinyModel& model, uint32_t lead) {
  for_blocks(model, [&](const std::string& block) {
    if (block >= block_name(lead)) model.bias(block + "exp_probs_b.bias", kExperts);
  });
}

Row mixture_beside(const P& net, const std::string& block, const Row& row, uint32_t lead, const P::MixtureOf& how) {
  if (block < block_name(lead)) return gated_mlp(net, block, row);
  return P::plus(net.mixture(block, row, how), gated_mlp(net, block, row, silu, "_shexp"));
}

Case glm4moe(bool qk_norms) {
  TinyModel model("glm4moe", 4);
  model.key("nextn_predict_layers", 1u);
  model.key("rope.dimension_count", 8u);
  model.key("expert_shared_count", 1u);
  model.key("expert_weights_norm", true);
  model.key("expert_weights_scale", 1.5f);
  put_experts(model, kExpertFf, 1);
  put_shared_expert(model, kExpertFf, 1);
  put_choice_bias(model, 1);
  if (qk_norms) add_qk_norms(model, true);
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "ffn_norm.weight");
    model.norm(block + "post_attention_norm.weight", kEmbd);
    model.bias(block + "attn_q.bias", kQ);
    model.bias(block + "attn_k.bias", kKv);
    model.bias(block + "attn_v.bias", kKv);
  });
  model.matrix("blk.3.nextn.eh_proj.weight", kEmbd, 2 * kEmbd);
  return {qk_norms ? "glm4moe with norms" : "glm4moe", model, [qk_norms](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 3; ++layer) {
              const std::string block = block_name(layer);
              QkvOf qkv{.biases = true, .frequency = P::frequencies(10000, 8)};
              if (qk_norms) qkv.qk_norm = norm_of(net);
              x = sum(x, attention(net, block, normed(net, block + "attn_norm", x), qkv));
              x = sum(x, each(normed(net, block + "post_attention_norm", x), [&](const Row& row) {
                        return mixture_beside(
                            net, block, row, 1,
                            {.n_ff = kExpertFf, .used = kUsed, .sigmoid = true, .choice_bias = true, .scale = 1.5});
                      }));
            }
            return logits_of(net, x);
          }};
}

Case dots1() {
  TinyModel model("dots1", 3);
  model.key("expert_shared_count", 2u);
  model.key("expert_weights_norm", true);
  model.key("expert_weights_scale", 2.5f);
  put_experts(model, kExpertFf, 1);
  put_shared_expert(model, 2 * kExpertFf, 1);
  put_choice_bias(model, 1);
  add_qk_norms(model, true);
  return {"dots1", model, [](const P& net, const Tokens& tokens) {
            return logits_of(
                net, pre_norm_layers(
                         net, tokens, 3,
                         [&](uint32_t, const std::string& block, const Rows& h) {
                           return attention(net, block, h, {.qk_norm = norm_of(net)});
                         },
                         [&](const std::string& block, const Row& row) {
                           return mixture_beside(
                               net, block, row, 1,
                               {.n_ff = kExpertFf, .used = kUsed, .sigmoid = true, .choice_bias = true, .scale = 2.5});
                         }));
          }};
}

Case bailingmoe() {
  TinyModel model("bailingmoe");
  model.key("expert_shared_count", 2u);
  model.key("expert_weights_norm", true);
  put_experts(model, kExpertFf);
  put_shared_expert(model, 2 * kExpertFf);
  return {"bailingmoe", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net, pre_norm_layers(
                                      net, tokens, 2,
                                      [&](uint32_t, const std::string& block, const Rows& h) {
                                        return attention(net, block, h, {.halves = false});
                                      },
                                      [&](const std::string& block, const Row& row) {
                                        return mixture_beside(net, block, row, 0, {.n_ff = kExpertFf, .used = kUsed});
                                      }));
          }};
}

Case bailingmoe2() {
  TinyModel model("bailingmoe2", 3);
  model.key("rope.dimension_count", 8u);
  model.key("expert_shared_count", 1u);
  model.key("expert_shared_feed_forward_length", kExpertFf);
  model.key("expert_weights_norm", true);
  model.key("expert_weights_scale", 2.5f);
  model.key("expert_gating_func", 2u);
  model.key("expert_group_count", 3u);
  model.key("expert_group_used_count", 2u);
  put_experts(model, kExpertFf, 1);
  put_shared_expert(model, kExpertFf, 1);
  put_choice_bias(model, 1);
  add_qk_norms(model, true);
  for_blocks(model, [&](const std::string& block) {
    for (const char* part : {"attn_q", "attn_k", "attn_v"}) model.tensors.erase(block + part + ".weight");
    model.matrix(block + "attn_qkv.weight", kQ + 2 * kKv, kEmbd);
  });
  return {"bailingmoe2", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net, pre_norm_layers(
                                      net, tokens, 3,
                                      [&](uint32_t, const std::string& block, const Rows& h) {
                                        const auto part = [&](size_t first, size_t count) {
                                          return each(h, [&](const Row& row) {
                                            return net.times(block + "attn_qkv", row, first, count);
                                          });
                                        };
                                        Rows q = normed(net, block + "attn_q_norm", part(0, kQ));
                                        Rows k = normed(net, block + "attn_k_norm", part(kQ, kKv));
                                        P::rotate(q, P::frequencies(10000, 8), true);
                                        P::rotate(k, P::frequencies(10000, 8), true);
                                        return each(P::attend(q, k, part(kQ + kKv, kKv), {}), [&](const Row& row) {
                                          return net.times(block + "attn_output", row);
                                        });
                                      },
                                      [&](const std::string& block, const Row& row) {
                                        return mixture_beside(net, block, row, 1,
                                                              {.n_ff = kExpertFf,
                                                               .used = kUsed,
                                                               .sigmoid = true,
                                                               .choice_bias = true,
                                                               .groups = 3,
                                                               .groups_used = 2,
                                                               .scale = 2.5});
                                      }));
          }};
}

Case ernie4_5_moe() {
  TinyModel model("ernie4_5-moe", 3);
  model.key("expert_shared_count", 2u);
  model.key("expert_shared_feed_forward_length", 2 * kExpertFf);
  model.key("interleave_moe_layer_step", 1u);
  put_experts(model, kExpertFf, 1);
  put_shared_expert(model, 2 * kExpertFf, 1);
  put_choice_bias(model, 1);
  return {"ernie4_5-moe", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net, pre_norm_layers(
                                      net, tokens, 3,
                                      [&](uint32_t, const std::string& block, const Rows& h) {
                                        return attention(net, block, h, {.halves = false});
                                      },
                                      [&](const std::string& block, const Row& row) {
                                        return mixture_beside(net, block, row, 1,
                                                              {.n_ff = kExpertFf, .used = kUsed, .choice_bias = true});
                                      }));
          }};
}

Case gpt_oss() {
  TinyModel model("gpt-oss", 4);
  model.key("attention.sliding_window", kWindow);
  model.key("expert_gating_func", 3u);
  model.key("rope.scaling.type", std::string("yarn"));
  model.key("rope.scaling.factor", 4.0f);
  model.key("rope.scaling.original_context_length", 64u);
  put_experts(model, kOssFf);
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "ffn_norm.weight");
    model.norm(block + "post_attention_norm.weight", kEmbd);
    model.bias(block + "attn_q.bias", kQ);
    model.bias(block + "attn_k.bias", kKv);
    model.bias(block + "attn_v.bias", kKv);
    model.bias(block + "attn_output.bias", kEmbd);
    model.bias(block + "attn_sinks.weight", TinyModel::kHeads);
    model.tensors[block + "attn_sinks.weight"].scale = 2;
    model.bias(block + "ffn_gate_inp.bias", kExperts);
    model.matrix(block + "ffn_gate_exps.bias", kExperts, kOssFf);
    model.matrix(block + "ffn_up_exps.bias", kExperts, kOssFf);
    model.matrix(block + "ffn_down_exps.bias", kExperts, kEmbd);
    for (const char* clamped : {"ffn_gate_exps.weight", "ffn_up_exps.weight"}) model.tensors[block + clamped].scale = 2;
    model.tensors[block + "ffn_down_exps.weight"].scale = 0.02f;
  });
  return {"gpt-oss", model, [](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 4; ++layer) {
              const std::string block = block_name(layer);
              QkvOf qkv{.biases = true, .frequency = P::yarn(10000, 4, 64)};
              qkv.magnitude = 0.1 * std::log(4.0) + 1;
              const Row bias = net.values(block + "attn_output.bias");
              const Rows a = attention(
                  net, block, normed(net, block + "attn_norm", x), qkv,
                  {.window = layer % 2 == 0 ? int{kWindow} : 0, .sinks = net.values(block + "attn_sinks.weight")});
              x = sum(x, each(a, [&](const Row& row) { return P::plus(row, bias); }));
              x = sum(x, each(normed(net, block + "post_attention_norm", x), [&](const Row& row) {
                        return net.mixture(
                            block, row,
                            {.n_ff = kOssFf, .used = kUsed, .biases = true, .inside = [](double gate, double up) {
                               const double g = std::min(gate, 7.0);
                               return g / (1 + std::exp(-1.702 * g)) * (std::clamp(up, -7.0, 7.0) + 1);
                             }});
                      }));
            }
            return logits_of(net, x);
          }};
}

Row mean_norm(const P& net, const std::string& name, Row x, bool biased, size_t first) {
  const Row weight = net.values(name + ".weight");
  double mean = 0, squares = 0;
  for (const double value : x) mean += value / static_cast<double>(x.size());
  for (const double value : x) squares += (value - mean) * (value - mean) / static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean) / std::sqrt(squares + 1e-5f) * weight[first + i];
  return biased ? P::plus(x, net.values(name + ".bias")) : x;
}

Case norms_apart(bool stablelm) {
  TinyModel model(stablelm ? "stablelm" : "command-r");
  model.key("attention.layer_norm_epsilon", 1e-5f);
  if (stablelm)
    model.key("rope.dimension_count", 8u);
  else
    model.key("logit_scale", 0.5f);
  if (stablelm) model.bias("output_norm.bias", kEmbd);
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "ffn_norm.weight");
    if (stablelm) model.bias(block + "attn_norm.bias", kEmbd);
    model.tensors[block + "attn_q_norm.weight"] = {
        {TinyModel::kHeadDim, TinyModel::kHeads}, TensorType::kF32, 0.2f, 1.0f};
    model.tensors[block + "attn_k_norm.weight"] = {
        {TinyModel::kHeadDim, TinyModel::kKvHeads}, TensorType::kF32, 0.2f, 1.0f};
  });
  return {stablelm ? "stablelm with norms of heads" : "command-r with norms of heads", model,
          [stablelm](const P& net, const Tokens& tokens) {
            QkvOf qkv{.frequency = P::frequencies(10000, stablelm ? 8 : TinyModel::kHeadDim), .halves = stablelm};
            qkv.qk_norm = [&net](const std::string& name, const Row& row) {
              Row all;
              for (size_t at = 0; at < row.size(); at += TinyModel::kHeadDim) {
                const Row head = mean_norm(net, name,
                                           Row(row.begin() + static_cast<int64_t>(at),
                                               row.begin() + static_cast<int64_t>(at + TinyModel::kHeadDim)),
                                           false, at);
                all.insert(all.end(), head.begin(), head.end());
              }
              return all;
            };
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 2; ++layer) {
              const std::string block = block_name(layer);
              const Rows h =
                  each(x, [&](const Row& row) { return mean_norm(net, block + "attn_norm", row, stablelm); });
              x = sum(sum(x, attention(net, block, h, qkv)),
                      each(h, [&](const Row& row) { return gated_mlp(net, block, row); }));
            }
            return each(x, [&](const Row& row) {
              return P::scaled(net.times("output", mean_norm(net, "output_norm", row, stablelm)), stablelm ? 1 : 0.5);
            });
          }};
}

Case grovemoe() {
  constexpr uint32_t kEach = 2, kChunkFf = 16;
  constexpr double kChunkScale = 0.25;
  TinyModel model("grovemoe");
  put_experts(model, kExpertFf);
  add_qk_norms(model, true);
  model.key("experts_per_group", kEach);
  model.key("expert_chunk_feed_forward_length", kChunkFf);
  model.key("expert_group_scale", static_cast<float>(kChunkScale));
  for_blocks(model, [&](const std::string& block) {
    model.experts(block + "ffn_gate_chexps.weight", kExperts / kEach, kChunkFf, kEmbd);
    model.experts(block + "ffn_up_chexps.weight", kExperts / kEach, kChunkFf, kEmbd);
    model.experts(block + "ffn_down_chexps.weight", kExperts / kEach, kEmbd, kChunkFf);
  });
  const auto network = [](const P& net, const std::string& block, const Row& row) {
    const Row first = net.mixture(block, row, kExpertFf, kUsed, true), logits = net.times(block + "ffn_gate_inp", row);
    std::vector<size_t> order(kExperts);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    double sum = 0;
    for (size_t i = 0; i < kUsed; ++i) sum += std::exp(logits[order[i] / kEach]);
    Row out = first;
    for (size_t i = 0; i < kUsed; ++i) {
      const size_t chunk = order[i] / kEach;
      const Row inside = P::gated(silu, net.times(block + "ffn_gate_chexps", first, chunk * kChunkFf, kChunkFf),
                                  net.times(block + "ffn_up_chexps", first, chunk * kChunkFf, kChunkFf));
      out = P::plus(out, net.times(block + "ffn_down_chexps", inside, chunk * kEmbd, kEmbd),
                    kChunkScale * std::exp(logits[chunk]) / sum);
    }
    return out;
  };
  return {"grovemoe", model, [network](const P& net, const Tokens& tokens) {
            return logits_of(net,
                             pre_norm_layers(
                                 net, tokens, 2,
                                 [&](uint32_t, const std::string& block, const Rows& h) {
                                   return attention(net, block, h, {.qk_norm = norm_of(net)});
                                 },
                                 [&](const std::string& block, const Row& row) { return network(net, block, row); }));
          }};
}

}  // namespace monolith::testing
