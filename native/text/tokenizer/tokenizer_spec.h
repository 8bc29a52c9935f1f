// The description from which a tokenizer is built. Each file format has code that fills it in, so the tokenizers are
// independent of file formats. The fields, and error messages about them, use the names of GGUF's metadata keys
// ("tokenizer.ggml.tokens"), which also define the meaning. A field that the file does not set is empty; its default
// depends on the tokenizer family.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/token_id.h"

namespace monolith {

// Roles of special tokens. For the fill-in-the-middle roles, this is also the order in which the vocabulary is
// searched.
enum class TokenRole : uint8_t {
  kBos,
  kEos,
  kUnknown,
  kEndOfTurn,
  kEndOfMessage,
  kFimPrefix,
  kFimSuffix,
  kFimMiddle,
  kFimPad,
  kFimRepository,
  kFimSeparator,
};
// The GGUF metadata keys that contain the IDs of the tokens in these roles, indexed by TokenRole.
inline constexpr std::string_view kTokenRoleKeys[] = {
    "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",     "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pre_token_id",
    "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id",
};
constexpr std::string_view key_of(TokenRole role) { return kTokenRoleKeys[static_cast<size_t>(role)]; }

// All views must stay valid until the tokenizer has been built.
struct TokenizerSpec {
  std::string_view model;          // The family: "gpt2", "llama", "gemma4", "whitespace", "t5", "bert" or "rwkv".
  std::string_view pre_tokenizer;  // GGUF's name of it ("pre"); empty if the file has none.

  std::optional<std::vector<std::string_view>> tokens;  // Spellings by token ID. Required.
  std::optional<std::vector<TokenKind>> kinds;          // Indexed by token ID. Default: kNormal for all tokens.
  std::optional<std::vector<float>> scores;             // Indexed by token ID.
  std::optional<std::vector<std::string_view>> merges;  // "left right", in order.
  std::span<const std::byte> charsmap;                  // SentencePiece's precompiled normalization; may be empty.

  std::array<std::optional<uint64_t>, std::size(kTokenRoleKeys)> role_ids;  // Indexed by TokenRole.
  // IDs of further tokens that end a generation.
  std::vector<int64_t> end_token_ids;
  // IDs of special tokens that also consume the whitespace before or after them.
  std::vector<int64_t> strip_before_ids, strip_behind_ids;
  // IDs of ordinary tokens that, like user-defined tokens, are also matched in the text before normalization.
  std::vector<int64_t> raw_token_ids;
  // IDs of user-defined or ordinary tokens that are matched only in normalized text.
  std::vector<int64_t> normalized_token_ids;

  std::optional<bool> add_bos_token, add_eos_token;
  // SentencePiece and Unigram: add a space before text at the start or after a special token.
  std::optional<bool> add_space_prefix;
  std::optional<bool> space_prefix_once;    // Add it only at the very start of the text.
  std::optional<bool> space_prefix_spared;  // Do not add it if the text already starts with a space.
  // Whether decoding drops the first space of the text. The default is true if encoding adds a space prefix.
  std::optional<bool> strip_first_space;
  // Unigram: both options collapse runs of spaces to one space; remove_extra_whitespaces also removes the spaces at
  // both ends of the text.
  std::optional<bool> remove_extra_whitespaces, collapse_spaces;
  // WordPiece only: whether to convert text to lower case, to remove accents, to treat each Chinese character as a
  // word, and to remove control characters. All default to true, except that strip_accents defaults to the value of
  // lowercase. SentencePiece tokenizers whose model is not "whitespace" return an error if lowercase is true.
  std::optional<bool> lowercase, strip_accents, split_chinese, clean_text;
  std::optional<uint64_t> max_word_chars;  // WordPiece: longer words become the unknown token; 0 or absent: no limit.
  std::optional<bool> words_apart;   // SentencePiece and Unigram: every space starts a word that is merged separately.
  std::optional<bool> fuse_unknown;  // SentencePiece: consecutive unknown characters become one unknown token.
  std::optional<bool> explicit_ids;  // `role_ids` have no defaults.
  // If true, special tokens are matched from left to right, taking the longest one at each position. Otherwise, the
  // longest spelling in the whole text is matched first.
  std::optional<bool> leftmost_tokens;
  // Set for Phi-3, in which most special tokens consume the whitespace after them.
  bool strips_behind_special = false;

  // Byte-level BPE: names of the split stages, in order. Replaces `pre_tokenizer`.
  std::optional<std::vector<std::string_view>> split_stages;
  std::optional<bool> ignore_merges;  // Words that are tokens are not merged. Used together with `split_stages`.
  // Unicode normalization of the text between special tokens: "NFC", "NFD", "NFKC" or "NFKD". Overrides the
  // pre-tokenizer's default normalization.
  std::optional<std::string_view> normal_form;

  std::optional<uint64_t>& id_of(TokenRole role) { return role_ids[static_cast<size_t>(role)]; }
  const std::optional<uint64_t>& id_of(TokenRole role) const { return role_ids[static_cast<size_t>(role)]; }
};

}  // namespace monolith
