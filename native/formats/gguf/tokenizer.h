// Converts a model's tokenizer between GGUF metadata ("tokenizer.*") and TokenizerSpec. Used on the thread that opens
// the model.
#pragma once

#include <memory>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_spec.h"

namespace monolith {

// Monolith's own metadata keys, for TokenizerSpec fields that have no GGUF key. Every file may omit them.
inline constexpr std::string_view kSplitStagesKey = "tokenizer.monolith.split_stages";
inline constexpr std::string_view kIgnoreMergesKey = "tokenizer.monolith.ignore_merges";
inline constexpr std::string_view kSpacePrefixOnceKey = "tokenizer.monolith.space_prefix_once";
inline constexpr std::string_view kSpacePrefixSparedKey = "tokenizer.monolith.space_prefix_spared";
inline constexpr std::string_view kExplicitIdsKey = "tokenizer.monolith.explicit_ids";
inline constexpr std::string_view kEndTokensKey = "tokenizer.monolith.end_token_ids";
inline constexpr std::string_view kStripBeforeKey = "tokenizer.monolith.strip_before_ids";
inline constexpr std::string_view kStripBehindKey = "tokenizer.monolith.strip_behind_ids";
inline constexpr std::string_view kNormalFormKey = "tokenizer.monolith.normal_form";
inline constexpr std::string_view kRawTokensKey = "tokenizer.monolith.raw_token_ids";
inline constexpr std::string_view kNormalizedTokensKey = "tokenizer.monolith.normalized_token_ids";
inline constexpr std::string_view kLeftmostTokensKey = "tokenizer.monolith.leftmost_tokens";
inline constexpr std::string_view kWordsApartKey = "tokenizer.monolith.words_apart";
inline constexpr std::string_view kCollapseSpacesKey = "tokenizer.monolith.collapse_spaces";
inline constexpr std::string_view kFuseUnknownKey = "tokenizer.monolith.fuse_unknown";
inline constexpr std::string_view kStripFirstSpaceKey = "tokenizer.monolith.strip_first_space";
inline constexpr std::string_view kSplitChineseKey = "tokenizer.monolith.split_chinese";
inline constexpr std::string_view kCleanTextKey = "tokenizer.monolith.clean_text";
inline constexpr std::string_view kMaxWordCharsKey = "tokenizer.monolith.max_word_chars";
// Whether the tokens of a pair's second text, and the separator after it, have token type 1.
inline constexpr std::string_view kPairTypesKey = "tokenizer.monolith.pair_types";

// The key's misspelling is part of the GGUF format.
inline constexpr std::string_view kSeparatorKey = "tokenizer.ggml.seperator_token_id";

// Reads the tokenizer's description from `file`; the result points into `file`. Errors: kInvalidFile if the file has no
// tokenizer or a key has the wrong type.
Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& file);

// Adds a description to the metadata of a file being assembled, so that reading the file back yields the same
// description.
void write_tokenizer_spec(const TokenizerSpec& spec, AssembledFile& file);

// Builds the tokenizer from a model file. Fails with the errors of read_tokenizer_spec() and Tokenizer::build().
Result<std::unique_ptr<const Tokenizer>> load_tokenizer(const GgufFile& file);

}  // namespace monolith
