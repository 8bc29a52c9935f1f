#include "engine/output/grammar_runner.h"

#include <algorithm>
#include <utility>

namespace monolith {
namespace {

// Returns whether the tokenizer encodes the text of each of its tokens back to that token; checks a sample of about 256
// tokens. If it does not, for example because the file has no merges, the tokenizer splits text differently than during
// the model's training.
bool makes_its_tokens(const Tokenizer& tokenizer) {
  constexpr int kLooks = 256;
  const TokenId stride = std::max(1, tokenizer.n_vocab() / kLooks);
  std::vector<TokenId> tokens;
  int n_looked = 0, n_made = 0;
  for (TokenId token = 0; token < tokenizer.n_vocab(); token += stride) {
    if (tokenizer.kind(token) != TokenKind::kNormal || tokenizer.bytes(token).size() < 2) continue;
    tokens.clear();
    tokenizer.encode(tokenizer.bytes(token), {.continues = true, .verbatim = true}, tokens);
    ++n_looked;
    n_made += tokens.size() == 1 && tokens.front() == token;
  }
  return 2 * n_made >= n_looked;
}

}  // namespace

GrammarRunner::GrammarRunner(const Tokenizer& tokenizer, int n_vocab, uint64_t grammar_steps,
                             std::function<void()> wake)
    : tokenizer_(tokenizer),
      n_vocab_(n_vocab),
      grammar_steps_(grammar_steps),
      forces_tokens_(makes_its_tokens(tokenizer)),
      ends_(static_cast<size_t>(n_vocab)),
      prefetcher_(std::move(wake)) {
  forced_.reserve(grammar::Grammar::kMaxForced);
  for (const TokenId token : tokenizer.end_of_generation())
    if (token < n_vocab) {
      ends_.set(static_cast<uint32_t>(token));
      if (tokenizer.kind(token) != TokenKind::kControl) plain_ends_.push_back(token);
    }
}

// Runs grammar work with this step's remaining budget, but at most half of the step's full budget.
template <class Work>
GrammarRunner::Outcome GrammarRunner::within_budget(Work work) {
  grammar::Fuel fuel = fuel_.within(grammar_steps_ / 2);
  const uint64_t had = fuel.left();
  const Outcome outcome = work(&fuel);
  fuel_.spend(had - fuel.left());
  return outcome;
}

GrammarRunner::Outcome GrammarRunner::advance(GrammarMatcher& matcher, Tokens tokens, TokenId token) {
  return within_budget([&](grammar::Fuel* fuel) {
    return (*matcher.grammar)->advance(matcher.position, matcher.read(tokens), token, fuel);
  });
}

GrammarRunner::Outcome GrammarRunner::allowed(GrammarMatcher& matcher, Tokens tokens, grammar::TokenMask& mask) {
  return within_budget([&](grammar::Fuel* fuel) {
    return (*matcher.grammar)->allowed(matcher.position, matcher.read(tokens), mask, fuel);
  });
}

GrammarRunner::Outcome GrammarRunner::forced(GrammarMatcher& matcher, Tokens tokens, std::vector<TokenId>*& out) {
  out = &forced_;
  return within_budget([&](grammar::Fuel* fuel) {
    return (*matcher.grammar)->forced(matcher.position, matcher.read(tokens), tokenizer_, forced_, fuel);
  });
}

GrammarRunner::Outcome GrammarRunner::prepared(GrammarMatcher& matcher, Tokens tokens, bool splits, TokenId token) {
  return within_budget([&](grammar::Fuel* fuel) {
    return (*matcher.grammar)->prepared(matcher.position, matcher.read(tokens), splitter(splits), fuel, token);
  });
}

}  // namespace monolith
