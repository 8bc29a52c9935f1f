#include "text/tokenizer/longest_match.h"

namespace monolith {
namespace {

std::vector<PieceTrie::Entry> matched_entries(const Vocabulary& vocabulary) {
  std::vector<PieceTrie::Entry> entries;
  for (TokenId id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.kind(id) == TokenKind::kNormal && !vocabulary.bytes(id).empty())
      entries.push_back({vocabulary.bytes(id), id});
  return entries;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> LongestMatch::build(const TokenizerSpec& spec) {
  auto vocabulary = Vocabulary::build(spec, SpellingStyle::kEscaped);
  if (!vocabulary) return vocabulary.error();
  return std::unique_ptr<Tokenizer>(new LongestMatch(std::move(vocabulary).value()));
}

LongestMatch::LongestMatch(std::unique_ptr<const Vocabulary> owned)
    : Tokenizer(std::move(owned), {}), pieces_(matched_entries(vocabulary())) {}

// A byte with which no token starts becomes an unknown token or, if the vocabulary has no unknown token, is dropped.
void LongestMatch::encode_prepared(std::string_view text, bool, std::vector<TokenId>& out) const {
  for (size_t at = 0; at < text.size();) {
    size_t longest = 1;
    TokenId token = vocabulary().unknown();
    pieces_.prefixes(text.substr(at), [&](size_t length, TokenId id) {
      longest = length;
      token = id;
    });
    at += longest;
    if (token != kNoToken) out.push_back(token);
  }
}

}  // namespace monolith
