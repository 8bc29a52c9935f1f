// Compares Hugging Face directories with the GGUF files that they were made from: token IDs are the same, and logits
// are bit-identical.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "engine/debug/debug_logits.h"
#include "engine/debug/inspect.h"
#include "formats/hf/model_file.h"
#include "support/hf_folder.h"
#include "formats/gguf/tokenizer.h"

namespace monolith {
namespace {

using namespace testing;

constexpr const char* kTexts[] = {"Hello world",           " leading and  double  spaces ",
                                  "Ünïcödé 你好 🚀 é́",      "if (x == 1) {\n\treturn \"a\";\n}\n\n",
                                  "12345 67,89",           "\r\n \r\n",
                                  "I'm SURE you'Re right", ""};

struct Case {
  const char* model;
  const char* architecture;
  const char* name;
  const char* config = "";
};

// Writes the directory of a model. If `shards` is greater than 1, writes several safetensors files and an index.
void write_folder(const ScratchFolder& folder, const GgufFile& file, const Case& one, size_t shards) {
  const auto tensors = checkpoint_of(file, one.architecture);
  folder.write("config.json", config_of(file, one.name, one.architecture, one.config));
  folder.write("tokenizer_config.json", tokenizer_settings_of(file));
  const auto tokenizer = load_tokenizer(file);
  // The regular expression that corresponds to the name of the file's pre-tokenizer.
  const std::string pre(file.string("tokenizer.ggml.pre")->value_or(""));
  std::string splitting;
  if (pre == "llama-bpe" || pre == "qwen2")
    splitting = "{\"type\":\"Split\",\"pattern\":{\"Regex\":" +
                json_text(std::string("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|") +
                          (pre == "qwen2" ? "\\p{N}" : "\\p{N}{1,3}") +
                          "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+") +
                "},\"behavior\":\"Isolated\",\"invert\":false},";
  folder.write("tokenizer.json", tokenizer_of(file, splitting, (*tokenizer)->adds_bos()));
  if (shards == 1) return folder.write("model.safetensors", safetensors_of(tensors));
  std::vector<std::vector<SafetensorData>> parts(shards);
  std::string map;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t shard = i * shards / tensors.size();
    map +=
        (map.empty() ? "" : ",") + json_text(tensors[i].name) + ":\"part-" + std::to_string(shard) + ".safetensors\"";
    parts[shard].push_back(tensors[i]);
  }
  folder.write("model.safetensors.index.json", "{\"metadata\":{\"total_size\":1},\"weight_map\":{" + map + "}}");
  for (size_t i = 0; i < shards; ++i)
    folder.write("part-" + std::to_string(i) + ".safetensors", safetensors_of(parts[i]));
}

std::vector<float> logits_of(const std::string& path, const ModelFileOptions& options = {}) {
  DebugLogitsOptions debug{{.threads = 1}, KvType::kF16, 64};
  debug.file = options;
  const std::vector<int32_t> ids = {1, 5, 9, 42, 77, 300, 12, 5};
  const std::vector<int32_t> positions = {7};
  const auto result = debug_logits(path, debug, ids, positions, 0);
  if (!result) {
    check::fail(__FILE__, __LINE__, result.error().message);
    return {};
  }
  return result->positions[0].logits;
}

void check_case(const Case& one, size_t shards) {
  const std::string path = check::vectors_path(std::string("models/") + one.model + ".gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto file = GgufFile::open(path);
  REQUIRE(file.ok());
  const ScratchFolder folder;
  write_folder(folder, **file, one, shards);
  const auto opened = open_model_file(folder.path());
  if (!opened) return check::fail(__FILE__, __LINE__, opened.error().message);
  const auto want = load_tokenizer(**file), got = load_tokenizer(**opened);
  REQUIRE(want.ok());
  if (!got) return check::fail(__FILE__, __LINE__, got.error().message);
  CHECK_EQ((*got)->n_vocab(), (*want)->n_vocab());
  CHECK_EQ((*got)->bos(), (*want)->bos());
  CHECK_EQ((*got)->eos(), (*want)->eos());
  CHECK(std::ranges::equal((*got)->end_of_generation(), (*want)->end_of_generation()));
  for (const char* text : kTexts) {
    std::vector<TokenId> a, b;
    (*want)->encode(text, {.add_special = true, .parse_special = true}, a);
    (*got)->encode(text, {.add_special = true, .parse_special = true}, b);
    CHECK(a == b);
    CHECK_EQ((*got)->decode(b), (*want)->decode(a));
  }
  const auto logits = logits_of(path);
  CHECK(!logits.empty() && logits == logits_of(folder.path()));
}

}  // namespace

TEST(folders_match_their_gguf_files) {
  for (const Case& one :
       {Case{"llama.f16", "llama", "LlamaForCausalLM"}, Case{"llama.bf16", "llama", "MistralForCausalLM"},
        Case{"qwen2.f16", "qwen2", "Qwen2ForCausalLM"}, Case{"qwen3.f16", "qwen3", "Qwen3ForCausalLM"}})
    check_case(one, 1);
}

TEST(folders_in_shards_are_one_model) { check_case({"llama.f16", "llama", "LlamaForCausalLM"}, 3); }

TEST(llama3_scaling_becomes_frequency_factors) {
  const std::string path = check::vectors_path("models/llama-rope3.f16.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto file = GgufFile::open(path);
  REQUIRE(file.ok());
  const ScratchFolder folder;
  write_folder(folder, **file,
               {"", "llama", "LlamaForCausalLM",
                ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
                "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":256}"},
               1);
  const auto opened = open_model_file(folder.path());
  REQUIRE(opened.ok());
  const GgufTensor* got = (*opened)->tensor("rope_freqs.weight");
  const GgufTensor* want = (*file)->tensor("rope_freqs.weight");
  REQUIRE(got != nullptr && want != nullptr && got->n_values() == want->n_values());
  for (int64_t i = 0; i < got->n_values(); ++i) {
    float a, b;
    std::memcpy(&a, got->data.data() + i * 4, 4);
    std::memcpy(&b, want->data.data() + i * 4, 4);
    CHECK(std::fabs(a - b) <= 1e-6f * b);
  }
}

// Compares the metadata keys of both files, and the names, shapes and values of their tensors, whether or not the
// engine uses them.
TEST(folders_of_gemma3_match_their_gguf_file) {
  const std::string path = check::vectors_path("models/gemma3.f16.gguf");
  if (path.empty()) return check::skip("golden vectors not found");
  const auto file = GgufFile::open(path);
  REQUIRE(file.ok());
  auto tensors = checkpoint_of(**file, "gemma3");
  for (SafetensorData& tensor : tensors) {
    if (!tensor.name.ends_with("norm.weight")) continue;
    for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, tensor.bytes.data() + at, sizeof value);
      value -= 1;
      std::memcpy(tensor.bytes.data() + at, &value, sizeof value);
    }
  }
  const ScratchFolder folder;
  std::string config =
      config_of(**file, "Gemma3ForCausalLM", "gemma3",
                ",\"sliding_window\":" + std::to_string(stated(**file, "gemma3.attention.sliding_window")));
  config.replace(config.find("\"silu\""), 6, "\"gelu_pytorch_tanh\"");
  folder.write("config.json", config);
  folder.write("tokenizer.json", tokenizer_of(**file, "", true));
  folder.write("tokenizer_config.json", tokenizer_settings_of(**file));
  folder.write("model.safetensors", safetensors_of(tensors));
  const auto opened = open_model_file(folder.path());
  if (!opened) return check::fail(__FILE__, __LINE__, opened.error().message);
  for (const auto& [key, value] : (*file)->metadata()) {
    if (!key.starts_with("gemma3.") || (*opened)->find(key) == nullptr) continue;
    const auto want = (*file)->number(key), got = (*opened)->number(key);
    if (want) CHECK(got.ok() && static_cast<float>(**got) == static_cast<float>(**want));
  }
  CHECK((*opened)->find("gemma3.attention.sliding_window") != nullptr);
  REQUIRE((*opened)->tensors().size() == (*file)->tensors().size());
  std::vector<std::byte> scratch;
  for (const GgufTensor& want : (*file)->tensors()) {
    const GgufTensor* got = (*opened)->tensor(want.name);
    if (got == nullptr) {
      check::fail(__FILE__, __LINE__, std::string(want.name) + " is missing");
      continue;
    }
    CHECK(got->shape == want.shape && got->type == want.type);
    const auto data = (*opened)->read(*got, 0, got->bytes(), scratch);
    const bool is_norm = want.name.ends_with("norm.weight");
    if (!is_norm) {
      CHECK(std::ranges::equal(data, want.data));
      continue;
    }
    for (size_t at = 0; at < data.size(); at += sizeof(float)) {
      float a, b;
      std::memcpy(&a, data.data() + at, sizeof a);
      std::memcpy(&b, want.data.data() + at, sizeof b);
      CHECK(std::fabs(a - b) <= 1e-6f);  // Subtracting 1 and adding it again rounds.
    }
  }
}

TEST(folders_and_files_are_quantized_while_loading) {
  const std::string f32 = check::vectors_path("models/llama.f32.gguf"),
                    q8 = check::vectors_path("models/llama.q8_0.gguf");
  if (f32.empty() || q8.empty()) return check::skip("golden vectors not found");
  const auto file = GgufFile::open(f32);
  REQUIRE(file.ok());
  const ScratchFolder folder;
  write_folder(folder, **file, {"", "llama", "LlamaForCausalLM"}, 2);
  // llama.cpp quantized the same weights to the same bytes, so the logits are equal.
  const auto want = logits_of(q8);
  CHECK(logits_of(f32, {.quantize = TensorType::kQ8_0, .threads = 2}) == want);
  CHECK(logits_of(folder.path(), {.quantize = TensorType::kQ8_0, .threads = 3}) == want);

  auto backend = make_cpu_backend({.threads = 1});
  REQUIRE(backend.ok());
  const ModelLimits limits;
  const auto whole = inspect(folder.path(), **backend, limits, 256, 0);
  const auto small = inspect(folder.path(), **backend, limits, 256, 0, {.quantize = TensorType::kQ4_0});
  REQUIRE(whole.ok() && small.ok() && whole->plan && small->plan);
  CHECK(small->plan->memory.weight_bytes * 5 < whole->plan->memory.weight_bytes * 2);
  CHECK_EQ(small->model->quantization, std::string("Q4_0"));
  const auto mixed = inspect(folder.path(), **backend, limits, 256, 0, {.quantize = TensorType::kQ4_K});
  REQUIRE(mixed.ok() && mixed->plan);
  CHECK_EQ(mixed->model->quantization, std::string("Q4_K"));
  const auto opened = open_model_file(folder.path(), {.quantize = TensorType::kQ4_K});
  REQUIRE(opened.ok());
  CHECK((*opened)->tensor("output.weight")->type == TensorType::kQ6_K);
  CHECK((*opened)->tensor("token_embd.weight")->type == TensorType::kQ6_K);
  CHECK((*opened)->tensor("blk.0.attn_q.weight")->type == TensorType::kQ4_K);
  CHECK((*opened)->tensor("blk.0.attn_norm.weight")->type == TensorType::kF32);
  CHECK(!logits_of(folder.path(), {.quantize = TensorType::kQ4_K, .threads = 2}).empty());
  CHECK(whole->file_hash != small->file_hash);
  CHECK_EQ(whole->model->chat_template.value_or(""), std::string("{{ messages[0].content }}"));
}

}  // namespace monolith
