// Tests loading: errors name the tensor, memory use matches the plan, progress is reported, and the tokens in a step do
// not affect each other.
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "all_cases.h"
#include "check.h"
#include "formats/gguf/assembled_file.h"
#include "support/model_fixture.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

using namespace testing;

constexpr ModelLimits kLimits = {
    .max_batch_tokens = 24, .max_logit_rows = 8, .max_context = 96, .n_pages = 6, .kv_type = KvType::kF32};

std::unique_ptr<Backend> make_backend() {
  auto backend = make_cpu_backend({.threads = 1});
  return backend ? std::move(*backend) : nullptr;
}

std::string load_error(const TinyModel& model) {
  const ParsedModel parsed(model);
  if (!parsed.file) return "does not parse: " + parsed.error;
  const auto backend = make_backend();
  const auto loaded = Model::load(*parsed.file, *backend, kLimits, {});
  return loaded ? "" : loaded.error().message;
}

void check_contains(const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) check::fail(__FILE__, __LINE__, "expected '" + part + "' in: " + text);
}

}  // namespace

TEST(allocated_memory_equals_the_plan) {
  std::vector<TinyModel> models = {TinyModel("llama"), TinyModel("qwen2"), TinyModel("qwen3")};
  models[1].tensors.erase("output.weight");
  for (const TensorType type : {TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_0}) {
    models.emplace_back();
    for (auto& [name, tensor] : models.back().tensors) {
      if (tensor.dims.size() == 2) tensor.type = type;
    }
  }
  for (const TinyModel& model : models) {
    const ParsedModel parsed(model);
    REQUIRE(parsed.file != nullptr);
    for (const Arithmetic arithmetic : {Arithmetic::kProduction, Arithmetic::kExact}) {
      for (const KvType kv_type : {KvType::kF16, KvType::kF32, KvType::kQ8_0, KvType::kQ4_0, KvType::kQ5_0}) {
        auto backend = make_cpu_backend({.threads = 1, .arithmetic = arithmetic});
        REQUIRE(backend.ok());
        ModelLimits limits = kLimits;
        limits.kv_type = kv_type;
        const auto plan = Model::plan(*parsed.file, **backend, limits);
        REQUIRE(plan.ok());
        const auto loaded = Transformer::load(*parsed.file, **backend, limits, {});
        REQUIRE(loaded.ok());
        const MemoryPlan& allocated = (*loaded)->allocated();
        CHECK_EQ(plan->weight_bytes, allocated.weight_bytes);
        CHECK_EQ(plan->kv_bytes, allocated.kv_bytes);
        CHECK_EQ(plan->activation_bytes, allocated.activation_bytes);
        CHECK_EQ(plan->total(), (*loaded)->memory().total());
        CHECK(plan->page_bytes * 6 <= plan->kv_bytes);
      }
    }
  }
}

TEST(kv_types_for_gpus_only_are_rejected_by_name) {
  const ParsedModel parsed{TinyModel()};
  const auto backend = make_backend();
  ModelLimits limits = kLimits;
  limits.kv_type = KvType::kFp8;
  const auto plan = Model::plan(*parsed.file, *backend, limits);
  REQUIRE(!plan.ok());
  CHECK(plan.error().code == ErrorCode::kUnsupported);
  check_contains(plan.error().message, "kv_type fp8");
  const auto loaded = Transformer::load(*parsed.file, *backend, limits, {});
  REQUIRE(!loaded.ok());
  check_contains(loaded.error().message, "kv_type fp8");
  CHECK(!backend->kv_cache(KvShape::of_equal_layers(1, 1, 64, 4, KvType::kFp8)).ok());
}

TEST(a_tied_output_matrix_is_stored_once) {
  TinyModel model;
  const auto backend = make_backend();
  const ParsedModel untied(model);
  model.tensors.erase("output.weight");
  const ParsedModel tied(model);
  const auto with = Model::plan(*untied.file, *backend, kLimits);
  const auto without = Model::plan(*tied.file, *backend, kLimits);
  REQUIRE(with.ok() && without.ok());
  CHECK_EQ(with->weight_bytes - without->weight_bytes,
           backend->matrix_bytes(TensorType::kF32, TinyModel::kVocab, TinyModel::kEmbedding));
  CHECK_EQ(load_error(model), "");
}

TEST(fp8_weights_need_a_backend_that_supports_them) {
  TinyModel model;
  for (const bool floats : {true, false}) {
    if (!floats)
      for (auto& [name, tensor] : model.tensors)
        if (tensor.dims.size() == 2) tensor.type = TensorType::kQ8_0;
    const ParsedModel parsed(model);
    REQUIRE(parsed.file != nullptr);
    AssembledFile::quantize(const_cast<GgufFile&>(*parsed.file), TensorType::kF8E4M3, 1);
    const auto backend = make_backend();
    const auto plan = Model::plan(*parsed.file, *backend, kLimits);
    CHECK_EQ(plan.ok(), !floats);  // Weights that are already quantized are kept unchanged.
    if (!plan)
      check_contains(plan.error().message, "'quantize' is fp8, which requires a CUDA device, but the device is cpu");
  }
}

TEST(every_invalid_tensor_is_named) {
  TinyModel model;
  model.tensors.erase("blk.1.ffn_up.weight");
  model.matrix("blk.0.attn_k.weight", 16, TinyModel::kEmbedding);
  model.bias("blk.0.ffn_norm.bias", TinyModel::kEmbedding);
  const std::string error = load_error(model);
  check_contains(error, "tensor 'blk.1.ffn_up.weight' is missing");
  check_contains(error, "tensor 'blk.0.attn_k.weight' has shape [64, 16], expected [64, 32]");
  check_contains(error, "tensor 'blk.0.ffn_norm.bias'");
}

TEST(unknown_tensors_are_rejected_unless_harmless) {
  for (const char* name : {"blk.0.attn_norm.bias", "blk.0.attn_post_norm.weight", "blk.2.attn_norm.weight"}) {
    TinyModel model;
    model.bias(name, TinyModel::kEmbedding);
    check_contains(load_error(model), std::string("tensor '") + name + "'");
  }
  // Qwen 2 does not use rope_freqs and would have to ignore this tensor, so it rejects the file.
  TinyModel qwen("qwen2");
  qwen.norm("rope_freqs.weight", TinyModel::kHeadDim / 2);
  check_contains(load_error(qwen), "tensor 'rope_freqs.weight'");

  TinyModel llama;
  llama.norm("rope_freqs.weight", TinyModel::kHeadDim / 2);
  llama.bias("blk.0.attn_rot_embd.weight", TinyModel::kHeadDim / 2);
  CHECK_EQ(load_error(llama), "");
}

TEST(biases_of_q_k_and_v_must_be_complete) {
  TinyModel model;
  for (const char* block : {"blk.0.", "blk.1."}) {
    model.bias(std::string(block) + "attn_q.bias", TinyModel::kHeads * TinyModel::kHeadDim);
    model.bias(std::string(block) + "attn_k.bias", TinyModel::kKvHeads * TinyModel::kHeadDim);
    model.bias(std::string(block) + "attn_v.bias", TinyModel::kKvHeads * TinyModel::kHeadDim);
  }
  CHECK_EQ(load_error(model), "");
  model.tensors.erase("blk.1.attn_v.bias");
  check_contains(load_error(model), "tensor 'blk.1.attn_v.bias' is missing");
  TinyModel qwen("qwen2");
  qwen.tensors.erase("blk.0.attn_q.bias");
  check_contains(load_error(qwen), "tensor 'blk.0.attn_q.bias' is missing");
}

TEST(missing_layers_give_a_single_error) {
  TinyModel model;
  model.key("block_count", 1000u);
  check_contains(load_error(model), "'llama.block_count' is 1000, but the file has only 21 tensors");
  model.key("block_count", 3u);
  check_contains(load_error(model), "and 1 more");
}

TEST(limits_out_of_range_are_named) {
  const ParsedModel parsed{TinyModel()};
  const auto backend = make_backend();
  const auto error = [&](ModelLimits limits) {
    const auto plan = Model::plan(*parsed.file, *backend, limits);
    return plan ? std::string() : plan.error().message;
  };
  check_contains(error({.max_batch_tokens = 0}), "max_batch_tokens");
  check_contains(error({.max_logit_rows = -1}), "max_logit_rows");
  check_contains(error({.max_context = 0}), "max_context");
  check_contains(error({.n_pages = int64_t{1} << 40}), "n_pages");
}

TEST(progress_rises_to_one) {
  const ParsedModel parsed{TinyModel()};
  const auto backend = make_backend();
  std::vector<float> seen;
  const auto loaded = Model::load(*parsed.file, *backend, kLimits, [&](float fraction) { seen.push_back(fraction); });
  REQUIRE(loaded.ok() && !seen.empty());
  CHECK(std::ranges::is_sorted(seen));
  CHECK(seen.front() > 0);
  CHECK_EQ(seen.back(), 1.0f);
}

TEST(a_file_that_was_only_parsed_keeps_its_bytes) {
  const ParsedModel parsed{TinyModel()};
  const Bytes before = parsed.bytes;
  const auto backend = make_backend();
  REQUIRE(Model::load(*parsed.file, *backend, kLimits, {}).ok());
  CHECK(parsed.bytes == before);
}

TEST(damaged_images_are_planned_or_rejected_with_a_message) {
  uint64_t state = 1;
  const auto random = [&state](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  TinyModel yarn;
  yarn.key("rope.scaling.type", std::string("yarn"));
  yarn.key("rope.scaling.factor", 4.0f);
  std::vector<Case> cases = all_cases();
  cases.push_back({"yarn", yarn, {}});
  std::vector<ParsedModel> models;
  for (const Case& one : cases) models.emplace_back(one.model);
  const auto backend = make_backend();
  int accepted = 0, refused = 0;
  for (size_t round = 0; round < 6000; ++round) {
    const ParsedModel& intact = models[round % models.size()];
    Bytes bytes = intact.bytes;
    // Damages the header, the metadata and the tensor table, but not the weights. The tensor table makes up most of
    // these bytes but contains few values that are worth changing, so every second round leaves it unchanged.
    const auto whole = static_cast<uint64_t>(intact.file->tensors()[0].data.data() - intact.bytes.data());
    const uint64_t head = round % 2 == 0 ? whole : whole / 6;
    for (uint64_t n = 1 + random(3); n > 0; --n) {
      bytes[random(head)] = static_cast<std::byte>(random(256));
    }
    const auto file = GgufFile::parse(bytes);
    if (!file) continue;
    const auto plan = Model::plan(**file, *backend, kLimits);
    if (plan) {
      ++accepted;
    } else {
      ++refused;
      CHECK(!plan.error().message.empty());
    }
  }
  CHECK(accepted > 100);
  CHECK(refused > 100);
}

TEST(tokens_without_logits_do_not_change_the_others) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    const ParsedModel parsed{TinyModel(architecture)};
    const auto backend = make_backend();
    auto loaded = Model::load(*parsed.file, *backend, kLimits, {});
    REQUIRE(loaded.ok());
    Model& model = **loaded;
    const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
    const std::vector<int32_t> pages_a = {1}, pages_b = {0};
    const Segment segments[] = {{0, 5, 0, pages_a.data()}, {5, 3, 0, pages_b.data()}};
    const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7}, some = {1, 4, 6};
    const auto n_vocab = static_cast<size_t>(model.params().n_vocab);
    const float* logits = model.forward({tokens, segments, all});
    const std::vector<float> every(logits, logits + all.size() * n_vocab);
    CHECK(standard_deviation({every.data(), n_vocab}) > 0.01);

    // No logits are requested: the step only stores keys and values for the next step.
    const Segment before = {0, 4, 0, pages_a.data()};
    model.forward({{tokens.data(), 4}, {&before, 1}, {}});
    const Segment next = {0, 1, 4, pages_a.data()};
    const std::vector<int32_t> first_row = {0};
    logits = model.forward({{tokens.data() + 4, 1}, {&next, 1}, first_row});
    CHECK(std::memcmp(logits, every.data() + 4 * n_vocab, n_vocab * sizeof(float)) == 0);

    logits = model.forward({tokens, segments, some});
    for (size_t i = 0; i < some.size(); ++i) {
      CHECK(std::memcmp(logits + i * n_vocab, every.data() + static_cast<size_t>(some[i]) * n_vocab,
                        n_vocab * sizeof(float)) == 0);
    }
  }
}

}  // namespace monolith
