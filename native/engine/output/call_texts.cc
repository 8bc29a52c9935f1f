#include "engine/output/call_texts.h"

#include <utility>

namespace monolith {
namespace {

constexpr EncodeOptions kAsWritten{.add_special = false, .parse_special = true, .guard = 0, .verbatim = true};
constexpr EncodeOptions kBehind{
    .add_special = false, .parse_special = true, .guard = 0, .continues = true, .verbatim = true};

// Only control and user-defined tokens count as markers, because the text of an ordinary token can also be composed of
// other tokens.
Marker call_marker(std::string text, const Tokenizer& tokenizer) {
  Marker marker{std::move(text), kNoToken};
  const TokenId token = marker.text.empty() ? kNoToken : tokenizer.find(marker.text);
  if (token != kNoToken) {
    const TokenKind kind = tokenizer.kind(token);
    if (kind == TokenKind::kControl || kind == TokenKind::kUserDefined) marker.token = token;
  }
  return marker;
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, const std::string& text, const EncodeOptions& options) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, options, ids);
  return ids;
}

}  // namespace

CallParams tokenize_calls(CallTexts texts, const Tokenizer& tokenizer) {
  CallParams params;
  params.open = call_marker(std::move(texts.open), tokenizer);
  params.close = call_marker(std::move(texts.close), tokenizer);
  params.at_start = texts.at_start;
  params.ends_itself = texts.ends_itself;
  params.grammars = std::move(texts.grammars);
  // If the open marker is a single token, no token extends across its end, so the text after it is tokenized
  // separately. If it is ordinary text, a token may extend across its end, so both are tokenized together.
  const bool is_token = params.open.token != kNoToken;
  const auto with_open = [&](const std::string& text) {
    if (!is_token) return encode(tokenizer, params.open.text + text, kAsWritten);
    std::vector<TokenId> ids{params.open.token};
    tokenizer.encode(text, kAsWritten, ids);
    return ids;
  };
  for (const std::string& prefix : texts.prefixes) {
    std::vector<TokenId> ids = with_open(prefix);
    if (is_token) {
      params.prefixes.emplace_back(ids.begin() + 1, ids.end());
    } else {
      // If the marker nevertheless ends on a token boundary, the text after it is tokenized separately.
      params.prefixes.push_back(encode(tokenizer, prefix, kBehind));
      params.starts.push_back(ids);
    }
    if (texts.required) params.required.push_back(std::move(ids));
  }
  if (texts.prefixes.empty() && (texts.required || !is_token)) {
    std::vector<TokenId> ids = encode(tokenizer, params.open.text, kAsWritten);
    if (!is_token) params.starts.push_back(ids);
    if (texts.required) params.required.push_back(std::move(ids));
  }
  if (!texts.answer.empty()) {
    params.answer = encode(tokenizer, texts.answer, kBehind);
    params.answer_start = with_open(texts.answer);
  }
  if (!params.grammars.empty() && !texts.end.empty()) {
    for (const std::string& text : texts.next) params.next.push_back(encode(tokenizer, text, kBehind));
    params.end = encode(tokenizer, texts.end, kBehind);
  }
  return params;
}

void forbid_calls(const CallTexts& texts, const Tokenizer& tokenizer, SamplingParams& sampling) {
  for (const std::string& text : {texts.open, texts.close})
    if (const Marker marker = call_marker(text, tokenizer); marker.token != kNoToken)
      sampling.banned.push_back(marker.token);
}

}  // namespace monolith
