// Tests which hyperparameters are read from metadata, the defaults for missing keys, and the errors for invalid values.
#include <string>
#include <tuple>
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

// Fails the test unless reading fails with this code and with a message that contains the text `part`.
void check_refused(const TinyModel& model, ErrorCode code, const std::string& part) {
  const auto params = read(model);
  if (params) return check::fail(__FILE__, __LINE__, "accepted, expected an error about " + part);
  CHECK_EQ(static_cast<int>(params.error().code), static_cast<int>(code));
  if (params.error().message.find(part) == std::string::npos) {
    check::fail(__FILE__, __LINE__, "expected '" + part + "' in: " + params.error().message);
  }
}

}  // namespace

TEST(all_hyperparameters_are_read) {
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
  CHECK_EQ(params->layers[0].n_heads, 4);
  CHECK_EQ(params->layers[0].n_kv_heads, 2);
  CHECK_EQ(params->layers[0].key_dim, 32);
  CHECK_EQ(params->layers[0].n_ff, 96);
  CHECK_EQ(params->context_length, 256);
  CHECK_EQ(params->norm_eps, 1e-5f);
  CHECK(params->rope_style == RopeStyle::kHalves);
  CHECK_EQ(params->ropes[0].n_dims, 16);
  REQUIRE(params->ropes.size() == 1 && params->ropes[0].inverse_frequency.size() == 8);
  CHECK_EQ(params->ropes[0].inverse_frequency[0], 1.0f);
  CHECK(std::abs(params->ropes[0].inverse_frequency[4] - 1e-3f) < 1e-9f);
  CHECK(!params->tied_output && !params->qkv_bias && params->qk_norm == QkNorm::kEachHead);
}

TEST(delta_nets_alternate_with_attention_layers) {
  TinyModel model("qwen35");
  for (const auto& [key, value] :
       {std::pair{"ssm.conv_kernel", 4u}, std::pair{"ssm.state_size", 16u}, std::pair{"ssm.group_count", 2u},
        std::pair{"ssm.time_step_rank", 6u}, std::pair{"ssm.inner_size", 48u}})
    model.key(key, value);
  // With only two layers and an interval of four, no layer has attention.
  auto params = read(model);
  REQUIRE(params.ok());
  for (const LayerParams& layer : params->layers) CHECK(layer.mixer == MixerKind::kDeltaNet);
  CHECK_EQ(params->delta_net.value_dim, 8);
  CHECK_EQ(params->delta_net.channels(), 2 * 2 * 16 + 48);
  model.key("full_attention_interval", 2u);
  params = read(model);
  REQUIRE(params.ok());
  CHECK(params->layers[0].mixer == MixerKind::kDeltaNet && params->layers[1].mixer == MixerKind::kAttention);
  CHECK(params->layers[1].output_gate);
  TinyModel odd = model;
  odd.key("ssm.time_step_rank", 3u);
  check_refused(odd, ErrorCode::kInvalidFile,
                "'qwen35.ssm.time_step_rank' (3) is not a multiple of 'qwen35.ssm.group_count' (2)");
  odd = model;
  odd.key("ssm.inner_size", 50u);
  check_refused(odd, ErrorCode::kInvalidFile, "'qwen35.ssm.inner_size' (50)");
  odd = model;
  odd.key("ssm.conv_kernel", 9u);
  check_refused(odd, ErrorCode::kInvalidFile, "qwen35.ssm.conv_kernel");
  // An explicit list of layers takes precedence over an interval.
  for (const TinyModel::Value& list :
       {TinyModel::Value(std::vector<bool>{false, true}), TinyModel::Value(std::vector<uint32_t>{0, 1})}) {
    TinyModel listed = model;
    listed.key("attention.recurrent_layers", list);
    params = read(listed);
    REQUIRE(params.ok());
    CHECK(params->layers[0].mixer == MixerKind::kAttention && params->layers[1].mixer == MixerKind::kDeltaNet);
  }
}

TEST(missing_keys_have_the_defaults_of_the_format) {
  TinyModel model;
  model.keys.erase("llama.attention.head_count_kv");
  model.tensors.erase("output.weight");
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->layers[0].n_kv_heads, params->layers[0].n_heads);
  CHECK_EQ(params->layers[0].key_dim, 16);
  CHECK_EQ(params->ropes[0].n_dims, 16);
  CHECK(params->rope_style == RopeStyle::kAdjacentPairs);
  CHECK(std::abs(params->ropes[0].inverse_frequency[4] - 1e-2f) < 1e-8f);  // The default RoPE base is 10000.
  CHECK_EQ(params->ropes[0].magnitude, 1.0f);
  CHECK(params->tied_output && !params->qkv_bias && params->qk_norm == QkNorm::kNone);
}

TEST(required_keys_are_named_when_missing) {
  for (const char* key : {"context_length", "embedding_length", "block_count", "feed_forward_length",
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
  check_refused(uneven, ErrorCode::kInvalidFile, "not a multiple of 'llama.attention.head_count_kv'");
  TinyModel odd;
  odd.key("attention.head_count", 5u);
  check_refused(odd, ErrorCode::kInvalidFile, "not a multiple of 'llama.attention.head_count'");
}

TEST(layers_can_have_different_shapes) {
  TinyModel model;
  model.key("feed_forward_length", std::vector<uint32_t>{96, 96});
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->layers[0].n_ff, 96);
  model.key("feed_forward_length", std::vector<uint32_t>{96, 128});
  model.key("attention.head_count", std::vector<uint32_t>{4, 6});
  model.key("attention.head_count_kv", std::vector<uint32_t>{2, 3});
  model.key("attention.value_length", 24u);
  const auto own = read(model);
  REQUIRE(own.ok());
  CHECK(own->layers[0].n_ff == 96 && own->layers[1].n_ff == 128);
  CHECK(own->layers[0].n_heads == 4 && own->layers[1].n_heads == 6);
  CHECK(own->layers[0].n_kv_heads == 2 && own->layers[1].n_kv_heads == 3);
  CHECK(own->layers[1].key_dim == 16 && own->layers[1].value_dim == 24);
  model.key("attention.head_count_kv", std::vector<uint32_t>{2, 4});
  check_refused(model, ErrorCode::kInvalidFile, "'llama.attention.head_count' (6) is not a multiple of");
  model.key("attention.head_count_kv", std::vector<uint32_t>{2, 0});
  check_refused(model, ErrorCode::kInvalidFile, "'llama.attention.head_count_kv' is 0 for layer 1, expected 1 to 1024");
  model.key("attention.head_count_kv", std::vector<uint32_t>{2});
  check_refused(model, ErrorCode::kInvalidFile,
                "'llama.attention.head_count_kv' has 1 elements, expected one per layer, 2");

  TinyModel gemma("gemma3", 2);
  gemma.key("attention.sliding_window", 32u);
  gemma.key("attention.sliding_window_pattern", std::vector<bool>{true, false});
  gemma.key("attention.key_length", 64u);
  gemma.key("attention.value_length", 64u);
  gemma.key("attention.key_length_swa", 32u);
  gemma.key("attention.value_length_swa", 16u);
  gemma.key("rope.dimension_count", 64u);
  gemma.key("rope.dimension_count_swa", 24u);
  const auto windowed = read(gemma);
  REQUIRE(windowed.ok());
  CHECK(windowed->layers[0].key_dim == 32 && windowed->layers[0].value_dim == 16);
  CHECK(windowed->layers[1].key_dim == 64 && windowed->layers[1].value_dim == 64);
  CHECK(windowed->ropes[0].n_dims == 64 && windowed->ropes[1].n_dims == 24);
  CHECK(std::abs(windowed->layers[0].attention_scale * std::sqrt(32.0f) - 1) < 1e-6f);
}

TEST(pooling_is_read_from_the_file) {
  CHECK(read(TinyModel()).value().pooling == Pooling::kNone);
  for (const auto& [type, pooling] : {std::pair{0u, Pooling::kNone},
                                      {1u, Pooling::kMean},
                                      {2u, Pooling::kCls},
                                      {3u, Pooling::kLast},
                                      {4u, Pooling::kRank}}) {
    TinyModel model;
    model.key("pooling_type", type);
    const auto params = read(model);
    REQUIRE(params.ok());
    CHECK(params->pooling == pooling);
  }
  TinyModel unknown;
  unknown.key("pooling_type", 5u);
  check_refused(unknown, ErrorCode::kInvalidFile, "llama.pooling_type");
}

TEST(unsupported_features_are_rejected_by_name) {
  const std::tuple<const char*, TinyModel::Value, const char*> cases[] = {
      {"attn_logit_softcapping", 50.0f, "soft cap"},
      {"final_logit_softcapping", 30.0f, "soft cap"},
      {"attention.causal", false, "non-causal"},
      {"logit_scale", 0.5f, "scale on logits"},
      {"rope.freq_base_swa", 5000.0f, "llama.rope.freq_base_swa"},
      {"rope.dimension_count_swa", 8u, "llama.rope.dimension_count_swa"},
      {"rope.dimension_sections", std::vector<uint32_t>{4, 4, 0, 0}, "sectioned RoPE"},
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
  check_refused(TinyModel("gptj"), ErrorCode::kUnsupported, "architecture 'gptj'");
  TinyModel harmless;
  harmless.key("expert_count", 0u);
  harmless.key("attention.causal", true);
  harmless.key("logit_scale", 1.0f);
  CHECK(read(harmless).ok());
}

TEST(layers_can_have_different_windows_and_rope) {
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
  check_refused(gemma, ErrorCode::kInvalidFile, "'gemma3.attention.sliding_window_pattern' has 2 elements");
  gemma.key("attention.sliding_window_pattern", std::vector<bool>{false, true, true, true, true, true, true});
  params = read(gemma);
  REQUIRE(params.ok());
  CHECK(params->layers[0].window == 0 && params->layers[6].window == 32);
  // MiMo files list the sliding-window layers in this form, with one flag per layer.
  gemma.key("attention.sliding_window_pattern", std::vector<uint32_t>{1, 0, 1, 1, 0, 1, 1});
  params = read(gemma);
  REQUIRE(params.ok());
  for (size_t i = 0; i < 7; ++i) CHECK_EQ(params->layers[i].window, i == 1 || i == 4 ? 0 : 32);
  gemma.key("attention.sliding_window_pattern", std::vector<float>{1, 0, 1, 1, 0, 1, 1});
  check_refused(gemma, ErrorCode::kInvalidFile, "not an array of booleans");

  check_refused(TinyModel("minicpm"), ErrorCode::kInvalidFile, "'minicpm.embedding_scale' is missing");

  const auto smol = read(TinyModel("smollm3", 5));
  REQUIRE(smol.ok());
  for (size_t i = 0; i < 5; ++i) CHECK_EQ(smol->layers[i].rope, i == 3 ? -1 : 0);
}

TEST(last_layers_share_the_keys_and_values_of_earlier_ones) {
  TinyModel model("gemma4", 6);
  model.key("attention.sliding_window", 32u);
  model.key("attention.sliding_window_pattern", std::vector<bool>{true, true, false, true, true, false});
  model.key("attention.shared_kv_layers", 3u);
  const auto params = read(model);
  REQUIRE(params.ok());
  const int expected[] = {-1, -1, -1, 1, 1, 2};
  for (size_t i = 0; i < 6; ++i) {
    CHECK_EQ(params->layers[i].kv_of, expected[i]);
    CHECK_EQ(params->layers[i].keeps_pages(), i < 3);
    CHECK_EQ(params->layers[i].attention_scale, 1.0f);
  }
  // The last layer with its own keys and values must have full attention, and the layer before it must have a sliding
  // window.
  model.key("attention.shared_kv_layers", 4u);
  check_refused(model, ErrorCode::kUnsupported,
                "'gemma4.attention.shared_kv_layers' is 4: layer 1 does not have the keys");
  model.key("attention.shared_kv_layers", 6u);
  check_refused(model, ErrorCode::kUnsupported, "layer -2 does not have the keys");
  model.key("attention.shared_kv_layers", 7u);
  check_refused(model, ErrorCode::kInvalidFile, "'gemma4.attention.shared_kv_layers' is 7, expected 0 to 6");
  TinyModel other("gemma3", 6);
  other.key("attention.shared_kv_layers", 3u);
  check_refused(other, ErrorCode::kUnsupported, "sharing keys and values between layers");
}

// Gemma 3n: the residual stream and activation sparsity settings are taken from the file, or from the defaults if they
// are missing.
TEST(residual_streams_use_values_of_the_file_or_defaults) {
  TinyModel model("gemma3n", 12);
  model.key("attention.sliding_window", 32u);
  model.tensors["per_layer_token_embd.weight"] = {{12 * 16, TinyModel::kVocab}};
  model.tensors["blk.0.laurel_l.weight"] = {{TinyModel::kEmbedding, 8}};
  auto params = read(model);
  REQUIRE(params.ok());
  CHECK(params->streams.count == 4 && params->streams.laurel_rank == 8 && params->per_layer.dim == 16);
  CHECK(params->value_norm && params->logit_soft_cap == 30.0f);
  for (size_t i = 0; i < 12; ++i) {
    CHECK(std::abs(params->layers[i].sparse_deviations - (i < 10 ? 1.6448536f : 0.0f)) < 1e-6f);
    CHECK_EQ(params->layers[i].window, i % 5 < 4 ? 32 : 0);
  }
  model.key("altup.num_inputs", 3u);
  // The expected values are quantiles of the normal distribution. If the value is minus infinity, no activation is
  // dropped.
  std::vector<float> scales(12, -INFINITY);
  scales[2] = 1.25f;
  model.key("activation_sparsity_scale", scales);
  params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->streams.count, 3);
  for (size_t i = 0; i < 12; ++i) CHECK_EQ(params->layers[i].sparse_deviations, i == 2 ? 1.25f : 0.0f);
  model.key("altup.active_idx", 1u);
  check_refused(model, ErrorCode::kUnsupported, "an active residual stream other than the first");
  model.key("altup.active_idx", 0u);
  model.key("altup.num_inputs", 40u);
  check_refused(model, ErrorCode::kInvalidFile, "'gemma3n.altup.num_inputs' is 40, expected 2 to 16");
}

TEST(layers_can_have_different_limits_and_rotated_dimensions) {
  TinyModel model("step35", 3);
  model.key("expert_count", 8u);
  model.key("expert_used_count", 2u);
  for (const char* block : {"blk.1.", "blk.2."})
    model.matrix(std::string(block) + "ffn_gate_inp.weight", 8, TinyModel::kEmbedding);
  model.key("attention.sliding_window", 32u);
  model.key("attention.sliding_window_pattern", std::vector<bool>{false, true, false});
  model.key("rope.dimension_count", 16u);
  model.key("rope.dimension_count_swa", 12u);
  model.key("swiglu_clamp_exp", std::vector<float>{0, 0, 7});
  model.key("swiglu_clamp_shexp", std::vector<float>{0, 16, 0});
  const auto params = read(model);
  REQUIRE(params.ok());
  // Each layer's tensors determine whether the layer has experts.
  CHECK(!params->layers[0].has_experts() && params->layers[1].has_experts());
  CHECK(params->layers[2].expert_limit == 7 && params->layers[1].expert_limit == 0);
  CHECK(params->layers[1].gate_limit == 16 && params->layers[2].gate_limit == 0);
  CHECK(params->ropes[0].n_dims == 8 && params->ropes[1].n_dims == 12);
  model.key("swiglu_clamp_exp", std::vector<float>{0, 0});
  check_refused(model, ErrorCode::kInvalidFile, "'step35.swiglu_clamp_exp' has 2 elements");
  TinyModel other("dots1", 3);
  other.key("expert_count", 8u);
  other.key("swiglu_clamp_exp", std::vector<float>{0, 0, 7});
  check_refused(other, ErrorCode::kUnsupported, "a limit on gated activations");
}

TEST(keys_that_other_architectures_compute_are_refused) {
  for (const auto& [key, value, part] :
       {std::tuple<const char*, TinyModel::Value, const char*>{"num_loops", 2u, "layers that run several times"},
        {"use_parallel_residual", true, "a parallel residual"},
        {"attention.max_alibi_bias", 8.0f, "an ALiBi bias"},
        {"attention.clamp_kqv", 8.0f, "clamping of queries"}}) {
    TinyModel model("llama");
    model.key(key, value);
    check_refused(model, ErrorCode::kUnsupported, part);
  }
  TinyModel loops("nanbeige");
  loops.key("num_loops", 0u);
  check_refused(loops, ErrorCode::kInvalidFile, "'nanbeige.num_loops' is 0");
  loops.key("num_loops", 3u);
  loops.key("skip_loop_final_norm", true);
  const auto params = read(loops);
  REQUIRE(params.ok());
  CHECK(params->n_layers == 6 && params->stored_layers() == 2 && !params->loop_norm);
}

// Number of groups, number of groups used, and experts per token; there are 8 experts.
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

TEST(chunk_experts_allow_no_other_selection) {
  TinyModel model("grovemoe");
  model.key("expert_count", 8u);
  model.key("expert_used_count", 2u);
  model.key("expert_chunk_feed_forward_length", 32u);
  model.key("expert_group_scale", 0.5f);
  model.key("experts_per_group", 1u);
  check_refused(model, ErrorCode::kInvalidFile, "'grovemoe.experts_per_group' is 1, expected 2 to 8");
  model.key("experts_per_group", 2u);
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->experts.experts_per_chunk, 2);
  TinyModel grouped = model;
  grouped.key("expert_group_count", 4u);
  grouped.key("expert_group_used_count", 4u);
  CHECK(read(grouped).ok());  // All groups are used.
  grouped.key("expert_group_used_count", 2u);
  check_refused(grouped, ErrorCode::kUnsupported, "'grovemoe.expert_group_count' is 4");
  model.key("hash_layer_count", 0u);
  CHECK(read(model).ok());
  model.key("hash_layer_count", 1u);
  check_refused(model, ErrorCode::kUnsupported, "'grovemoe.hash_layer_count' is 1");
}

// For PLaMo 2, this key contains the number of heads; for Mamba, a rank.
TEST(the_number_of_state_space_heads_is_limited) {
  TinyModel model("plamo2");
  model.key("attention.head_count_kv", std::vector<uint32_t>{0, TinyModel::kKvHeads});
  model.key("ssm.conv_kernel", 4u);
  model.key("ssm.state_size", 16u);
  model.key("ssm.inner_size", 8192u);
  model.key("ssm.time_step_rank", 4096u);
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->state_space.n_heads, 4096);
  model.key("ssm.time_step_rank", 8192u);
  check_refused(model, ErrorCode::kInvalidFile, "'plamo2.ssm.time_step_rank' is 8192, expected 1 to 4096");
}

// The layer count in the file includes MTP layers, which are omitted here. The first MoE layer follows the dense
// layers.
TEST(the_file_determines_which_layers_have_experts) {
  TinyModel model("glm4moe", 6);
  model.key("expert_count", 8u);
  model.key("expert_used_count", 2u);
  model.key("leading_dense_block_count", 2u);
  model.key("nextn_predict_layers", 1u);
  const auto params = read(model);
  REQUIRE(params.ok());
  CHECK_EQ(params->n_layers, 5);
  CHECK_EQ(params->n_mtp_layers, 1);
  for (size_t i = 0; i < 5; ++i) CHECK_EQ(params->layers[i].mixture(), i >= 2);
  CHECK(params->experts.router.score == RouterScore::kSigmoid);
  CHECK_EQ(params->layers[0].n_ff, 96);
  model.key("nextn_predict_layers", 6u);
  check_refused(model, ErrorCode::kInvalidFile, "'glm4moe.nextn_predict_layers' is 6 of 6 layers");
}

TEST(moe_settings_are_read_and_invalid_ones_rejected) {
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
      {"expert_gating_func", 5u, ErrorCode::kUnsupported},
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
    const std::string named = std::string(key) == "expert_feed_forward_length" && code == ErrorCode::kUnsupported
                                  ? "experts' feed-forward length is 100"
                                  : "llama." + std::string(key);
    check_refused(faulty, code, named);
  }
}

TEST(the_vocabulary_must_agree_with_the_embedding_table) {
  TinyModel model;
  // Only the length of this array, the number of tokens, is used.
  model.keys["tokenizer.ggml.tokens"] = std::vector<uint32_t>(39, 0);
  check_refused(model, ErrorCode::kInvalidFile, "'tokenizer.ggml.tokens' has 39 tokens");
  model.keys["tokenizer.ggml.tokens"] = std::vector<uint32_t>(TinyModel::kVocab, 0);
  model.key("vocab_size", 39u);  // A vocab_size from before tokens were added is ignored.
  const auto params = read(model);
  CHECK(params.ok() && params->n_vocab == TinyModel::kVocab);
}

TEST(missing_settings_have_the_defaults_of_the_architecture) {
  TinyModel spaces("mamba2");
  for (const auto& [key, value] :
       {std::pair{"ssm.conv_kernel", 4u}, std::pair{"ssm.state_size", 8u}, std::pair{"ssm.group_count", 2u},
        std::pair{"ssm.time_step_rank", 6u}, std::pair{"ssm.inner_size", 48u}})
    spaces.key(key, value);
  for (const char* key : {"attention.head_count", "attention.head_count_kv", "feed_forward_length"})
    spaces.keys.erase(std::string("mamba2.") + key);
  auto params = read(spaces);
  REQUIRE(params.ok());
  CHECK(params->layers[0].mixer == MixerKind::kMamba2 && params->layers[0].feed_forward == FeedForwardKind::kNone);
  CHECK(!params->state_space.convolution_bias);
  spaces.bias("blk.1.ssm_conv1d.bias", 48 + 2 * 2 * 8);
  params = read(spaces);
  CHECK(params.ok() && params->state_space.convolution_bias);

  const auto gemma = read(TinyModel("gemma4"));
  CHECK(gemma.ok() && gemma->logit_soft_cap == 30.0f);

  TinyModel windowed("lfm2", 2);
  windowed.key("shortconv.l_cache", 3u);
  windowed.key("attention.head_count_kv", std::vector<uint32_t>{0, 2});
  windowed.key("attention.sliding_window", 32u);
  params = read(windowed);
  REQUIRE(params.ok());
  CHECK_EQ(params->layers[1].window, 32);

  TinyModel hunyuan("hunyuan-dense");
  hunyuan.key("expert_count", 1u);
  hunyuan.key("rope.scaling.alpha", 1000.0f);
  params = read(hunyuan);
  REQUIRE(params.ok());
  const double base = 10000 * std::pow(1000.0, 16.0 / 14);
  CHECK(std::abs(params->ropes[0].inverse_frequency[4] * std::sqrt(base) - 1) < 1e-5);
  hunyuan.key("expert_count", 2u);
  check_refused(hunyuan, ErrorCode::kUnsupported, "mixture of experts (MoE)");
  TinyModel slight("hunyuan-dense");
  slight.key("rope.scaling.alpha", 1e-30f);
  check_refused(slight, ErrorCode::kInvalidFile, "'hunyuan-dense.rope.scaling.alpha' results in a RoPE base");
  TinyModel other;
  other.key("rope.scaling.alpha", 1000.0f);
  check_refused(other, ErrorCode::kUnsupported, "'llama.rope.scaling.alpha' is 1000");

  TinyModel ministral("mistral3");
  ministral.key("attention.temperature_scale", 0.1f);
  params = read(ministral);
  REQUIRE(params.ok());
  // The default length is the whole context, so that no position exceeds it.
  CHECK_EQ(params->layers[0].temperature_length, 256);
}

// If the key is missing, only the presence of a selection bias indicates that the router uses sigmoids.
TEST(a_router_with_a_bias_uses_sigmoids_in_mla_models) {
  TinyModel model("deepseek2");
  for (const auto& [key, value] :
       {std::pair{"attention.kv_lora_rank", 32u}, std::pair{"rope.dimension_count", 8u},
        std::pair{"attention.key_length", 24u}, std::pair{"attention.value_length", 16u}, std::pair{"expert_count", 8u},
        std::pair{"expert_used_count", 2u}, std::pair{"expert_feed_forward_length", 48u}})
    model.key(key, value);
  auto params = read(model);
  REQUIRE(params.ok());
  CHECK(params->experts.router.score == RouterScore::kSoftmax);
  model.bias("blk.1.exp_probs_b.bias", 8);
  params = read(model);
  CHECK(params.ok() && params->experts.router.score == RouterScore::kSigmoid);
  model.key("expert_gating_func", 1u);
  params = read(model);
  CHECK(params.ok() && params->experts.router.score == RouterScore::kSoftmax);
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
