// Byte-level BPE (tokenizer.ggml.model "gpt2"): the text is split into words, and the bytes of each word are merged in
// the order of the file's merge list.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "text/tokenizer/merge.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/string_table.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace monolith {

class ByteLevelBpe final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> build(const TokenizerSpec& spec);

 private:
  struct WordEncoder;

  ByteLevelBpe(std::unique_ptr<const Vocabulary> vocabulary, const PreTokenizerTraits& traits,
               const std::vector<std::string_view>& merges);
  void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const override;

  PreTokenizerTraits traits_;
  MergeTable merges_;
  std::array<Symbol, 256> byte_symbols_;  // Negative if the vocabulary lacks the byte.
  // The words that are also tokens of the vocabulary. When such a word first occurs, it is merged once to find out
  // whether the result is that token, and the answer is cached. Races are harmless because all threads compute the same
  // result.
  StringTable words_;
  enum class WholeWord : uint8_t { kUntried, kYes, kNo };
  std::unique_ptr<std::atomic<WholeWord>[]> whole_words_;
};

}  // namespace monolith
