// The token list of a model: spellings, kinds, the bytes of each token, and special token IDs. The whole description is
// validated when a Vocabulary is built. Immutable afterwards; may be read from any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/string_table.h"
#include "base/token_id.h"
#include "text/tokenizer/tokenizer_spec.h"

namespace monolith {

// How spellings encode bytes.
enum class SpellingStyle {
  kByteLevel,      // Each byte is written as a printable character (GPT-2's alphabet).
  kSentencePiece,  // "▁" is a space, and "<0x41>" with kind kByte is one byte.
  kUnigram,        // Like kSentencePiece, but with T5's default special token IDs.
  kWordPiece,      // Like kSentencePiece, but with BERT's default special token IDs.
  kEscaped,        // Backslash escapes as in Python: "\n", "\x41".
};

// Maximum length of a token's spelling. The longest published tokens have 2048 bytes (a run of 1024 spaces). This limit
// ensures that the search for special tokens takes time linear in the text length.
inline constexpr size_t kMaxTokenBytes = 2048;

class Vocabulary {
 public:
  static Result<std::unique_ptr<const Vocabulary>> build(const TokenizerSpec& spec, SpellingStyle style);

  int size() const { return static_cast<int>(kinds_.size()); }
  std::string_view spelling(TokenId id) const { return spellings_[static_cast<size_t>(id)]; }
  std::string_view bytes(TokenId id) const { return bytes_[static_cast<size_t>(id)]; }
  const StringArena& all_bytes() const { return bytes_; }
  TokenKind kind(TokenId id) const { return kinds_[static_cast<size_t>(id)]; }
  TokenId find(std::string_view spelling) const { return by_spelling_.find(spelling); }

  // Returns whether ordinary text may produce this token. It can never produce control or unknown tokens.
  bool is_ordinary(TokenId id) const { return kind(id) != TokenKind::kControl && kind(id) != TokenKind::kUnknown; }

  TokenId bos() const { return bos_; }
  TokenId eos() const { return eos_; }
  TokenId unknown() const { return unknown_; }
  const std::vector<TokenId>& end_of_generation() const { return end_of_generation_; }  // In ascending order.
  // Returns `ids` as token IDs. Returns kInvalidFile if an ID is out of range; the message contains the name of the
  // list.
  Result<std::vector<TokenId>> checked_ids(const std::vector<int64_t>& ids, std::string_view name) const;

 private:
  Vocabulary() : by_spelling_(spellings_, 0) {}
  Status set_tokens(const TokenizerSpec& spec);
  Status set_special_ids(const TokenizerSpec& spec, SpellingStyle style);
  Status collect_end_of_generation(const TokenizerSpec& spec);
  Result<TokenId> checked_id(const TokenizerSpec& spec, TokenRole role, TokenId absent) const;
  Status fill_bytes(SpellingStyle style);
  void make_control(TokenId id) { kinds_[static_cast<size_t>(id)] = TokenKind::kControl; }

  StringArena spellings_;
  StringArena bytes_;
  StringTable by_spelling_;
  std::vector<TokenKind> kinds_;
  TokenId bos_ = kNoToken, eos_ = kNoToken, unknown_ = kNoToken;
  std::vector<TokenId> end_of_generation_;
};

}  // namespace monolith
