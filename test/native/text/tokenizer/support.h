// Builds small vocabularies in memory, and provides shorthands for tests. Tests only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/gguf/gguf_builder.h"
#include "text/tokenizer/byte_alphabet.h"
#include "formats/gguf/tokenizer.h"
#include "text/tokenizer/unicode.h"

namespace monolith::testing {

inline std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                                   const EncodeOptions& options = {}) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, options, ids);
  return ids;
}

inline std::string show(const std::vector<TokenId>& ids) {
  std::string text = "[";
  for (const TokenId id : ids) text += (text.size() > 1 ? " " : "") + std::to_string(id);
  return text + "]";
}

// Returns the text with control characters and bytes above ASCII in hexadecimal.
inline std::string show(std::string_view text) {
  std::string out = "<";
  for (const char c : text.substr(0, 200)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += "\\x";
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15];
    }
  }
  return out + ">";
}

// The contents of a vocabulary file. Tests may set any field to an invalid value. build() leaves out empty fields.
struct VocabularyFile {
  std::string model = "gpt2", pre = "gpt-2";
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  std::vector<float> scores;

  TokenId add(const std::string& spelling, TokenKind kind = TokenKind::kNormal, float score = 0) {
    tokens.push_back(spelling);
    types.push_back(static_cast<int32_t>(kind));
    scores.push_back(score);
    return static_cast<TokenId>(tokens.size()) - 1;
  }

  // The 256 bytes in GPT-2's alphabet, each with its own value as token ID, and the merges with the tokens that they
  // produce.
  static VocabularyFile byte_level(std::initializer_list<std::string> merges = {}) {
    VocabularyFile file;
    for (const uint16_t character : kCharacterOfByte) {
      std::string spelling;
      append_utf8(character, spelling);
      file.add(spelling);
    }
    for (const std::string& merge : merges) {
      file.merges.push_back(merge);
      std::string spelling = merge;
      file.add(spelling.erase(spelling.find(' ', 1), 1));
    }
    if (file.merges.empty()) file.merges = {"no merge"};
    return file;
  }

  // <unk>, <s>, </s>, and the 256 byte tokens with IDs 3 to 258.
  static VocabularyFile sentencepiece() {
    VocabularyFile file;
    file.model = "llama";
    file.pre = "default";
    file.add("<unk>", TokenKind::kUnknown);
    file.add("<s>", TokenKind::kControl);
    file.add("</s>", TokenKind::kControl);
    for (int byte = 0; byte < 256; ++byte) {
      const char* hex = "0123456789ABCDEF";
      file.add(std::string("<0x") + hex[byte >> 4] + hex[byte & 15] + ">", TokenKind::kByte);
    }
    return file;
  }

  GgufBuilder builder() const {
    GgufBuilder gguf;
    if (!model.empty()) gguf.string("tokenizer.ggml.model", model);
    if (!pre.empty()) gguf.string("tokenizer.ggml.pre", pre);
    if (!tokens.empty()) gguf.strings("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) gguf.array<int32_t>("tokenizer.ggml.token_type", types);
    if (!scores.empty()) gguf.array<float>("tokenizer.ggml.scores", scores);
    if (!merges.empty()) gguf.strings("tokenizer.ggml.merges", merges);
    return gguf;
  }
};

// Loads the tokenizer from an image in memory. The image is not used afterwards.
inline Result<std::unique_ptr<const Tokenizer>> load(const GgufBuilder& builder) {
  const Bytes image = builder.build();
  auto file = GgufFile::parse(image);
  if (!file) return file.error();
  return load_tokenizer(**file);
}
inline Result<std::unique_ptr<const Tokenizer>> load(const VocabularyFile& file) { return load(file.builder()); }

}  // namespace monolith::testing
