// Monolith's own metadata keys in addition to GGUF's, for tokenizer.json features that GGUF has no key for. The Hugging
// Face folder converter writes these keys and the tokenizers read them. All keys are optional in any file.
#pragma once

#include <string_view>

namespace monolith {

// Names of the split stages, in order. Replaces tokenizer.ggml.pre. Array of strings.
inline constexpr std::string_view kSplitStagesKey = "tokenizer.monolith.split_stages";
// Words that are tokens are not merged. Used together with the split stages. Boolean.
inline constexpr std::string_view kIgnoreMergesKey = "tokenizer.monolith.ignore_merges";
// SentencePiece adds the space prefix only at the very start of the text, not after each special token. Boolean.
inline constexpr std::string_view kSpacePrefixOnceKey = "tokenizer.monolith.space_prefix_once";
// The space prefix is not added if the text already starts with a space. Boolean.
inline constexpr std::string_view kSpacePrefixSparedKey = "tokenizer.monolith.space_prefix_spared";
// bos_token_id, eos_token_id and unknown_token_id are taken literally: a missing key has no default. Boolean.
inline constexpr std::string_view kExplicitIdsKey = "tokenizer.monolith.explicit_ids";
// Ids of additional tokens that end a generation. Array of integers.
inline constexpr std::string_view kEndTokensKey = "tokenizer.monolith.end_token_ids";
// Ids of special tokens that also consume the white space before (or after) them. Arrays of integers.
inline constexpr std::string_view kStripBeforeKey = "tokenizer.monolith.strip_before_ids";
inline constexpr std::string_view kStripBehindKey = "tokenizer.monolith.strip_behind_ids";
// Unicode normalization of the text between special tokens: "NFC", "NFD", "NFKC" or "NFKD". Overrides the normalization
// that the pre-tokenizer implies. String.
inline constexpr std::string_view kNormalFormKey = "tokenizer.monolith.normal_form";
// Ids of ordinary tokens that are also matched in the text before normalization, like user-defined tokens. Array of
// integers.
inline constexpr std::string_view kRawTokensKey = "tokenizer.monolith.raw_token_ids";
// Ids of user-defined or ordinary tokens that are matched only in the normalized text. Array of integers.
inline constexpr std::string_view kNormalizedTokensKey = "tokenizer.monolith.normalized_token_ids";
// Special tokens are matched from left to right, the longest at each position. Otherwise the longest spelling in the
// whole text is matched first. Boolean.
inline constexpr std::string_view kLeftmostTokensKey = "tokenizer.monolith.leftmost_tokens";
// SentencePiece and Unigram: every space starts a word, and words are merged separately. Boolean.
inline constexpr std::string_view kWordsApartKey = "tokenizer.monolith.words_apart";
// Unigram: runs of spaces are collapsed to one space. Boolean.
inline constexpr std::string_view kCollapseSpacesKey = "tokenizer.monolith.collapse_spaces";
// SentencePiece: consecutive unknown characters become one unknown token. Boolean.
inline constexpr std::string_view kFuseUnknownKey = "tokenizer.monolith.fuse_unknown";
// Decoding drops the first space of the text. Default: true if encoding adds a space prefix. Boolean.
inline constexpr std::string_view kStripFirstSpaceKey = "tokenizer.monolith.strip_first_space";

}  // namespace monolith
