#include "model/recurrent_cases.h"

namespace monolith::testing {

TinyModel short_convolutions(const char* architecture) {
  TinyModel model(architecture, 3);
  model.key("shortconv.l_cache", 3u);
  model.key("attention.head_count_kv", std::vector<uint32_t>{0, TinyModel::kKvHeads, 0});
  model.tensors["token_embd_norm.weight"] = model.tensors.at("output_norm.weight");
  model.tensors.erase("output_norm.weight");
  model.norm("blk.1.attn_q_norm.weight", TinyModel::kHeadDim);
  model.norm("blk.1.attn_k_norm.weight", TinyModel::kHeadDim);
  for (const uint32_t layer : {0u, 2u}) {
    leave_out_attention(model, block_name(layer));
    model.matrix(block_name(layer) + "shortconv.in_proj.weight", 3 * kEmbd, kEmbd);
    model.matrix(block_name(layer) + "shortconv.conv.weight", kEmbd, 3);
    model.matrix(block_name(layer) + "shortconv.out_proj.weight", kEmbd, kEmbd);
  }
  return model;
}

Rows short_convolution(const P& net, const std::string& block, const Rows& h) {
  const auto part = [&](size_t which) {
    return each(h, [&](const Row& row) { return net.times(block + "shortconv.in_proj", row, which * kEmbd, kEmbd); });
  };
  Rows x = part(0);
  const Rows after = part(1), input = part(2);
  for (size_t row = 0; row < x.size(); ++row) x[row] = P::gated(itself, x[row], input[row]);
  x = convolved(net, block + "shortconv.conv", x, false, itself);
  for (size_t row = 0; row < x.size(); ++row)
    x[row] = net.times(block + "shortconv.out_proj", P::gated(itself, x[row], after[row]));
  return x;
}

Rows short_convolution_layers(const P& net, const Tokens& tokens,
                              const std::function<Row(const std::string&, const Row&)>& network) {
  const Rows x = pre_norm_layers(
      net, tokens, 3,
      [&](uint32_t layer, const std::string& block, const Rows& h) {
        return layer == 1 ? attention(net, block, h, {.qk_norm = norm_of(net)}) : short_convolution(net, block, h);
      },
      network);
  return each(x, [&](const Row& row) { return net.times("output", net.norm("token_embd_norm", row)); });
}

Case lfm2() {
  return {"lfm2", short_convolutions("lfm2"), [](const P& net, const Tokens& tokens) {
            return short_convolution_layers(
                net, tokens, [&](const std::string& block, const Row& row) { return gated_mlp(net, block, row); });
          }};
}

Case lfm2moe() {
  TinyModel model = short_convolutions("lfm2moe");
  put_experts(model, kExpertFf, 1);
  for (const uint32_t layer : {1u, 2u}) model.bias(block_name(layer) + "exp_probs_b.bias", kExperts);
  return {"lfm2moe", model, [](const P& net, const Tokens& tokens) {
            return short_convolution_layers(net, tokens, [&](const std::string& block, const Row& row) {
              if (block == block_name(0)) return gated_mlp(net, block, row);
              return net.mixture(block, row, {.n_ff = kExpertFf, .used = kUsed, .sigmoid = true, .choice_bias = true});
            });
          }};
}

std::vector<Case> recurrent_cases() {
  return {qwen35(),
          delta_nets_with_experts("qwen35moe", false),
          delta_nets_with_experts("qwen3next", true),
          kimi_linear(),
          rwkv6(false),
          rwkv6(true),
          rwkv7(),
          mamba(false),
          mamba(true),
          jamba(),
          plamo2(),
          mamba2(),
          granitehybrid(false),
          granitehybrid(true),
          nemotron_h(),
          falcon_h1(true),
          falcon_h1(false),
          lfm2(),
          lfm2moe()};
}

}  // namespace monolith::testing
