#include "model/earlier_cases.h"

#include <algorithm>
#include <cmath>

namespace monolith::testing {
namespace {

constexpr double kClamp = 0.8;
constexpr uint32_t kLoops = 3;

// How a decoder differs from Llama.
struct Differences {
  bool layer_norm = true;    // LayerNorm instead of RMS norm.
  bool biases = true;        // Norms and matrices have biases, and the network has no gate (GELU).
  bool norm_weights = true;  // Norms have weights.
  bool rotates = true;
  bool halves = true;
  bool positions = false;  // Learned position embeddings.
  bool embedding_norm = false;
  bool parallel_norm = false;  // The network reads its own norm of the layer's input.
  bool sub_norms = false;      // Norms before attn_output and ffn_down.
  double alibi = 0, clamp = 0;
  uint32_t loops = 1;  // Passes through the layers, each followed by the final norm.
};

TinyModel model_of(const char* name, const Differences& how) {
  TinyModel model(name);
  if (how.layer_norm) model.key("attention.layer_norm_epsilon", 1e-5f);
  if (how.positions) model.matrix("position_embd.weight", 256, kEmbd);
  if (how.embedding_norm) model.norm("token_embd_norm.weight", kEmbd);
  if (how.embedding_norm) model.bias("token_embd_norm.bias", kEmbd);
  if (how.clamp > 0) model.key("attention.clamp_kqv", static_cast<float>(how.clamp));
  if (how.loops > 1) model.key("num_loops", how.loops);
  if (how.parallel_norm) model.key("use_parallel_residual", true);
  if (how.biases) model.bias("output_norm.bias", kEmbd);
  if (!how.norm_weights) model.tensors.erase("output_norm.weight");
  for_blocks(model, [&](const std::string& block) {
    if (!how.norm_weights)
      for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"}) model.tensors.erase(block + norm);
    if (how.sub_norms) {
      model.norm(block + "attn_sub_norm.weight", kQ);
      model.norm(block + "ffn_sub_norm.weight", kFf);
    }
    if (!how.biases) return;
    model.tensors.erase(block + "ffn_gate.weight");
    for (const auto& [biased, count] :
         {std::pair{"attn_norm", kEmbd}, std::pair{"ffn_norm", kEmbd}, std::pair{"attn_q", kQ},
          std::pair{"attn_k", kKv}, std::pair{"attn_v", kKv}, std::pair{"attn_output", kEmbd}, std::pair{"ffn_up", kFf},
          std::pair{"ffn_down", kEmbd}})
      model.bias(block + biased + ".bias", count);
  });
  return model;
}

class Decoder {
 public:
  Decoder(const P& net, const Differences& how) : net_(net), how_(how) {}

  Rows logits(const Tokens& tokens) const {
    Rows x = net_.embed(tokens);
    if (how_.positions) {
      const Row table = net_.values("position_embd.weight");
      for (size_t row = 0; row < x.size(); ++row)
        for (size_t i = 0; i < kEmbd; ++i) x[row][i] += table[row * kEmbd + i];
    }
    if (how_.embedding_norm) x = norm("token_embd_norm", x);
    for (uint32_t layer = 0; layer < how_.loops * TinyModel::kLayers; ++layer) {
      const std::string block = block_name(layer % TinyModel::kLayers);
      const Rows attended = sum(x, attention(block, norm(block + "attn_norm", x)));
      x = sum(attended, network(block, norm(block + "ffn_norm", how_.parallel_norm ? x : attended)));
      if (layer % TinyModel::kLayers == TinyModel::kLayers - 1) x = norm("output_norm", x);
    }
    return each(x, [&](const Row& row) { return net_.times("output", row); });
  }

 private:
  Rows norm(const std::string& name, const Rows& x) const {
    return each(x, [&](const Row& row) {
      if (!how_.layer_norm) return net_.norm(name, row);
      double mean = 0, squares = 0;
      const auto n = static_cast<double>(row.size());
      for (const double value : row) mean += value / n;
      for (const double value : row) squares += (value - mean) * (value - mean) / n;
      Row out;
      for (const double value : row) out.push_back((value - mean) / std::sqrt(squares + 1e-5));
      if (how_.norm_weights) {
        const Row weight = net_.values(name + ".weight");
        for (size_t i = 0; i < out.size(); ++i) out[i] *= weight[i];
      }
      return how_.biases ? P::plus(out, net_.values(name + ".bias")) : out;
    });
  }

  Rows times(const std::string& name, const Rows& x) const {
    return each(x, [&](const Row& row) { return how_.biases ? net_.biased(name, row) : net_.times(name, row); });
  }

  Rows attention(const std::string& block, const Rows& h) const {
    const auto project = [&](const char* name) {
      Rows out = times(block + name, h);
      for (Row& row : out)
        for (double& value : row)
          if (how_.clamp > 0) value = std::clamp(value, -how_.clamp, how_.clamp);
      return out;
    };
    Rows q = project("attn_q"), k = project("attn_k");
    if (how_.rotates) {
      P::rotate(q, P::frequencies(10000), how_.halves);
      P::rotate(k, P::frequencies(10000), how_.halves);
    }
    Rows out = P::attend(q, k, project("attn_v"), {.alibi = how_.alibi});
    if (how_.sub_norms) out = norm(block + "attn_sub_norm", out);
    return times(block + "attn_output", out);
  }

  Rows network(const std::string& block, const Rows& h) const {
    Rows inner = times(block + "ffn_up", h);
    if (how_.biases) {
      for (Row& row : inner)
        for (double& value : row) value = gelu(value);
    } else {
      const Rows gate = times(block + "ffn_gate", h);
      for (size_t row = 0; row < inner.size(); ++row) inner[row] = P::gated(silu, gate[row], inner[row]);
    }
    if (how_.sub_norms) inner = norm(block + "ffn_sub_norm", inner);
    return times(block + "ffn_down", inner);
  }

  const P& net_;
  const Differences& how_;
};

Case case_of(const char* name, const Differences& how) {
  return {name, model_of(name, how),
          [how](const P& net, const Tokens& tokens) { return Decoder(net, how).logits(tokens); }};
}

}  // namespace

std::vector<Case> earlier_cases() {
  return {case_of("gpt2", {.rotates = false, .positions = true}), case_of("gptneox", {.parallel_norm = true}),
          case_of("olmo", {.biases = false, .norm_weights = false, .halves = false, .clamp = kClamp}),
          case_of("bitnet", {.layer_norm = false, .biases = false, .sub_norms = true}),
          case_of("nanbeige", {.layer_norm = false, .biases = false, .halves = false, .loops = kLoops})};
}

Case alibi_case() { return case_of("bloom", {.rotates = false, .embedding_norm = true, .alibi = 8}); }

}  // namespace monolith::testing
