// Seed inputs generated from the models that tests build in memory. The fuzzers start with these inputs, and the tests
// replay them together with the committed corpora.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "model/all_cases.h"
#include "text/tokenizer/support.h"
#include "vision/hostile_vision.h"

namespace monolith::fuzzing {

struct Seed {
  const char* target;
  std::string name;
  std::vector<uint8_t> bytes;
};

// Returns the file without its tensor data, which the fuzz targets generate.
inline testing::Bytes head_of(const testing::TinyModel& model) {
  testing::Bytes image = model.build();
  const auto file = GgufFile::parse(image);
  size_t first = image.size();
  for (const GgufTensor& tensor : (*file)->tensors())
    first = std::min(first, static_cast<size_t>(tensor.data.data() - image.data()));
  image.resize(first);
  return image;
}

inline std::vector<Seed> made_seeds() {
  using namespace testing;
  std::vector<Seed> seeds;
  const auto add = [&](const char* target, const std::string& name, const Bytes& image, std::string_view more) {
    Seed& seed = seeds.emplace_back(Seed{target, name, {}});
    for (const std::byte byte : image) seed.bytes.push_back(static_cast<uint8_t>(byte));
    for (const uint8_t byte : {0xFF, 0x00, 0xFF}) seed.bytes.push_back(byte);
    for (const char c : more) seed.bytes.push_back(static_cast<uint8_t>(c));
  };
  for (const Case& one : all_cases()) add("model", one.name, head_of(one.model), std::string_view("\0", 1));
  constexpr std::string_view kSides = "\x30\x20\x90\x01\x40\xF0";  // Side lengths of images: small, long and zero.
  for (const char* type : kProjectorNames) add("vision", type, head_of(TinyVision(type)), kSides);
  for (const HostileVision& one : hostile_vision()) {
    Bytes head = head_of(one.model);
    if (one.tamper) one.tamper(head);
    add("vision", one.name, head, kSides);
  }
  VocabularyFile bpe, spm = VocabularyFile::sentencepiece();
  // The vocabulary has only a few letters, because the 256 tokens of byte_level() would make up most of the corpus.
  for (const char* piece : {"a", "b", "Ġ", "Ċ", "ab", "Ġa", "Ã", "©", "Ã©"}) bpe.add(piece);
  bpe.merges = {"a b", "Ġ a", "Ã ©"};
  bpe.add("<|im_end|>", TokenKind::kControl);
  bpe.add("\n\n", TokenKind::kUserDefined);
  for (const char* piece : {"▁", "a", "b", "ab", "▁ab", "é"}) spm.add(piece, TokenKind::kNormal, -1);
  const std::string text = " abcab<|im_end|>\n\n 123 é\xFFx▁ab's";
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "tekken", "gpt-4o", "smollm", "default"}) {
    bpe.pre = pre;
    add("tokenizer", pre, bpe.builder().scalar<uint32_t>("tokenizer.ggml.bos_token_id", 1).build(), text);
  }
  spm.tokens.resize(40), spm.types.resize(40), spm.scores.resize(40);
  add("tokenizer", "sentencepiece", spm.builder().build(), text);
  spm.model = "t5";
  add("tokenizer", "unigram", spm.builder().build(), text);
  return seeds;
}

}  // namespace monolith::fuzzing
