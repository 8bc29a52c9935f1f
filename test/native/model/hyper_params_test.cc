// What is read from metadata, what is assumed where a key is absent, and what is refused by name.
#include <string>
#include <vector>

#include "check.h"
#include "model/model.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

using namespace testing;

Result<HyperParams> read(const TinyModel& model) {
  const ParsedModel parsed(model);
  if (!parsed.file) return Error{ErrorCode::kInternal, "the image does not parse: " + parsed.error};
  return HyperParams::read(*parsed.file);
}

// Fails the test unless reading fails with this code and a message that contains `part`.
void check_refused(const TinyModel& model, ErrorCode code, const std::string& part) {
  const auto params = read(model);
  if (params) return check::fail(__FILE__, __LINE__, "accepted, expected an error about " + part);
  CHECK_EQ(static_cast<int>(params.error().code), static_cast<int>(code));
  if (params.error().message.find(part) == std::string::npos) {
    check::fail(__FILE__, __LINE__, "expected '" + part + "' in: " + params.error().message);
  }
}

}  // namespace

TEST(every_value_is_read) {
  TinyModel model("qwen3");
  model.key("attention.key_length", 32u);
  model.key("attention.value_length", 32u);
  model.key("rope.dimension_count", 16u);
  model.key("rope.freq_base", 1e6f);
  model.key("vocab_size", TinyModel::kVocab);
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->architecture_name, "qwen3");
  CHECK_EQ(params->n_vocab, 40);
  CHECK_EQ(params->n_embd, 64);
  CHECK_EQ(params->n_layers, 2);
  CHECK_EQ(params->n_heads, 4);
  CHECK_EQ(params->n_kv_heads, 2);
  CHECK_EQ(params->head_dim, 32);
  CHECK_EQ(params->n_ff, 96);
  CHECK_EQ(params->context_length, 256);
  CHECK_EQ(params->rms_eps, 1e-5f);
  CHECK(params->rope_style == RopeStyle::kHalves);
  CHECK_EQ(params->rope_dims, 16);
  REQUIRE(params->ropes.size() == 1 && params->ropes[0].inverse_frequency.size() == 8);
  CHECK_EQ(params->ropes[0].inverse_frequency[0], 1.0f);
  CHECK(std::abs(params->ropes[0].inverse_frequency[4] - 1e-3f) < 1e-9f);
  CHECK(!params->tied_output && !params->qkv_bias && params->qk_norm == QkNorm::kEachHead);
}

TEST(absent_keys_have_the_defaults_of_the_format) {
  TinyModel model;
  model.keys.erase("llama.attention.head_count_kv");
  model.tensors.erase("output.weight");
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->n_kv_heads, params->n_heads);
  CHECK_EQ(params->head_dim, 16);
  CHECK_EQ(params->rope_dims, 16);
  CHECK(params->rope_style == RopeStyle::kAdjacentPairs);
  CHECK(std::abs(params->ropes[0].inverse_frequency[4] - 1e-2f) < 1e-8f);  // base 10000
  CHECK_EQ(params->ropes[0].magnitude, 1.0f);
  CHECK(params->tied_output && !params->qkv_bias && params->qk_norm == QkNorm::kNone);
}

TEST(required_keys_are_named_when_missing) {
  for (const char* key :
       {"context_length", "embedding_length", "block_count", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    TinyModel model;
    model.keys.erase(std::string("llama.") + key);
    check_refused(model, ErrorCode::kInvalidFile, std::string("'llama.") + key + "' is missing");
  }
  TinyModel nameless;
  nameless.keys.erase("general.architecture");
  check_refused(nameless, ErrorCode::kInvalidFile, "'general.architecture' is missing");
  TinyModel without_table;
  without_table.tensors.erase("token_embd.weight");
  check_refused(without_table, ErrorCode::kInvalidFile, "'token_embd.weight' is missing");
}

TEST(values_out_of_range_are_named) {
  const std::pair<const char*, TinyModel::Value> cases[] = {
      {"context_length", 0u},
      {"block_count", 0u},
      {"block_count", 4'000'000'000u},
      {"embedding_length", 1u << 20},
      {"attention.head_count", 0u},
      {"attention.head_count_kv", 0u},
      {"feed_forward_length", 0xffffffffu},
      {"attention.key_length", 1u << 16},
      {"rope.dimension_count", 18u},
      {"rope.dimension_count", 7u},
      {"attention.layer_norm_rms_epsilon", -1.0f},
      {"attention.layer_norm_rms_epsilon", std::nanf("")},
      {"rope.freq_base", 0.0f},
      {"rope.freq_base", INFINITY},
      {"rope.scaling.factor", -2.0f},
      {"vocab_size", 41u},
      {"block_count", std::string("many")},
      {"block_count", std::vector<uint32_t>{}},
  };
  for (const auto& [key, value] : cases) {
    TinyModel model;
    model.key(key, value);
    check_refused(model, ErrorCode::kInvalidFile, std::string("llama.") + key);
  }
  TinyModel uneven;
  uneven.key("attention.head_count_kv", 3u);
  check_refused(uneven, ErrorCode::kInvalidFile,
                "not a multiple of 'llama.attention.head_count_kv'");
  TinyModel odd;
  odd.key("attention.head_count", 5u);
  check_refused(odd, ErrorCode::kInvalidFile, "not a multiple of 'llama.attention.head_count'");
}

TEST(per_layer_arrays_are_accepted_when_equal) {
  TinyModel model;
  model.key("feed_forward_length", std::vector<uint32_t>{96, 96});
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->n_ff, 96);
  model.key("feed_forward_length", std::vector<uint32_t>{96, 128});
  check_refused(model, ErrorCode::kUnsupported,
                "'llama.feed_forward_length' differs from layer to layer");
}

TEST(what_is_not_computed_is_refused_by_name) {
  const std::tuple<const char*, TinyModel::Value, const char*> cases[] = {
      {"attn_logit_softcapping", 50.0f, "soft cap"},
      {"final_logit_softcapping", 30.0f, "soft cap"},
      {"attention.causal", false, "not causal"},
      {"attention.value_length", 8u, "llama.attention.value_length"},
      {"logit_scale", 0.5f, "scale on logits"},
      {"pooling_type", 3u, "pooled"},
      {"rope.freq_base_swa", 5000.0f, "llama.rope.freq_base_swa"},
      {"rope.dimension_count_swa", 8u, "llama.rope.dimension_count_swa"},
      {"rope.dimension_sections", std::vector<uint32_t>{4, 4, 0, 0}, "RoPE in sections"},
      {"rope.scaling.type", std::string("dynamic"), "'dynamic'"},
  };
  for (const auto& [key, value, part] : cases) {
    TinyModel model;
    model.key(key, value);
    check_refused(model, ErrorCode::kUnsupported, part);
  }
  TinyModel qwen("qwen2");
  qwen.key("expert_count", 8u);
  check_refused(qwen, ErrorCode::kUnsupported, "mixture of experts");
  qwen.key("expert_count", 0u);
  qwen.key("attention.sliding_window", 64u);
  check_refused(qwen, ErrorCode::kUnsupported, "sliding attention window");
  qwen.key("attention.sliding_window", 256u);
  CHECK(read(qwen).ok());
  check_refused(TinyModel("mamba"), ErrorCode::kUnsupported, "architecture 'mamba'");
  TinyModel harmless;
  harmless.key("expert_count", 0u);
  harmless.key("attention.causal", true);
  harmless.key("logit_scale", 1.0f);
  CHECK(read(harmless).ok());
}

TEST(layers_have_windows_and_rotations_of_their_own) {
  TinyModel gemma("gemma3", 7);
  gemma.key("attention.sliding_window", 32u);
  gemma.key("rope.freq_base", 1e6f);
  auto params = read(gemma);
  REQUIRE(params.ok());
  REQUIRE(params->layers.size() == 7 && params->ropes.size() == 2);
  for (size_t i = 0; i < 7; ++i) {
    CHECK_EQ(params->layers[i].window, i == 5 ? 0 : 32);
    CHECK_EQ(params->layers[i].rope, i == 5 ? 0 : 1);
  }
  CHECK(std::abs(params->ropes[0].inverse_frequency[4] - 1e-3f) < 1e-9f);
  CHECK(std::abs(params->ropes[1].inverse_frequency[4] - 1e-2f) < 1e-8f);
  gemma.key("attention.sliding_window_pattern", 2u);
  params = read(gemma);
  REQUIRE(params.ok());
  CHECK(params->layers[0].window == 32 && params->layers[1].window == 0);
  gemma.key("attention.sliding_window_pattern", std::vector<bool>{true, false});
  check_refused(gemma, ErrorCode::kInvalidFile,
                "'gemma3.attention.sliding_window_pattern' has 2 elements");
  gemma.key("attention.sliding_window_pattern",
            std::vector<bool>{false, true, true, true, true, true, true});
  params = read(gemma);
  REQUIRE(params.ok());
  CHECK(params->layers[0].window == 0 && params->layers[6].window == 32);
  gemma.key("attention.sliding_window_pattern", std::vector<uint32_t>{1, 0});
  check_refused(gemma, ErrorCode::kInvalidFile, "not an array of booleans");

  check_refused(TinyModel("minicpm"), ErrorCode::kInvalidFile, "'minicpm.embedding_scale' is missing");

  const auto smol = read(TinyModel("smollm3", 5));
  REQUIRE(smol.ok());
  for (size_t i = 0; i < 5; ++i) CHECK_EQ(smol->layers[i].rope, i == 3 ? -1 : 0);
}

// (groups, of them used, experts of a row) among 8 experts.
TEST(groups_of_experts_must_fit) {
  for (const auto& [groups, used_groups, used, fits] :
       {std::tuple{4u, 2u, 4u, true}, std::tuple{4u, 4u, 4u, true}, std::tuple{3u, 2u, 2u, false},
        std::tuple{8u, 4u, 2u, false}, std::tuple{4u, 1u, 4u, false}}) {
    TinyModel model;
    model.key("expert_count", 8u);
    model.key("expert_used_count", used);
    model.key("expert_group_count", groups);
    check_refused(model, ErrorCode::kInvalidFile, "'llama.expert_group_used_count' is missing");
    model.key("expert_group_used_count", used_groups);
    if (!fits) {
      check_refused(model, ErrorCode::kInvalidFile, "'llama.expert_group_count' is");
      continue;
    }
    const auto params = read(model);
    REQUIRE(params.ok());
    CHECK_EQ(params->experts.router.groups, used_groups < groups ? 4 : 1);
  }
}

// Layers that guess tokens are counted among the file's and left out; experts begin behind the dense ones.
TEST(layers_with_experts_are_those_the_file_says) {
  TinyModel model("glm4moe", 6);
  model.key("expert_count", 8u);
  model.key("expert_used_count", 2u);
  model.key("leading_dense_block_count", 2u);
  model.key("nextn_predict_layers", 1u);
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->n_layers, 5);
  CHECK_EQ(params->n_guess_layers, 1);
  for (size_t i = 0; i < 5; ++i) CHECK_EQ(params->layers[i].mixture, i >= 2);
  CHECK(params->experts.router.score == RouterScore::kSigmoid);
  CHECK_EQ(params->n_ff, 96);
  model.key("nextn_predict_layers", 6u);
  check_refused(model, ErrorCode::kInvalidFile, "'glm4moe.nextn_predict_layers' is 6 of 6 layers");
}

TEST(mixtures_are_read_and_what_they_cannot_be_is_refused) {
  TinyModel model;
  model.key("expert_count", 8u);
  check_refused(model, ErrorCode::kInvalidFile, "'llama.expert_used_count' is missing");
  model.key("expert_used_count", 2u);
  auto params = read(model);
  REQUIRE(params.ok());
  CHECK(params->experts.count == 8 && params->experts.used == 2 && params->experts.n_ff == 96);
  CHECK(params->experts.router.normalized && params->experts.router.scale == 1.0f);
  const std::tuple<const char*, TinyModel::Value, ErrorCode> faults[] = {
      {"expert_used_count", 9u, ErrorCode::kInvalidFile},
      {"expert_used_count", 0u, ErrorCode::kInvalidFile},
      {"expert_count", 1u << 20, ErrorCode::kInvalidFile},
      {"expert_feed_forward_length", 0u, ErrorCode::kInvalidFile},
      {"expert_feed_forward_length", 100u, ErrorCode::kUnsupported},
      {"expert_gating_func", 4u, ErrorCode::kUnsupported},
      {"expert_group_count", 65u, ErrorCode::kInvalidFile},
      {"leading_dense_block_count", 2u, ErrorCode::kInvalidFile},
      {"interleave_moe_layer_step", 3u, ErrorCode::kInvalidFile},
      {"expert_shared_feed_forward_length", 32u, ErrorCode::kUnsupported},
      {"expert_weights_norm", 1u, ErrorCode::kInvalidFile},
      {"expert_weights_scale", -1.0f, ErrorCode::kInvalidFile},
  };
  for (const auto& [key, value, code] : faults) {
    TinyModel faulty = model;
    faulty.key(key, value);
    const std::string named = std::string(key) == "expert_feed_forward_length" &&
                                      code == ErrorCode::kUnsupported
                                  ? "experts' feed-forward length is 100"
                                  : "llama." + std::string(key);
    check_refused(faulty, code, named);
  }
}

TEST(the_vocabulary_must_agree_with_the_embedding_table) {
  TinyModel model;
  model.keys["tokenizer.ggml.tokens"] =
      std::vector<uint32_t>(39, 0);  // only the count matters here
  check_refused(model, ErrorCode::kInvalidFile, "'tokenizer.ggml.tokens' has 39 tokens");
}

TEST(rope_scaling_changes_the_frequencies) {
  TinyModel model;
  model.key("rope.scaling.type", std::string("linear"));
  model.key("rope.scaling.factor", 4.0f);
  auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->ropes[0].inverse_frequency[0], 0.25f);

  model.key("rope.scaling.type", std::string("none"));
  params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->ropes[0].inverse_frequency[0], 1.0f);

  TinyModel early;
  early.key("rope.scale_linear", 2.0f);
  params = read(early);
  REQUIRE(params.ok());
  CHECK_EQ(params->ropes[0].inverse_frequency[0], 0.5f);
}

TEST(frequency_factors_divide_the_frequencies) {
  TinyModel model;
  model.tensors["rope_freqs.weight"] = {{8}, TensorType::kF32, 0.0f, 8.0f};
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->ropes[0].inverse_frequency[0], 0.125f);
  model.tensors["rope_freqs.weight"] = {{4}, TensorType::kF32, 0.0f, 8.0f};
  check_refused(model, ErrorCode::kInvalidFile, "'rope_freqs.weight'");
  model.tensors["rope_freqs.weight"] = {{8}, TensorType::kF32, 0.0f, 0.0f};
  check_refused(model, ErrorCode::kInvalidFile, "not positive");
}

}  // namespace monolith
