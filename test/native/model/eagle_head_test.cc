// Tests an EAGLE-3 head. Its output equals its formula in float64 for any chunk size, and the model's logits do not
// change. A file that does not fit the model is rejected with an error that states the reason.
#include "model/eagle_head.h"

#include <cmath>

#include "architecture_cases.h"
#include "check.h"
#include "support/fed_sequence.h"
#include "support/network_run.h"

namespace monolith::testing {
namespace {

constexpr uint32_t kLayers = 4;

struct HeadOf {
  uint32_t n_embd;
  bool own_ends;  // The head has its own embedding table, and an output matrix for only some tokens.
  bool norms;     // There are norms before the fc matrix and before the residual stream.
  std::vector<uint32_t> sources;
};

std::vector<int64_t> chosen_tokens() {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 20; ++i) tokens.push_back((7 * i + 3) % TinyModel::kVocab);
  return tokens;
}

TinyModel head_file(const HeadOf& how) {
  TinyModel head("eagle3", 1);
  head.tensors.clear();
  head.key("embedding_length", how.n_embd);
  head.key("attention.key_length", TinyModel::kHeadDim);
  head.key("attention.value_length", TinyModel::kHeadDim);
  head.key("target_layers", how.sources);
  head.key("target_hidden_size", kEmbd);
  if (how.norms) {
    head.key("norm_before_fc", true);
    head.key("norm_before_residual", true);
    head.norm("enc.output_norm.weight", 3 * kEmbd);
  }
  head.matrix("fc.weight", how.n_embd, 3 * kEmbd);
  head.norm("output_norm.weight", how.n_embd);
  head.norm("blk.0.attn_norm.weight", how.n_embd);
  head.norm("blk.0.attn_norm_2.weight", how.n_embd);
  head.matrix("blk.0.attn_q.weight", kQ, 2 * how.n_embd);
  head.matrix("blk.0.attn_k.weight", kKv, 2 * how.n_embd);
  head.matrix("blk.0.attn_v.weight", kKv, 2 * how.n_embd);
  head.matrix("blk.0.attn_output.weight", how.n_embd, kQ);
  head.norm("blk.0.ffn_norm.weight", how.n_embd);
  head.matrix("blk.0.ffn_gate.weight", kFf, how.n_embd);
  head.matrix("blk.0.ffn_up.weight", kFf, how.n_embd);
  head.matrix("blk.0.ffn_down.weight", how.n_embd, kFf);
  if (how.own_ends) {
    head.matrix("token_embd.weight", TinyModel::kVocab, how.n_embd);
    head.matrix("output.weight", 20, how.n_embd);
    const std::vector<int64_t> tokens = chosen_tokens();
    const auto bytes = std::as_bytes(std::span(tokens));
    head.tensors["d2t"] = {{20}, TensorType::kI64, 0, 0, Bytes(bytes.begin(), bytes.end())};
  }
  return head;
}

Row joined(Row a, const Row& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Returns the model's residual stream at the input of each layer and at the output of the last one.
std::vector<Rows> streams_of(const P& net, const Tokens& tokens) {
  std::vector<Rows> all = {net.embed(tokens)};
  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string block = block_name(i);
    const Rows x =
        sum(all.back(), attention(net, block, normed(net, block + "attn_norm", all.back()), {.halves = false}));
    all.push_back(
        sum(x, each(normed(net, block + "ffn_norm", x), [&](const Row& row) { return gated_mlp(net, block, row); })));
  }
  return all;
}

void check_head(const HeadOf& how) {
  const TinyModel model("llama", kLayers), head = head_file(how);
  const P net(model), own(head);
  const Tokens tokens = some_tokens(19);
  const std::vector<Rows> streams = streams_of(net, tokens);
  Rows hidden;
  for (size_t j = 0; j < tokens.size(); ++j) {
    Row sources;
    for (const uint32_t source : how.sources) sources = joined(std::move(sources), streams[source][j]);
    hidden.push_back(own.times("fc", how.norms ? own.norm("enc.output_norm", sources) : sources));
  }
  const Row table = how.own_ends ? own.values("token_embd.weight") : net.values("token_embd.weight");
  const auto embedded = [&](int32_t token) {
    return Row(table.begin() + token * how.n_embd, table.begin() + (token + 1) * how.n_embd);
  };
  // Returns the output of the head's layer for pairs of a token and the hidden state of the token before it.
  const auto layer = [&](const std::vector<std::pair<int32_t, Row>>& rows) {
    Rows in, residual;
    for (const auto& [token, before] : rows) {
      in.push_back(joined(own.norm("blk.0.attn_norm", embedded(token)), own.norm("blk.0.attn_norm_2", before)));
      residual.push_back(how.norms ? own.norm("blk.0.attn_norm_2", before) : before);
    }
    const Rows x = sum(residual, attention(own, "blk.0.", in, {.halves = false}));
    return sum(x,
               each(normed(own, "blk.0.ffn_norm", x), [&](const Row& row) { return gated_mlp(own, "blk.0.", row); }));
  };
  const ParsedModel parsed(model), parsed_head(head);
  REQUIRE(parsed.file != nullptr && parsed_head.file != nullptr);
  const auto exact = [] { return make_cpu_backend({.threads = 1, .arithmetic = Arithmetic::kExact}); };
  auto plain_backend = exact();
  auto plain = Transformer::load(*parsed.file, **plain_backend, draft_limits(false), {});
  REQUIRE(plain.ok());
  const std::vector<float> logits = Fed(**plain, 0, 0).feed({tokens.begin(), tokens.end() - 1}, 18);
  for (const int piece : {1, 5, 18}) {
    auto backend = exact();
    auto loaded = Transformer::load(*parsed.file, **backend, draft_limits(false), {}, parsed_head.file.get());
    if (!loaded.ok()) return check::fail(__FILE__, __LINE__, loaded.error().message);
    CHECK((*loaded)->drafts());
    CHECK_EQ((*loaded)->allocated().total(), (*loaded)->memory().total());
    CHECK_EQ((*loaded)->draft_tokens().size(), size_t{how.own_ends ? 20u : 0u});
    Fed sequence(**loaded, 0, 2);
    CHECK(sequence.feed({tokens.begin(), tokens.end() - 1}, piece) == logits);
    std::vector<std::pair<int32_t, Row>> rows;
    for (size_t j = 0; j < tokens.size(); ++j) rows.emplace_back(tokens[j], j > 0 ? hidden[j - 1] : Row(how.n_embd));
    for (int depth = 0; depth < 3; ++depth) {
      const Row left = layer(rows).back(), past = own.norm("output_norm", left);
      const Row expected = how.own_ends ? own.times("output", past) : net.times("output", past);
      const std::vector<float> drafted = sequence.draft(rows.back().first, depth);
      REQUIRE(drafted.size() == expected.size());
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(expected[i] - double{drafted[i]}));
      if (!(worst < 1e-3))
        check::fail(__FILE__, __LINE__,
                    "chunks of " + std::to_string(piece) + ", guess " + std::to_string(depth) + " is off by " +
                        std::to_string(worst));
      const auto best = static_cast<int32_t>(std::max_element(drafted.begin(), drafted.end()) - drafted.begin());
      rows.emplace_back(how.own_ends ? (*loaded)->draft_tokens()[static_cast<size_t>(best)] : best, left);
    }
  }
}

TEST(eagle_head_matches_its_formula) {
  check_head({.n_embd = kEmbd, .own_ends = false, .norms = false, .sources = {0, 2, 3}});
}
TEST(eagle_head_with_its_own_width_and_tokens_matches_its_formula) {
  check_head({.n_embd = 48, .own_ends = true, .norms = false, .sources = {1, 2, 4}});
}
TEST(eagle_head_with_input_norms_matches_its_formula) {
  check_head({.n_embd = 96, .own_ends = true, .norms = true, .sources = {2, 1, 3}});
}

std::string refusal(const TinyModel& head) {
  const TinyModel model("llama", kLayers);
  const ParsedModel parsed(model), parsed_head(head);
  if (!parsed_head.file) return parsed_head.error;
  auto backend = make_cpu_backend({.threads = 1});
  auto loaded = Transformer::load(*parsed.file, **backend, draft_limits(false), {}, parsed_head.file.get());
  return loaded.ok() ? "none" : loaded.error().message;
}

TEST(eagle_head_that_does_not_fit_is_rejected_with_the_reason) {
  const HeadOf usual{.n_embd = 48, .own_ends = true, .norms = false, .sources = {0, 2, 3}};
  CHECK_EQ(refusal(head_file(usual)), std::string("none"));
  const auto check = [&](const std::function<void(TinyModel&)>& change, const std::string& expected) {
    TinyModel head = head_file(usual);
    change(head);
    const std::string message = refusal(head);
    if (message.find(expected) == std::string::npos)
      check::fail(__FILE__, __LINE__, "\"" + message + "\" does not contain \"" + expected + "\"");
  };
  check([](TinyModel& head) { head.key("target_hidden_size", 80u); },
        "it reads hidden states of 80 numbers ('eagle3.target_hidden_size'), but those of the model have 64");
  check(
      [](TinyModel& head) {
        head.key("target_layers", std::vector<uint32_t>{0, 2, 5});
      },
      "'eagle3.target_layers' names layer 5, but the model has only 4");
  check(
      [](TinyModel& head) {
        head.key("target_layers", std::vector<uint32_t>{0, 2});
      },
      "'eagle3.target_layers' names 2 layers, expected 3");
  check([](TinyModel& head) { head.keys.erase("eagle3.target_layers"); },
        "the layers that it reads are not stated ('eagle3.target_layers'), and the model has only 4");
  check([](TinyModel& head) { head.matrix("token_embd.weight", 44, 48); }, "it embeds 44 tokens, but the model has 40");
  check([](TinyModel& head) { head.tensors.erase("token_embd.weight"); },
        "it has no tensor 'token_embd.weight', and the model's tensor has width 64, not 48");
  check([](TinyModel& head) { head.tensors.erase("fc.weight"); }, "tensor 'fc.weight' is missing");
  check([](TinyModel& head) { head.matrix("blk.0.attn_q.weight", kQ, 48); },
        "tensor 'blk.0.attn_q.weight' has shape [48, 64], expected [96, 64]");
  check([](TinyModel& head) { head.matrix("blk.1.attn_q.weight", kQ, 48); },
        "tensor 'blk.1.attn_q.weight' [48, 64] is not known for architecture 'eagle3'");
  check([](TinyModel& head) { head.key("block_count", 2u); }, "'eagle3.block_count' is 2, expected 1 to 1");
  check([](TinyModel& head) { head.tensors["d2t"].data[8] = std::byte{40}; },
        "tensor 'd2t' holds 40 at index 1, expected 0 to 39");
  check([](TinyModel& head) { head.tensors["d2t"] = {{20}}; }, "tensor 'd2t' has type F32, expected I32 or I64");
  check([](TinyModel& head) { head.key("target_hidden_size", 64u), head.tensors["d2t"].data[8] = std::byte{3}; },
        "tensor 'd2t' contains token 3 twice");
}

}  // namespace
}  // namespace monolith::testing
