// Tests which text encoder files are accepted, how much memory is planned for them, and how parameter values that do
// not occur in the golden files are handled.
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/registry/registry.h"
#include "check.h"
#include "encoder/embedding_fixture.h"
#include "engine/embedding/encoder_budget.h"
#include "support/drafting_model.h"

namespace monolith::testing {
namespace {

// A golden model file with a change applied.
struct ChangedFile {
  Bytes bytes;
  std::unique_ptr<const GgufFile> file;  // Null if the golden file does not exist; the test is then skipped.

  ChangedFile(const std::string& name, const std::function<void(LooseModel&)>& change) {
    const std::string path = check::vectors_path("models/" + name + ".gguf");
    auto golden = GgufFile::open(path);
    if (!golden) {
      check::skip("golden vectors not found: " + name);
      return;
    }
    LooseModel model(**golden);
    change(model);
    bytes = model.build();
    auto parsed = GgufFile::parse(bytes);
    if (parsed)
      file = std::move(*parsed);
    else
      check::fail(__FILE__, __LINE__, parsed.error().message);
  }
};

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = "cpu";
  auto backend = make_backend(options);
  return backend ? std::move(*backend) : nullptr;
}

// Fails the test unless the changed file is rejected when its memory is planned, with a message that contains `part`.
void check_refused(const std::string& name, const std::function<void(LooseModel&)>& change, const std::string& part) {
  const ChangedFile changed(name, change);
  if (!changed.file) return;
  const auto backend = cpu();
  const auto plan = TextEncoder::plan(*changed.file, *backend, 64);
  if (plan) return check::fail(__FILE__, __LINE__, "accepted, expected an error about " + part);
  if (plan.error().message.find(part) == std::string::npos)
    check::fail(__FILE__, __LINE__, "expected '" + part + "' in: " + plan.error().message);
}

TEST(too_many_position_buckets_are_refused) {
  for (const uint32_t count : {512u, 1024u, 4096u})
    check_refused(
        "t5encoder.f16", [=](LooseModel& model) { model.set("attention.relative_buckets_count", count); },
        "relative_buckets_count");
}

// Most distances are mapped to buckets by a logarithm. With 508 buckets, few buckets remain for these distances.
TEST(position_buckets_stay_in_their_table) {
  TextEncoderParams params;
  params.n_heads = 1;
  params.max_tokens = 4096;
  for (const int count : {4, 32, 256, 508}) {
    params.n_buckets = count;
    std::vector<float> table(static_cast<size_t>(count));
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
    const std::vector<float> bias = position_bias(params, table);
    const size_t middle = bias.size() / 2;
    for (size_t i = 1; i <= middle; ++i) {
      // Positions before the token use the first half of the buckets. The bucket index never decreases as the distance
      // grows.
      CHECK(bias[middle - i] >= bias[middle - i + 1] && bias[middle - i] < static_cast<float>(count / 2));
      CHECK_EQ(bias[middle + i], bias[middle - i] + static_cast<float>(count / 2));
    }
  }
}

TEST(window_of_one_token_is_computed) {
  for (const char* name : {"modern-bert.q8_0", "gemma-embedding.q8_0"}) {
    const ChangedFile changed(name, [](LooseModel& model) { model.set("attention.sliding_window", 1); });
    if (!changed.file) return;
    const auto backend = cpu();
    auto encoder = TextEncoder::load(*changed.file, *backend, 64, {});
    REQUIRE(encoder.ok());
    const std::vector<TokenId> tokens = test_prompt(20, 1);
    const std::span<const int32_t> text = tokens;
    (*encoder)->begin({&text, 1});
    while (!(*encoder)->advance()) continue;
    for (const float value : (*encoder)->take_result(0)) CHECK(std::isfinite(value));
  }
}

TEST(missing_norms_and_token_types_are_refused) {
  const auto without = [](const char* tensor) { return [=](LooseModel& model) { model.tensors.erase(tensor); }; };
  check_refused("gemma-embedding.q8_0", without("blk.0.attn_norm.weight"), "blk.0.attn_norm.weight");
  check_refused("neo-bert.q8_0", without("blk.0.attn_norm.weight"), "blk.0.attn_norm.weight");
  check_refused("bert-mean.q8_0", without("token_types.weight"), "token_types.weight");
}

TEST(rope_factors_are_refused) {
  check_refused(
      "eurobert.f16",
      [](LooseModel& model) {
        model.put_floats("rope_freqs.weight", {4}, {1, 1, 1, 1});
      },
      "rope_freqs.weight");
}

TEST(texts_are_shortened_to_fit_in_memory) {
  const ChangedFile changed("modern-bert.q8_0", [](LooseModel&) {});
  if (!changed.file) return;
  const auto backend = cpu();
  const auto whole = plan_encoder(*changed.file, *backend, 0, 0);
  const auto half = TextEncoder::plan(*changed.file, *backend, 4096);
  REQUIRE(whole.ok() && half.ok());
  CHECK_EQ(whole->max_context, 0);
  CHECK(whole->plan.total() > half->total());
  const auto reduced = plan_encoder(*changed.file, *backend, 0, half->total());
  REQUIRE(reduced.ok());
  CHECK_EQ(reduced->max_context, 4096);
  CHECK_EQ(reduced->plan.total(), half->total());
  // The planner may reduce only a context length that it chose itself, not one that is configured.
  const auto refused = plan_encoder(*changed.file, *backend, 8192, half->total());
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::kOutOfMemory);
  const auto tiny = plan_encoder(*changed.file, *backend, 0, 1);
  CHECK(!tiny && tiny.error().code == ErrorCode::kOutOfMemory);
}

// The softmax of a single score would be 1 for every text, so it is not applied.
TEST(single_score_is_not_normalized) {
  const ChangedFile changed("qwen3-rank.q8_0", [](LooseModel& model) {
    std::vector<float> row = model.floats("cls.output.weight");
    row.resize(row.size() / 2);
    const uint64_t width = row.size();
    model.put_floats("cls.output.weight", {width, 1}, row);
    model.tensors.erase("cls.output.bias");
    model.keys.erase(model.key("classifier.output_labels"));
  });
  if (!changed.file) return;
  const int n_embd = static_cast<int>(changed.file->tensor("cls.output.weight")->shape[0]);
  const auto head = PoolingHead::load(*changed.file, {Pooling::kRank, n_embd, 1e-6f, true});
  REQUIRE(head.ok());
  const std::vector<float> zero(static_cast<size_t>(n_embd));
  CHECK(head->apply(zero) == std::vector<float>{0});
}

}  // namespace
}  // namespace monolith::testing
