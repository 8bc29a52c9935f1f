// SentencePiece's BPE (tokenizer.ggml.model "llama"): the characters of the text merge into pieces,
// the piece with the highest score first; characters outside the vocabulary become bytes. A file without
// scores lists merges, as a tokenizer.json does and "gemma4" files do: then their order decides.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "text/tokenizer/merge.h"
#include "text/tokenizer/string_table.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace monolith {

// tokenizer.ggml.scores: one number per token, or kInvalidFile.
Status check_scores(const std::vector<float>& scores, size_t n_tokens);

class SentencePiece final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const GgufFile& file);
  // Whether the file holds pieces and their merges, though it may name byte-level BPE: its pre-tokenizer says so (Sarvam,
  // Granite's embedding models).
  static Result<bool> lists_pieces(const GgufFile& file);

 private:
  struct Session;

  struct Options {
    bool space_prefix = true;  // a space in front of text that opens
    bool spared = false;       // not where the text has one
    bool once = false;         // only at the very beginning
    bool add_bos = true;
    bool insists_on_bos = false;  // whatever the file says of it
    bool lines_apart = false;     // runs of line breaks merge on their own
    bool whole_lines = false;     // and one that is a token is that token
    bool lacks_unknown = false;   // bytes without a token vanish
    // kApart: it and words merge on their own; kDropped: words alone
    enum class WhiteSpace : uint8_t { kText, kApart, kDropped };
    WhiteSpace white_space = WhiteSpace::kText;
    bool plain_spaces = false;   // "▁" is a character as any
    bool words_apart = false;    // every space begins a word
    bool fuses_unknown = false;  // unknown characters in a row are one token
  };

  SentencePiece(std::unique_ptr<const Vocabulary> owned, const Options& options);
  static Result<Options> read_options(const GgufFile& file);
  static const Options* find_listed(std::string_view model, std::string_view pre);
  void build_pieces();
  void build_merges(const std::vector<float>& scores);
  void read_merges(const GgufStrings& merges);
  std::string_view prepare(std::string_view text, bool opens, std::string& scratch) const override;
  void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const override;
  std::string_view spaced(std::string_view text, bool prefix, std::string& scratch) const;
  void encode_lines(Session& session, std::string_view text) const;
  void encode_apart(Session& session, std::string_view text) const;
  void encode_words(Session& session, std::string_view text) const;

  Options options_;
  // Pieces with "▁" read as a space, by token id (empty for tokens that text cannot become), then
  // the characters that occur within pieces without being one.
  StringArena pieces_;
  StringTable by_piece_;
  MergeTable merges_;
  std::array<Symbol, 128> ascii_symbols_;
  std::array<TokenId, 256> byte_tokens_;  // kNoToken where missing
  // No piece has a space after another character: each word of the text merges on its own.
  bool words_are_separate_ = true;
  // As in ByteLevelBpe: whether merging a piece's own text gives the piece.
  enum class WholeWord : uint8_t { kUntried, kYes, kNo };
  std::unique_ptr<std::atomic<WholeWord>[]> whole_words_;
};

}  // namespace monolith
