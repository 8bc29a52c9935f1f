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

}  // namespace monolith
