// Metadata keys of our own, beside GGUF's: what a tokenizer.json can say and a GGUF file has no word for. Written
// where a Hugging Face folder is translated, read by the tokenizers. In any file they are optional.
#pragma once

#include <string_view>

namespace monolith {

// Names of split stages, in order; instead of tokenizer.ggml.pre. Array of strings.
inline constexpr std::string_view kSplitStagesKey = "tokenizer.monolith.split_stages";
// A word that is a token is not merged. Boolean; with the stages.
inline constexpr std::string_view kIgnoreMergesKey = "tokenizer.monolith.ignore_merges";
// The space that SentencePiece puts in front comes only at the very beginning, not after each special token.
// Boolean.
inline constexpr std::string_view kSpacePrefixOnceKey = "tokenizer.monolith.space_prefix_once";
// It does not come where the text begins with a space already. Boolean.
inline constexpr std::string_view kSpacePrefixSparedKey = "tokenizer.monolith.space_prefix_spared";
// bos_token_id, eos_token_id and unknown_token_id count as they stand: one that is missing has no default. Boolean.
inline constexpr std::string_view kExplicitIdsKey = "tokenizer.monolith.explicit_ids";
// Ids of further tokens that end a generation. Array of integers.
inline constexpr std::string_view kEndTokensKey = "tokenizer.monolith.end_token_ids";
// Ids of special tokens that take the white space before them, or behind them, with them. Arrays of integers.
inline constexpr std::string_view kStripBeforeKey = "tokenizer.monolith.strip_before_ids";
inline constexpr std::string_view kStripBehindKey = "tokenizer.monolith.strip_behind_ids";
// Unicode normalization of the text between special tokens: "NFC", "NFD", "NFKC" or "NFKD". Overrides the one that the
// pre-tokenizer implies. String.
inline constexpr std::string_view kNormalFormKey = "tokenizer.monolith.normal_form";
// Ids of ordinary tokens that are also looked up in the text before it is normalized, as user-defined tokens are.
// Array of integers.
inline constexpr std::string_view kRawTokensKey = "tokenizer.monolith.raw_token_ids";
// Ids of user-defined or ordinary tokens that are looked up in the normalized text only. Array of integers.
inline constexpr std::string_view kNormalizedTokensKey = "tokenizer.monolith.normalized_token_ids";
// Special tokens are found from left to right, the longest at each place; otherwise the longest in the text comes
// first. Boolean.
inline constexpr std::string_view kLeftmostTokensKey = "tokenizer.monolith.leftmost_tokens";
// SentencePiece and Unigram: every space begins a word, and words merge on their own. Boolean.
inline constexpr std::string_view kWordsApartKey = "tokenizer.monolith.words_apart";
// Unigram: two and more spaces in a row are one. Boolean.
inline constexpr std::string_view kCollapseSpacesKey = "tokenizer.monolith.collapse_spaces";
// SentencePiece: several unknown characters in a row are one unknown token. Boolean.
inline constexpr std::string_view kFuseUnknownKey = "tokenizer.monolith.fuse_unknown";
// Whether decoding drops the first space of the text. Boolean; without it, if encoding puts one there.
inline constexpr std::string_view kStripFirstSpaceKey = "tokenizer.monolith.strip_first_space";

}  // namespace monolith
