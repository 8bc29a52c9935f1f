#include "formats/gguf/tokenizer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace monolith {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model", kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kKindsKey = "tokenizer.ggml.token_type", kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kCharsmapKey = "tokenizer.ggml.precompiled_charsmap";

// A metadata key and the TokenizerSpec member that stores its value.
template <typename T>
struct Field {
  std::string_view key;
  T TokenizerSpec::*member;
};
constexpr Field<std::optional<std::vector<std::string_view>>> kStringLists[] = {
    {"tokenizer.ggml.tokens", &TokenizerSpec::tokens},
    {"tokenizer.ggml.merges", &TokenizerSpec::merges},
    {kSplitStagesKey, &TokenizerSpec::split_stages},
};
constexpr Field<std::vector<int64_t>> kIdLists[] = {
    {kEndTokensKey, &TokenizerSpec::end_token_ids},
    {kStripBeforeKey, &TokenizerSpec::strip_before_ids},
    {kStripBehindKey, &TokenizerSpec::strip_behind_ids},
    {kRawTokensKey, &TokenizerSpec::raw_token_ids},
    {kNormalizedTokensKey, &TokenizerSpec::normalized_token_ids},
};
constexpr Field<std::optional<bool>> kFlags[] = {
    {"tokenizer.ggml.add_bos_token", &TokenizerSpec::add_bos_token},
    {"tokenizer.ggml.add_eos_token", &TokenizerSpec::add_eos_token},
    {"tokenizer.ggml.add_space_prefix", &TokenizerSpec::add_space_prefix},
    {"tokenizer.ggml.remove_extra_whitespaces", &TokenizerSpec::remove_extra_whitespaces},
    {"tokenizer.ggml.normalizer.lowercase", &TokenizerSpec::lowercase},
    {"tokenizer.ggml.normalizer.strip_accents", &TokenizerSpec::strip_accents},
    {kSplitChineseKey, &TokenizerSpec::split_chinese},
    {kCleanTextKey, &TokenizerSpec::clean_text},
    {kIgnoreMergesKey, &TokenizerSpec::ignore_merges},
    {kSpacePrefixOnceKey, &TokenizerSpec::space_prefix_once},
    {kSpacePrefixSparedKey, &TokenizerSpec::space_prefix_spared},
    {kExplicitIdsKey, &TokenizerSpec::explicit_ids},
    {kLeftmostTokensKey, &TokenizerSpec::leftmost_tokens},
    {kWordsApartKey, &TokenizerSpec::words_apart},
    {kCollapseSpacesKey, &TokenizerSpec::collapse_spaces},
    {kFuseUnknownKey, &TokenizerSpec::fuse_unknown},
    {kStripFirstSpaceKey, &TokenizerSpec::strip_first_space},
};

// Stores a metadata value in `field`. Leaves `field` unchanged if the file has no such key.
template <typename T, typename U>
Status set(Result<std::optional<T>> value, U& field) {
  if (!value) return value.error();
  if (*value) field = std::move(**value);
  return {};
}

Status read_kinds(const GgufFile& file, TokenizerSpec& spec) {
  auto types = file.integers(kKindsKey);
  if (!types) return types.error();
  if (!*types) return {};
  std::vector<TokenKind>& kinds = spec.kinds.emplace();
  kinds.reserve((*types)->size());
  // Token type 0 means "undefined", and unknown types are treated in the same way: such tokens do not represent text.
  for (const int64_t type : **types)
    kinds.push_back(type >= 1 && type <= 6 ? static_cast<TokenKind>(type) : TokenKind::kUnused);
  return {};
}

Status read_charsmap(const GgufFile& file, TokenizerSpec& spec) {
  const GgufValue* value = file.find(kCharsmapKey);
  if (value == nullptr) return {};
  if (value->type != GgufValueType::kArray ||
      (value->element_type != GgufValueType::kUint8 && value->element_type != GgufValueType::kInt8))
    return Error{ErrorCode::kInvalidFile, std::string(kCharsmapKey) + " is not an array of bytes"};
  spec.charsmap = value->payload;
  return {};
}

// Phi-3 and Phi-3.5 have special tokens that consume the whitespace after them. GGUF cannot describe such tokens, so
// llama.cpp recognizes these models by name (llama-vocab.cpp, `model_name`). A file converted from a tokenizer.json
// lists these tokens explicitly, so the model name is ignored there.
Status recognize_phi3(const GgufFile& file, TokenizerSpec& spec) {
  if (spec.explicit_ids) return {};
  auto name = file.string("general.name");
  if (!name) return name.error();
  std::string lower(name->value_or(""));
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  spec.strips_behind_special = lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
  return {};
}

// Sets the special tokens before and after a text for BERT tokenizers. [CLS] is used as BOS token if the file has no
// BOS token. [SEP] replaces the file's EOS token, because llama.cpp ends every text with [SEP].
Status read_bert_ids(const GgufFile& file, TokenizerSpec& spec) {
  if (spec.model != "bert") return {};
  std::optional<uint64_t>& bos = spec.id_of(TokenRole::kBos);
  if (!bos)
    if (Status status = set(file.unsigned_integer("tokenizer.ggml.cls_token_id"), bos); !status) return status;
  return set(file.unsigned_integer(kSeparatorKey), spec.id_of(TokenRole::kEos));
}

}  // namespace

Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& file) {
  auto model = file.string(kModelKey);
  if (!model) return model.error();
  if (!*model) return Error{ErrorCode::kInvalidFile, "the file has no tokenizer: tokenizer.ggml.model is missing"};
  TokenizerSpec spec;
  spec.model = **model;
  if (Status status = set(file.string(kPreKey), spec.pre_tokenizer); !status) return status.error();
  if (Status status = set(file.string(kNormalFormKey), spec.normal_form); !status) return status.error();
  if (Status status = set(file.numbers(kScoresKey), spec.scores); !status) return status.error();
  for (const auto& [key, member] : kStringLists)
    if (Status status = set(file.strings(key), spec.*member); !status) return status.error();
  for (const auto& [key, member] : kIdLists)
    if (Status status = set(file.integers(key), spec.*member); !status) return status.error();
  for (const auto& [key, member] : kFlags)
    if (Status status = set(file.boolean(key), spec.*member); !status) return status.error();
  for (size_t role = 0; role < spec.role_ids.size(); ++role)
    if (Status status = set(file.unsigned_integer(kTokenRoleKeys[role]), spec.role_ids[role]); !status)
      return status.error();
  if (Status status = set(file.unsigned_integer(kMaxWordCharsKey), spec.max_word_chars); !status) return status.error();
  for (const auto read : {read_kinds, read_charsmap, recognize_phi3, read_bert_ids})
    if (Status status = read(file, spec); !status) return status.error();
  return spec;
}

void write_tokenizer_spec(const TokenizerSpec& spec, AssembledFile& file) {
  file.string(kModelKey, spec.model);
  if (!spec.pre_tokenizer.empty()) file.string(kPreKey, spec.pre_tokenizer);
  if (spec.normal_form) file.string(kNormalFormKey, *spec.normal_form);
  if (spec.scores) file.numbers(kScoresKey, *spec.scores);
  if (spec.kinds) {
    std::vector<int32_t> types;
    for (const TokenKind kind : *spec.kinds) types.push_back(static_cast<int32_t>(kind));
    file.integers(kKindsKey, types);
  }
  for (const auto& [key, member] : kStringLists)
    if (spec.*member) file.strings(key, *(spec.*member));
  for (const auto& [key, member] : kIdLists)
    if (!(spec.*member).empty()) file.integers(key, std::vector<int32_t>((spec.*member).begin(), (spec.*member).end()));
  for (const auto& [key, member] : kFlags)
    if (spec.*member) file.boolean(key, *(spec.*member));
  for (size_t role = 0; role < spec.role_ids.size(); ++role)
    if (spec.role_ids[role]) file.integer(kTokenRoleKeys[role], *spec.role_ids[role]);
  if (spec.max_word_chars) file.integer(kMaxWordCharsKey, *spec.max_word_chars);
  if (!spec.charsmap.empty()) file.bytes(kCharsmapKey, spec.charsmap);
}

Result<std::unique_ptr<const Tokenizer>> load_tokenizer(const GgufFile& file) {
  auto spec = read_tokenizer_spec(file);
  if (!spec) return spec.error();
  return Tokenizer::build(*spec);
}

}  // namespace monolith
