#include "text/tokenizer/support.h"

#include "formats/gguf/tokenizer.h"

namespace monolith::testing {

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, options, ids);
  return ids;
}

std::string show(const std::vector<TokenId>& ids) {
  std::string text = "[";
  for (const TokenId id : ids) text += (text.size() > 1 ? " " : "") + std::to_string(id);
  return text + "]";
}

std::string show(std::string_view text) {
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

TokenId VocabularyFile::add(const std::string& spelling, TokenKind kind, float score) {
  tokens.push_back(spelling);
  types.push_back(static_cast<int32_t>(kind));
  scores.push_back(score);
  return static_cast<TokenId>(tokens.size()) - 1;
}

VocabularyFile VocabularyFile::byte_level(std::initializer_list<std::string> merges) {
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

VocabularyFile VocabularyFile::sentencepiece() {
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

GgufBuilder VocabularyFile::builder() const {
  GgufBuilder gguf;
  if (!model.empty()) gguf.string("tokenizer.ggml.model", model);
  if (!pre.empty()) gguf.string("tokenizer.ggml.pre", pre);
  if (!tokens.empty()) gguf.strings("tokenizer.ggml.tokens", tokens);
  if (!types.empty()) gguf.array<int32_t>("tokenizer.ggml.token_type", types);
  if (!scores.empty()) gguf.array<float>("tokenizer.ggml.scores", scores);
  if (!merges.empty()) gguf.strings("tokenizer.ggml.merges", merges);
  return gguf;
}

Result<std::unique_ptr<const Tokenizer>> load(const GgufBuilder& builder) {
  const Bytes image = builder.build();
  auto file = GgufFile::parse(image);
  if (!file) return file.error();
  return load_tokenizer(**file);
}

Result<std::unique_ptr<const Tokenizer>> load(const VocabularyFile& file) { return load(file.builder()); }

}  // namespace monolith::testing
