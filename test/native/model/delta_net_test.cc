// Tests models with delta nets and every kind of last layer. A token's logits are bit-identical whether the logits of
// only this token or of all tokens are requested, and whether the prompt is processed in one chunk or in many. The
// memory planned for recurrent state equals the memory allocated.
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "check.h"
#include "model/architecture_cases.h"
#include "model/transformer.h"
#include "support/model_fixture.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

using namespace testing;

constexpr int kTokens = 19;

// Three layers; every `interval`-th one is an attention layer.
TinyModel delta_model(uint32_t interval) {
  constexpr uint32_t kEmbedding = TinyModel::kEmbedding, kKeyHeads = 2, kValueHeads = 4, kDim = 8;
  TinyModel model("qwen35", 3);
  model.key("full_attention_interval", interval);
  model.key("ssm.conv_kernel", 4u);
  model.key("ssm.state_size", kDim);
  model.key("ssm.group_count", kKeyHeads);
  model.key("ssm.time_step_rank", kValueHeads);
  model.key("ssm.inner_size", kValueHeads * kDim);
  for (uint32_t i = 0; i < 3; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    model.tensors.erase(block + "ffn_norm.weight");
    model.norm(block + "post_attention_norm.weight", kEmbedding);
    if ((i + 1) % interval == 0) {
      model.matrix(block + "attn_q.weight", 2 * TinyModel::kHeads * TinyModel::kHeadDim, kEmbedding);
      model.norm(block + "attn_q_norm.weight", TinyModel::kHeadDim);
      model.norm(block + "attn_k_norm.weight", TinyModel::kHeadDim);
      continue;
    }
    for (const char* name : {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight",
                             "attn_q_norm.weight", "attn_k_norm.weight"})
      model.tensors.erase(block + name);
    const uint32_t values = kValueHeads * kDim, channels = 2 * kKeyHeads * kDim + values;
    model.matrix(block + "attn_qkv.weight", channels, kEmbedding);
    model.matrix(block + "attn_gate.weight", values, kEmbedding);
    model.matrix(block + "ssm_conv1d.weight", channels, 4);
    model.matrix(block + "ssm_alpha.weight", kValueHeads, kEmbedding);
    model.matrix(block + "ssm_beta.weight", kValueHeads, kEmbedding);
    model.tensors[block + "ssm_a"] = {{kValueHeads}, TensorType::kF32, 0.2f, -0.5f};
    model.bias(block + "ssm_dt.bias", kValueHeads);
    model.norm(block + "ssm_norm.weight", kDim);
    model.matrix(block + "ssm_out.weight", kEmbedding, values);
  }
  return model;
}

// Qwen3-Next is the only architecture with an older file layout, in which the rows of the matrices are grouped by key
// head.
TinyModel next_model(bool grouped) {
  constexpr uint32_t kEmbedding = TinyModel::kEmbedding, kKeyHeads = 2, kValueHeads = 4, kDim = 8,
                     kRun = kValueHeads / kKeyHeads * kDim;
  TinyModel model("qwen3next", 2);
  model.key("full_attention_interval", 1000u);
  for (const auto& [key, value] :
       {std::pair{"ssm.conv_kernel", 4u}, std::pair{"ssm.state_size", kDim}, std::pair{"ssm.group_count", kKeyHeads},
        std::pair{"ssm.time_step_rank", kValueHeads}, std::pair{"ssm.inner_size", kValueHeads * kDim}})
    model.key(key, value);
  put_experts(model, kExpertFf);
  model.key("expert_shared_feed_forward_length", 80u);
  put_shared_expert(model, 80);
  for_blocks(model, [&](const std::string& block) {
    for (const char* name :
         {"ffn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight"})
      model.tensors.erase(block + name);
    model.norm(block + "post_attention_norm.weight", kEmbedding);
    model.bias(block + "ffn_gate_inp_shexp.weight", kEmbedding);
    const uint32_t values = kValueHeads * kDim, keys = kKeyHeads * kDim, channels = 2 * keys + values;
    model.matrix(block + "attn_qkv.weight", channels, kEmbedding);
    model.matrix(block + "attn_gate.weight", values, kEmbedding);
    model.matrix(block + "ssm_conv1d.weight", channels, 4);
    model.matrix(block + "ssm_ba.weight", 2 * kValueHeads, kEmbedding);
    model.tensors[block + "ssm_a"] = {{kValueHeads}, TensorType::kF32, 0.2f, -0.5f};
    model.bias(block + "ssm_dt.bias", kValueHeads);
    model.norm(block + "ssm_norm.weight", kDim);
    model.matrix(block + "ssm_out.weight", kEmbedding, values);
    if (!grouped) return;
    const std::vector<float> mixed = model.floats(block + "attn_qkv.weight"),
                             gate = model.floats(block + "attn_gate.weight");
    TinyModel::Tensor together{{kEmbedding, channels + values}};
    const auto rows = [&](const std::vector<float>& from, uint32_t first, uint32_t count) {
      for (uint32_t i = first * kEmbedding; i < (first + count) * kEmbedding; ++i) put(together.data, from[i]);
    };
    for (uint32_t head = 0; head < kKeyHeads; ++head) {
      rows(mixed, head * kDim, kDim);
      rows(mixed, keys + head * kDim, kDim);
      rows(mixed, 2 * keys + head * kRun, kRun);
      rows(gate, head * kRun, kRun);
    }
    model.tensors[block + "ssm_in.weight"] = together;
    model.tensors.erase(block + "attn_qkv.weight");
    model.tensors.erase(block + "attn_gate.weight");
  });
  return model;
}

// Returns the logits of the tokens `rows`. The prompt is processed in chunks of `piece` tokens.
std::vector<float> logits_of(Model& model, const std::vector<int32_t>& rows, int piece) {
  std::vector<int32_t> tokens(kTokens), pages = {1, 0};
  for (int i = 0; i < kTokens; ++i) tokens[static_cast<size_t>(i)] = (i * 7 + 3) % static_cast<int>(TinyModel::kVocab);
  std::vector<float> all;
  for (int begin = 0; begin < kTokens; begin += piece) {
    const int n = std::min(piece, kTokens - begin);
    std::vector<int32_t> wanted;
    for (const int32_t row : rows)
      if (row >= begin && row < begin + n) wanted.push_back(row - begin);
    const Segment segment{0, n, begin, pages.data(), begin > 0 ? 1 : kNoSlot, 1};
    const float* const logits = model.forward(
        {std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(n)), {&segment, 1}, wanted});
    all.insert(all.end(), logits, logits + wanted.size() * TinyModel::kVocab);
  }
  return all;
}

}  // namespace

TEST(matrices_grouped_by_key_head_equal_separate_matrices) {
  std::vector<std::vector<float>> found;
  std::vector<int32_t> every(kTokens);
  std::iota(every.begin(), every.end(), 0);
  for (const bool grouped : {false, true}) {
    const ParsedModel parsed(next_model(grouped));
    REQUIRE(parsed.file != nullptr);
    auto backend = make_cpu_backend({.threads = 1});
    REQUIRE(backend.ok());
    auto model = Transformer::load(
        *parsed.file, **backend,
        {.max_batch_tokens = 32, .max_logit_rows = 32, .max_context = 32, .n_pages = 2, .n_slots = 2}, {});
    if (!model) return check::fail(__FILE__, __LINE__, model.error().message);
    found.push_back(logits_of(**model, every, 7));
  }
  REQUIRE(found[0].size() == found[1].size());
  CHECK(std::memcmp(found[0].data(), found[1].data(), found[0].size() * sizeof(float)) == 0);
}

TEST(delta_nets_do_not_depend_on_chunks) {
  // Tests attention in no layer, in the middle layer, and in the last layer.
  for (const uint32_t interval : {1000u, 2u, 3u}) {
    const ParsedModel parsed(delta_model(interval));
    REQUIRE(parsed.file != nullptr);
    auto backend = make_cpu_backend({.threads = 1});
    REQUIRE(backend.ok());
    auto model = Transformer::load(
        *parsed.file, **backend,
        {.max_batch_tokens = 32, .max_logit_rows = 32, .max_context = 32, .n_pages = 2, .n_slots = 2}, {});
    if (!model) return check::fail(__FILE__, __LINE__, model.error().message);
    CHECK((*model)->memory().slot_bytes > 0);
    CHECK_EQ((*model)->memory().total(), (*model)->allocated().total());
    std::vector<int32_t> every(kTokens);
    std::iota(every.begin(), every.end(), 0);
    const std::vector<float> all = logits_of(**model, every, kTokens);
    REQUIRE(all.size() == size_t{kTokens} * TinyModel::kVocab);
    for (const int piece : {1, 2, 7, kTokens}) {
      for (const std::vector<int32_t>& rows : {every, {18}, {3, 4, 18}}) {
        const std::vector<float> some = logits_of(**model, rows, piece);
        REQUIRE(some.size() == rows.size() * TinyModel::kVocab);
        for (size_t i = 0; i < rows.size(); ++i)
          CHECK(std::memcmp(&some[i * TinyModel::kVocab], &all[static_cast<size_t>(rows[i]) * TinyModel::kVocab],
                            TinyModel::kVocab * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace monolith
