// The tokenizer of a model: the metadata under "tokenizer.*", as a TokenizerSpec and back. Used on the thread that opens
// the model.
#pragma once

#include <memory>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_spec.h"

namespace monolith {

// Monolith's own metadata keys, for fields of TokenizerSpec that have no GGUF key. All of them are optional in any file.
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

// Reads the description of a file's tokenizer, which points into `file`. Errors: kInvalidFile if the file has no
// tokenizer or a key has the wrong type.
Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& file);

// Adds a description to the metadata of a file that is being assembled, so that reading it returns the same one.
void write_tokenizer_spec(const TokenizerSpec& spec, AssembledFile& file);

// Builds the tokenizer of a file. Errors: those of read_tokenizer_spec() and of Tokenizer::build().
Result<std::unique_ptr<const Tokenizer>> load_tokenizer(const GgufFile& file);

}  // namespace monolith
