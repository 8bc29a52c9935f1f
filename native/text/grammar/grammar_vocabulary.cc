#include "text/grammar/grammar_vocabulary.h"

#include <algorithm>
#include <functional>

namespace monolith::grammar {
namespace {

constexpr char kSymbol = static_cast<char>(0xFF);

bool is_special(const Tokenizer& tokenizer, TokenId token) {
  const TokenKind kind = tokenizer.kind(token);
  const std::string_view bytes = tokenizer.bytes(token);
  return kind == TokenKind::kControl ||
         (kind == TokenKind::kUserDefined && (bytes.starts_with('<') || bytes.starts_with('[')));
}

std::string symbol(TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  return {kSymbol, static_cast<char>(id >> 16), static_cast<char>(id >> 8), static_cast<char>(id)};
}

}  // namespace

std::vector<std::string> GrammarVocabulary::bytes_of(const Tokenizer& tokenizer, int n_tokens) {
  std::vector<std::string> bytes(static_cast<size_t>(n_tokens));
  for (TokenId token = 0; token < n_tokens; ++token) {
    std::string& text = bytes[static_cast<size_t>(token)];
    if (is_special(tokenizer, token)) {
      text = symbol(token);
      continue;
    }
    switch (tokenizer.kind(token)) {
      case TokenKind::kNormal:
      case TokenKind::kUserDefined:
      case TokenKind::kByte: text = tokenizer.bytes(token); break;
      default: break;
    }
    // Tokens that contain the byte that starts a symbol cannot be represented and are therefore never allowed.
    if (text.find(kSymbol) != std::string::npos) text.clear();
  }
  return bytes;
}

GrammarVocabulary::GrammarVocabulary(const std::vector<std::string>& bytes) : trie_(bytes), spaces_(bytes.size()) {
  starts_.reserve(bytes.size() + 1);
  starts_.push_back(0);
  for (const std::string& text : bytes) {
    if (!text.empty() && text.find_first_not_of(" \t\r\n") == std::string::npos)
      spaces_.set(static_cast<uint32_t>(starts_.size() - 1));
    bytes_ += text;
    starts_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
}

GrammarVocabulary::GrammarVocabulary(const Tokenizer& tokenizer, int n_tokens)
    : GrammarVocabulary(bytes_of(tokenizer, n_tokens)) {
  for (TokenId token = 0; token < n_tokens; ++token)
    if (is_special(tokenizer, token) && !tokenizer.bytes(token).empty())
      special_.emplace_back(tokenizer.bytes(token), token);
  std::sort(special_.begin(), special_.end(), std::greater<>());
}

std::string GrammarVocabulary::symbols(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const auto found = std::ranges::find_if(special_, [&](const auto& entry) { return text.starts_with(entry.first); });
    if (found == special_.end()) {
      out += text.front();
      text.remove_prefix(1);
    } else {
      out += symbol(found->second);
      text.remove_prefix(found->first.size());
    }
  }
  return out;
}

TokenId GrammarVocabulary::of_symbol(std::string_view text) const {
  if (text.size() != kSymbolBytes || text.front() != kSymbol) return kNoToken;
  const auto byte = [&](size_t i) { return TokenId{static_cast<uint8_t>(text[i])}; };
  const TokenId token = byte(1) << 16 | byte(2) << 8 | byte(3);
  return static_cast<size_t>(token) + 1 < starts_.size() && bytes(token) == text ? token : kNoToken;
}

}  // namespace monolith::grammar
