#include "engine/debug/inspect.h"

#include <algorithm>
#include <map>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/machine_memory.h"
#include "check.h"
#include "engine/debug/file_hash.h"
#include "engine/kv/page_budget.h"
#include "backend/forwarding_backend.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

using namespace testing;

constexpr ModelLimits kLimits = {.max_batch_tokens = 32, .max_logit_rows = 8};

uint64_t hash_of(const TinyModel& model) { return file_hash(*ParsedModel(model).file); }

}  // namespace

TEST(inspection_reports_the_contents_and_the_memory_plan) {
  const std::string path = check::vectors_path("models/llama.q4_k_m.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  auto backend = make_cpu_backend({.threads = 1});
  REQUIRE(backend.ok());
  const MemoryClaim all(uint64_t{1} << 60);  // No memory is free, so the page pool has its minimum size.
  const auto inspection = inspect(path, **backend, kLimits, 0, 0);
  REQUIRE(inspection.ok());
  CHECK_EQ(inspection->reason, "");
  REQUIRE(inspection->model.has_value() && inspection->plan.has_value());
  const ModelInfo& model = *inspection->model;
  CHECK_EQ(model.architecture, "llama");
  CHECK_EQ(model.name.value_or(""), "tiny random llama");
  CHECK_EQ(model.quantization, "Q4_K");
  CHECK_EQ(model.vocabulary, 640);
  CHECK_EQ(model.context_length, 4096);
  // Each layer has two norms, the Q and output matrices, the K and V matrices, and three feed-forward matrices. The
  // remaining tensors are the embeddings, the output matrix and the final norm.
  CHECK_EQ(model.parameters, 2 * (2 * 256 + 2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512) + 2 * 256 * 640 + 256);
  CHECK_EQ(model.bos.value_or(""), "<s>");
  CHECK_EQ(model.eos.value_or(""), "</s>");
  CHECK(std::ranges::find(model.end_of_generation, 2) != model.end_of_generation.end());
  CHECK(!model.chat_template.has_value());
  CHECK_EQ(inspection->tensors.size(), 21u);
  CHECK_EQ(inspection->metadata.size(), 25u);
  CHECK_EQ(inspection->metadata[0].key, "general.architecture");
  CHECK_EQ(std::get<std::string>(inspection->metadata[0].value), "llama");
  CHECK_EQ(inspection->file_hash.size(), 16u);
  CHECK_EQ(inspection->plan->context, 4096);
  CHECK_EQ(inspection->plan->pages, 4 * 4096 / kPageTokens);

  // The plan must be the same as when the model is loaded with the same options.
  auto file = GgufFile::open(path);
  REQUIRE(file.ok());
  const auto limits = choose_limits(**file, **backend, kLimits, 0, 0);
  REQUIRE(limits.ok());
  const auto loaded = Model::load(**file, **backend, *limits, {});
  REQUIRE(loaded.ok());
  CHECK_EQ(inspection->plan->memory.total(), (*loaded)->memory().total());
}

// Six layers have a sliding window of 64 and one has full attention, so each page stores the data of one layer. The
// pool has room for four contexts.
TEST(the_plan_of_a_model_with_sliding_windows_counts_window_pages) {
  const std::string path = check::vectors_path("models/gemma3.f16.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  auto backend = make_cpu_backend({.threads = 1});
  REQUIRE(backend.ok());
  const MemoryClaim all(uint64_t{1} << 60);  // No memory is free, so the page pool has its minimum size.
  const auto inspection = inspect(path, **backend, kLimits, 1024, 0);
  REQUIRE(inspection.ok() && inspection->plan.has_value());
  const InspectedPlan& plan = *inspection->plan;
  const KvLayout& layout = plan.memory.layout;
  CHECK_EQ(layout.full, 1);
  CHECK_EQ(layout.windowed, 6);
  CHECK_EQ(layout.window, 64);
  CHECK_EQ(plan.context, 1024);
  CHECK_EQ(plan.pages, 4 * (64 + 6 * layout.window_pages(32)));
  CHECK_EQ(plan.memory.kv_bytes, static_cast<size_t>(plan.pages) * plan.memory.page_bytes);
  // With a smaller budget, the number of pages for the full-attention layer limits the context.
  const auto less = inspect(path, **backend, kLimits, 0, 100 * plan.memory.page_bytes);
  REQUIRE(less.ok() && less->plan.has_value());
  CHECK_EQ(less->plan->pages, 100);
  CHECK_EQ(less->plan->context, (100 - 6 * layout.window_pages(32)) * kPageTokens);
}

TEST(inspection_of_an_unsupported_file_reports_the_reason) {
  const ModelFile file(TinyModel("unheard-of"));
  auto backend = make_cpu_backend({.threads = 1});
  REQUIRE(backend.ok());
  const auto inspection = inspect(file.path(), **backend, kLimits, 0, 0);
  REQUIRE(inspection.ok());
  CHECK(!inspection->model.has_value() && !inspection->plan.has_value());
  CHECK(inspection->reason.find("architecture 'unheard-of' is not supported") != std::string::npos);
  CHECK(!inspection->tensors.empty());
}

// Inspects a file whose model would run only on a machine with more memory. The inspection reports everything except
// the memory plan, and explains why this machine does not have enough memory.
TEST(inspection_of_a_file_that_does_not_fit_reports_the_free_memory) {
  const std::string path = check::vectors_path("models/llama.q4_k_m.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  struct Small final : ForwardingBackend {
    using ForwardingBackend::ForwardingBackend;
    uint64_t free_memory() const override { return 4'321; }
  };
  auto cpu = make_cpu_backend({.threads = 1});
  REQUIRE(cpu.ok());
  const MemoryClaim all(uint64_t{1} << 60);  // No memory is free, so the page pool has its minimum size.
  Small small(**cpu);
  const auto inspection = inspect(path, small, kLimits, 0, 0);
  REQUIRE(inspection.ok());
  CHECK(!inspection->model && !inspection->plan);
  CHECK(inspection->reason.find("the device has only 4321 bytes left") != std::string::npos);
  CHECK_EQ(inspection->tensors.size(), 21u);
}

TEST(inspection_reports_metadata_with_its_types) {
  TinyModel model;
  model.keys = {{"general.architecture", std::string("llama")},
                {"a.flag", true},
                {"a.count", 7u},
                {"a.part", 0.5f},
                {"a.list", std::vector<uint32_t>{1, 2, 3}}};
  const ModelFile file(model);
  auto cpu = make_cpu_backend({.threads = 1});
  REQUIRE(cpu.ok() && !file.path().empty());
  const auto inspection = inspect(file.path(), **cpu, kLimits, 0, 0);
  REQUIRE(inspection.ok());
  CHECK(!inspection->reason.empty());
  std::map<std::string, InspectedValue> values;
  for (const InspectedValue& value : inspection->metadata) values[value.key] = value;
  CHECK(values["a.flag"].type == "boolean" && values["a.flag"].value == decltype(InspectedValue::value)(true));
  CHECK(values["a.count"].type == "uint32" && values["a.count"].value == decltype(InspectedValue::value)(7.0));
  CHECK(values["a.part"].type == "float32" && values["a.part"].value == decltype(InspectedValue::value)(0.5));
  CHECK(values["a.list"].type == "array of uint32" && values["a.list"].count == 3 &&
        values["a.list"].value.index() == 0);
  CHECK(values["general.architecture"].value == decltype(InspectedValue::value)(std::string("llama")));
}

TEST(the_file_hash_depends_on_weights_metadata_and_names) {
  const uint64_t hash = hash_of(TinyModel());
  CHECK_EQ(hash_of(TinyModel()), hash);
  TinyModel other_key;
  other_key.key("rope.freq_base", 20000.0f);
  CHECK(hash_of(other_key) != hash);
  TinyModel other_weights;
  other_weights.tensors["blk.1.ffn_down.weight"].scale = 0.3f;
  CHECK(hash_of(other_weights) != hash);
  TinyModel renamed;
  renamed.tensors["blk.0.x.weight"] = renamed.tensors["output_norm.weight"];
  CHECK(hash_of(renamed) != hash);
}

TEST(the_hash_of_a_small_file_depends_on_every_byte_of_its_weights) {
  ParsedModel model{TinyModel()};
  REQUIRE(model.file != nullptr);
  const uint64_t hash = file_hash(*model.file);
  size_t offset = 0, n_large = 0;  // The tested offsets differ between tensors, and most lie between samples.
  for (const GgufTensor& tensor : model.file->tensors()) {
    n_large += tensor.data.size() > 4096;
    const auto begin = static_cast<size_t>(tensor.data.data() - model.bytes.data());
    for (; offset < tensor.data.size(); offset += 1009) {
      std::byte& byte = model.bytes[begin + offset];
      byte ^= std::byte{1};
      CHECK(file_hash(*model.file) != hash);
      byte ^= std::byte{1};
    }
    offset %= 1009;
  }
  CHECK(n_large > 5);
  CHECK_EQ(file_hash(*model.file), hash);
}

TEST(the_hash_of_a_large_file_samples_its_weights) {
  constexpr uint64_t kValues = uint64_t{17} << 20;  // 68 MiB.
  GgufBuilder builder;
  builder.tensor("weights", TensorType::kF32, {kValues}, Bytes(kValues * sizeof(float)));
  Bytes bytes = builder.build();
  const auto file = GgufFile::parse(bytes);
  REQUIRE(file.ok());
  const std::span<const std::byte> data = (*file)->tensors()[0].data;
  const auto begin = static_cast<size_t>(data.data() - bytes.data());
  const uint64_t hash = file_hash(**file);
  const auto is_seen = [&](size_t offset) {
    bytes[begin + offset] ^= std::byte{1};
    const bool seen = file_hash(**file) != hash;
    bytes[begin + offset] ^= std::byte{1};
    return seen;
  };
  CHECK(is_seen(0) && is_seen(255) && is_seen(data.size() - 256) && is_seen(data.size() - 1));
  CHECK(!is_seen(256) && !is_seen(data.size() - 257));
}

TEST(hash_bytes_depends_on_every_byte_the_length_and_the_seed) {
  std::vector<std::byte> bytes(100, std::byte{0});
  const uint64_t hash = hash_bytes(bytes, 0);
  CHECK(hash_bytes(bytes, 1) != hash);
  CHECK(hash_bytes({bytes.data(), 99}, 0) != hash);
  for (std::byte& byte : bytes) {
    byte = std::byte{1};
    CHECK(hash_bytes(bytes, 0) != hash);
    byte = std::byte{0};
  }
  CHECK_EQ(hash_text(0x0123456789abcdef), "0123456789abcdef");
}

}  // namespace monolith
