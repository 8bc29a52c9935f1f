// Converts text to token IDs and back, as the model specifies. There are five families: byte-level BPE,
// SentencePiece BPE, Unigram, WordPiece and RWKV, which takes the longest match. A loaded tokenizer is immutable and
// may be used from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/normalization.h"
#include "base/token_id.h"
#include "text/tokenizer/tokenizer_spec.h"

namespace monolith {

class SpecialMatcher;
class Vocabulary;

struct EncodeOptions {
  bool add_special = false;    // Add BOS and EOS as the file specifies.
  bool parse_special = false;  // Recognize control and user-defined tokens written in the text.
  // A code point that prevents text from matching special tokens; 0 for none. All guards are removed before
  // tokenization. If the spelling of a control or user-defined token has a guard inside it, the spelling is treated as
  // ordinary text, and so is any shorter special token within it. A guard at the edge of a spelling has no effect.
  char32_t guard = 0;
  bool continues = false;  // The text continues earlier text, so no SentencePiece space prefix is added.
  // Whether to skip Unicode normalization, so that the tokens spell exactly this text. Used for text that the model
  // generates.
  bool verbatim = false;
};

class Tokenizer {
 public:
  // Errors: kInvalidFile (inconsistent vocabulary), kUnsupported (the message names the model or the pre-tokenizer).
  static Result<std::unique_ptr<const Tokenizer>> build(const TokenizerSpec& spec);
  virtual ~Tokenizer();

  // Appends the token IDs of `text`, which must be smaller than 2 GiB. Invalid UTF-8 is tokenized byte by byte and is
  // never an error. Without parse_special, text that spells a control token is treated as ordinary text. User-defined
  // tokens always match, as in llama.cpp. Ordinary text never becomes a control token.
  void encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const;

  // Returns the text of `ids` as llama.cpp's detokenize renders it, including special tokens. The SentencePiece space
  // prefix is removed, and so are spaces before punctuation if the pre-tokenizer requires it. The result is a byte
  // string that may not be valid UTF-8. Out-of-range IDs are ignored.
  std::string decode(std::span<const TokenId> ids) const;

  int n_vocab() const;
  TokenId bos() const;  // kNoToken if the file has none.
  TokenId eos() const;
  bool adds_bos() const { return add_bos_; }  // Whether EncodeOptions::add_special adds BOS.
  // True for eos, eot, <|im_end|> and the other end tokens that llama.cpp collects.
  bool is_end_of_generation(TokenId id) const;
  std::span<const TokenId> end_of_generation() const;  // In ascending order.
  TokenKind kind(TokenId id) const;
  // Returns the bytes that a token represents in text: "▁" is replaced by a space, a byte token is one raw byte, and a
  // control token is its spelling. The view is valid as long as the tokenizer exists. `id` must be in range.
  std::string_view bytes(TokenId id) const;
  // Returns the token with exactly this spelling, including control tokens, or kNoToken if the vocabulary has no such
  // token.
  TokenId find(std::string_view spelling) const;
  // True for SentencePiece files with add_space_prefix: the leading space of the first piece is not part of the text.
  bool strips_leading_space() const { return strips_leading_space_; }

 protected:
  struct Traits {
    bool add_bos = false, add_eos = false;  // Defaults; the description overrides them.
    bool insists_on_bos = false;            // Add BOS even if the file disables it.
    bool strips_leading_space = false;
    bool cleans_up_spaces = false;
    bool opens_once = false;                     // See prepare().
    NormalForm normal_form = NormalForm::kNone;  // Default; the description overrides it.
  };
  Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, const Traits& traits);
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // A span of text without special tokens is encoded in two steps. The first step is prepare(), called once per span:
  // it applies the normalizer of the tokenizer family and returns either `text` itself or `scratch`. `opens` is true at
  // the start of the text and after a special token; with Traits::opens_once, only at the start of the text.
  virtual std::string_view prepare(std::string_view text, bool opens, std::string& scratch) const;
  // The second step appends the token IDs of the prepared text. This function is called once per span. If the prepared
  // text contains tokens that are matched in normalized text, it is called once for each part between them.
  virtual void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const = 0;

 private:
  Status set_added_tokens(const TokenizerSpec& spec);
  Status set_normalization(const TokenizerSpec& spec);
  Status build_matchers(const TokenizerSpec& spec);
  void encode_stretch(std::string_view text, bool opens, bool verbatim, std::vector<TokenId>& out) const;

  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const SpecialMatcher> special_, user_defined_;
  std::unique_ptr<const SpecialMatcher> in_normalized_;  // Null if there are no such tokens, as in most files.
  NormalForm normal_form_;
  std::vector<TokenId> strips_before_, strips_behind_;  // Ascending. Empty in most files.
  bool add_bos_, add_eos_, insists_on_bos_, strips_leading_space_, cleans_up_spaces_, opens_once_;
};

// Converts the bytes of successive tokens to text without ever splitting a UTF-8 character. Each sequence has its own
// Utf8Stream, so that no lock is needed. Invalid bytes are replaced with U+FFFD as in the WHATWG decoder.
class Utf8Stream {
 public:
  // Appends to `out` every character that `bytes` completes. Allocates only to grow `out`.
  void push(std::string_view bytes, std::string& out);
  // Ends the text: an incomplete character becomes one U+FFFD.
  void finish(std::string& out);
  // Number of bytes held back (0 to 3).
  int pending() const { return pending_; }

 private:
  // The incomplete character: the bytes read so far, the number of continuation bytes still needed, and the valid range
  // of the next byte.
  unsigned char held_[3] = {};
  uint8_t pending_ = 0;
  uint8_t needed_ = 0;
  uint8_t lower_ = 0x80, upper_ = 0xBF;
};

}  // namespace monolith
