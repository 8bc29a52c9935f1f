#include "model/rwkv_cases.h"

#include <algorithm>
#include <cmath>

namespace monolith::testing {
namespace {

constexpr uint32_t kWkvDim = 32, kWkvHeads = kEmbd / kWkvDim;
constexpr uint32_t kDecayRank = 6, kRateRank = 5, kValueRank = 4, kGateRank = 7, kShiftRank = 3;
constexpr uint32_t kRwkvLayers = 3, kHalvingPeriod = 2;

TinyModel rwkv_model(const char* name) {
  TinyModel model(name, kRwkvLayers);
  model.key("attention.head_count", 0u);
  model.key("attention.head_count_kv", 0u);
  model.key("attention.layer_norm_epsilon", 1e-5f);
  model.key("wkv.head_size", kWkvDim);
  const auto norm = [&](const std::string& norm_name) {
    model.norm(norm_name + ".weight", kEmbd);
    model.bias(norm_name + ".bias", kEmbd);
  };
  norm("token_embd_norm");
  norm("output_norm");
  for_blocks(model, [&](const std::string& block) {
    leave_out_attention(model, block);
    leave_out_network(model, block);
    norm(block + "attn_norm");
    norm(block + "attn_norm_2");
    norm(block + "time_mix_ln");
    for (const char* weight : {"receptance", "key", "value", "output"})
      model.matrix(block + "time_mix_" + weight + ".weight", kEmbd, kEmbd);
    model.bias(block + "channel_mix_lerp_k.weight", kEmbd);
    model.matrix(block + "channel_mix_key.weight", kFf, kEmbd);
    model.matrix(block + "channel_mix_value.weight", kEmbd, kFf);
  });
  return model;
}

Row normed_row(const P& net, const std::string& name, const Row& x, double eps = 1e-5f) {
  const double n = static_cast<double>(x.size()), mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double variance = 0;
  for (const double value : x) variance += (value - mean) * (value - mean) / n;
  const Row weight = net.values(name + ".weight"), bias = net.values(name + ".bias");
  Row out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back((x[i] - mean) / std::sqrt(variance + eps) * weight[i] + bias[i]);
  return out;
}

// Returns the difference of each row from the previous row. The row before the first one counts as zeros.
Rows differences(const Rows& x) {
  Rows out;
  for (size_t row = 0; row < x.size(); ++row) out.push_back(P::plus(row == 0 ? Row(kEmbd) : x[row - 1], x[row], -1));
  return out;
}

Row times_each(Row a, const Row& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}

Row mapped(Row x, double (*fn)(double)) {
  for (double& value : x) value = fn(value);
  return x;
}

double relu_squared(double x) { return x > 0 ? x * x : 0; }

Row low_rank(const P& net, const std::string& stem, const Row& x, double (*inner)(double)) {
  return net.times(stem + "2", mapped(net.times(stem + "1", x), inner));
}

// Each head's result is normalized.
Row group_norm(const P& net, const std::string& name, const Row& x) {
  const Row weight = net.values(name + ".weight"), bias = net.values(name + ".bias");
  Row out;
  for (size_t head = 0; head < kWkvHeads; ++head) {
    const Row own = part_of(x, head * kWkvDim, kWkvDim);
    const double mean = std::accumulate(own.begin(), own.end(), 0.0) / kWkvDim;
    double variance = 0;
    for (const double value : own) variance += (value - mean) * (value - mean) / kWkvDim;
    for (size_t i = 0; i < kWkvDim; ++i)
      out.push_back((own[i] - mean) / std::sqrt(variance + 64e-5) * weight[head * kWkvDim + i] +
                    bias[head * kWkvDim + i]);
  }
  return out;
}

using Mixer = std::function<Rows(const std::string& block, const Rows& x, const Rows& difference)>;
using Halves = std::function<bool(uint32_t layer)>;

Rows rwkv_logits(const P& net, const Tokens& tokens, const Mixer& time_mix, bool gated, const Halves& halves) {
  Rows x = each(net.embed(tokens), [&](const Row& row) { return normed_row(net, "token_embd_norm", row); });
  for (uint32_t layer = 0; layer < kRwkvLayers; ++layer) {
    const std::string block = block_name(layer);
    const auto norm = [&](const char* name) {
      return each(x, [&](const Row& row) { return normed_row(net, block + name, row); });
    };
    Rows h = norm("attn_norm");
    x = sum(x, time_mix(block, h, differences(h)));
    h = norm("attn_norm_2");
    const Rows d = differences(h);
    for (size_t row = 0; row < h.size(); ++row) {
      const auto input = [&](const char* mu) { return P::plus(h[row], times_each(d[row], net.values(block + mu))); };
      Row out =
          net.times(block + "channel_mix_value",
                    mapped(net.times(block + "channel_mix_key", input("channel_mix_lerp_k.weight")), relu_squared));
      if (gated)
        out = times_each(
            out, mapped(net.times(block + "channel_mix_receptance", input("channel_mix_lerp_r.weight")), logistic));
      x[row] = P::plus(x[row], out);
      if (halves(layer)) x[row] = P::scaled(x[row], 0.5);
    }
  }
  return each(x, [&](const Row& row) { return net.times("output", normed_row(net, "output_norm", row)); });
}

Rows time_mix_6(const P& net, const std::string& block, const Rows& x, const Rows& difference, bool apart) {
  const std::string stem = block + "time_mix_";
  const std::string names = "wkvrg";
  std::vector<Rows> states(kWkvHeads, Rows(kWkvDim, Row(kWkvDim)));  // A row for each element of k.
  Rows out;
  for (size_t row = 0; row < x.size(); ++row) {
    const Row& d = difference[row];
    const Row source = P::plus(x[row], times_each(d, net.values(stem + "lerp_x.weight")));
    Rows inputs;
    for (size_t i = 0; i < names.size(); ++i) {
      const Row mu = apart ? net.values(stem + "lerp_" + names[i] + ".weight")
                           : part_of(net.values(stem + "lerp_fused.weight"), i * kEmbd, kEmbd);
      const Row low = mapped(net.times(stem + "w1", source, i * kShiftRank, kShiftRank), std::tanh);
      const Row shift = net.times(stem + "w2", low, i * kEmbd, kEmbd);
      inputs.push_back(P::plus(x[row], times_each(d, P::plus(mu, shift))));
    }
    const Row w =
        mapped(P::plus(net.values(stem + "decay.weight"), low_rank(net, stem + "decay_w", inputs[0], std::tanh)),
               [](double value) { return std::exp(-std::exp(value)); });
    const Row k = net.times(stem + "key", inputs[1]), v = net.times(stem + "value", inputs[2]),
              r = net.times(stem + "receptance", inputs[3]), first = net.values(stem + "first.weight");
    Row result(kEmbd);
    for (size_t head = 0; head < kWkvHeads; ++head)
      for (size_t i = 0; i < kWkvDim; ++i)
        for (size_t j = 0; j < kWkvDim; ++j) {
          const size_t at_k = head * kWkvDim + i, at_v = head * kWkvDim + j;
          double& state = states[head][i][j];
          result[at_v] += r[at_k] * (state + first[at_k] * k[at_k] * v[at_v]);
          state = w[at_k] * state + k[at_k] * v[at_v];
        }
    const Row gate = mapped(net.times(stem + "gate", inputs[4]), silu);
    out.push_back(net.times(stem + "output", times_each(group_norm(net, stem + "ln", result), gate)));
  }
  return out;
}

Rows time_mix_7(const P& net, const std::string& block, const Rows& x, const Rows& difference, Rows& first_v) {
  const std::string stem = block + "time_mix_";
  const bool is_first = block == block_name(0);
  std::vector<Rows> states(kWkvHeads, Rows(kWkvDim, Row(kWkvDim)));  // A row for each element of v.
  Rows out;
  for (size_t row = 0; row < x.size(); ++row) {
    const auto input = [&](size_t i) {
      const Row mu = part_of(net.values(stem + "lerp_fused.weight"), i * kEmbd, kEmbd);
      return P::plus(x[row], times_each(difference[row], mu));
    };
    const auto vector = [&](const char* name) { return net.values(stem + name + ".weight"); };
    const Row r = net.times(stem + "receptance", input(0));
    const Row w = mapped(P::plus(vector("w0"), low_rank(net, stem + "w", input(1), std::tanh)),
                         [](double value) { return std::exp(-0.606531 * logistic(value)); });
    Row k = net.times(stem + "key", input(2)), v = net.times(stem + "value", input(3));
    if (is_first) {
      first_v.push_back(v);
    } else {
      const Row share = mapped(P::plus(vector("v0"), low_rank(net, stem + "v", input(3), itself)), logistic);
      v = P::plus(v, times_each(P::plus(first_v[row], v, -1), share));
    }
    const Row a = mapped(P::plus(vector("a0"), low_rank(net, stem + "a", input(4), itself)), logistic);
    const Row gate = low_rank(net, stem + "g", input(5), logistic);
    Row n = times_each(k, vector("k_k"));
    const Row k_a = vector("k_a"), r_k = vector("r_k");
    for (size_t i = 0; i < kEmbd; ++i) k[i] *= 1 + (a[i] - 1) * k_a[i];
    Row result(kEmbd), bonus(kEmbd);
    for (size_t head = 0; head < kWkvHeads; ++head) {
      const size_t first = head * kWkvDim;
      double length = 0, share = 0;
      for (size_t i = first; i < first + kWkvDim; ++i) {
        length += n[i] * n[i];
        share += k[i] * r[i] * r_k[i];
      }
      for (size_t i = first; i < first + kWkvDim; ++i) n[i] /= std::sqrt(length);
      for (size_t j = 0; j < kWkvDim; ++j) {
        Row& state = states[head][j];
        double removed = 0;
        for (size_t i = 0; i < kWkvDim; ++i) removed -= state[i] * n[first + i];
        for (size_t i = 0; i < kWkvDim; ++i) {
          state[i] = state[i] * w[first + i] + v[first + j] * k[first + i] + removed * n[first + i] * a[first + i];
          result[first + j] += state[i] * r[first + i];
        }
        bonus[first + j] = share * v[first + j];
      }
    }
    result = P::plus(group_norm(net, stem + "ln", result), bonus);
    out.push_back(net.times(stem + "output", times_each(result, gate)));
  }
  return out;
}

void put_low_rank(TinyModel& model, const std::string& stem, uint32_t rank) {
  model.matrix(stem + "1.weight", rank, kEmbd);
  model.matrix(stem + "2.weight", kEmbd, rank);
}

}  // namespace

Case rwkv6(bool apart) {
  TinyModel model = rwkv_model("rwkv6");
  model.key("time_mix_extra_dim", kShiftRank);
  model.key("time_decay_extra_dim", kDecayRank);
  model.key("rescale_every_n_layers", kHalvingPeriod);
  for_blocks(model, [&](const std::string& block) {
    const std::string stem = block + "time_mix_";
    model.bias(stem + "lerp_x.weight", kEmbd);
    if (apart)
      for (const char* name : {"w", "k", "v", "r", "g"}) model.bias(stem + "lerp_" + name + ".weight", kEmbd);
    else
      model.tensors[stem + "lerp_fused.weight"] = {{kEmbd, 1, 1, 5}};
    model.matrix(stem + "w1.weight", 5 * kShiftRank, kEmbd);
    model.tensors[stem + "w2.weight"] = {{kShiftRank, kEmbd, 5}};
    put_low_rank(model, stem + "decay_w", kDecayRank);
    model.bias(stem + "decay.weight", kEmbd);
    model.tensors[stem + "first.weight"] = {{kWkvDim, kWkvHeads}};
    model.matrix(stem + "gate.weight", kEmbd, kEmbd);
    model.bias(block + "channel_mix_lerp_r.weight", kEmbd);
    model.matrix(block + "channel_mix_receptance.weight", kEmbd, kEmbd);
  });
  return {apart ? "rwkv6 with separate vectors" : "rwkv6", model, [apart](const P& net, const Tokens& tokens) {
            return rwkv_logits(
                net, tokens,
                [&](const std::string& block, const Rows& x, const Rows& difference) {
                  return time_mix_6(net, block, x, difference, apart);
                },
                true, [](uint32_t layer) { return (layer + 1) % kHalvingPeriod == 0; });
          }};
}

Case rwkv7() {
  TinyModel model = rwkv_model("rwkv7");
  model.key("attention.decay_lora_rank", kDecayRank);
  model.key("attention.iclr_lora_rank", kRateRank);
  model.key("attention.value_residual_mix_lora_rank", kValueRank);
  model.key("attention.gate_lora_rank", kGateRank);
  for_blocks(model, [&](const std::string& block) {
    const std::string stem = block + "time_mix_";
    model.tensors[stem + "lerp_fused.weight"] = {{kEmbd, 1, 1, 6}};
    for (const char* name : {"w0", "a0", "k_k", "k_a", "r_k"}) model.bias(stem + name + ".weight", kEmbd);
    put_low_rank(model, stem + "w", kDecayRank);
    put_low_rank(model, stem + "a", kRateRank);
    put_low_rank(model, stem + "g", kGateRank);
    // In some files, the first layer also has these tensors but does not use them.
    model.bias(stem + "v0.weight", kEmbd);
    put_low_rank(model, stem + "v", block == block_name(0) ? kRateRank : kValueRank);
  });
  return {"rwkv7", model, [](const P& net, const Tokens& tokens) {
            Rows first_v;
            return rwkv_logits(
                net, tokens,
                [&](const std::string& block, const Rows& x, const Rows& difference) {
                  return time_mix_7(net, block, x, difference, first_v);
                },
                false, [](uint32_t) { return false; });
          }};
}

}  // namespace monolith::testing
