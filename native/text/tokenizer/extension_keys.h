// Monolith's own metadata keys, for tokenizer.json features that have no GGUF key. The converter for Hugging Face
// folders writes these keys, and the tokenizers read them. All of them are optional in any file.
#pragma once

#include <string_view>

namespace monolith {

// Names of the split stages, in order. Replaces tokenizer.ggml.pre. Array of strings.
inline constexpr std::string_view kSplitStagesKey = "tokenizer.monolith.split_stages";
// Words that are tokens are not merged. Used together with the split stages. Boolean.
inline constexpr std::string_view kIgnoreMergesKey = "tokenizer.monolith.ignore_merges";
// SentencePiece: add the space prefix only at the very start of the text, not after each special token. Boolean.
inline constexpr std::string_view kSpacePrefixOnceKey = "tokenizer.monolith.space_prefix_once";
// Do not add the space prefix if the text already starts with a space. Boolean.
inline constexpr std::string_view kSpacePrefixSparedKey = "tokenizer.monolith.space_prefix_spared";
// Take bos_token_id, eos_token_id and unknown_token_id literally: a missing key has no default. Boolean.
inline constexpr std::string_view kExplicitIdsKey = "tokenizer.monolith.explicit_ids";
// IDs of additional tokens that end a generation. Array of integers.
inline constexpr std::string_view kEndTokensKey = "tokenizer.monolith.end_token_ids";
// IDs of special tokens that also consume the whitespace before or after them. Arrays of integers.
inline constexpr std::string_view kStripBeforeKey = "tokenizer.monolith.strip_before_ids";
inline constexpr std::string_view kStripBehindKey = "tokenizer.monolith.strip_behind_ids";
// Unicode normalization of the text between special tokens: "NFC", "NFD", "NFKC" or "NFKD". Overrides the normalization
// implied by the pre-tokenizer. String.
inline constexpr std::string_view kNormalFormKey = "tokenizer.monolith.normal_form";
// IDs of ordinary tokens that are also matched in the text before normalization, as user-defined tokens are. Array of
// integers.
inline constexpr std::string_view kRawTokensKey = "tokenizer.monolith.raw_token_ids";
// IDs of user-defined or ordinary tokens that are matched only in normalized text. Array of integers.
inline constexpr std::string_view kNormalizedTokensKey = "tokenizer.monolith.normalized_token_ids";
// Match special tokens from left to right, taking the longest one at each position. Otherwise, the longest spelling in
// the whole text is matched first. Boolean.
inline constexpr std::string_view kLeftmostTokensKey = "tokenizer.monolith.leftmost_tokens";
// SentencePiece and Unigram: every space starts a word, and words are merged separately. Boolean.
inline constexpr std::string_view kWordsApartKey = "tokenizer.monolith.words_apart";
// Unigram: collapse runs of spaces to one space. Boolean.
inline constexpr std::string_view kCollapseSpacesKey = "tokenizer.monolith.collapse_spaces";
// SentencePiece: consecutive unknown characters become one unknown token. Boolean.
inline constexpr std::string_view kFuseUnknownKey = "tokenizer.monolith.fuse_unknown";
// Decoding drops the first space of the text. Boolean; the default is true if encoding adds a space prefix.
inline constexpr std::string_view kStripFirstSpaceKey = "tokenizer.monolith.strip_first_space";

}  // namespace monolith
