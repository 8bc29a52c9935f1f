// Builds small vocabularies in memory, and provides shorthands for tests. For tests only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/gguf/gguf_builder.h"
#include "text/tokenizer/byte_alphabet.h"
#include "formats/gguf/tokenizer.h"
#include "text/tokenizer/unicode.h"

namespace monolith::testing {

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {});

std::string show(const std::vector<TokenId>& ids);

// Returns the text with control characters and bytes above ASCII written in hexadecimal.
std::string show(std::string_view text);

// The contents of a vocabulary file. Tests may set any field to an invalid value. build() omits empty fields.
struct VocabularyFile {
  std::string model = "gpt2", pre = "gpt-2";
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  std::vector<float> scores;

  TokenId add(const std::string& spelling, TokenKind kind = TokenKind::kNormal, float score = 0);

  // Returns a byte-level vocabulary: the 256 bytes in GPT-2's alphabet, each with its value as token ID, followed by
  // the tokens that the merges produce.
  static VocabularyFile byte_level(std::initializer_list<std::string> merges = {});

  // Returns a SentencePiece vocabulary: <unk>, <s>, </s>, and the 256 byte tokens with IDs 3 to 258.
  static VocabularyFile sentencepiece();

  GgufBuilder builder() const;
};

// Loads the tokenizer from an image in memory. The image may be freed afterwards.
Result<std::unique_ptr<const Tokenizer>> load(const GgufBuilder& builder);
Result<std::unique_ptr<const Tokenizer>> load(const VocabularyFile& file);

}  // namespace monolith::testing
