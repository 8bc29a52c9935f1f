#include "model/architecture_cases.h"

namespace monolith::testing {

std::string block_name(uint32_t layer) { return "blk." + std::to_string(layer) + "."; }

void for_blocks(TinyModel& model, const std::function<void(const std::string&)>& fn) {
  for (uint32_t layer = 0; layer < model.layers; ++layer) fn(block_name(layer));
}

void add_post_norms(TinyModel& model) {
  for_blocks(model, [&](const std::string& block) {
    model.norm(block + "post_attention_norm.weight", kEmbd);
    model.norm(block + "post_ffw_norm.weight", kEmbd);
  });
}

void add_qk_norms(TinyModel& model, bool each_head) {
  for_blocks(model, [&](const std::string& block) {
    model.norm(block + "attn_q_norm.weight", each_head ? TinyModel::kHeadDim : kQ);
    model.norm(block + "attn_k_norm.weight", each_head ? TinyModel::kHeadDim : kKv);
  });
}

void put_experts(TinyModel& model, uint32_t n_ff, uint32_t lead) {
  model.key("expert_count", kExperts);
  model.key("expert_used_count", kUsed);
  if (n_ff != kFf) model.key("expert_feed_forward_length", n_ff);
  if (lead > 0) model.key("leading_dense_block_count", lead);
  for_blocks(model, [&](const std::string& block) {
    if (block < block_name(lead)) return;
    for (const char* dense : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"})
      model.tensors.erase(block + dense);
    model.matrix(block + "ffn_gate_inp.weight", kExperts, kEmbd);
    model.experts(block + "ffn_gate_exps.weight", kExperts, n_ff, kEmbd);
    model.experts(block + "ffn_up_exps.weight", kExperts, n_ff, kEmbd);
    model.experts(block + "ffn_down_exps.weight", kExperts, kEmbd, n_ff);
  });
}

void put_shared_expert(TinyModel& model, uint32_t n_ff, uint32_t lead) {
  for_blocks(model, [&](const std::string& block) {
    if (block < block_name(lead)) return;
    model.matrix(block + "ffn_gate_shexp.weight", n_ff, kEmbd);
    model.matrix(block + "ffn_up_shexp.weight", n_ff, kEmbd);
    model.matrix(block + "ffn_down_shexp.weight", kEmbd, n_ff);
  });
}

Rows attention(const P& net, const std::string& block, const Rows& h, const QkvOf& qkv, const P::Attention& how) {
  const auto project = [&](const char* name) {
    return each(
        h, [&](const Row& row) { return qkv.biases ? net.biased(block + name, row) : net.times(block + name, row); });
  };
  Rows q = project("attn_q"), k = project("attn_k");
  if (qkv.qk_norm) {
    q = each(q, [&](const Row& row) { return qkv.qk_norm(block + "attn_q_norm", row); });
    k = each(k, [&](const Row& row) { return qkv.qk_norm(block + "attn_k_norm", row); });
  }
  P::rotate(q, qkv.frequency, qkv.halves, qkv.magnitude);
  P::rotate(k, qkv.frequency, qkv.halves, qkv.magnitude);
  return each(P::attend(q, k, project("attn_v"), how),
              [&](const Row& row) { return net.times(block + "attn_output", row); });
}

Row gated_mlp(const P& net, const std::string& block, const Row& h, double (*activation)(double),
              const std::string& suffix) {
  return net.times(block + "ffn_down" + suffix, P::gated(activation, net.times(block + "ffn_gate" + suffix, h),
                                                         net.times(block + "ffn_up" + suffix, h)));
}

std::function<Row(const std::string&, const Row&)> norm_of(const P& net) {
  return [&net](const std::string& name, const Row& row) { return net.norm(name, row); };
}

Rows normed(const P& net, const std::string& name, const Rows& x) {
  return each(x, [&](const Row& row) { return net.norm(name, row); });
}

Rows sum(const Rows& a, const Rows& b, double factor) {
  Rows out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(P::plus(a[i], b[i], factor));
  return out;
}

Rows logits_of(const P& net, const Rows& x, const char* output) {
  return each(x, [&](const Row& row) { return net.times(output, net.norm("output_norm", row)); });
}

Rows pre_norm_layers(const P& net, const Tokens& tokens, uint32_t layers,
                     const std::function<Rows(uint32_t, const std::string&, const Rows&)>& attend,
                     const std::function<Row(const std::string&, const Row&)>& network) {
  Rows x = net.embed(tokens);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const std::string block = block_name(layer);
    x = sum(x, attend(layer, block, normed(net, block + "attn_norm", x)));
    x = sum(x, each(normed(net, block + "ffn_norm", x), [&](const Row& row) { return network(block, row); }));
  }
  return x;
}

Case mistral() {
  TinyModel model("llama");
  model.key("attention.sliding_window", kWindow);
  return {"llama with a sliding window", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net,
                             pre_norm_layers(
                                 net, tokens, 2,
                                 [&](uint32_t, const std::string& block, const Rows& h) {
                                   return attention(net, block, h, {.halves = false}, {.window = kWindow});
                                 },
                                 [&](const std::string& block, const Row& row) { return gated_mlp(net, block, row); }));
          }};
}

Case biased_llama() {
  TinyModel model("llama");
  for_blocks(model, [&](const std::string& block) {
    model.bias(block + "attn_q.bias", kQ);
    model.bias(block + "attn_k.bias", kKv);
    model.bias(block + "attn_v.bias", kKv);
    model.bias(block + "attn_output.bias", kEmbd);
    model.bias(block + "ffn_gate.bias", kFf);
    model.bias(block + "ffn_up.bias", kFf);
    model.bias(block + "ffn_down.bias", kEmbd);
  });
  return {"llama with biases", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net, pre_norm_layers(
                                      net, tokens, 2,
                                      [&](uint32_t, const std::string& block, const Rows& h) {
                                        const Row bias = net.values(block + "attn_output.bias");
                                        return each(attention(net, block, h, {.biases = true, .halves = false}),
                                                    [&](const Row& row) { return P::plus(row, bias); });
                                      },
                                      [&](const std::string& block, const Row& row) {
                                        return net.biased(block + "ffn_down",
                                                          P::gated(silu, net.biased(block + "ffn_gate", row),
                                                                   net.biased(block + "ffn_up", row)));
                                      }));
          }};
}

Case mixtral() {
  TinyModel model("llama");
  put_experts(model, kFf);
  return {"llama with experts", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net, pre_norm_layers(
                                      net, tokens, 2,
                                      [&](uint32_t, const std::string& block, const Rows& h) {
                                        return attention(net, block, h, {.halves = false});
                                      },
                                      [&](const std::string& block, const Row& row) {
                                        return net.mixture(block, row, kFf, kUsed, true);
                                      }));
          }};
}

Case qwen2moe() {
  TinyModel model("qwen2moe");
  put_experts(model, kExpertFf);
  model.key("expert_shared_feed_forward_length", 80u);
  put_shared_expert(model, 80);
  for_blocks(model, [&](const std::string& block) {
    model.bias(block + "ffn_gate_inp_shexp.weight", kEmbd);
    model.bias(block + "attn_q.bias", kQ);
    model.bias(block + "attn_k.bias", kKv);
    model.bias(block + "attn_v.bias", kKv);
  });
  return {"qwen2moe", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net, pre_norm_layers(
                                      net, tokens, 2,
                                      [&](uint32_t, const std::string& block, const Rows& h) {
                                        return attention(net, block, h, {.biases = true});
                                      },
                                      [&](const std::string& block, const Row& row) {
                                        const double gate = net.times(block + "ffn_gate_inp_shexp", row)[0];
                                        return P::plus(net.mixture(block, row, kExpertFf, kUsed, false),
                                                       gated_mlp(net, block, row, silu, "_shexp"),
                                                       1 / (1 + std::exp(-gate)));
                                      }));
          }};
}

Case qwen3moe(const char* name) {
  TinyModel model(name);
  put_experts(model, kExpertFf);
  add_qk_norms(model, true);
  return {name, model, [](const P& net, const Tokens& tokens) {
            return logits_of(net, pre_norm_layers(
                                      net, tokens, 2,
                                      [&](uint32_t, const std::string& block, const Rows& h) {
                                        return attention(net, block, h, {.qk_norm = norm_of(net)});
                                      },
                                      [&](const std::string& block, const Row& row) {
                                        return net.mixture(block, row, kExpertFf, kUsed, true);
                                      }));
          }};
}

Case olmoe() {
  TinyModel model("olmoe");
  put_experts(model, kFf);
  add_qk_norms(model, false);
  return {"olmoe", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net, pre_norm_layers(
                                      net, tokens, 2,
                                      [&](uint32_t, const std::string& block, const Rows& h) {
                                        return attention(net, block, h, {.qk_norm = norm_of(net)});
                                      },
                                      [&](const std::string& block, const Row& row) {
                                        return net.mixture(block, row, kFf, kUsed, false);
                                      }));
          }};
}

Case gemma() {
  TinyModel model("gemma");
  model.tensors.erase("output.weight");
  return {"gemma", model, [](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens, 8);  // The embedding scale of 8 is sqrt(64).
            for (uint32_t layer = 0; layer < 2; ++layer) {
              const std::string block = block_name(layer);
              x = sum(x, attention(net, block, normed(net, block + "attn_norm", x), {}));
              x = sum(x, each(normed(net, block + "ffn_norm", x),
                              [&](const Row& row) { return gated_mlp(net, block, row, gelu); }));
            }
            return logits_of(net, x, "token_embd");
          }};
}

Rows gemma_layers(const P& net, const Tokens& tokens, uint32_t layers,
                  const std::function<Rows(uint32_t, const std::string&, const Rows&)>& attend) {
  Rows x = net.embed(tokens, 8);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const std::string block = block_name(layer);
    const Rows a = attend(layer, block, normed(net, block + "attn_norm", x));
    x = sum(x, normed(net, block + "post_attention_norm", a));
    const Rows f =
        each(normed(net, block + "ffn_norm", x), [&](const Row& row) { return gated_mlp(net, block, row, gelu); });
    x = sum(x, normed(net, block + "post_ffw_norm", f));
  }
  return logits_of(net, x, "token_embd");
}

Case gemma2() {
  TinyModel model("gemma2", 3);
  model.tensors.erase("output.weight");
  model.key("attention.sliding_window", kWindow);
  model.key("attn_logit_softcapping", 1.5f);
  model.key("final_logit_softcapping", 4.0f);
  add_post_norms(model);
  return {"gemma2", model, [](const P& net, const Tokens& tokens) {
            const Rows logits =
                gemma_layers(net, tokens, 3, [&](uint32_t layer, const std::string& block, const Rows& h) {
                  return attention(net, block, h, {}, {.window = layer % 2 == 0 ? int{kWindow} : 0, .cap = 1.5});
                });
            return each(logits, [](Row row) {
              for (double& value : row) value = 4 * std::tanh(value / 4);
              return row;
            });
          }};
}

Case gemma3() {
  TinyModel model("gemma3", 7);
  model.tensors.erase("output.weight");
  model.key("attention.sliding_window", kWindow);
  model.key("rope.freq_base", 1e6f);
  model.key("rope.scaling.type", std::string("linear"));
  model.key("rope.scaling.factor", 8.0f);
  add_post_norms(model);
  add_qk_norms(model, true);
  return {"gemma3", model, [](const P& net, const Tokens& tokens) {
            return gemma_layers(net, tokens, 7, [&](uint32_t layer, const std::string& block, const Rows& h) {
              const bool local = layer != 5;
              QkvOf qkv;
              qkv.frequency = local ? P::frequencies(10000) : P::scaled(P::frequencies(1e6), 1 / 8.0);
              qkv.qk_norm = norm_of(net);
              return attention(net, block, h, qkv, {.window = local ? int{kWindow} : 0});
            });
          }};
}

Case phi3(uint32_t original, double factor) {
  TinyModel model("phi3");
  model.key("attention.sliding_window", kWindow);
  model.key("rope.dimension_count", 12u);
  model.key("rope.scaling.original_context_length", original);
  model.key("rope.scaling.attn_factor", 1.25f);
  model.tensors["rope_factors_short.weight"] = {{6}, TensorType::kF32, 0.0f, 1.5f};
  model.tensors["rope_factors_long.weight"] = {{6}, TensorType::kF32, 0.0f, 6.0f};
  for_blocks(model, [&](const std::string& block) {
    for (const char* part : {"attn_q", "attn_k", "attn_v", "ffn_gate"}) model.tensors.erase(block + part + ".weight");
    model.matrix(block + "attn_qkv.weight", kQ + 2 * kKv, kEmbd);
    model.matrix(block + "ffn_up.weight", 2 * kFf, kEmbd);
  });
  return {"phi3", model, [factor](const P& net, const Tokens& tokens) {
            return logits_of(
                net, pre_norm_layers(
                         net, tokens, 2,
                         [&](uint32_t, const std::string& block, const Rows& h) {
                           const auto part = [&](size_t first, size_t count) {
                             return each(
                                 h, [&](const Row& row) { return net.times(block + "attn_qkv", row, first, count); });
                           };
                           Rows q = part(0, kQ), k = part(kQ, kKv);
                           const Row frequency = P::scaled(P::frequencies(10000, 12), 1 / factor);
                           P::rotate(q, frequency, true, 1.25);
                           P::rotate(k, frequency, true, 1.25);
                           const Rows attended = P::attend(q, k, part(kQ + kKv, kKv), {.window = kWindow});
                           return each(attended, [&](const Row& row) { return net.times(block + "attn_output", row); });
                         },
                         [&](const std::string& block, const Row& row) {
                           return net.times(block + "ffn_down", P::gated(silu, net.times(block + "ffn_up", row, 0, kFf),
                                                                         net.times(block + "ffn_up", row, kFf, kFf)));
                         }));
          }};
}

Case smollm3() {
  return {"smollm3", TinyModel("smollm3", 5), [](const P& net, const Tokens& tokens) {
            return logits_of(
                net, pre_norm_layers(
                         net, tokens, 5,
                         [&](uint32_t layer, const std::string& block, const Rows& h) {
                           return attention(net, block, h,
                                            {.frequency = layer == 3 ? Row{} : P::frequencies(10000), .halves = false});
                         },
                         [&](const std::string& block, const Row& row) { return gated_mlp(net, block, row); }));
          }};
}

Rows granite_layers(const P& net, const Tokens& tokens, const Row& frequency, double scale,
                    const std::function<Row(const std::string&, const Row&)>& network) {
  Rows x = net.embed(tokens, 12);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const std::string block = block_name(layer);
    x = sum(x,
            attention(net, block, normed(net, block + "attn_norm", x), {.frequency = frequency, .halves = false},
                      {.scale = scale}),
            0.22f);
    x = sum(x, each(normed(net, block + "ffn_norm", x), [&](const Row& row) { return network(block, row); }), 0.22f);
  }
  return each(logits_of(net, x), [](const Row& row) { return P::scaled(row, 1 / 8.0); });
}

void put_granite_scales(TinyModel& model) {
  model.key("attention.scale", 0.125f);
  model.key("embedding_scale", 12.0f);
  model.key("residual_scale", 0.22f);
  model.key("logit_scale", 8.0f);
}

Case granite(bool rotates) {
  TinyModel model("granite");
  put_granite_scales(model);
  if (!rotates) model.key("rope.scaling.finetuned", false);
  return {"granite", model, [rotates](const P& net, const Tokens& tokens) {
            return granite_layers(net, tokens, rotates ? P::frequencies(10000) : Row{}, 0.125,
                                  [&](const std::string& block, const Row& row) { return gated_mlp(net, block, row); });
          }};
}

Case minicpm() {
  TinyModel model("minicpm");
  put_granite_scales(model);
  model.keys.erase("minicpm.attention.scale");
  return {"minicpm", model, [](const P& net, const Tokens& tokens) {
            return granite_layers(net, tokens, P::frequencies(10000), 0.25,
                                  [&](const std::string& block, const Row& row) { return gated_mlp(net, block, row); });
          }};
}

Case granitemoe(bool shared) {
  TinyModel model("granitemoe");
  put_granite_scales(model);
  put_experts(model, kFf);
  if (shared) {
    model.key("expert_shared_feed_forward_length", 80u);
    put_shared_expert(model, 80);
  }
  return {"granitemoe", model, [shared](const P& net, const Tokens& tokens) {
            return granite_layers(net, tokens, P::frequencies(10000), 0.125,
                                  [&](const std::string& block, const Row& row) {
                                    const Row experts = net.mixture(block, row, kFf, kUsed, true);
                                    if (!shared) return experts;
                                    return P::plus(experts, gated_mlp(net, block, row, silu, "_shexp"));
                                  });
          }};
}

Case olmo2(bool windows) {
  TinyModel model("olmo2", 4);
  if (windows) {
    model.key("attention.sliding_window", kWindow);
    model.key("attention.sliding_window_pattern", std::vector<bool>{true, true, false, true});
    model.key("rope.scaling.type", std::string("linear"));
    model.key("rope.scaling.factor", 4.0f);
  }
  add_post_norms(model);
  add_qk_norms(model, false);
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "attn_norm.weight");
    model.tensors.erase(block + "ffn_norm.weight");
  });
  return {windows ? "olmo2 with sliding windows" : "olmo2", model, [windows](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 4; ++layer) {
              const std::string block = block_name(layer);
              const bool local = windows && layer != 2;
              QkvOf qkv;
              qkv.frequency = P::scaled(P::frequencies(10000), windows && !local ? 0.25 : 1);
              qkv.qk_norm = norm_of(net);
              const Rows a = attention(net, block, x, qkv, {.window = local ? int{kWindow} : 0});
              x = sum(x, normed(net, block + "post_attention_norm", a));
              const Rows f = each(x, [&](const Row& row) { return gated_mlp(net, block, row); });
              x = sum(x, normed(net, block + "post_ffw_norm", f));
            }
            return logits_of(net, x);
          }};
}

Case exaone4(bool windows) {
  TinyModel model("exaone4", 5);
  if (windows) model.key("attention.sliding_window", kWindow);
  add_post_norms(model);
  add_qk_norms(model, true);
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "attn_norm.weight");
    model.tensors.erase(block + "ffn_norm.weight");
  });
  return {windows ? "exaone4 with sliding windows" : "exaone4", model, [windows](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 5; ++layer) {
              const std::string block = block_name(layer);
              const bool local = windows && layer != 3;
              QkvOf qkv;
              if (windows && !local) qkv.frequency = {};
              qkv.qk_norm = norm_of(net);
              const Rows a = attention(net, block, x, qkv, {.window = local ? int{kWindow} : 0});
              x = sum(x, normed(net, block + "post_attention_norm", a));
              const Rows f = each(x, [&](const Row& row) { return gated_mlp(net, block, row); });
              x = sum(x, normed(net, block + "post_ffw_norm", f));
            }
            return logits_of(net, x);
          }};
}

Case glm4() {
  TinyModel model("glm4");
  model.key("rope.dimension_count", 8u);
  add_post_norms(model);
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "ffn_gate.weight");
    model.matrix(block + "ffn_up.weight", 2 * kFf, kEmbd);
    model.bias(block + "attn_q.bias", kQ);
    model.bias(block + "attn_k.bias", kKv);
    model.bias(block + "attn_v.bias", kKv);
  });
  return {"glm4", model, [](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 2; ++layer) {
              const std::string block = block_name(layer);
              const Rows a = attention(net, block, normed(net, block + "attn_norm", x),
                                       {.biases = true, .frequency = P::frequencies(10000, 8), .halves = false});
              x = sum(x, normed(net, block + "post_attention_norm", a));
              const Rows f = each(normed(net, block + "ffn_norm", x), [&](const Row& row) {
                return net.times(block + "ffn_down", P::gated(silu, net.times(block + "ffn_up", row, 0, kFf),
                                                              net.times(block + "ffn_up", row, kFf, kFf)));
              });
              x = sum(x, normed(net, block + "post_ffw_norm", f));
            }
            return logits_of(net, x);
          }};
}

Case seed_oss() {
  TinyModel model("seed_oss");
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "ffn_norm.weight");
    model.norm(block + "post_attention_norm.weight", kEmbd);
  });
  return {"seed_oss", model, [](const P& net, const Tokens& tokens) {
            Rows x = net.embed(tokens);
            for (uint32_t layer = 0; layer < 2; ++layer) {
              const std::string block = block_name(layer);
              x = sum(x, attention(net, block, normed(net, block + "attn_norm", x), {}));
              x = sum(x, each(normed(net, block + "post_attention_norm", x),
                              [&](const Row& row) { return gated_mlp(net, block, row); }));
            }
            return logits_of(net, x);
          }};
}

Case qwen2vl() {
  TinyModel model("qwen2vl");
  model.key("rope.dimension_sections", 8u);
  for_blocks(model, [&](const std::string& block) {
    model.bias(block + "attn_q.bias", kQ);
    model.bias(block + "attn_k.bias", kKv);
    model.bias(block + "attn_v.bias", kKv);
  });
  return {"qwen2vl", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net,
                             pre_norm_layers(
                                 net, tokens, 2,
                                 [&](uint32_t, const std::string& block, const Rows& h) {
                                   return attention(net, block, h, {.biases = true});
                                 },
                                 [&](const std::string& block, const Row& row) { return gated_mlp(net, block, row); }));
          }};
}

Case qwen3vl() {
  TinyModel model("qwen3vl");
  model.key("rope.dimension_sections", 8u);
  add_qk_norms(model, true);
  return {"qwen3vl", model, [](const P& net, const Tokens& tokens) {
            return logits_of(net,
                             pre_norm_layers(
                                 net, tokens, 2,
                                 [&](uint32_t, const std::string& block, const Rows& h) {
                                   return attention(net, block, h, {.qk_norm = norm_of(net)});
                                 },
                                 [&](const std::string& block, const Row& row) { return gated_mlp(net, block, row); }));
          }};
}

Case llama_like(const char* name, bool halves) {
  return {name, TinyModel(name), [halves](const P& net, const Tokens& tokens) {
            return logits_of(net,
                             pre_norm_layers(
                                 net, tokens, 2,
                                 [&](uint32_t, const std::string& block, const Rows& h) {
                                   return attention(net, block, h, {.halves = halves});
                                 },
                                 [&](const std::string& block, const Row& row) { return gated_mlp(net, block, row); }));
          }};
}

}  // namespace monolith::testing
