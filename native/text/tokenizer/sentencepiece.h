// SentencePiece BPE (tokenizer.ggml.model "llama"): the characters of the text are merged into pieces; pieces with the
// highest score are merged first. Characters outside the vocabulary become byte tokens. Files without scores, such as
// tokenizer.json and "gemma4" files, list merges instead; the order of the list then replaces the scores.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "text/tokenizer/merge.h"
#include "text/tokenizer/string_table.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace monolith {

// Returns kInvalidFile unless tokenizer.ggml.scores has exactly one number per token.
Status check_scores(const std::vector<float>& scores, size_t n_tokens);

class SentencePiece final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> build(const TokenizerSpec& spec);
  // Returns whether the file contains SentencePiece pieces and merges although it declares byte-level BPE as its model.
  // This is inferred from the pre-tokenizer (Sarvam, Granite embedding models).
  static bool lists_pieces(const TokenizerSpec& spec);

 private:
  struct Session;

  struct Options {
    bool space_prefix = true;  // Add a space before text at the start or after a special token.
    bool spared = false;       // Do not add the space if the text already starts with one.
    bool once = false;         // Add the space only at the very start of the text.
    bool add_bos = true;
    bool insists_on_bos = false;  // Add BOS even if the file disables it.
    bool lines_apart = false;     // Merge runs of line breaks separately.
    bool whole_lines = false;     // Do not merge further if a run of line breaks is a token.
    bool lacks_unknown = false;   // Drop bytes without a token.
    // kApart: merging is done separately within words and within whitespace. kDropped: whitespace is dropped.
    enum class WhiteSpace : uint8_t { kText, kApart, kDropped };
    WhiteSpace white_space = WhiteSpace::kText;
    bool plain_spaces = false;   // "▁" is an ordinary character.
    bool words_apart = false;    // Every space starts a word.
    bool fuses_unknown = false;  // Consecutive unknown characters become one token.
  };

  SentencePiece(std::unique_ptr<const Vocabulary> owned, const Options& options);
  static Result<Options> options_of(const TokenizerSpec& spec);
  static const Options* find_listed(std::string_view model, std::string_view pre);
  void build_pieces();
  void build_merges(const std::vector<float>& scores);
  void set_merges(const std::vector<std::string_view>& merges);
  std::string_view prepare(std::string_view text, bool opens, std::string& scratch) const override;
  void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const override;
  std::string_view spaced(std::string_view text, bool prefix, std::string& scratch) const;
  void encode_lines(Session& session, std::string_view text) const;
  void encode_apart(Session& session, std::string_view text) const;
  void encode_words(Session& session, std::string_view text) const;

  Options options_;
  // Pieces by token ID, with "▁" replaced by a space; empty for tokens that text cannot produce. After the pieces come
  // the characters that occur within pieces but are not pieces themselves.
  StringArena pieces_;
  StringTable by_piece_;
  MergeTable merges_;
  std::array<Symbol, 128> ascii_symbols_;
  std::array<TokenId, 256> byte_tokens_;  // kNoToken if missing.
  // True if no piece has a space after another character. The words of a text can then be merged separately.
  bool words_are_separate_ = true;
  // Caches, for each piece, whether merging its text yields the piece itself, as in ByteLevelBpe.
  enum class WholeWord : uint8_t { kUntried, kYes, kNo };
  std::unique_ptr<std::atomic<WholeWord>[]> whole_words_;
};

}  // namespace monolith
