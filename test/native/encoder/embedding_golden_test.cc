// Compares the vectors and scores of every encoder architecture with golden values, in exact and in production
// arithmetic, and with every instruction set of this machine. Also checks that a text's vector is bit-identical whether
// the text is computed alone or in a batch.
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/machine/isa.h"
#include "backend/registry/registry.h"
#include "check.h"
#include "encoder/embedding_fixture.h"
#include "encoder/text_encoder.h"

namespace monolith::testing {
namespace {

struct EmbeddingFile {
  const char* name;
  const char* production;  // Name of the tolerance for production arithmetic.
};

constexpr EmbeddingFile kFiles[] = {
    {"bert-cls.q8_0", "int8"},     {"bert-mean.q8_0", "int8"},      {"bert-rank.q8_0", "int8"},
    {"nomic-bert.q8_0", "int8"},   {"nomic-bert-moe.q8_0", "int8"}, {"modern-bert.q8_0", "int8"},
    {"jina-bert-v2.q8_0", "int8"}, {"jina-bert-v3.f16", "f16"},     {"gemma-embedding.q8_0", "int8"},
    {"eurobert.f16", "f16"},       {"neo-bert.q8_0", "int8"},       {"t5encoder.f16", "f16"},
    {"qwen3-last.f16", "f16"},     {"qwen3-rank.q8_0", "int8"},
};

// Compares the vectors of all prompts of a file with golden vectors. If `spared` is true, compares only short prompts,
// because the kernels are slow.
void compare(const EmbeddingFile& file, const LoadOptions& options, const char* tolerance, bool spared) {
  const auto golden = GoldenEmbeddings::read(check::vectors_path(std::string("models/") + file.name + ".json"));
  if (!golden) return check::fail(__FILE__, __LINE__, std::string(file.name) + ".json is damaged");
  const auto loaded = load_embedder(file.name, options);
  if (!loaded) return;
  std::vector<std::vector<TokenId>> texts;
  for (const GoldenEmbedding& prompt : golden->prompts)
    if (!spared || prompt.tokens.size() <= 100) texts.push_back(prompt.tokens);
  const auto vectors = embed(*loaded->engine, texts);
  const Tolerance& limit = golden->tolerance(tolerance);
  int failed = 0;
  for (size_t i = 0; i < vectors.size(); ++i) {
    const GoldenEmbedding& prompt = golden->prompts[i];
    const std::string what = std::string(file.name) + " " + options.backend.isa + " " + tolerance + " " + prompt.id;
    if (vectors[i].size() != prompt.exact.size()) {
      check::fail(__FILE__, __LINE__, what + ": " + std::to_string(vectors[i].size()) + " values");
      continue;
    }
    const Distance d = embedding_distance(vectors[i], prompt);
    if (d.max <= limit.max && d.rms <= limit.rms) continue;
    ++failed;
    check::note(what + ": max " + std::to_string(d.max) + ", rms " + std::to_string(d.rms) + ", limits " +
                std::to_string(limit.max) + ", " + std::to_string(limit.rms));
  }
  if (failed > limit.outliers * static_cast<double>(vectors.size()))
    check::fail(__FILE__, __LINE__, std::string(file.name) + ": " + std::to_string(failed) + " texts differ");
}

TEST(embeddings_agree_with_golden_vectors) {
  for (const EmbeddingFile& file : kFiles) {
    if (check::vectors_path(std::string("models/") + file.name + ".json").empty()) continue;
    for (const CpuIsa kind : available_cpu_isas()) {
      const bool spared = kind == CpuIsa::kPlain && available_cpu_isas().size() > 1;
      LoadOptions options;
      options.backend.isa = cpu_isa_name(kind);
      options.backend.threads = 2;
      compare(file, options, file.production, spared);
      options.backend.arithmetic = Arithmetic::kExact;
      options.kv_type = KvType::kF32;
      compare(file, options, "f32", spared);
    }
  }
}

TEST(embedding_tokenizers_agree_with_golden_tokens) {
  for (const EmbeddingFile& file : kFiles) {
    const auto golden = GoldenEmbeddings::read(check::vectors_path(std::string("models/") + file.name + ".json"));
    if (!golden) continue;
    const auto loaded = load_embedder(file.name);
    if (!loaded) return;
    for (const GoldenEmbedding& prompt : golden->prompts) {
      if (prompt.text.empty()) continue;  // The model file lacks the real tokenizer.
      std::vector<TokenId> tokens;
      loaded->engine->tokenizer().encode(prompt.text, {.add_special = prompt.add_special}, tokens);
      if (tokens != prompt.tokens) check::fail(__FILE__, __LINE__, std::string(file.name) + " " + prompt.id);
    }
  }
}

// Fails the test unless the vectors are bit-identical for several slice sizes: the largest and the smallest size in
// use, and sizes for which slices end in the middle of a page.
void check_slices(const std::string& name, const std::vector<std::vector<TokenId>>& texts,
                  const std::vector<std::vector<float>>& expected) {
  const auto file = GgufFile::open(check::vectors_path("models/" + name + ".gguf"));
  const auto backend = make_backend({.device = "cpu", .threads = 1});
  REQUIRE(file.ok() && backend.ok());
  const auto encoder = TextEncoder::load(**file, **backend, 448, {});
  REQUIRE(encoder.ok());
  std::vector<std::span<const int32_t>> batch;
  for (const int rows : {256, 100, 32, 7}) {
    (*encoder)->limit_slices(rows);
    CHECK_EQ((*encoder)->slice_rows(), rows);
    for (size_t first = 0; first < texts.size();) {
      batch.clear();
      for (int left = (*encoder)->batch_rows(); first + batch.size() < texts.size();) {
        const std::vector<TokenId>& text = texts[first + batch.size()];
        left -= TextEncoder::rows_of(text.size());
        if (left < 0) break;
        batch.emplace_back(text);
      }
      (*encoder)->begin(batch);
      while (!(*encoder)->advance()) continue;
      for (size_t i = 0; i < batch.size(); ++i)
        if ((*encoder)->take_result(i) != expected[first + i])
          check::fail(__FILE__, __LINE__,
                      name + ": a text of " + std::to_string(batch[i].size()) + " tokens differs in slices of " +
                          std::to_string(rows));
      first += batch.size();
    }
  }
}

// Uses texts of many lengths, shorter and longer than a page, a slice and an attention span.
TEST(embeddings_have_the_same_bits_alone_and_in_any_batch) {
  for (const char* name : {"bert-mean.q8_0", "modern-bert.q8_0", "jina-bert-v2.q8_0", "gemma-embedding.q8_0",
                           "nomic-bert-moe.q8_0", "t5encoder.f16", "qwen3-last.f16", "qwen3-rank.q8_0"}) {
    const auto loaded = load_embedder(name);
    if (!loaded) return;
    std::vector<std::vector<TokenId>> texts;
    for (const int length : {1, 15, 16, 17, 40, 128, 255, 257, 300, 448, 3, 90})
      texts.push_back(test_prompt(length, length % 5));
    const auto together = embed(*loaded->engine, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto alone = embed(*loaded->engine, {&texts[i], 1});
      CHECK_EQ(alone[0].size(), together[i].size());
      if (std::memcmp(alone[0].data(), together[i].data(), alone[0].size() * sizeof(float)) != 0)
        check::fail(__FILE__, __LINE__,
                    std::string(name) + ": a text of " + std::to_string(texts[i].size()) + " tokens differs");
    }
    if (loaded->info.embeddings->is_encoder) {
      check_slices(name, texts, together);
      continue;
    }
    LoadOptions small;
    small.engine.max_batch_tokens = 32;
    small.backend.threads = 1;
    const auto other = load_embedder(name, small);
    CHECK(embed(*other->engine, texts) == together);
  }
}

}  // namespace
}  // namespace monolith::testing
