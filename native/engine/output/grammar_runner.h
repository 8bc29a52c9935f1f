// Resources shared by all outputs of an engine: the tokenizer, the engine thread's budget for grammars, and the threads
// that prefetch masks (mask_prefetcher.h). Engine thread only.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/output/grammar_matcher.h"
#include "engine/output/mask_prefetcher.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

class GrammarRunner {
 public:
  // kFailed: a grammar exceeded its limits, or no token is allowed. kOutOfBudget: finding the result would exceed the
  // engine thread's budget; the grammar's state is unchanged.
  using Outcome = grammar::Grammar::Outcome;
  using Tokens = std::span<const TokenId>;

  // `grammar_steps`: automaton steps that the engine thread may spend on grammars per engine step; one sequence may use
  // at most half of them. The worker threads of MaskPrefetcher do the remaining work. `wake` is called on a worker
  // thread when a pending mask is ready.
  GrammarRunner(const Tokenizer& tokenizer, int n_vocab, uint64_t grammar_steps, std::function<void()> wake = nullptr);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  int n_vocab() const { return n_vocab_; }
  const grammar::TokenMask& ends() const { return ends_; }  // End-of-generation tokens.
  // End-of-generation tokens that a grammar treats as text, because they are not control tokens.
  const std::vector<TokenId>& plain_ends() const { return plain_ends_; }
  // Whether tokens that a grammar forces may be inserted without sampling. Requires a tokenizer that reproduces its own
  // vocabulary.
  bool forces_tokens() const { return forces_tokens_; }

  // Call before each step: renews the budget.
  void begin_step() { fuel_ = grammar::Fuel(grammar_steps_); }
  // These functions call the Grammar functions of the same names, within the budget. `tokens`: all tokens of the
  // sequence so far.
  Outcome advance(GrammarMatcher& matcher, Tokens tokens, TokenId token);
  Outcome allowed(GrammarMatcher& matcher, Tokens tokens, grammar::TokenMask& mask);
  // The result is valid until the next call.
  Outcome forced(GrammarMatcher& matcher, Tokens tokens, std::vector<TokenId>*& out);
  // Returns kOk if the prefetched mask is ready; with `splits`, the forced tokens must be ready too. If `token` is
  // given, checks whether the grammar's state after that token is ready instead.
  Outcome prepared(GrammarMatcher& matcher, Tokens tokens, bool splits, TokenId token);

  // Schedules prefetching of the mask that this grammar needs after the next step and, if `splits` is set, of the
  // forced tokens. start_prefetching() starts it.
  void prefetch(const GrammarMatcher& matcher, bool splits) { prefetcher_.add(matcher, splitter(splits)); }
  // Requests the mask of a blocked sequence or, if `token` is given, the grammar's state after that token.
  void prefetch_due(const GrammarMatcher& matcher, bool splits, TokenId token) {
    prefetcher_.add_due(matcher, splitter(splits), token);
  }
  // Starts the worker threads on all requested work. Returns false if no mask was requested for the step after next.
  bool start_prefetching() { return prefetcher_.start(); }

 private:
  template <class Work>
  Outcome within_budget(Work work);
  const Tokenizer* splitter(bool splits) const { return splits && forces_tokens_ ? &tokenizer_ : nullptr; }

  const Tokenizer& tokenizer_;
  const int n_vocab_;
  const uint64_t grammar_steps_;
  const bool forces_tokens_;
  grammar::TokenMask ends_;
  std::vector<TokenId> plain_ends_;
  std::vector<TokenId> forced_;
  grammar::Fuel fuel_;  // Remaining budget of the current step.
  MaskPrefetcher prefetcher_;
};

}  // namespace monolith
