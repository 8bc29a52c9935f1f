// Text to token ids and back, as the model file defines it. Three families: byte-level BPE,
// SentencePiece's BPE, and Unigram. A loaded tokenizer is immutable: any thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "text/tokenizer/normalization.h"
#include "text/tokenizer/token.h"

namespace monolith {

class SpecialMatcher;
class Vocabulary;

// GGUF tokenizer.ggml.token_type.
enum class TokenKind : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct EncodeOptions {
  bool add_special = false;    // add BOS/EOS as the file says
  bool parse_special = false;  // recognize control and user-defined tokens written in the text
  // A code point that keeps text apart from special tokens. It is removed before anything else, and
  // a control or user-defined token whose spelling it interrupted is ordinary text, as is every
  // shorter special token within that spelling. At the edge of a spelling it has no effect.
  // 0 = none.
  char32_t guard = 0;
  bool continues = false;  // other text stands before it: SentencePiece puts no space in front
  // Without Unicode normalization: the tokens spell exactly this text. For text that the model writes.
  bool verbatim = false;
};

class Tokenizer {
 public:
  // Errors: kInvalidFile (inconsistent vocabulary), kUnsupported (names the model or
  // pre-tokenizer).
  static Result<std::unique_ptr<const Tokenizer>> load(const GgufFile& file);
  virtual ~Tokenizer();

  // Appends the ids of `text` (bytes, less than 2 GiB; invalid UTF-8 is tokenized bytewise, never
  // an error). Without parse_special, text that spells a control token is ordinary text;
  // user-defined tokens follow llama.cpp (they match in both cases). Ordinary text never becomes a
  // control token.
  void encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const;

  // The text of `ids` as llama.cpp's detokenize renders it, special tokens included: without the
  // space that SentencePiece puts in front, and, for pre-tokenizers that ask for it, without spaces
  // before punctuation. Bytes, not always UTF-8. Ids out of range stand for nothing.
  std::string decode(std::span<const TokenId> ids) const;

  int n_vocab() const;
  TokenId bos() const;  // kNoToken if the file has none
  TokenId eos() const;
  bool adds_bos() const { return add_bos_; }           // what EncodeOptions::add_special adds
  bool is_end_of_generation(TokenId id) const;         // eos, eot, <|im_end|>, ... as llama.cpp collects them
  std::span<const TokenId> end_of_generation() const;  // ascending
  TokenKind kind(TokenId id) const;
  // The bytes a token stands for in text ("▁" already a space, byte tokens one raw byte, control
  // tokens their spelling). Valid as long as the tokenizer. `id` must be in range.
  std::string_view bytes(TokenId id) const;
  // The token spelled exactly so in the vocabulary (control tokens included), or kNoToken.
  TokenId find(std::string_view spelling) const;
  // SentencePiece files with add_space_prefix: the first piece's leading space is not part of the
  // text.
  bool strips_leading_space() const { return strips_leading_space_; }

 protected:
  struct Traits {
    bool add_bos = false, add_eos = false;  // unless the file says otherwise
    bool insists_on_bos = false;            // it comes even then
    bool strips_leading_space = false;
    bool cleans_up_spaces = false;
    bool opens_once = false;                     // see prepare
    NormalForm normal_form = NormalForm::kNone;  // unless the file says otherwise
  };
  Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, const Traits& traits);
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // A stretch of text without special tokens is encoded in two steps, each called once per stretch. The first returns
  // the text as the family's normalizer leaves it: `text` itself, or `scratch`. `opens`: nothing or a special token
  // stands before it; with Traits::opens_once, nothing at all.
  virtual std::string_view prepare(std::string_view text, bool opens, std::string& scratch) const;
  // The second appends the ids of the prepared text, or of a part of it without tokens found in prepared text.
  virtual void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const = 0;

 private:
  Status read_added_tokens(const GgufFile& file);
  Status read_normalization(const GgufFile& file);
  Status build_matchers(const GgufFile& file);
  void encode_stretch(std::string_view text, bool opens, bool verbatim, std::vector<TokenId>& out) const;

  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const SpecialMatcher> special_, user_defined_;
  std::unique_ptr<const SpecialMatcher> in_normalized_;  // null if there are no such tokens: most files
  NormalForm normal_form_;
  std::vector<TokenId> strips_before_, strips_behind_;  // ascending; most files have none
  bool add_bos_, add_eos_, insists_on_bos_, strips_leading_space_, cleans_up_spaces_, opens_once_;
};

// Bytes of successive tokens to text, never splitting a UTF-8 character. One per sequence, no
// locking. Bytes that cannot become a character are replaced by U+FFFD as the WHATWG decoder does.
class Utf8Stream {
 public:
  // Appends to `out` every character completed by `bytes`. Does not allocate beyond out's growth.
  void push(std::string_view bytes, std::string& out);
  // End of text: an incomplete character becomes one U+FFFD.
  void finish(std::string& out);
  // Bytes held back (0 to 3).
  int pending() const { return pending_; }

 private:
  // What the bytes so far ask for: how many continuation bytes, and the range of the next one.
  unsigned char held_[3] = {};
  uint8_t pending_ = 0;
  uint8_t needed_ = 0;
  uint8_t lower_ = 0x80, upper_ = 0xBF;
};

}  // namespace monolith
