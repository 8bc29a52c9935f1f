#include "text/tokenizer/vocabulary.h"

#include <algorithm>
#include <string>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/unicode.h"

namespace monolith {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr std::string_view kSpaceMark = "\u2581";

Error invalid(std::string message) { return {ErrorCode::kInvalidFile, std::move(message)}; }

// Quotes text from a file for use in a message: limits its length and replaces characters that could garble a terminal
// or a log line.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 64)) out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c);
  return out + (text.size() > 64 ? "...'" : "'");
}

std::string describe(std::string_view spelling, size_t id) {
  return "token " + std::to_string(id) + " (" + in_quotes(spelling) + ")";
}

// Spellings of tokens that end a generation in any vocabulary, regardless of the kind that the file assigns to them:
// the end-of-turn tokens of chat formats and the various end-of-text tokens. The list is taken from llama.cpp.
constexpr std::string_view kEndSpellings[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
};

// Fill-in-the-middle tokens. If the description does not specify a token, the first spelling that the vocabulary
// contains is used. The file separator and padding tokens also end a generation.
struct FillInTheMiddle {
  TokenRole role;
  bool ends_generation;
  std::string_view spellings[8];
};
constexpr FillInTheMiddle kFillInTheMiddle[] = {
    {TokenRole::kFimPrefix,
     false,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
      "<|prefix|>"}},
    {TokenRole::kFimSuffix,
     false,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
      "<|suffix|>"}},
    {TokenRole::kFimMiddle,
     false,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
      "<|middle|>"}},
    {TokenRole::kFimPad, true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {TokenRole::kFimRepository, true, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {TokenRole::kFimSeparator, true, {"<|file_sep|>"}},
};

// Parses a spelling such as "<0x41>" as its byte value (0x41). Returns -1 for any other spelling.
int parse_byte_spelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
  int value = 0;
  for (const char c : spelling.substr(3, 2)) {
    int digit;
    if (c >= '0' && c <= '9')
      digit = c - '0';
    else if (c >= 'A' && c <= 'F')
      digit = c - 'A' + 10;
    else if (c >= 'a' && c <= 'f')
      digit = c - 'a' + 10;
    else
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

void append_unescaped_spaces(std::string_view spelling, std::string& out) {
  for (;;) {
    const size_t at = spelling.find(kSpaceMark);
    out.append(spelling.substr(0, at));
    if (at == std::string_view::npos) return;
    out.push_back(' ');
    spelling.remove_prefix(at + kSpaceMark.size());
  }
}

// Appends the bytes of a spelling with the escapes \t, \n, \r and \xNN. A backslash before any other character stands
// for that character.
void append_unescaped(std::string_view spelling, std::string& out) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (size_t i = 0; i < spelling.size(); ++i) {
    if (spelling[i] != '\\' || i + 1 == spelling.size()) {
      out.push_back(spelling[i]);
      continue;
    }
    const char c = spelling[++i];
    if (c == 'x' && i + 2 < spelling.size() && digit(spelling[i + 1]) >= 0 && digit(spelling[i + 2]) >= 0) {
      out.push_back(static_cast<char>(digit(spelling[i + 1]) * 16 + digit(spelling[i + 2])));
      i += 2;
    } else {
      out.push_back(c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c);
    }
  }
}

// Characters outside GPT-2's alphabet occur only in tokens that text cannot produce. These characters are copied
// unchanged.
void append_byte_level(std::string_view spelling, std::string& out) {
  while (!spelling.empty()) {
    const Utf8Char c = decode_utf8(spelling);
    const int byte = c.code_point < kByteOfCharacter.size() ? kByteOfCharacter[c.code_point] : -1;
    if (byte >= 0)
      out.push_back(static_cast<char>(byte));
    else
      out.append(spelling.substr(0, c.size));
    spelling.remove_prefix(c.size);
  }
}

}  // namespace

Result<std::unique_ptr<const Vocabulary>> Vocabulary::build(const TokenizerSpec& spec, SpellingStyle style) {
  std::unique_ptr<Vocabulary> vocabulary(new Vocabulary());
  if (Status status = vocabulary->set_tokens(spec); !status) return status.error();
  if (Status status = vocabulary->set_special_ids(spec, style); !status) return status.error();
  if (Status status = vocabulary->fill_bytes(style); !status) return status.error();
  return std::unique_ptr<const Vocabulary>(std::move(vocabulary));
}

Status Vocabulary::set_tokens(const TokenizerSpec& spec) {
  if (!spec.tokens) return invalid("the file has no vocabulary: tokenizer.ggml.tokens is missing");
  const std::vector<std::string_view>& spellings = *spec.tokens;
  const size_t n = spellings.size();
  if (n == 0) return invalid("tokenizer.ggml.tokens is empty");
  if (n > kMaxTokens)
    return invalid("tokenizer.ggml.tokens has " + std::to_string(n) + " tokens; the limit is " +
                   std::to_string(kMaxTokens));

  if (spec.kinds && spec.kinds->size() != n)
    return invalid("tokenizer.ggml.token_type has " + std::to_string(spec.kinds->size()) + " entries for " +
                   std::to_string(n) + " tokens");

  size_t total = 0;
  for (size_t i = 0; i < n; ++i) {
    if (spellings[i].size() > kMaxTokenBytes)
      return invalid(describe(spellings[i], i) + " has " + std::to_string(spellings[i].size()) +
                     " bytes; the limit is " + std::to_string(kMaxTokenBytes));
    total += spellings[i].size();
  }
  if (total > UINT32_MAX) return invalid("the spellings of tokenizer.ggml.tokens exceed 4 GiB");

  spellings_.reserve(n, total);
  for (const std::string_view spelling : spellings) spellings_.push(spelling);
  kinds_ = spec.kinds.value_or(std::vector(n, TokenKind::kNormal));

  by_spelling_ = StringTable(spellings_, n);
  for (size_t i = 0; i < n; ++i) {
    if (spellings_[i].empty()) continue;  // Keeps its ID but can never be found.
    const int32_t first = by_spelling_.insert(static_cast<int32_t>(i));
    if (first != StringTable::kAbsent)
      return invalid(describe(spellings_[i], i) + " is spelled like token " + std::to_string(first));
    if (kinds_[i] == TokenKind::kByte && parse_byte_spelling(spellings_[i]) < 0)
      return invalid(describe(spellings_[i], i) + " has the kind byte, but its spelling is not of the form <0x41>");
  }
  return {};
}

Result<TokenId> Vocabulary::checked_id(const TokenizerSpec& spec, TokenRole role, TokenId absent) const {
  const std::optional<uint64_t>& id = spec.id_of(role);
  if (!id) return absent < size() ? absent : kNoToken;
  if (*id >= kinds_.size())
    return invalid(std::string(key_of(role)) + " is " + std::to_string(*id) + ", but the vocabulary has " +
                   std::to_string(kinds_.size()) + " tokens");
  return static_cast<TokenId>(*id);
}

Result<std::vector<TokenId>> Vocabulary::checked_ids(const std::vector<int64_t>& ids, std::string_view name) const {
  for (const int64_t id : ids)
    if (id < 0 || id >= size())
      return invalid(std::string(name) + " holds " + std::to_string(id) + ", but the vocabulary has " +
                     std::to_string(size()) + " tokens");
  return std::vector<TokenId>(ids.begin(), ids.end());
}

Status Vocabulary::set_special_ids(const TokenizerSpec& spec, SpellingStyle style) {
  // If the IDs are missing, the defaults come from SentencePiece (<unk> 0, <s> 1, </s> 2), T5 (<pad> 0, </s> 1, <unk>
  // 2) or BERT ([UNK] 100, [CLS] 101, [SEP] 102).
  struct {
    TokenId bos = kNoToken, eos = kNoToken, unknown = kNoToken;
  } absent;
  if (!spec.explicit_ids.value_or(false)) {
    if (style == SpellingStyle::kSentencePiece) absent = {1, 2, 0};
    if (style == SpellingStyle::kUnigram) absent = {kNoToken, 1, 2};
    if (style == SpellingStyle::kWordPiece) absent = {101, 102, 100};
  }
  auto bos = checked_id(spec, TokenRole::kBos, absent.bos);
  if (!bos) return bos.error();
  auto eos = checked_id(spec, TokenRole::kEos, absent.eos);
  if (!eos) return eos.error();
  auto unknown = checked_id(spec, TokenRole::kUnknown, absent.unknown);
  if (!unknown) return unknown.error();
  bos_ = *bos;
  eos_ = *eos;
  unknown_ = *unknown;
  return collect_end_of_generation(spec);
}

Status Vocabulary::collect_end_of_generation(const TokenizerSpec& spec) {
  std::vector<TokenId>& ends = end_of_generation_;
  for (const std::string_view spelling : kEndSpellings) {
    const TokenId id = find(spelling);
    if (id == kNoToken) continue;
    ends.push_back(id);
    make_control(id);
  }
  for (const FillInTheMiddle& mark : kFillInTheMiddle) {
    auto id = checked_id(spec, mark.role, kNoToken);
    if (!id) return id.error();
    for (const std::string_view spelling : mark.spellings) {
      if (*id != kNoToken || spelling.empty()) break;
      *id = find(spelling);
      if (*id != kNoToken) make_control(*id);
    }
    if (mark.ends_generation && *id != kNoToken) ends.push_back(*id);
  }
  for (const TokenRole role : {TokenRole::kEndOfTurn, TokenRole::kEndOfMessage}) {
    auto id = checked_id(spec, role, kNoToken);
    if (!id) return id.error();
    if (*id != kNoToken) ends.push_back(*id);
  }
  if (eos_ != kNoToken) ends.push_back(eos_);
  auto further = checked_ids(spec.end_token_ids, "end_token_ids");
  if (!further) return further.error();
  ends.insert(ends.end(), further->begin(), further->end());

  const auto ends_with = [&](std::string_view spelling) {
    const TokenId id = find(spelling);
    return id != kNoToken && std::find(ends.begin(), ends.end(), id) != ends.end();
  };
  const auto remove = [&](std::string_view spelling, TokenKind kind) {
    const TokenId id = find(spelling);
    kinds_[static_cast<size_t>(id)] = kind;
    std::erase(ends, id);
  };
  // In the formats of gpt-oss and Solar, <|end|> ends part of a message, not the generation.
  if (ends_with("<|end|>") && (ends_with("<|call|>") || ends_with("<|calls|>")) &&
      (ends_with("<|return|>") || ends_with("<|flush|>")))
    remove("<|end|>", TokenKind::kUserDefined);
  // In Gemma 4, "</s>" is ordinary text.
  if (ends_with("<|tool_response>") && ends_with("</s>")) remove("</s>", TokenKind::kNormal);
  // The delimiters of gpt-oss's message format must reach the output parsers as text.
  for (const std::string_view spelling : {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"})
    if (const TokenId id = find(spelling); id != kNoToken) kinds_[static_cast<size_t>(id)] = TokenKind::kUserDefined;
  // The delimiters of Solar's format must also reach the output parsers as text. Only Solar's vocabulary has all four
  // of them.
  constexpr std::string_view kSolarParts[] = {"<|begin|>", "<|think|>", "<|content|>", "<|tool_calls|>"};
  if (std::ranges::all_of(kSolarParts, [&](std::string_view spelling) { return find(spelling) != kNoToken; }))
    for (const std::string_view spelling : kSolarParts)
      kinds_[static_cast<size_t>(find(spelling))] = TokenKind::kUserDefined;

  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return {};
}

Status Vocabulary::fill_bytes(SpellingStyle style) {
  bytes_.reserve(kinds_.size(), spellings_.bytes());
  std::string scratch;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const std::string_view spelling = spellings_[i];
    scratch.clear();
    switch (kinds_[i]) {
      case TokenKind::kControl:
      case TokenKind::kUnknown:
      case TokenKind::kUserDefined: scratch = spelling; break;
      case TokenKind::kUnused: break;
      case TokenKind::kByte: scratch.push_back(static_cast<char>(parse_byte_spelling(spelling))); break;
      case TokenKind::kNormal:
        if (style == SpellingStyle::kByteLevel)
          append_byte_level(spelling, scratch);
        else if (style == SpellingStyle::kEscaped)
          append_unescaped(spelling, scratch);
        else
          append_unescaped_spaces(spelling, scratch);
        break;
    }
    bytes_.push(scratch);
  }
  return {};
}

}  // namespace monolith
